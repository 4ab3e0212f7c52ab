// The page: play, scrub, look around, choose what to see, run again.
"use strict";

const $ = (id) => document.getElementById(id);
const COLOURS = ["#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f"];
const GREY = [0.55, 0.6, 0.66], STEEL = [0.45, 0.5, 0.57];

let scene = JSON.parse($("scene").textContent);
let motion = new Motion(scene);
const state = { t: motion.begin, playing: false, speed: scene.speed, follow: "", last: null, stale: true, shown: {} };
const camera = new Camera(scene.planar);
let drawing = null;
try { drawing = new Drawing($("picture")); } catch (error) { $("message").textContent = error.message; }
let box = motion.box();
const size = () => V.size(V.minus(box[1], box[0])) || 1;

function home() {
  const canvas = $("picture");
  camera.show(box[0], box[1], canvas.clientWidth / Math.max(canvas.clientHeight, 1));
  state.untouched = state.stale = true;
}

// ---- the picture ------------------------------------------------------------------------------

function partMesh(part, key) {
  if (part.kind === "tube") return drawing.mesh(`tube ${part.inner}`, () => MESHES.tube(part.inner));
  if (part.kind === "plate") return drawing.mesh(key, () => MESHES.plate(part.outline));
  if (part.kind === "mesh")
    return drawing.mesh(key, () => MESHES.mesh(numbersOf(part.vertices, Float32Array), numbersOf(part.faces, Uint32Array)));
  return drawing.mesh(part.kind, MESHES[part.kind]);
}

function drawBodies(matrices) {
  scene.bodies.forEach((body, i) => body.parts.forEach((part, k) => {
    const local = M.scaled(M.pose(part.at, part.turn), part.size);
    drawing.draw(partMesh(part, `${scene.id} ${i} ${k}`), M.times(matrices[i], local), part.colour || body.colour);
  }));
}

function drawLinks(matrices) {
  const at = ([body, point]) => (body < 0 ? point : M.point(matrices[body], point));
  for (const link of scene.links) {
    const [a, b] = [at(link.a), at(link.b)], along = V.minus(b, a);
    if (link.kind === "spring") drawing.draw(drawing.mesh("spring", MESHES.spring), M.between(a, b, link.radius, false), [0.1, 0.5, 0.35]);
    else if (link.kind === "damper") {
      const middle = V.plus(a, V.times(0.55, along));
      drawing.bar(a, middle, 0.7 * link.radius, STEEL);
      drawing.bar(middle, b, 0.25 * link.radius, GREY);
    } else drawing.bar(a, b, link.radius, GREY);
  }
}

// From blue over white to red.
function heat(x) {
  const s = Math.max(-1, Math.min(1, x)), cold = [0.15, 0.35, 0.85], warm = [0.85, 0.2, 0.15];
  return (s < 0 ? cold : warm).map((c) => 0.92 + (c - 0.92) * Math.abs(s));
}

function drawBeams(matrices) {
  scene.beams.forEach((beam, i) => {
    const n = beam.nodes.length - 1, values = motion.between(motion.colours[i], n, state.t);
    for (let k = 0; k < n; k++) {
      const [a, b] = [beam.nodes[k], beam.nodes[k + 1]].map((j) => M.point(matrices[j], [0, 0, 0]));
      const colour = beam.largest > 0 ? heat((2 * values[k]) / beam.largest - 1) : [0.5, 0.6, 0.75];
      drawing.bar(a, b, beam.radius, colour);
      if (k) drawing.ball(a, beam.radius, colour);
    }
  });
}

