// The mechanism at an instant, drawn with WebGL.
"use strict";

const VERTEX = `#version 300 es
in vec3 position, normal;
uniform mat4 model, camera;
uniform mat3 turned;
out vec3 n, place;
void main() { vec4 world = model * vec4(position, 1.0); n = turned * normal; place = world.xyz; gl_Position = camera * world; }`;
const FRAGMENT = `#version 300 es
precision highp float;
in vec3 n, place;
uniform vec4 colour;
uniform vec3 eye, up;
uniform bool plain;
out vec4 result;
void main() {
  if (plain) { result = colour; return; }
  vec3 m = normalize(n), view = normalize(eye - place);
  if (dot(m, view) < 0.0) m = -m;
  vec3 light = normalize(view + 0.7 * up + 0.35 * cross(view, up));
  float sky = 0.5 + 0.5 * dot(m, up), shine = pow(max(dot(m, normalize(light + view)), 0.0), 40.0);
  vec3 lit = colour.rgb * (0.42 + 0.20 * sky + 0.48 * max(dot(m, light), 0.0)) + 0.18 * shine;
  result = vec4(lit, colour.a);
}`;

class Drawing {
  constructor(canvas) {
    this.canvas = canvas;
    const gl = (this.gl = canvas.getContext("webgl2", { antialias: true, preserveDrawingBuffer: true }));
    if (!gl) throw new Error("This browser offers no WebGL 2, which the picture needs.");
    const program = (this.program = gl.createProgram());
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
      gl.attachShader(program, shader);
    }
    gl.bindAttribLocation(program, 0, "position");
    gl.bindAttribLocation(program, 1, "normal");
    gl.linkProgram(program);
    gl.useProgram(program);
    this.place = (name) => gl.getUniformLocation(program, name);
    this.uniforms = Object.fromEntries(["model", "camera", "turned", "colour", "eye", "up", "plain"].map((x) => [x, this.place(x)]));
    this.kept = new Map();
    gl.enable(gl.DEPTH_TEST);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
  }

  // A mesh on the graphics card, made once for each key.
  mesh(key, make) {
    if (!this.kept.has(key)) this.kept.set(key, this.buffers(make()));
    return this.kept.get(key);
  }

  buffers({ positions, normals }, usage) {
    const gl = this.gl, array = gl.createVertexArray();
    gl.bindVertexArray(array);
    const held = [positions, normals || positions].map((data, k) => {
      const buffer = gl.createBuffer();
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.bufferData(gl.ARRAY_BUFFER, data, usage || gl.STATIC_DRAW);
      gl.enableVertexAttribArray(k);
      gl.vertexAttribPointer(k, 3, gl.FLOAT, false, 0, 0);
      return buffer;
    });
    return { array, held, count: positions.length / 3 };
  }

  begin(camera) {
    const gl = this.gl, ratio = window.devicePixelRatio || 1;
    const width = Math.round(this.canvas.clientWidth * ratio), height = Math.round(this.canvas.clientHeight * ratio);
    if (this.canvas.width !== width || this.canvas.height !== height) [this.canvas.width, this.canvas.height] = [width, height];
    gl.viewport(0, 0, width, height);
    gl.clearColor(0.957, 0.965, 0.973, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    this.camera = camera.matrix(width / Math.max(height, 1));
    gl.uniformMatrix4fv(this.uniforms.camera, false, this.camera);
    gl.uniform3fv(this.uniforms.eye, camera.eye());
    gl.uniform3fv(this.uniforms.up, camera.up);
  }

  draw(mesh, matrix, colour) {
    const gl = this.gl;
    gl.uniform1i(this.uniforms.plain, 0);
    gl.uniformMatrix4fv(this.uniforms.model, false, matrix);
    gl.uniformMatrix3fv(this.uniforms.turned, false, M.normals(matrix));
    gl.uniform4f(this.uniforms.colour, ...colour, ...(colour.length < 4 ? [1] : []));
    gl.bindVertexArray(mesh.array);
    gl.drawArrays(gl.TRIANGLES, 0, mesh.count);
  }

  bar(a, b, radius, colour) {
    this.draw(this.mesh("cylinder", MESHES.cylinder), M.between(a, b, radius, true), colour);
  }

  ball(at, radius, colour) {
    const matrix = M.scaled(M.pose(at, [1, 0, 0, 0]), [radius, radius, radius]);
    this.draw(this.mesh("sphere", MESHES.sphere), matrix, colour);
  }

  arrow(from, vector, radius, colour) {
    const length = V.size(vector), head = Math.min(5 * radius, 0.6 * length);
    if (!(length > 2 * radius)) return;
    const tip = V.plus(from, vector), neck = V.minus(tip, V.times(head / length, vector));
    this.bar(from, neck, radius, colour);
    this.draw(this.mesh("cone", MESHES.cone), M.between(neck, tip, 2.4 * radius, false), colour);
  }

  // `points`: a Float32Array; `strip`: one line through all of them, or pairs
  lines(points, colour, strip) {
    const gl = this.gl, mesh = this.buffers({ positions: points }, gl.STREAM_DRAW);
    gl.uniform1i(this.uniforms.plain, 1);
    gl.uniformMatrix4fv(this.uniforms.model, false, M.pose([0, 0, 0], [1, 0, 0, 0]));
    gl.uniform4f(this.uniforms.colour, ...colour, ...(colour.length < 4 ? [1] : []));
    gl.drawArrays(strip ? gl.LINE_STRIP : gl.LINES, 0, mesh.count);
    gl.deleteVertexArray(mesh.array);
    mesh.held.forEach((buffer) => gl.deleteBuffer(buffer));
  }

  // Where a point appears, in pixels of the page; null behind the camera.
  pixel(point) {
    const m = this.camera, w = m[3] * point[0] + m[7] * point[1] + m[11] * point[2] + m[15];
    if (w <= 0) return null;
    const [x, y] = M.point(m, point);
    return [(0.5 + (0.5 * x) / w) * this.canvas.clientWidth, (0.5 - (0.5 * y) / w) * this.canvas.clientHeight];
  }
}

