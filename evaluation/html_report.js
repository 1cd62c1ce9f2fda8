"use strict";
// Draws the pictures of a run from the data in the page, which html_report.py describes. Times are seconds.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const shown = new Set(data.shown);
let timeRange = null; // zoom of the Gantt charts: [from, to], or null for the whole window

// Ticks of axes.
const UNITS = [["days", 86400], ["hours", 3600], ["minutes", 60], ["s", 1]];
const stepOf = (span, maxTicks) => data.steps.find((step) => span / step <= maxTicks) || span;
const unitOf = (step) => UNITS.find(([, seconds]) => step >= seconds) || UNITS[3];
const TIMES = [["1 s", 1], ["10 s", 10], ["1 min", 60], ["10 min", 600], ["1 h", 3600], ["10 h", 36000], ["1 d", 86400],
  ["10 d", 864000], ["100 d", 8640000], ["30 min", 1800], ["2 h", 7200], ["5 h", 18000], ["20 min", 1200], ["5 min", 300]];
function durationText(seconds) {
  const [unit, size] = unitOf(Math.max(seconds, 1));
  return `${(seconds / size).toPrecision(3)} ${unit}`;
}

// Drawing.
function element(name, attributes = {}, parent = null, text = null) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}
function sheet(parent, height, left) {
  const width = Math.max(parent.clientWidth, 200);
  const svg = element("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, parent);
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
  const place = data.policies.indexOf(policy), colours = data.palette;
  return { stroke: colours[place % colours.length], "stroke-dasharray": dashes[Math.floor(place / colours.length) % 4] };
}
const chosen = () => data.policies.filter((policy) => shown.has(policy));
const leftFor = (words) => Math.min(150, 16 + 6.6 * Math.max(...words.map((word) => word.length)));

const short = (name) => (name.length > 20 ? `…${name.slice(-19)}` : name);

function drawRatios(parent) {
  const rows = data.ratios.filter((row) => shown.has(row.policy));
  const all = rows.flatMap((row) => [row.low ?? row.ratio, row.high ?? row.ratio, 1]);
  const low = Math.min(...all), high = Math.max(...all), rest = 0.04 * (high - low || 1);
  const at = sheet(parent, 30 + 22 * rows.length, leftFor(rows.map((row) => short(row.policy))) + 40);
  const x = scale(low - rest, high + rest, at.left, at.right), bottom = at.height - 22;
  line(at.svg, x(1), 4, x(1), bottom, "#8a8a8a");
  line(at.svg, at.left, bottom, at.right, bottom, "#333");
  const step = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 50].find((each) => (high - low) / each <= at.width / 90) || 100;
  for (let mark = Math.ceil((low - rest) / step) * step; mark <= high + rest; mark += step) {
    line(at.svg, x(mark), bottom, x(mark), bottom + 4, "#333");
    element("text", { x: x(mark), y: bottom + 16, "text-anchor": "middle" }, at.svg, String(+mark.toFixed(3)));
  }
  rows.forEach((row, place) => {
    const y = 14 + 22 * place, { stroke } = lookOf(row.policy);
    element("text", { x: at.left - 50, y: y + 4, "text-anchor": "end" }, at.svg, short(row.policy));
    element("text", { x: at.left - 8, y: y + 4, "text-anchor": "end" }, at.svg, row.ratio.toFixed(3));
    if (row.low !== null) line(at.svg, x(row.low), y, x(row.high), y, stroke, { "stroke-width": 2 });
    element("circle", { cx: x(row.ratio), cy: y, r: 4, fill: stroke }, at.svg);
  });
}

function drawCdf(parent) {
  const curves = chosen().map((policy) => [policy, data.cdf[policy]]);
  const low = Math.max(Math.min(...curves.map(([, each]) => each[0][0])), 1), high = Math.max(...curves.map(([, each]) => each[0].at(-1)));
  const at = sheet(parent, 300, 40), bottom = at.height - 24, y = scale(0, 1, bottom, 8);
  for (const share of [0, 0.2, 0.4, 0.6, 0.8, 1]) {
    line(at.svg, at.left, y(share), at.right, y(share), "#e4e4e4");
    element("text", { x: at.left - 6, y: y(share) + 4, "text-anchor": "end" }, at.svg, `${100 * share} %`);
  }
  const x = logTimes(at, low, high * 1.05, at.height - 6, (place) => line(at.svg, place, bottom, place, bottom + 4, "#333"));
  line(at.svg, at.left, bottom, at.right, bottom, "#333");
  for (const [policy, [times, shares]] of curves) {
    let path = `M${at.left} ${bottom}`;
    times.forEach((time, place) => (path += `H${x(Math.max(time, low)).toFixed(1)}V${y(shares[place]).toFixed(1)}`));
    element("path", { d: `${path}H${at.right}`, fill: "none", "stroke-width": 1.6, ...lookOf(policy) }, at.svg);
  }
}