function drawExtras(matrices) {
  const s = size();
  if (state.shown.joints) for (const joint of scene.joints) {
    const place = joint.body < 0 ? M.pose([0, 0, 0], [1, 0, 0, 0]) : matrices[joint.body], at = M.point(place, joint.at);
    if (joint.axis && !scene.planar) {
      const tip = V.minus(M.point(place, V.plus(joint.at, joint.axis)), at);
      drawing.bar(V.minus(at, V.times(0.022 * s, tip)), V.plus(at, V.times(0.022 * s, tip)), 0.007 * s, [0.2, 0.24, 0.3]);
    } else drawing.ball(scene.planar ? V.plus(at, [0, 0, 0.03 * s]) : at, 0.011 * s, [0.2, 0.24, 0.3]);
  }
  if (state.shown.forces) scene.arrows.forEach((arrow, i) => {
    if (!(arrow.largest > 0)) return;
    const at = arrow.body < 0 ? arrow.at : M.point(matrices[arrow.body], arrow.at);
    const vector = V.times((0.28 * s) / scene.largest, motion.between(motion.arrows[i], 3, state.t));
    const front = scene.planar ? V.plus(at, [0, 0, 0.04 * s]) : at;
    drawing.arrow(front, vector, 0.006 * s, arrow.kind === "reaction" ? [0.85, 0.25, 0.2] : [0.9, 0.55, 0.1]);
  });
  if (state.shown.trails) for (const trail of scene.trails) {
    const points = [];
    for (const t of motion.times) {
      if (t > state.t) break;
      const { at, turn } = motion.pose(trail.body, t);
      points.push(...M.point(M.pose(at, turn), trail.at));
    }
    const { at, turn } = motion.pose(trail.body, state.t);
    points.push(...M.point(M.pose(at, turn), trail.at));
    drawing.lines(new Float32Array(points), trail.colour, true);
  }
  if (state.shown.grid) drawing.lines(grid(), [0.80, 0.84, 0.88, 1], false);
}

let gridKept = null;
function grid() {
  if (gridKept) return gridKept;
  const s = size(), decade = 10 ** Math.floor(Math.log10(s / 3)), step = decade * (s / 3 / decade > 5 ? 5 : s / 3 / decade > 2 ? 2 : 1);
  const height = scene.planar ? -0.2 * s : box[0][2] - 0.01 * s, out = [];
  const [low, high] = [0, 1].map((side) => [0, 1].map((k) => step * (Math.round(box[side][k] / step) + (side ? 3 : -3))));
  for (let x = low[0]; x < high[0] + step / 2; x += step) out.push(x, low[1], height, x, high[1], height);
  for (let y = low[1]; y < high[1] + step / 2; y += step) out.push(low[0], y, height, high[0], y, height);
  return (gridKept = new Float32Array(out));
}

function drawLabels(matrices) {
  const holder = $("labels");
  holder.hidden = !state.shown.names;
  if (!state.shown.names) return;
  if (holder.children.length !== scene.bodies.length)
    holder.replaceChildren(...scene.bodies.map((body) => Object.assign(document.createElement("span"), { textContent: body.name })));
  scene.bodies.forEach((body, i) => {
    const at = drawing.pixel(M.point(matrices[i], body.middle)), style = holder.children[i].style;
    style.display = at && body.parts.length ? "" : "none";
    if (at) [style.left, style.top] = [`${at[0]}px`, `${at[1]}px`];
  });
}

function draw() {
  if (!drawing) return;
  const matrices = motion.matrices(state.t);
  if (state.follow !== "") {
    const at = M.point(matrices[+state.follow], scene.bodies[+state.follow].middle);
    camera.target = scene.planar ? [at[0], at[1], camera.target[2]] : at;
  }
  drawing.begin(camera);
  drawBodies(matrices);
  drawLinks(matrices);
  drawBeams(matrices);
  drawExtras(matrices);
  drawLabels(matrices);
}

// ---- curves -----------------------------------------------------------------------------------