// A camera that turns about a point; in the plane it only moves and comes closer.
class Camera {
  constructor(planar) {
    this.planar = planar;
    this.up = planar ? [0, 1, 0] : [0, 0, 1];
    this.yaw = planar ? 0 : -0.9;
    this.pitch = planar ? 0 : 0.42;
    this.target = [0, 0, 0];
    this.distance = 5;
  }

  direction() {
    if (this.planar) return [0, 0, 1];
    const c = Math.cos(this.pitch);
    return [c * Math.cos(this.yaw), c * Math.sin(this.yaw), Math.sin(this.pitch)];
  }

  eye() { return V.plus(this.target, V.times(this.distance, this.direction())); }

  matrix(aspect) {
    const view = M.looking(this.eye(), this.target, this.up), d = this.distance, angle = 0.6;
    const lens = this.planar
      ? M.parallel(d * Math.tan(angle / 2), aspect, -100 * d, 100 * d)
      : M.perspective(angle, aspect, d / 200, 60 * d);
    return M.times(lens, view);
  }

  // A box of the world that shall fill the picture.
  show(low, high, aspect) {
    this.target = V.times(0.5, V.plus(low, high));
    const half = V.times(0.5, V.minus(high, low));
    const radius = this.planar ? Math.max(half[1], half[0] / aspect) * 1.12 : V.size(half) / Math.min(1, aspect) * 0.95;
    this.distance = Math.max(radius, 1e-9) / Math.tan(0.3);
  }

  turn(dx, dy) {
    this.yaw -= dx;
    this.pitch = Math.max(-1.55, Math.min(1.55, this.pitch + dy));
  }

  move(dx, dy, height) {
    const z = this.direction(), x = V.unit(V.cross(this.up, z)), y = V.cross(z, x);
    const scale = (2 * this.distance * Math.tan(0.3)) / height;
    this.target = V.plus(this.target, V.plus(V.times(-dx * scale, x), V.times(dy * scale, y)));
  }
}