function drawSizes(parent) {
  const rows = data.sizes.filter((row) => shown.has(row.policy)), classes = [...new Map(rows.map((row) => [row.size, row.jobs]))];
  classes.sort((one, other) => data.classes.indexOf(one[0]) - data.classes.indexOf(other[0]));
  const policies = chosen(), band = Math.max(30, 9 * policies.length + 10), times = rows.map((row) => row.mean_jct_s);
  const at = sheet(parent, 30 + band * classes.length, 96), bottom = at.height - 24;
  const x = logTimes(at, Math.min(...times) / 1.15, Math.max(...times) * 1.15, at.height - 6, (place) => line(at.svg, place, 4, place, bottom, "#e4e4e4"));
  line(at.svg, at.left, bottom, at.right, bottom, "#333");
  classes.forEach(([size, jobs], place) => {
    const middle = 4 + band * (place + 0.5);
    if (place) line(at.svg, 0, 4 + band * place, at.right, 4 + band * place, "#ccc");
    element("text", { x: at.left - 8, y: middle - 2, "text-anchor": "end" }, at.svg, size);
    element("text", { x: at.left - 8, y: middle + 11, "text-anchor": "end", opacity: 0.7 }, at.svg, `${jobs.toLocaleString("en")} jobs`);
  });
  for (const row of rows) {
    const place = classes.findIndex(([size]) => size === row.size);
    const y = 4 + band * (place + 0.5) + 9 * (policies.indexOf(row.policy) - (policies.length - 1) / 2);
    const dot = element("circle", { cx: x(row.mean_jct_s), cy: y, r: 4, fill: lookOf(row.policy).stroke }, at.svg);
    element("title", {}, dot, `${row.policy}, ${row.size}: ${durationText(row.mean_jct_s)}`);
  }
}

// The panels: one window under one policy each.
const episodesShown = () =>
  byId("side").value === "policies"
    ? chosen().map((policy) => [policy, +byId("window").value, policy])
    : data.windows.map((window) => [byId("policy").value, window, `window ${window}`]);

function panel(parent, title) {
  const holder = document.createElement("div");
  holder.append(Object.assign(document.createElement("h3"), { textContent: title }));
  parent.append(holder);
  return holder;
}
function timeTicks(from, to, width, draw) {
  const step = stepOf(to - from, width / 55), [unit, size] = unitOf(step);
  for (let mark = Math.ceil(from / step) * step; mark <= to; mark += step) draw(mark, String(+(mark / size).toFixed(2)));
  return unit;
}

function drawTimeline(holder, policy, window, most) {
  const own = data.episodes[window][policy].timeline, span = data.spans[window], bins = own.allocated.length;
  const at = sheet(holder, 170, 12 + 7 * data.gpus.toLocaleString("en").length + 8), x = scale(0, bins, at.left, at.right);
  const steps = (values, y, zero) => {
    let path = `M${at.left} ${zero}`;
    values.forEach((value, place) => (path += `V${y(value).toFixed(1)}H${x(place + 1).toFixed(1)}`));
    return `${path}V${zero}`;
  };
  const above = scale(0, most.gpus * 1.05, 100, 4), below = scale(0, most.queue * 1.05, 150, 114);
  element("path", { d: steps(own.allocated, above, 100), fill: "#d5d5d5" }, at.svg);
  element("path", { d: steps(own.busy, above, 100), fill: "none", stroke: "#0072b2", "stroke-width": 1.2 }, at.svg);
  line(at.svg, at.left, above(data.gpus), at.right, above(data.gpus), "#8a8a8a", { "stroke-dasharray": "2 2" });
  element("path", { d: steps(own.queued, below, 150), fill: "#e69f00", opacity: 0.8 }, at.svg);
  for (const [value, y] of [[0, above(0)], [data.gpus, above(data.gpus)], [most.queue, below(most.queue)]])
    element("text", { x: at.left - 5, y: y + 4, "text-anchor": "end" }, at.svg, Math.round(value).toLocaleString("en"));
  line(at.svg, at.left, 100, at.right, 100, "#333");
  line(at.svg, at.left, 150, at.right, 150, "#333");
  const time = scale(0, span, at.left, at.right);
  const unit = timeTicks(0, span, at.right - at.left - 40, (mark, text) => {
    line(at.svg, time(mark), 150, time(mark), 154, "#333");
    if (time(mark) < at.right - 40) element("text", { x: time(mark), y: 166, "text-anchor": "middle" }, at.svg, text);
  });
  element("text", { x: at.right, y: 166, "text-anchor": "end" }, at.svg, unit);
}