function drawCharts() {
  document.querySelectorAll("#charts canvas").forEach((canvas) => {
    const names = JSON.parse(canvas.dataset.names), curves = names.map((name) => motion.quantities.get(name)).filter(Boolean);
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "11px system-ui, sans-serif";
    let low = Infinity, high = -Infinity;
    for (const { values } of curves) for (const value of values) if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
    if (!(high >= low)) [low, high] = [-1, 1];
    if (high - low < 1e-9 * Math.max(Math.abs(high), Math.abs(low), 1e-30)) { const pad = Math.abs(high) || 1; low -= 0.1 * pad; high += 0.1 * pad; }
    const marks = [0, 1, 2].map((k) => low + (k / 2) * (high - low));
    const left = 12 + Math.max(...marks.map((value) => pen.measureText(shown(value, high - low)).width)), right = 8;
    canvas.dataset.left = left;
    const texts = curves.map((curve) => `${curve.name} ${shown(motion.between(curve.values, 1, state.t)[0], high - low)} ${curve.unit}`);
    const columns = Math.max(...texts.map((text) => pen.measureText(text).width)) < 0.5 * (width - left) - 4 ? 2 : 1;
    const top = 6 + 13 * Math.ceil(curves.length / columns), bottom = 18;
    const x = (t) => left + ((t - motion.begin) / (motion.end - motion.begin || 1)) * (width - left - right);
    const y = (value) => top + ((high - value) / (high - low)) * (height - top - bottom);
    pen.strokeStyle = "#e3e9ef"; pen.fillStyle = "#66778a"; pen.lineWidth = 1;
    for (const value of marks) {
      pen.beginPath(); pen.moveTo(left, y(value)); pen.lineTo(width - right, y(value)); pen.stroke();
      pen.textAlign = "right"; pen.fillText(shown(value, high - low), left - 5, y(value) + 4);
    }
    pen.textAlign = "left"; pen.fillText(`${shown(motion.begin, motion.end)} s`, left, height - 4);
    pen.textAlign = "right"; pen.fillText(`${shown(motion.end, motion.end)} s`, width - right, height - 4);
    curves.forEach((curve, i) => {
      pen.strokeStyle = pen.fillStyle = COLOURS[i % COLOURS.length];
      pen.lineWidth = 1.4; pen.beginPath();
      curve.values.forEach((value, k) => pen[k ? "lineTo" : "moveTo"](x(motion.times[k]), y(value)));
      pen.stroke();
      pen.textAlign = "left";
      pen.fillText(texts[i], left + (i % columns) * 0.5 * (width - left), 11 + 13 * Math.floor(i / columns));
    });
    pen.strokeStyle = "#1d2733"; pen.beginPath(); pen.moveTo(x(state.t), top); pen.lineTo(x(state.t), height - bottom); pen.stroke();
  });
}

function shown(value, scale) {
  if (!Number.isFinite(value)) return "–";
  const digits = Math.max(0, Math.min(8, 2 - Math.floor(Math.log10(Math.abs(scale) || 1))));
  const size = Math.abs(value), order = (x) => Math.floor(Math.log10(Math.abs(x) || 1));
  const told = Math.max(2, Math.min(12, order(value) - order(scale) + 1)); // so that marks of a small range differ
  return size >= 1e5 || (digits > 6 && size) ? value.toExponential(told) : value.toFixed(digits).replace(/^-(0\.?0*)$/, "$1");
}

function chooseCharts() {
  const chosen = [...document.querySelectorAll("#names input:checked")].map((x) => x.value), groups = new Map();
  for (const name of chosen) {
    const { unit } = motion.quantities.get(name);
    groups.set(unit, [...(groups.get(unit) || []), name]);
  }
  $("charts").replaceChildren(...[...groups.values()].map((names) => {
    const canvas = document.createElement("canvas");
    canvas.dataset.names = JSON.stringify(names);
    const scrub = (event) => {
      if (!(event.buttons & 1)) return;
      const left = +canvas.dataset.left, share = (event.offsetX - left) / (canvas.clientWidth - left - 8);
      setTime(motion.begin + Math.max(0, Math.min(1, share)) * (motion.end - motion.begin));
    };
    canvas.addEventListener("pointerdown", scrub);
    canvas.addEventListener("pointermove", scrub);
    return canvas;
  }));
  state.stale = true;
}

