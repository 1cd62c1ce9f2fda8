"use strict";
// Charts over the jobs of all windows, from the data in the page, which html_report.py describes. Times are seconds.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const shown = new Set(data.shown);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// Times.
const UNITS = [["days", 86400], ["hours", 3600], ["minutes", 60], ["s", 1]];
const stepOf = (span, maxTicks) => data.steps.find((step) => span / step <= maxTicks) || span;
const unitOf = (step) => UNITS.find(([, seconds]) => step >= seconds) || UNITS[3];
const TIMES = [["1 s", 1], ["10 s", 10], ["1 min", 60], ["10 min", 600], ["1 h", 3600], ["10 h", 36000], ["1 d", 86400],
  ["10 d", 864000], ["100 d", 8640000], ["30 min", 1800], ["2 h", 7200], ["5 h", 18000], ["20 min", 1200], ["5 min", 300]];
function durationText(seconds) {
  const whole = Math.round(Math.abs(seconds)), sign = seconds < 0 ? "-" : "";
  if (whole < 60) return `${sign}${whole} s`;
  if (whole < 3600) return `${sign}${Math.floor(whole / 60)} min${whole % 60 && whole < 600 ? ` ${whole % 60} s` : ""}`;
  if (whole < 86400) return `${sign}${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
  return `${sign}${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}
function briefText(seconds) { // to three digits, in the largest unit
  const [unit, size] = unitOf(Math.max(seconds, 1));
  return `${+(seconds / size).toPrecision(3)} ${{ days: "d", hours: "h", minutes: "min", s: "s" }[unit]}`;
}

// Drawing.
function element(name, attributes = {}, parent = null, text = null) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}
function made(name, attributes = {}, ...children) {
  const found = Object.assign(document.createElement(name), attributes);
  found.append(...children);
  return found;
}
function sheet(parent, height, left, label) {
  const width = Math.max(parent.clientWidth, 200);
  const svg = element("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, parent);
  return { svg, width, height, left, right: width - 14 };
}
const line = (svg, x1, y1, x2, y2, stroke, more = {}) => element("line", { x1, y1, x2, y2, stroke, ...more }, svg);
const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);
function logTimes(at, low, high, y, draw) {
  const log = scale(Math.log(low), Math.log(high), at.left, at.right), used = [];
  for (const [text, time] of TIMES) {
    const x = log(Math.log(time));
    if (time < low || time > high || used.some((other) => Math.abs(other - x) < 48)) continue;
    used.push(x);
    draw(x);
    element("text", { x, y, "text-anchor": x > at.right - 16 ? "end" : "middle" }, at.svg, text);
  }
  return (time) => log(Math.log(time));
}
const dashes = ["", "6 3", "2 2", "7 2 2 2"];
function lookOf(policy) {
  const place = data.policies.indexOf(policy), found = data.palette[place % data.palette.length];
  // the first colour of the palette is that of ink
  const stroke = found === data.palette[0] ? colour("ink") : found;
  return { stroke, "stroke-dasharray": dashes[Math.floor(place / data.palette.length) % 4] };
}
const chosen = () => data.policies.filter((policy) => shown.has(policy));
const leftFor = (words) => Math.min(150, 16 + 6.6 * Math.max(...words.map((word) => word.length)));
const short = (name) => (name.length > 20 ? `…${name.slice(-19)}` : name);

function drawRatios(parent) {
  const rows = data.ratios;
  if (rows.length < 2) return;
  const all = rows.flatMap((row) => [row.low ?? row.ratio, row.high ?? row.ratio, 1]);
  const low = Math.min(...all), high = Math.max(...all), rest = 0.04 * (high - low || 1);
  const words = rows.map((row) => short(row.policy));
  const at = sheet(parent, 30 + 24 * rows.length, leftFor(words) + 44, `mean JCT over that of ${data.reference} by policy`);
  const x = scale(low - rest, high + rest, at.left, at.right), bottom = at.height - 22;
  line(at.svg, x(1), 4, x(1), bottom, colour("soft"), { "stroke-dasharray": "2 3" });
  line(at.svg, at.left, bottom, at.right, bottom, colour("line"));
  const steps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 50];
  const step = steps.find((each) => (high - low) / each <= at.width / 90) || 100;
  for (let mark = Math.ceil((low - rest) / step) * step; mark <= high + rest; mark += step) {
    line(at.svg, x(mark), bottom, x(mark), bottom + 4, colour("soft"));
    element("text", { x: x(mark), y: bottom + 16, "text-anchor": "middle" }, at.svg, String(+mark.toFixed(3)));
  }
  rows.forEach((row, place) => {
    const y = 15 + 24 * place, { stroke } = lookOf(row.policy), bold = row.policy === data.main;
    const style = bold ? `font-weight:700;fill:${colour("ink")}` : "";
    element("text", { x: at.left - 54, y: y + 4, "text-anchor": "end", style }, at.svg, short(row.policy));
    element("text", { x: at.left - 10, y: y + 4, "text-anchor": "end", style }, at.svg, row.ratio.toFixed(3));
    if (row.low !== null) line(at.svg, x(row.low), y, x(row.high), y, stroke, { "stroke-width": 2.5 });
    element("circle", { cx: x(row.ratio), cy: y, r: bold ? 6 : 4.5, fill: stroke }, at.svg);
  });
}

