// Vectors, quaternions (w, x, y, z) and 4x4 matrices by columns.
"use strict";

const V = {
  plus: (a, b) => [a[0] + b[0], a[1] + b[1], a[2] + b[2]],
  minus: (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]],
  times: (s, a) => [s * a[0], s * a[1], s * a[2]],
  dot: (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2],
  cross: (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]],
  size: (a) => Math.hypot(a[0], a[1], a[2]),
  unit: (a) => V.times(1 / (V.size(a) || 1), a),
  // two directions across a third
  across: (a) => {
    const other = Math.abs(a[0]) < 0.7 * V.size(a) ? [1, 0, 0] : [0, 1, 0];
    const u = V.unit(V.cross(other, a));
    return [u, V.unit(V.cross(a, u))];
  },
};

// A quaternion's rotation as three columns.
function columnsOf([w, x, y, z]) {
  return [
    [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)],
    [2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)],
    [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)],
  ];
}

const M = {
  // columns of a frame and its origin
  of: (x, y, z, at) => new Float32Array([...x, 0, ...y, 0, ...z, 0, ...at, 1]),
  times: (a, b) => {
    const out = new Float32Array(16);
    for (let c = 0; c < 4; c++) for (let r = 0; r < 4; r++) {
      let sum = 0;
      for (let k = 0; k < 4; k++) sum += a[4 * k + r] * b[4 * c + k];
      out[4 * c + r] = sum;
    }
    return out;
  },
  pose: (at, turn) => M.of(...columnsOf(turn), at),
  scaled: (m, [x, y, z]) => m.map((value, i) => (i < 4 ? x : i < 8 ? y : i < 12 ? z : 1) * value),
  // from `a` to `b`, along the mesh's z from 0 to 1 (or -1/2 to 1/2 where centred), of radius r
  between: (a, b, r, centred) => {
    const along = V.minus(b, a), [u, v] = V.across(V.size(along) ? along : [0, 0, 1]);
    return M.of(V.times(r, u), V.times(r, v), along, centred ? V.times(0.5, V.plus(a, b)) : a);
  },
  point: (m, p) => [0, 1, 2].map((r) => m[r] * p[0] + m[4 + r] * p[1] + m[8 + r] * p[2] + m[12 + r]),
  // the transposed inverse of the upper left 3x3, for normals; its size does not matter
  normals: (m) => {
    const [x, y, z] = [0, 4, 8].map((k) => [m[k], m[k + 1], m[k + 2]]);
    const sign = V.dot(x, V.cross(y, z)) < 0 ? -1 : 1;
    return new Float32Array([V.cross(y, z), V.cross(z, x), V.cross(x, y)].flat().map((value) => sign * value));
  },
  perspective: (angle, aspect, near, far) => {
    const f = 1 / Math.tan(angle / 2);
    return new Float32Array([f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (far + near) / (near - far), -1, 0, 0, (2 * far * near) / (near - far), 0]);
  },
  parallel: (halfHeight, aspect, near, far) => new Float32Array(
    [1 / (halfHeight * aspect), 0, 0, 0, 0, 1 / halfHeight, 0, 0, 0, 0, -2 / (far - near), 0, 0, 0, -(far + near) / (far - near), 1]),
  looking: (eye, at, up) => {
    const z = V.unit(V.minus(eye, at)), x = V.unit(V.cross(up, z)), y = V.cross(z, x);
    return new Float32Array([x[0], y[0], z[0], 0, x[1], y[1], z[1], 0, x[2], y[2], z[2], 0, -V.dot(x, eye), -V.dot(y, eye), -V.dot(z, eye), 1]);
  },
};