function bars(gantt) { // decodes html_report.encode_bars
  const found = [];
  let from = 0;
  for (let place = 0; place < gantt.length; place += 6) {
    const [job, code, after, lasts, gpu, gpus] = gantt.slice(place, place + 6);
    from += after;
    found.push({ job, phase: code % 3, lane: Math.floor(code / 3) % 4, lanes: 1 + Math.floor(code / 12), from, to: from + lasts, gpu, gpus });
  }
  return found;
}

function drawGantt(holder, policy, window) {
  const episode = data.episodes[window][policy], [from, to] = timeRange || [0, data.spans[window]];
  const rows = episode.shares ? episode.shares.length : data.gpus, row = Math.min(10, Math.max(2, 260 / rows));
  const width = Math.max(holder.clientWidth, 200), height = Math.round(rows * row), left = 34;
  const canvas = document.createElement("canvas"), ratio = pixelRatio();
  Object.assign(canvas, { width: width * ratio, height: (height + 20) * ratio });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height + 20}px` });
  holder.append(canvas);
  const pen = canvas.getContext("2d"), x = scale(from, to, left, width - 14);
  pen.scale(ratio, ratio);
  pen.font = "11px system-ui, sans-serif";
  const found = episode.shares ? [] : (episode.bars ??= bars(episode.gantt));
  const fill = (start, end, top, high) => {
    const begin = Math.max(x(start), left), stop = Math.min(x(end), width - 14);
    if (stop > begin) pen.fillRect(begin, top, Math.max(stop - begin, 0.4), high);
  };
  for (const bar of found) {
    if (bar.to < from || bar.from > to) continue;
    pen.fillStyle = bar.phase ? data.phases[bar.phase] : data.jobColours[bar.job % data.jobColours.length];
    const high = (0.9 * row) / bar.lanes;
    if (bar.lanes === 1) fill(bar.from, bar.to, bar.gpu * row, bar.gpus * row - 0.1 * row);
    else for (let gpu = bar.gpu; gpu < bar.gpu + bar.gpus; gpu++) fill(bar.from, bar.to, gpu * row + bar.lane * high, high);
  }
  (episode.shares || []).forEach((levels, place) => {
    const lasts = data.spans[window] / levels.length;
    for (let bin = 0; bin < levels.length; bin++) {
      if (levels[bin] === "0") continue;
      pen.fillStyle = `rgba(8, 81, 156, ${(+levels[bin] / 9).toFixed(2)})`;
      fill(bin * lasts, (bin + 1) * lasts, place * row, row);
    }
  });
  pen.fillStyle = "#333";
  if (!episode.shares) nodeBorders(pen, row, left, width);
  pen.fillRect(left, height, width - 14 - left, 1);
  const unit = timeTicks(from, to, width - left - 54, (mark, text) => {
    pen.fillRect(x(mark), height, 1, 4);
    if (x(mark) < width - 60) pen.fillText(text, x(mark) - pen.measureText(text).width / 2, height + 15);
  });
  pen.fillText(unit, width - 14 - pen.measureText(unit).width, height + 15);
  listen(canvas, episode, found, window, (place) => from + ((place - left) / (width - 14 - left)) * (to - from), row);
}
const pixelRatio = () => Math.min(globalThis.devicePixelRatio || 1, 2);

function nodeBorders(pen, row, left, width) {
  let first = 0;
  const every = Math.ceil((14 * data.nodes.length) / (row * data.gpus));
  data.nodes.forEach((gpus, node) => {
    if (node) pen.fillRect(left, first * row - 0.5, width - 14 - left, 0.6);
    if (node % every === 0) pen.fillText(String(node), left - 8 - pen.measureText(String(node)).width, (first + Math.min(gpus, 14 / row) / 2) * row + 5);
    first += gpus;
  });
}

function listen(canvas, episode, found, window, timeAt, row) {
  let began = null;
  canvas.style.touchAction = "pan-y";
  canvas.onpointermove = (event) => {
    const time = timeAt(event.offsetX), gpu = Math.floor(event.offsetY / row), inside = (event.offsetY / row - gpu) / 0.9;
    const hit = found.findLast((bar) => bar.from <= time && time < bar.to && bar.gpu <= gpu && gpu < bar.gpu + bar.gpus &&
      (bar.lanes === 1 || Math.floor(inside * bar.lanes) === bar.lane));
    showTip(hit && event, hit && `${data.jobs[window][hit.job]}, ${["running", "loading", "pausing"][hit.phase]}\nfrom ${durationText(hit.from)}, for ${durationText(hit.to - hit.from)}`);
  };
  canvas.onpointerleave = () => showTip(null);
  canvas.onpointerdown = (event) => {
    began = timeAt(event.offsetX);
    canvas.onpointermove(event); // a tap shows the job as well
  };
  canvas.onpointerup = (event) => {
    const ended = timeAt(event.offsetX), span = data.spans[window];
    if (event.pointerType === "mouse" && began !== null && Math.abs(ended - began) > span / 200) {
      timeRange = [Math.max(0, Math.min(began, ended)), Math.min(span, Math.max(began, ended))];
      drawEpisodes();
    }
    began = null;
  };
  canvas.ondblclick = () => { timeRange = null; drawEpisodes(); };
}
function showTip(event, text) {
  const tip = byId("tip");
  tip.style.display = event ? "block" : "none";
  if (!event) return;
  tip.textContent = text;
  tip.style.left = `${Math.min(event.clientX + 12, innerWidth - 200)}px`;
  tip.style.top = `${event.clientY + 14}px`;
}

function drawEpisodes() {
  if (!data.episodes) return;
  const each = episodesShown(), totals = each.map(([policy, window]) => data.episodes[window][policy].timeline);
  const most = {
    gpus: Math.max(data.gpus, ...totals.map((own) => Math.max(...own.busy))),
    queue: Math.max(1, ...totals.map((own) => Math.max(...own.queued))),
  };
  byId("timeline").replaceChildren();
  byId("gantt").replaceChildren();
  const places = each.map(([policy, window, title]) => { // create all before drawing, since their number determines their width
    const { row } = data.episodes[window][policy];
    const what = row ? `${title}: share of GPUs allocated, a row per ${row}` : title;
    return [panel(byId("timeline"), title), panel(byId("gantt"), what), policy, window];
  });
  for (const [above, below, policy, window] of places) {
    drawTimeline(above, policy, window, most);
    drawGantt(below, policy, window);
  }
  byId("window").hidden = byId("side").value !== "policies";
  byId("policy").hidden = !byId("window").hidden;
}
function draw() {
  for (const [id, picture] of [["ratios", drawRatios], ["cdf", drawCdf], ["sizes", drawSizes]]) {
    byId(id).replaceChildren();
    if (shown.size) picture(byId(id));
  }
  drawEpisodes();
}

function start() {
  for (const policy of data.policies) {
    const label = document.createElement("label"), box = document.createElement("input");
    Object.assign(box, { type: "checkbox", checked: shown.has(policy) });
    box.onchange = () => { box.checked ? shown.add(policy) : shown.delete(policy); draw(); };
    const mark = element("svg", { width: 22, height: 8, style: "display:inline" });
    line(mark, 0, 4, 22, 4, "#000", { "stroke-width": 3, ...lookOf(policy) });
    label.append(box, mark, policy);
    byId("chips").append(label);
  }
  byId("ratio-title").textContent = `Mean job completion time / ${data.reference}'s`;
  byId("ratio-note").textContent = data.windows.length > 1
    ? `Mean of the ratios of ${data.windows.length} windows, with 95 % interval over windows; below 1 is shorter.`
    : "Ratio of one window, without interval; below 1 is shorter.";
  if (data.episodes) {
    byId("window").replaceChildren(...data.windows.map((window) => new Option(`window ${window}`, window)));
    byId("policy").replaceChildren(...data.policies.map((policy) => new Option(policy, policy)));
    for (const id of ["side", "window", "policy"]) byId(id).onchange = () => { timeRange = null; drawEpisodes(); };
    const [, loading, pausing] = data.phases, names = { loading, pausing };
    byId("gantt-key").innerHTML = data.jobColours.slice(0, 3).map((each) => `<i style="background:${each};margin-right:0"></i>`).join("").replaceAll("margin-right:0", "margin:0") +
      " running, one colour per job" + Object.entries(names).map(([name, each]) => `<i style="background:${each}"></i>${name}`).join("");
    byId("gantt-key").hidden = !Object.values(data.episodes).some((each) => Object.values(each).some((one) => one.gantt));
  } else byId("recorded").hidden = true;
  draw();
  let before = innerWidth;
  onresize = () => { if (innerWidth !== before) { before = innerWidth; draw(); } };
}
start();