function drawCdf(parent, curvesOf, label) {
  const curves = chosen().map((policy) => [policy, curvesOf[policy]]);
  const low = Math.max(Math.min(...curves.map(([, each]) => each[0][0])), 1);
  const high = Math.max(2, ...curves.map(([, each]) => each[0].at(-1)));
  const at = sheet(parent, 280, 44, label), bottom = at.height - 24, y = scale(0, 1, bottom, 8);
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    line(at.svg, at.left, y(share), at.right, y(share), colour("line"));
    element("text", { x: at.left - 6, y: y(share) + 4, "text-anchor": "end" }, at.svg, `${100 * share} %`);
  }
  const tick = (place) => line(at.svg, place, bottom, place, bottom + 4, colour("soft"));
  const x = logTimes(at, low, high * 1.05, at.height - 6, tick);
  for (const [policy, [times, shares]] of curves) {
    let path = `M${at.left} ${bottom}`;
    times.forEach((time, place) => (path += `H${x(Math.max(time, low)).toFixed(1)}V${y(shares[place]).toFixed(1)}`));
    const curve = element("path", { d: `${path}H${at.right}`, fill: "none", "stroke-width": 1.8, ...lookOf(policy) }, at.svg);
    element("title", {}, curve, policy);
  }
}

function drawSizes(parent) {
  const rows = data.sizes.filter((row) => shown.has(row.policy)), times = rows.map((row) => row.mean_jct_s);
  const classes = [...new Map(rows.map((row) => [row.size, row.jobs]))];
  classes.sort((one, other) => data.classes.indexOf(one[0]) - data.classes.indexOf(other[0]));
  const policies = chosen(), band = Math.max(32, 10 * policies.length + 10);
  const at = sheet(parent, 30 + band * classes.length, 96, "mean JCT by requested GPUs"), bottom = at.height - 24;
  const grid = (place) => line(at.svg, place, 4, place, bottom, colour("line"));
  const x = logTimes(at, Math.min(...times) / 1.15, Math.max(...times) * 1.15, at.height - 6, grid);
  line(at.svg, at.left, bottom, at.right, bottom, colour("soft"));
  classes.forEach(([size, jobs], place) => {
    const middle = 4 + band * (place + 0.5);
    if (place) line(at.svg, 0, 4 + band * place, at.right, 4 + band * place, colour("line"));
    element("text", { x: at.left - 8, y: middle - 2, "text-anchor": "end" }, at.svg, size);
    element("text", { x: at.left - 8, y: middle + 11, "text-anchor": "end", opacity: 0.8 }, at.svg, `${jobs.toLocaleString("en")} jobs`);
  });
  for (const row of rows) {
    const place = classes.findIndex(([size]) => size === row.size);
    const y = 4 + band * (place + 0.5) + 10 * (policies.indexOf(row.policy) - (policies.length - 1) / 2);
    const dot = element("circle", { cx: x(row.mean_jct_s), cy: y, r: 4.5, fill: lookOf(row.policy).stroke }, at.svg);
    element("title", {}, dot, `${row.policy}, ${row.size}: ${durationText(row.mean_jct_s)}`);
  }
}

function timeTicks(from, to, width, draw) {
  const step = stepOf(to - from, width / 55), [unit, size] = unitOf(step);
  for (let mark = Math.ceil(from / step) * step; mark <= to; mark += step) draw(mark, String(+(mark / size).toFixed(2)));
  return unit;
}