function listNames() {
  const chosen = new Set([...document.querySelectorAll("#names input:checked")].map((x) => x.value));
  const first = !$("names").children.length ? new Set(scene.chosen) : chosen;
  $("names").replaceChildren(...[...motion.quantities.values()].map(({ name, unit }) => {
    const label = document.createElement("label"), input = document.createElement("input"), note = document.createElement("i");
    Object.assign(input, { type: "checkbox", value: name, checked: first.has(name) });
    input.addEventListener("change", chooseCharts);
    note.textContent = unit;
    label.append(input, name, note);
    return label;
  }));
  chooseCharts();
}

// ---- time and controls ------------------------------------------------------------------------

function setTime(t) {
  state.t = Math.min(motion.end, Math.max(motion.begin, t));
  $("scrub").value = (state.t - motion.begin) / (motion.end - motion.begin || 1);
  $("clock").textContent = `t = ${shown(state.t, (motion.end - motion.begin) / 10)} s`;
  state.stale = true;
}

function play(on) {
  state.playing = on;
  $("play").textContent = on ? "⏸" : "▶";
  if (on && state.t >= motion.end) setTime(motion.begin);
  state.last = null;
}

function tick(now) {
  if (state.playing) {
    if (state.last !== null) {
      const next = state.t + (state.speed * (now - state.last)) / 1000;
      if (next >= motion.end) { setTime(motion.end); if (state.shown.repeat) setTime(motion.begin); else play(false); } else setTime(next);
    }
    state.last = now;
  }
  if (state.stale) { state.stale = false; draw(); drawCharts(); }
  requestAnimationFrame(tick);
}

function controls() {
  $("title").textContent = scene.title;
  document.title = scene.title;
  $("play").addEventListener("click", () => play(!state.playing));
  $("scrub").addEventListener("input", () => { play(false); setTime(motion.begin + $("scrub").value * (motion.end - motion.begin)); });
  const speeds = [...new Set([0.01, 0.03, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 100, scene.speed])].sort((a, b) => a - b);
  $("speed").append(...speeds.map((x) => new Option(`${+x.toPrecision(2)}×`, x, false, x === scene.speed)));
  $("speed").addEventListener("change", () => { state.speed = +$("speed").value; });
  $("follow").append(...scene.bodies.map((body, i) => new Option(body.name, i)));
  $("follow").addEventListener("change", () => { state.follow = $("follow").value; state.stale = true; });
  const kinds = { joints: scene.joints.length, forces: scene.arrows.length, trails: scene.trails.length, names: scene.bodies.length, grid: 1, repeat: 1 };
  for (const [name, count] of Object.entries(kinds)) {
    state.shown[name] = count > 0 && ["joints", "trails", "grid", "repeat"].includes(name);
    if (!count) continue;
    const label = document.createElement("label"), input = document.createElement("input");
    Object.assign(input, { type: "checkbox", checked: state.shown[name], id: `show-${name}` });
    input.addEventListener("change", () => { state.shown[name] = input.checked; state.stale = true; });
    label.append(input, ` ${name}`);
    $("toggles").append(label);
  }
  $("home").addEventListener("click", home);
  $("find").addEventListener("input", () => {
    const wanted = $("find").value.toLowerCase();
    for (const label of $("names").children) label.hidden = !label.textContent.toLowerCase().includes(wanted);
  });
  if (scene.beams.some((beam) => beam.largest > 0)) {
    const bar = document.createElement("span");
    bar.className = "bar";
    bar.style.background = "linear-gradient(90deg, rgb(38,89,217), rgb(235,235,235), rgb(217,51,38))";
    const largest = Math.max(...scene.beams.map((beam) => beam.largest));
    $("legend").append(`${scene.beams[0].shows} 0`, bar, `${largest.toPrecision(2)}`);
  }
  document.addEventListener("keydown", (event) => {
    if (["INPUT", "SELECT"].includes(event.target.tagName) && event.target.type !== "range") return;
    const step = (motion.end - motion.begin) / 200;
    const action = { " ": () => play(!state.playing), ArrowRight: () => setTime(state.t + step), ArrowLeft: () => setTime(state.t - step), h: home }[event.key];
    if (action) { event.preventDefault(); action(); }
  });
}

