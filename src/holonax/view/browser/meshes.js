// Meshes of unit size: positions and normals of triangles, to be scaled and placed by a matrix.
"use strict";

function meshOf(build) {
  const positions = [], normals = [];
  const triangle = (a, b, c, na, nb, nc) => {
    positions.push(...a, ...b, ...c);
    normals.push(...na, ...(nb || na), ...(nc || na));
  };
  const quad = (a, b, c, d, na, nb, nc, nd) => {
    triangle(a, b, c, na, nb, nc);
    triangle(a, c, d, na, nc || na, nd || na);
  };
  build(triangle, quad);
  return { positions: new Float32Array(positions), normals: new Float32Array(normals) };
}

const ROUND = 64;
const onCircle = (i, r = 1, n = ROUND) => [r * Math.cos((2 * Math.PI * i) / n), r * Math.sin((2 * Math.PI * i) / n)];

// A surface that turns about z: a profile of points (radius, z) with normals (radial, axial).
function turned(profile) {
  return meshOf((triangle, quad) => {
    for (let k = 0; k + 1 < profile.length; k += 2) {
      const [r0, z0, nr0, nz0] = profile[k], [r1, z1, nr1, nz1] = profile[k + 1];
      for (let i = 0; i < ROUND; i++) {
        const at = (j, r, z) => [...onCircle(j, r), z];
        quad(at(i, r0, z0), at(i + 1, r0, z0), at(i + 1, r1, z1), at(i, r1, z1),
          at(i, nr0, nz0), at(i + 1, nr0, nz0), at(i + 1, nr1, nz1), at(i, nr1, nz1));
      }
    }
  });
}

const MESHES = {
  box: () => meshOf((triangle, quad) => {
    for (let axis = 0; axis < 3; axis++) for (const side of [-1, 1]) {
      const corner = (u, v) => {
        const p = [0, 0, 0];
        p[axis] = side / 2; p[(axis + 1) % 3] = u / 2; p[(axis + 2) % 3] = v / 2;
        return p;
      };
      const n = [0, 0, 0];
      n[axis] = side;
      quad(corner(-1, -1), corner(side, -side), corner(1, 1), corner(-side, side), n);
    }
  }),
  cylinder: () => turned([
    [0, -0.5, 0, -1], [1, -0.5, 0, -1], [1, -0.5, 1, 0], [1, 0.5, 1, 0], [1, 0.5, 0, 1], [0, 0.5, 0, 1]]),
  cone: () => turned([[0, 0, 0, -1], [1, 0, 0, -1], [1, 0, 0.7, 0.7], [0, 1, 0.7, 0.7]]),
  sphere: () => {
    const profile = [], n = 20;
    for (let k = 0; k < n; k++) for (const j of [k, k + 1]) {
      const a = Math.PI * (j / n - 0.5);
      profile.push([Math.cos(a), Math.sin(a), Math.cos(a), Math.sin(a)]);
    }
    return turned(profile);
  },
  // `inner`: the ratio of the inner to the outer radius
  tube: (inner) => turned([
    [inner, -0.5, 0, -1], [1, -0.5, 0, -1], [1, -0.5, 1, 0], [1, 0.5, 1, 0],
    [1, 0.5, 0, 1], [inner, 0.5, 0, 1], [inner, 0.5, -1, 0], [inner, -0.5, -1, 0]]),
  // a coil about z from 0 to 1, of radius 1
  spring: () => meshOf((triangle, quad) => {
    const turns = 7, n = 20 * turns, wire = 0.13, around = 6;
    const centre = (i) => [...onCircle(i, 1, 20), 0.1 + (0.8 * i) / n];
    const at = (i, j) => {
      const [x, y, z] = centre(i), a = (2 * Math.PI * j) / around;
      const n = [Math.cos(a) * x, Math.cos(a) * y, Math.sin(a)];
      return [[x + wire * n[0], y + wire * n[1], z + (wire * n[2]) / 8], n];
    };
    for (let i = 0; i < n; i++) for (let j = 0; j < around; j++) {
      const [a, na] = at(i, j), [b, nb] = at(i + 1, j), [c, nc] = at(i + 1, j + 1), [d, nd] = at(i, j + 1);
      quad(a, b, c, d, na, nb, nc, nd);
    }
    for (const [z0, z1] of [[0, 0.1], [0.9, 1]]) for (let i = 0; i < 8; i++) {
      const at = (j, z) => [...onCircle(j, wire, 8), z], n = (j) => [...onCircle(j, 1, 8), 0];
      quad(at(i, z0), at(i + 1, z0), at(i + 1, z1), at(i, z1), n(i), n(i + 1), n(i + 1), n(i));
    }
  }),
  // an outline in the x-y plane, star-shaped about its middle, of thickness 1
  plate: (outline) => meshOf((triangle, quad) => {
    const middle = [0, 1].map((k) => outline.reduce((sum, p) => sum + p[k], 0) / outline.length);
    outline.forEach((p, i) => {
      const q = outline[(i + 1) % outline.length];
      for (const z of [-0.5, 0.5]) triangle([...middle, z], [...p, z], [...q, z], [0, 0, 2 * z]);
      const n = [q[1] - p[1], p[0] - q[0], 0], size = Math.hypot(...n) || 1;
      quad([...p, -0.5], [...q, -0.5], [...q, 0.5], [...p, 0.5], n.map((x) => x / size));
    });
  }),
  mesh: (vertices, faces) => meshOf((triangle) => {
    const at = (i) => Array.from(vertices.subarray(3 * i, 3 * i + 3));
    for (let i = 0; i + 2 < faces.length; i += 3) {
      const [a, b, c] = [at(faces[i]), at(faces[i + 1]), at(faces[i + 2])];
      const n = V.unit(V.cross(V.minus(b, a), V.minus(c, a)));
      triangle(a, b, c, n);
    }
  }),
};