function drawTimeline(holder, policy, own, span, most) {
  const bins = own.allocated.length, left = 20 + 7 * data.gpus.toLocaleString("en").length;
  const at = sheet(holder, 180, left, `GPUs and queued jobs over time under ${policy}`), x = scale(0, bins, at.left, at.right);
  const steps = (values, y, zero) => {
    let path = `M${at.left} ${zero}`;
    values.forEach((value, place) => (path += `V${y(value).toFixed(1)}H${x(place + 1).toFixed(1)}`));
    return `${path}V${zero}`;
  };
  const above = scale(0, most.gpus * 1.05, 105, 6), below = scale(0, most.queue * 1.05, 158, 118);
  element("path", { d: steps(own.allocated, above, 105), fill: colour("held") }, at.svg);
  element("path", { d: steps(own.busy, above, 105), fill: "none", stroke: colour("accent"), "stroke-width": 1.4 }, at.svg);
  line(at.svg, at.left, above(data.gpus), at.right, above(data.gpus), colour("soft"), { "stroke-dasharray": "2 2" });
  element("path", { d: steps(own.queued, below, 158), fill: colour("queue") }, at.svg);
  for (const [value, y] of [[0, above(0)], [data.gpus, above(data.gpus)], [most.queue, below(most.queue)]])
    element("text", { x: at.left - 5, y: y + 4, "text-anchor": "end" }, at.svg, Math.round(value).toLocaleString("en"));
  line(at.svg, at.left, 105, at.right, 105, colour("soft"));
  line(at.svg, at.left, 158, at.right, 158, colour("soft"));
  const time = scale(0, span, at.left, at.right);
  const unit = timeTicks(0, span, at.right - at.left - 40, (mark, text) => {
    line(at.svg, time(mark), 158, time(mark), 162, colour("soft"));
    if (time(mark) < at.right - 40) element("text", { x: time(mark), y: 174, "text-anchor": "middle" }, at.svg, text);
  });
  element("text", { x: at.right, y: 174, "text-anchor": "end" }, at.svg, unit);
}
function drawLoad(win) {
  const policies = chosen().filter((policy) => win.policies[policy]), own = policies.map((policy) => win.policies[policy].timeline);
  const most = {
    gpus: Math.max(data.gpus, ...own.map((each) => Math.max(...each.busy))),
    queue: Math.max(1, ...own.map((each) => Math.max(...each.queued))),
  };
  byId("timeline").replaceChildren();
  const holders = policies.map((policy) => byId("timeline").appendChild(made("div", {}, made("h3", { textContent: policy }))));
  policies.forEach((policy, place) => drawTimeline(holders[place], policy, own[place], win.to, most));
}

function showTip(event, text) {
  const tip = byId("tip");
  tip.style.display = event ? "block" : "none";
  if (!event) return;
  tip.textContent = text;
  tip.style.left = `${Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 6)}px`;
  tip.style.top = `${event.clientY + 16}px`;
}

function drawCharts() {
  const charts = [["ratios", drawRatios], ["sizes", drawSizes], ["jct", (parent) => drawCdf(parent, data.cdf.jct, "distribution of JCT")],
    ["wait", (parent) => drawCdf(parent, data.cdf.wait, "distribution of waits")]];
  for (const [id, picture] of charts) {
    byId(id).replaceChildren();
    if (shown.size) picture(byId(id));
  }
}

function drawChips() {
  byId("chips").replaceChildren();
  for (const policy of data.policies) {
    const box = made("input", { type: "checkbox", checked: shown.has(policy) });
    box.onchange = () => { box.checked ? shown.add(policy) : shown.delete(policy); drawAll(); };
    const mark = element("svg", { width: 22, height: 8 });
    line(mark, 0, 4, 22, 4, "#000", { "stroke-width": 3, ...lookOf(policy) });
    byId("chips").append(made("label", {}, box, mark, policy));
  }
}
function drawAll() {
  drawCharts();
  if (replay.win) drawReplay();
}
function start() {
  byId("ratio-note").textContent = data.ratioNote;
  drawChips();
  drawCharts();
  startReplay();
  let before = innerWidth;
  onresize = () => { if (innerWidth !== before) { before = innerWidth; drawAll(); } };
  matchMedia("(prefers-color-scheme: dark)").onchange = () => { drawChips(); drawAll(); };
}