function touched() {
  state.untouched = false;
  state.stale = true;
}

function looking() {
  const canvas = $("picture"), held = new Map();
  canvas.addEventListener("pointerdown", (event) => { held.set(event.pointerId, event); canvas.setPointerCapture(event.pointerId); canvas.focus(); });
  for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, (event) => held.delete(event.pointerId));
  canvas.addEventListener("pointermove", (event) => {
    const before = held.get(event.pointerId);
    if (!before) return;
    const dx = event.clientX - before.clientX, dy = event.clientY - before.clientY;
    if (held.size === 2) {
      const [other] = [...held.values()].filter((x) => x.pointerId !== event.pointerId);
      const apart = (x) => Math.hypot(x.clientX - other.clientX, x.clientY - other.clientY) || 1;
      camera.distance *= apart(before) / apart(event);
    } else if (scene.planar || event.shiftKey || event.buttons & 6) camera.move(dx, dy, canvas.clientHeight);
    else camera.turn(0.008 * dx, 0.008 * dy);
    held.set(event.pointerId, event);
    touched();
  });
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); camera.distance *= Math.exp(0.0012 * event.deltaY); touched(); }, { passive: false });
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  // a window of another size shows the whole again, unless someone has looked elsewhere
  new ResizeObserver(() => { if (state.untouched) home(); state.stale = true; }).observe(canvas);
}

// ---- running again ----------------------------------------------------------------------------

function replace(next) {
  scene = next;
  motion = new Motion(scene);
  box = motion.box();
  gridKept = null;
  $("message").textContent = scene.message;
  $("labels").replaceChildren();
  listNames();
  setTime(state.t);
}

const asked = { values: null, running: false };
async function runAgain() {
  if (asked.running || !asked.values) return;
  const values = asked.values;
  [asked.values, asked.running] = [null, true];
  try {
    const answer = await fetch("run", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(values) });
    const said = await answer.json();
    if (said.error) $("message").textContent = said.error; else replace(said);
  } catch (error) { $("message").textContent = `The program that ran the mechanism does not answer: ${error.message}`; }
  asked.running = false;
  runAgain();
}

function sliders() {
  if (!scene.sliders.length) return;
  $("parameters").hidden = false;
  const values = Object.fromEntries(scene.sliders.map((x) => [x.name, x.value]));
  $("parameters").querySelector(".rows").append(...scene.sliders.map((x) => {
    const row = document.createElement("div"), name = document.createElement("span"), out = document.createElement("output"), input = document.createElement("input");
    row.className = "row";
    name.textContent = x.name;
    out.textContent = x.value.toPrecision(4);
    Object.assign(input, { type: "range", min: x.low, max: x.high, step: "any", value: x.value, name: x.name });
    input.addEventListener("input", () => { values[x.name] = +input.value; out.textContent = (+input.value).toPrecision(4); asked.values = { ...values }; runAgain(); });
    row.append(name, out, input);
    return row;
  }));
}

controls();
looking();
sliders();
$("side").classList.toggle("empty", !scene.quantities.length && !scene.sliders.length);
$("plots").hidden = !scene.quantities.length;
listNames();
$("message").textContent = scene.message;
setTime(motion.begin);
home();
requestAnimationFrame(tick);
// For tests and for those who script the page.
window.holonax = { setTime, play, home, camera, time: () => state.t, playing: () => state.playing, pose: (name) => motion.pose(scene.bodies.findIndex((b) => b.name === name), state.t), pixel: (point) => drawing.pixel(point), runs: () => scene.id };
