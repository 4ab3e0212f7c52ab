// What a scene says of the motion: poses between frames, points, links, quantities.
"use strict";

function numbersOf(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Kind(bytes.buffer);
}

class Motion {
  constructor(scene) {
    this.scene = scene;
    this.times = numbersOf(scene.times, Float64Array);
    this.poses = scene.bodies.map((body) => numbersOf(body.poses, Float32Array));
    this.arrows = scene.arrows.map((arrow) => numbersOf(arrow.values, Float32Array));
    this.colours = scene.beams.map((beam) => numbersOf(beam.values, Float32Array));
    this.quantities = new Map(scene.quantities.map((x) => [x.name, { ...x, values: numbersOf(x.values, Float64Array) }]));
    this.begin = this.times[0];
    this.end = this.times[this.times.length - 1];
  }

  // The frame before a time, and how far towards the next one it is.
  frame(t) {
    let low = 0, high = this.times.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.times[middle] <= t) low = middle; else high = middle;
    }
    const span = this.times[high] - this.times[low];
    const s = span > 0 ? Math.min(1, Math.max(0, (t - this.times[low]) / span)) : 0;
    return [low, high, s];
  }

  between(values, width, t) {
    const [a, b, s] = this.frame(t), out = [];
    for (let k = 0; k < width; k++) out.push((1 - s) * values[width * a + k] + s * values[width * b + k]);
    return out;
  }

  // {at, turn} of a body
  pose(i, t) {
    const [a, b, s] = this.frame(t), x = this.poses[i], p = x.subarray(7 * a, 7 * a + 7), q = x.subarray(7 * b, 7 * b + 7);
    const same = p[3] * q[3] + p[4] * q[4] + p[5] * q[5] + p[6] * q[6] < 0 ? -1 : 1;
    const mix = Array.from(p, (value, k) => (1 - s) * value + s * (k < 3 ? 1 : same) * q[k]);
    const size = Math.hypot(mix[3], mix[4], mix[5], mix[6]) || 1;
    return { at: mix.slice(0, 3), turn: mix.slice(3).map((value) => value / size) };
  }

  matrices(t) {
    return this.poses.map((_, i) => { const { at, turn } = this.pose(i, t); return M.pose(at, turn); });
  }

  // The world's box that all bodies stay in.
  box() {
    const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity];
    const meet = (p) => p.forEach((value, k) => {
      if (!Number.isFinite(value)) return;
      low[k] = Math.min(low[k], value); high[k] = Math.max(high[k], value);
    });
    const stride = Math.max(1, Math.floor(this.times.length / 60));
    for (let f = 0; f < this.times.length; f += stride) {
      const matrices = this.matrices(this.times[f]);
      this.scene.bodies.forEach((body, i) => body.corners.forEach((p) => meet(M.point(matrices[i], p))));
    }
    this.scene.ground.forEach(meet);
    if (!Number.isFinite(low[0])) return [[-1, -1, -1], [1, 1, 1]];
    return [low, high];
  }
}
