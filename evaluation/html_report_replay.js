// Replay of one window under two policies. evaluation/replay.py describes the data; lives are seconds since the window began.
const QUEUED = 0, RESERVED = 1, LOADING = 2, RUNNING = 3, PAUSING = 4, RESTARTING = 5;
const PHASES = ["queued", "reserved", "loading", "running", "pausing", "restarting"];
const BUCKETS = 256, PLAY_S = 45;
const replay = { win: null, sides: [], at: 0, range: [0, 1], job: null, timer: null, cache: new Map() };
const calm = matchMedia("(prefers-reduced-motion: reduce)");

// The data of a window.
async function unpacked(number) {
  if (!replay.cache.has(number)) {
    const bytes = Uint8Array.from(atob(byId(`window-${number}`).textContent), (each) => each.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const win = await new Response(stream).json();
    win.gpusOf = win.places.map(([text]) => intervals(text));
    win.number = number;
    replay.cache.set(number, win);
  }
  return replay.cache.get(number);
}
function intervals(text) {
  const found = [];
  for (const part of text ? text.split(" ") : []) {
    const [low, high] = part.split("-");
    for (let gpu = +low; gpu <= +(high ?? low); gpu++) found.push(gpu);
  }
  return found;
}

function decoded(win, policy) {
  const own = win.policies[policy];
  if (own.side) return own.side;
  const count = win.jobs.id.length, lives = own.lives, total = (lives.length - count) / 3;
  const side = { policy, first: new Int32Array(count + 1), job: new Int32Array(total), phase: new Uint8Array(total),
    place: new Int32Array(total), from: new Float64Array(total), to: new Float64Array(total) };
  let at = 0, seg = 0;
  for (let job = 0; job < count; job++) {
    side.first[job] = seg;
    let time = win.jobs.submit[job];
    for (let left = lives[at++]; left > 0; left--, seg++) {
      side.job[seg] = job;
      side.phase[seg] = lives[at++];
      side.from[seg] = time;
      side.to[seg] = time += lives[at++];
      side.place[seg] = lives[at++];
    }
  }
  side.first[count] = seg;
  const order = Array.from({ length: total }, (_, each) => each).sort((a, b) => side.from[a] - side.from[b] || side.job[a] - side.job[b]);
  side.lanes = lanesOf(win, side, order);
  side.waiting = bucketsOf(win, side, order.filter((each) => !win.gpusOf[side.place[each]].length && isWaiting(side.phase[each])));
  side.events = Float64Array.from(new Set([...side.from, ...side.to])).sort();
  own.side = side;
  return side;
}
const isWaiting = (phase) => phase === QUEUED || phase === RESERVED || phase === RESTARTING;

// Of each GPU its lanes: lists of segments that do not overlap, in order of time. Jobs that share a GPU have different lanes.
function lanesOf(win, side, order) {
  const gpus = Array.from({ length: data.gpus }, () => []);
  side.most = 1;
  for (const seg of order) {
    for (const gpu of win.gpusOf[side.place[seg]]) {
      const lanes = gpus[gpu];
      let lane = lanes.findIndex((each) => side.to[each.at(-1)] <= side.from[seg]);
      if (lane < 0) lane = lanes.push([]) - 1;
      lanes[lane].push(seg);
      side.most = Math.max(side.most, lane + 1);
    }
  }
  return gpus;
}
function bucketsOf(win, side, segs) {
  const buckets = Array.from({ length: BUCKETS }, () => []), end = Math.max(win.end, win.to, 1);
  const bucket = (time) => Math.min(BUCKETS - 1, Math.max(0, Math.floor((time / end) * BUCKETS)));
  for (const seg of segs) {
    if (side.to[seg] < 0) continue;
    for (let place = bucket(side.from[seg]); place <= bucket(side.to[seg]); place++) buckets[place].push(seg);
  }
  return { at: (time) => buckets[bucket(time)].filter((seg) => side.from[seg] <= time && time < side.to[seg]) };
}
function lastBefore(segs, side, time) {
  let low = 0, high = segs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (side.from[segs[middle]] <= time) low = middle + 1; else high = middle;
  }
  return low - 1;
}
function holders(side, gpu, time) {
  const found = [];
  for (const lane of side.lanes[gpu]) {
    const place = lastBefore(lane, side, time);
    if (place >= 0 && time < side.to[lane[place]]) found.push(lane[place]);
  }
  return found;
}
function sharers(win, side, seg) {
  const found = new Set();
  for (const gpu of win.gpusOf[side.place[seg]]) {
    for (const lane of side.lanes[gpu]) {
      for (let place = Math.max(0, lastBefore(lane, side, side.from[seg])); place < lane.length && side.from[lane[place]] < side.to[seg]; place++) {
        const other = lane[place];
        if (side.job[other] !== side.job[seg] && side.to[other] > side.from[seg]) found.add(side.job[other]);
      }
    }
  }
  return [...found];
}
const finish = (side, job) => side.to[side.first[job + 1] - 1];
const jctOf = (win, side, job) => finish(side, job) - win.jobs.submit[job];
function waitOf(side, job) {
  let wait = 0;
  for (let seg = side.first[job]; seg < side.first[job + 1]; seg++) if (isWaiting(side.phase[seg])) wait += side.to[seg] - side.from[seg];
  return wait;
}

// Text.
function clockText(time) {
  const whole = Math.round(time), pad = (value) => String(value).padStart(2, "0");
  const [days, rest] = [Math.floor(whole / 86400), ((whole % 86400) + 86400) % 86400];
  const hours = `${pad(Math.floor(rest / 3600))}:${pad(Math.floor((rest % 3600) / 60))}:${pad(rest % 60)}`;
  return days ? `${days} d ${hours}` : hours;
}
const nodeOf = (gpu) => data.nodeFirst.findLastIndex((first) => first <= gpu);
function placeText(gpus) {
  if (!gpus.length) return "CPU cores";
  const nodes = new Map();
  for (const gpu of gpus) nodes.set(nodeOf(gpu), [...(nodes.get(nodeOf(gpu)) || []), gpu - data.nodeFirst[nodeOf(gpu)]]);
  const parts = [...nodes].map(([node, each]) => `node ${node} (${rangesText(each)})`);
  return parts.length > 3 ? `${gpus.length} GPUs on ${parts.length} nodes` : parts.join(", ");
}
function rangesText(numbers) {
  const runs = [];
  for (const each of numbers) if (runs.length && each === runs.at(-1)[1] + 1) runs.at(-1)[1] = each; else runs.push([each, each]);
  return `GPU${numbers.length > 1 ? "s" : ""} ${runs.map(([low, high]) => (low === high ? low : `${low}-${high}`)).join(", ")}`;
}
const gpusText = (count) => (count === 0 ? "CPU only" : `${count} GPU${count > 1 ? "s" : ""}`);
const nameOf = (job) => replay.win.jobs.id[job];
const tint = (job) => data.jobColours[job % data.jobColours.length];

// Drawing on canvases, which are as wide as their holders.
function pen(canvas, height) {
  const width = Math.max(canvas.parentElement.clientWidth, 60), ratio = Math.min(devicePixelRatio || 1, 2);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    canvas.style.height = `${height}px`;
  }
  const found = canvas.getContext("2d");
  found.setTransform(ratio, 0, 0, ratio, 0, 0);
  found.clearRect(0, 0, width, height);
  found.font = "11px system-ui, sans-serif";
  return found;
}
let stripes = null;
function stripe(kind) { // over the job's colour: loading rises, pausing falls
  stripes ??= ["loading", "pausing"].reduce((all, name) => {
    const tile = made("canvas", { width: 6, height: 6 }), ink = tile.getContext("2d");
    ink.strokeStyle = colour("bg");
    ink.lineWidth = 2.2;
    for (const shift of [-6, 0, 6]) {
      ink.moveTo(shift, name === "loading" ? 6 : 0);
      ink.lineTo(shift + 6, name === "loading" ? 0 : 6);
    }
    ink.stroke();
    return { ...all, [name]: ink.createPattern(tile, "repeat") };
  }, {});
  return stripes[kind];
}
function fillJob(ink, side, seg, x, y, width, height) {
  ink.fillStyle = tint(side.job[seg]);
  ink.fillRect(x, y, width, height);
  if (side.phase[seg] === RUNNING || isWaiting(side.phase[seg])) return;
  ink.fillStyle = stripe(side.phase[seg] === LOADING ? "loading" : "pausing");
  ink.fillRect(x, y, width, height);
}
function frame(ink, x, y, width, height, name = "ink") {
  ink.strokeStyle = colour(name);
  ink.lineWidth = 2;
  ink.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
}

// Nodes are rows of GPUs, in as many columns as let cells be largest.
function gridLayout(width) {
  const nodes = data.nodes.length, widest = Math.max(...data.nodes), label = 22;
  let best = null;
  for (let columns = 1; columns <= nodes; columns++) {
    const rows = Math.ceil(nodes / columns), across = (width - columns * label) / (columns * widest);
    const cell = Math.min(34, across, 270 / rows - 2);
    if (cell > 0 && (!best || cell > best.cell)) best = { columns, rows, cell };
  }
  best ??= { columns: nodes, rows: 1, cell: 1 };
  const step = best.cell + (best.cell > 6 ? 4 : 1);
  return { ...best, step, label, wide: width / best.columns, height: Math.max(30, Math.ceil(best.rows * step)) };
}
function cellOf(layout, gpu) {
  const node = nodeOf(gpu), column = Math.floor(node / layout.rows);
  return [column * layout.wide + layout.label + (gpu - data.nodeFirst[node]) * layout.cell, (node % layout.rows) * layout.step];
}
function drawGrid(side) {
  const canvas = side.grid, layout = (side.layout = gridLayout(canvas.parentElement.clientWidth)), ink = pen(canvas, layout.height);
  const gap = layout.cell > 6 ? 1 : 0.3, size = layout.cell - gap;
  let held = 0;
  ink.textAlign = "right";
  for (let node = 0; node < data.nodes.length; node++) {
    if (layout.step < 10 && node % layout.rows % Math.ceil(12 / layout.step)) continue;
    const [x, y] = cellOf(layout, data.nodeFirst[node]);
    ink.fillStyle = colour("soft");
    ink.fillText(node, x - 5, y + layout.cell / 2 + 4);
  }
  side.names = [];
  for (let gpu = 0; gpu < data.gpus; gpu++) {
    const [x, y] = cellOf(layout, gpu), here = holders(side, gpu, replay.at);
    held += here.length > 0;
    if (!here.length) { ink.fillStyle = colour("idle"); ink.fillRect(x, y, size, size); }
    here.forEach((seg, place) => fillJob(ink, side, seg, x, y + (size * place) / here.length, size, size / here.length));
    if (here.length === 1 && side.phase[here[0]] === RUNNING) noteName(side, layout, gpu, here[0]);
  }
  ink.textAlign = "center";
  ink.fillStyle = "#101316";
  for (const [text, x, y] of side.names) ink.fillText(text, x, y);
  for (let gpu = 0; gpu < data.gpus; gpu++) {
    const [x, y] = cellOf(layout, gpu);
    if (holders(side, gpu, replay.at).some((seg) => side.job[seg] === replay.job)) frame(ink, x, y, size, size);
    if (gpu === side.cursor && document.activeElement === canvas) frame(ink, x - 2, y - 2, size + 4, size + 4, "accent");
  }
  return held;
}
function noteName(side, layout, gpu, seg) { // once, across the GPUs beside one another on which a job is alone
  const alone = (other) => { const here = holders(side, other, replay.at); return here.length === 1 && here[0] === seg; };
  if (layout.cell < 12 || (gpu > data.nodeFirst[nodeOf(gpu)] && alone(gpu - 1))) return;
  const end = data.nodeFirst[nodeOf(gpu)] + data.nodes[nodeOf(gpu)], [x, y] = cellOf(layout, gpu), text = nameOf(side.job[seg]);
  let wide = 1;
  while (gpu + wide < end && alone(gpu + wide)) wide += 1;
  if (6.2 * text.length > wide * layout.cell - 5) return;
  side.names.push([text, x + (wide * layout.cell) / 2, y + layout.cell / 2 + 3.5]);
}
function queueAt(side) {
  return side.waiting.at(replay.at).sort((a, b) => replay.win.jobs.submit[side.job[a]] - replay.win.jobs.submit[side.job[b]] || side.job[a] - side.job[b]);
}
function drawQueue(side) {
  const canvas = side.list, height = Math.max(side.layout.height, 92), ink = pen(canvas, height), width = canvas.parentElement.clientWidth;
  const queue = (side.queue = queueAt(side)), unit = Math.max(5, Math.min(11, side.layout.cell * 0.55)), row = unit + 5;
  side.blocks = [];
  let x = 0, y = 0, place = 0;
  for (; place < queue.length; place++) {
    const job = side.job[queue[place]], long = Math.min(Math.max(replay.win.jobs.gpus[job], 1) * unit, width - 2);
    if (x && x + long > width) [x, y] = [0, y + row];
    if (y + row > height - 14 && place < queue.length - 1) break;
    side.blocks.push([x, y, long, unit]);
    fillJob(ink, side, queue[place], x, y, long - 1, unit);
    if (job === replay.job) frame(ink, x, y, long, unit);
    if (place === side.turn && document.activeElement === canvas) frame(ink, x - 1, y - 1, long + 2, unit + 2, "accent");
    x += long + 3;
  }
  ink.fillStyle = colour("soft");
  const more = queue.length - place;
  if (more > 0) ink.fillText(`and ${more.toLocaleString("en")} more`, 0, height - 2);
  if (!queue.length) ink.fillText("empty", 0, 10);
}

// Gantt chart and overview over the time range, and the heads that move over them.
const scaleOf = (width, left = 30) => scale(replay.range[0], replay.range[1], left, width - 8);
function drawGantt(side) {
  const rows = data.gpus, height = Math.round(Math.min(300, Math.max(90, rows * 7))), row = height / rows;
  const canvas = side.gantt, ink = pen(canvas, height + 20), width = canvas.parentElement.clientWidth, x = scaleOf(width), [from, to] = replay.range;
  ink.fillStyle = colour("idle");
  ink.fillRect(30, 0, width - 38, height);
  for (let gpu = 0; gpu < rows; gpu++) {
    const lanes = side.lanes[gpu], thick = row > 3 ? row - 0.8 : row;
    lanes.forEach((lane, number) => {
      for (let place = Math.max(0, lastBefore(lane, side, from)); place < lane.length && side.from[lane[place]] < to; place++) {
        const seg = lane[place], begin = Math.max(30, x(side.from[seg])), end = Math.min(width - 8, x(side.to[seg]));
        if (end <= begin && side.to[seg] <= from) continue;
        const alone = lanes.length === 1 || !overlaps(side, lanes, number, seg);
        const high = alone ? thick : thick / side.most, top = gpu * row + (alone ? 0 : high * number);
        fillJob(ink, side, seg, begin, top, Math.max(end - begin, 0.3), high);
        if (side.job[seg] === replay.job) { ink.fillStyle = colour("ink"); ink.fillRect(begin, top, Math.max(end - begin, 1), Math.min(high, 2)); }
      }
    });
  }
  ink.fillStyle = colour("soft");
  ink.textAlign = "right";
  const every = Math.ceil((13 * data.nodes.length) / height);
  data.nodes.forEach((_, node) => {
    const top = data.nodeFirst[node] * row;
    if (node && row * data.nodes[node] > 4) ink.fillRect(30, top - 0.5, width - 38, 0.5);
    if (node % every === 0) ink.fillText(node, 25, top + Math.min(data.nodes[node] * row, 14) / 2 + 5);
  });
  ink.textAlign = "center";
  const unit = timeTicks(from, to, width - 90, (mark, text) => {
    ink.fillRect(x(mark), height, 1, 4);
    if (x(mark) < width - 50) ink.fillText(text, x(mark), height + 15);
  });
  ink.textAlign = "right";
  ink.fillText(unit, width - 8, height + 15);
  side.ganttRow = row;
  side.head.style.height = `${height}px`;
}
function overlaps(side, lanes, own, seg) {
  return lanes.some((lane, number) => {
    if (number === own) return false;
    const place = lastBefore(lane, side, side.to[seg] - 1e-6);
    return place >= 0 && side.to[lane[place]] > side.from[seg];
  });
}
function drawOverview() {
  const holder = byId("overview"), { win } = replay;
  holder.replaceChildren();
  const at = sheet(holder, 56, 9, "queued jobs over time under both policies"), [from, to] = replay.range;
  const x = scale(from, to, 9, at.width - 9), own = replay.sides.map((side) => win.policies[side.policy].timeline.queued);
  const most = Math.max(1, ...own.flat()), y = scale(0, most, 54, 4), looks = sideLooks();
  line(at.svg, 9, 54, at.width - 9, 54, colour("line"));
  own.forEach((values, place) => {
    const step = win.to / values.length;
    let path = "";
    values.forEach((value, bin) => {
      const [begin, end] = [Math.max(bin * step, from), Math.min((bin + 1) * step, to)];
      if (begin < end) path += `${path ? "V" + y(value).toFixed(1) : `M${x(begin).toFixed(1)} ${y(value).toFixed(1)}`}H${x(end).toFixed(1)}`;
    });
    if (path) element("path", { d: path, fill: "none", "stroke-width": 1.8, ...looks[place] }, at.svg);
  });
  replay.head = made("div", { className: "head" });
  replay.head.style.height = "54px";
  holder.append(replay.head);
  byId("overview-key").replaceChildren(made("span", { textContent: `Queued jobs, at most ${Math.round(most).toLocaleString("en")}:` }), ...replay.sides.map((side, place) => {
    const mark = element("svg", { width: 22, height: 8, style: "display:inline;vertical-align:middle;margin-right:6px" });
    line(mark, 0, 4, 22, 4, "#000", { "stroke-width": 3, ...looks[place] });
    return made("span", {}, mark, side.policy);
  }));
}
const sideLooks = () => [{ stroke: colour("ink") }, { stroke: colour("accent"), "stroke-dasharray": "7 3" }];

// What changes with time, and what does not.
function drawMoment() {
  const { win, at } = replay;
  byId("clock").textContent = clockText(at);
  byId("slider").value = at;
  byId("slider").setAttribute("aria-valuetext", `${clockText(at)} after the first submission`);
  for (const side of replay.sides) {
    const held = drawGrid(side);
    drawQueue(side);
    side.now.textContent = `${held.toLocaleString("en")} of ${data.gpus.toLocaleString("en")} GPUs held · ${side.queue.length.toLocaleString("en")} queued`;
    const x = scaleOf(side.gantt.parentElement.clientWidth)(at);
    side.head.style.left = `${x}px`;
    side.head.hidden = at < replay.range[0] || at > replay.range[1];
  }
  replay.head.style.left = `${scale(replay.range[0], replay.range[1], 9, byId("overview").clientWidth - 9)(Math.min(Math.max(at, replay.range[0]), replay.range[1]))}px`;
  if (replay.now) replay.now(at);
}
function drawReplay() {
  stripes = null;
  drawOverview();
  for (const side of replay.sides) drawGantt(side);
  drawCard();
  drawMoment();
  drawLoad(replay.win);
}
function moveTo(time) {
  replay.at = Math.min(Math.max(time, replay.range[0]), replay.range[1]);
  drawMoment();
}
function showRange(from, to) {
  replay.range = [from, to];
  Object.assign(byId("slider"), { min: from, max: to, step: Math.max(1, Math.round((to - from) / 500)) });
  byId("wider").disabled = from <= 0 && to >= replay.win.end;
  replay.at = Math.min(Math.max(replay.at, from), to);
  drawReplay();
}
function zoom(factor) {
  const { win, at, range } = replay, span = Math.min(Math.max((range[1] - range[0]) * factor, 60), win.end);
  const whole = range[0] <= 0 && range[1] >= win.to;
  if (factor > 1 && !whole && span >= win.to) return showRange(0, win.to);
  if (factor > 1 && whole) return showRange(0, win.end);
  const from = Math.min(Math.max(at - span / 2, 0), win.end - span);
  showRange(Math.round(from), Math.round(from + span));
}
function step(direction) {
  const times = replay.sides.flatMap((side) => [...side.events]).filter((time) => (direction > 0 ? time > replay.at : time < replay.at));
  if (times.length) moveTo(times.reduce((best, time) => (direction > 0 ? Math.min(best, time) : Math.max(best, time))));
}
function play(on) {
  cancelAnimationFrame(replay.timer);
  clearTimeout(replay.timer);
  replay.timer = null;
  byId("play").textContent = on ? "Pause" : "Play";
  byId("play").setAttribute("aria-pressed", on);
  if (!on) return;
  if (replay.at >= replay.range[1]) replay.at = replay.range[0];
  let last = performance.now();
  const go = () => { // with reduced motion two moves a second, else smoothly
    const now = performance.now(), [from, to] = replay.range;
    moveTo(replay.at + (((now - last) / 1000) * (to - from) * +byId("speed").value) / PLAY_S);
    last = now;
    if (replay.at >= to) return play(false);
    replay.timer = calm.matches ? setTimeout(go, 500) : requestAnimationFrame(go);
  };
  replay.timer = calm.matches ? setTimeout(go, 500) : requestAnimationFrame(go);
}

// A job's life.
function select(job, say = true) {
  replay.job = job;
  for (const side of replay.sides) drawGantt(side);
  drawCard();
  drawFates();
  drawMoment();
  if (say) byId("said").textContent = `Job ${nameOf(job)} selected: ${replay.sides.map((side) => `${durationText(jctOf(replay.win, side, job))} under ${side.policy}`).join(", ")}`;
}
function drawCard() {
  const card = byId("card"), { win, job } = replay;
  if (job === null) return;
  card.style.setProperty("--job", tint(job));
  const counted = win.jobs.counted[job] ? "" : " · does not count in the metrics";
  const submitted = win.jobs.submit[job] < 0 ? "submitted before the time shown" : `submitted at ${clockText(win.jobs.submit[job])}`;
  card.replaceChildren(
    made("h3", { textContent: `Job ${nameOf(job)}` }),
    made("p", { className: "small", textContent: `${gpusText(win.jobs.gpus[job])} · ${submitted}${counted}` }),
    lifeBars(win, job),
    made("div", { className: "panels" }, ...replay.sides.map((side) => lifeOf(win, side, job))));
}
function lifeBars(win, job) {
  const width = Math.max(byId("card").clientWidth - 34, 160), begin = win.jobs.submit[job];
  const end = Math.max(...replay.sides.map((side) => finish(side, job)), begin + 1), x = scale(begin, end, 0, width);
  const svg = element("svg", { width, height: 62, role: "img", "aria-label": "phases of the job under both policies" });
  replay.sides.forEach((side, place) => {
    const y = 13 + 31 * place;
    element("text", { x: 0, y: y - 3 }, svg, `${side.policy}: ${durationText(jctOf(win, side, job))}`);
    for (let seg = side.first[job]; seg < side.first[job + 1]; seg++) {
      const phase = side.phase[seg], wide = Math.max(x(side.to[seg]) - x(side.from[seg]), 0.6);
      const waits = isWaiting(phase), paint = waits ? colour("idle") : phase === RUNNING ? tint(job) : colour("warn");
      element("rect", { x: x(side.from[seg]), y: waits ? y + 4 : y, width: wide, height: waits ? 6 : 14, fill: paint }, svg);
    }
  });
  return svg;
}
const MOST_LINES = 24;
function lifeOf(win, side, job) {
  const list = made("ol"), lines = [];
  let earlier = null; // place of the run before
  for (let seg = side.first[job]; seg < side.first[job + 1]; seg++) {
    const phase = side.phase[seg], lasts = durationText(side.to[seg] - side.from[seg]), gpus = win.gpusOf[side.place[seg]];
    const text = phaseText(win, side, seg, earlier, lasts, gpus);
    if (phase === RUNNING || phase === LOADING) earlier = side.place[seg];
    lines.push([side.from[seg], text, seg]);
  }
  lines.push([finish(side, job), `ends, ${durationText(jctOf(win, side, job))} after its submission, of which it waited ${durationText(waitOf(side, job))}`, null]);
  const cut = lines.length > MOST_LINES ? lines.length - MOST_LINES : 0;
  lines.forEach(([time, text, seg], place) => {
    if (cut && place === MOST_LINES - 4) list.append(made("li", {}, made("span", { textContent: `… ${cut} more changes …` })));
    if (cut && place >= MOST_LINES - 4 && place < lines.length - 4) return;
    const jump = made("button", { className: "plain", textContent: clockText(time), title: "show this time" });
    jump.onclick = () => { play(false); moveIntoRange(time); };
    const item = made("li", {}, jump, " ", text);
    const why = seg === null ? null : whyText(win, side, seg);
    if (why) item.append(made("span", { className: "why", textContent: why }));
    list.append(item);
  });
  return made("div", {}, made("h3", { textContent: side.policy }), made("p", { className: "small", textContent: ruleText(win, side, job) }), list);
}
function phaseText(win, side, seg, earlier, lasts, gpus) {
  const place = side.place[seg], before = seg > side.first[side.job[seg]] ? side.phase[seg - 1] : null;
  switch (side.phase[seg]) {
    case QUEUED: return `${before === null ? "waits" : "waits again"} ${lasts}${overtaken(win, side, seg)}`;
    case RESERVED: return `waits ${lasts} for the GPUs reserved for it`;
    case RESTARTING: return `failed; restarts after ${lasts}`;
    case LOADING: return `loads ${lasts} on ${placeText(gpus)}`;
    case PAUSING: return `is paused, which takes ${lasts}`;
  }
  const others = sharers(win, side, seg), names = others.slice(0, 5).map((job) => win.jobs.id[job]).join(", ");
  const shared = others.length ? `, shared with ${others.length > 5 ? `${names} and ${others.length - 5} more` : names}` : "";
  const old = earlier === null ? null : win.gpusOf[earlier].length, cores = win.places[place][1];
  let what = before === LOADING || before === RUNNING ? "" : `starts on ${placeText(gpus)}, `;
  if (old !== null && old !== gpus.length) what = `is resized from ${old} to ${gpusText(gpus.length)} (${placeText(gpus)}), `;
  else if (before === RUNNING && earlier !== place) what = `has ${+cores.toFixed(2)} cores${gpus.length ? " per GPU" : ""} now, `;
  return `${what}runs ${lasts}${shared}`;
}

// Why a policy started or paused a job, as evaluation/replay.py's `why` lists it.
const START = 0, PAUSE = 1, RESIZE = 2;
function reasonsOf(win, policy) {
  const own = win.policies[policy];
  if (own.why && !own.reasons) own.reasons = new Map(rowsOf(own.why).map((row) => [`${row[2]} ${row[1]} ${row[0]}`, row]));
  return own.reasons;
}
function rowsOf(why) { // of each decision: time, kind, job, rule, keys, key, place, ranked, skipped, earlier, later, cause, terms, options
  if (why.rows) return why.rows;
  const tenth = (value) => (value === null ? null : value / 10), at = { earlier: 0, later: 0, cause: 0, terms: 0, options: 0 };
  const next = (name, row, entry) => Array.from({ length: why[name].count[row] }, () => entry(why[name], at[name]++));
  const job = (list, place) => [list.job[place], tenth(list.key[place])];
  const term = (list, place) => [list.name[place], why.texts[list.name[place]].endsWith(", job") ? list.value[place] : tenth(list.value[place])];
  const option = (list, place) => [list.name[place], list.job[place], tenth(list.value[place]), tenth(list.minimum[place])];
  let time = 0;
  why.rows = why.time.map((passed, row) => [time += passed, why.kind[row], why.job[row], why.rule[row], why.keys[row], tenth(why.key[row]),
    why.place[row], why.ranked[row], why.skipped[row], next("earlier", row, job), next("later", row, job), next("cause", row, job)[0] ?? 0,
    next("terms", row, term), next("options", row, option)]);
  return why.rows;
}
function ruleText(win, side, job) {
  const own = win.policies[side.policy];
  if (!own.why) return "This policy gives no reasons for its decisions.";
  const rows = rowsOf(own.why), row = rows.find((each) => each[2] === job && each[1] === START) || rows.find((each) => each[1] === START);
  if (!row) return "";
  const keys = own.why.texts[row[4]];
  if (row[13].length) return `Rule: ${own.why.texts[row[3]]}`;
  return `Rule: order by ${keys.replace(/, (s|%)$/, "")}, ${keys.endsWith(", %") ? "largest" : "smallest"} first. ${own.why.texts[row[3]]}`;
}
function whyText(win, side, seg) {
  const reasons = reasonsOf(win, side.policy), job = side.job[seg], before = seg > side.first[job] ? side.phase[seg - 1] : null;
  if (!reasons) return null;
  const held = before === RUNNING || before === LOADING || before === PAUSING, phase = side.phase[seg];
  const paused = phase === PAUSING || (phase === QUEUED && before === RUNNING);
  const started = phase === RESERVED || ((phase === LOADING || phase === RUNNING) && !held && before !== RESERVED);
  const at = (kind) => reasons.get(`${job} ${kind} ${side.from[seg]}`);
  const row = (paused && at(PAUSE)) || (started && at(START)) || at(RESIZE);
  return row ? reasonText(win.policies[side.policy].why.texts, win, row) : null;
}
function reasonText(texts, win, [, kind, own, rule, keys, key, place, count, skipped, earlier, later, cause, terms, options]) {
  if (options?.length) return optionsText(texts, win, texts[keys], count, options);
  const name = texts[keys].replace(/, (s|%)$/, ""), shown = (value, job) => keyText(texts[keys], value, win.jobs.submit[job]);
  const list = (jobs) => jobs.map(([job, value]) => `${win.jobs.id[job]} (${shown(value, job)})`).join(", ");
  const parts = [];
  if (!place && !cause) parts.push(`Why: ${texts[rule]} Its ${name} is ${shown(key, own)}.`);
  else if (kind === PAUSE && (cause || !texts[keys].endsWith(", %"))) {
    parts.push(cause ? `Why: for job ${win.jobs.id[cause[0]]}, whose key is ${shown(cause[1], cause[0])}; its own ${name} is ${shown(key, own)}.` : `Why: its GPUs were granted to jobs before it; its ${name} is ${shown(key, own)}.`);
  } else parts.push(`Why: ${place === 1 ? "first" : `number ${place}`} of ${count} by ${name}: ${shown(key, own)}.`);
  if (skipped) parts.push(`Before it, ${skipped} queued job${skipped > 1 ? "s" : ""} not started: ${list(earlier)}${skipped > earlier.length ? " …" : ""}.`);
  if (later.length && kind !== PAUSE) parts.push(`Next: ${list(later)}.`);
  if (terms.length) parts.push(`Compared: ${terms.map(([term, value]) => termText(texts[term], value, win)).join("; ")}.`);
  return parts.join(" ");
}
function optionsText(texts, win, keys, count, options) { // the first is the one that was made
  const [made, ...others] = options.map(([name, job, value, minimum]) => {
    const least = !minimum || value <= 0 ? "" : `, more than ${keyText(keys, minimum)} required`;
    return `${texts[name].replace("{job}", `job ${win.jobs.id[job] ?? "?"}`)} (${keyText(keys, value)}${least})`;
  });
  const name = keys.replace(/, s$/, ""), more = count > options.length ? ` and ${count - options.length} more` : "";
  return `Why: of ${count} compared moves, by ${name}: ${made}.${others.length ? ` Others: ${others.join("; ")}${more}.` : ""}`;
}
function keyText(keys, value, submitted = value) { // submitted: of the job, s since the window began
  if (value === null) return "unbounded";
  if (keys.startsWith("time of submission")) return clockText(submitted);
  if (keys.endsWith(", %")) return `${value} %`;
  return keys.endsWith(", s") && !keys.includes(" x ") ? durationText(value) : value.toLocaleString("en");
}
function termText(term, value, win) {
  if (term.endsWith(", job")) return `${term.slice(0, -5)} ${win.jobs.id[value] ?? "?"}`;
  if (!term.endsWith(", s")) return `${value} ${term}`;
  return `${term.slice(0, -3)} ${value === null ? "unbounded" : durationText(value)}`;
}
function overtaken(win, side, seg) { // jobs submitted later that first got GPUs while this one waited
  let count = 0;
  for (let job = side.job[seg] + 1; job < win.jobs.id.length && win.jobs.submit[job] < side.to[seg]; job++) {
    const first = firstStart(side, job);
    count += win.jobs.gpus[job] > 0 && first >= side.from[seg] && first < side.to[seg];
  }
  return count ? `; meanwhile ${count.toLocaleString("en")} job${count > 1 ? "s" : ""} submitted later started` : "";
}
function firstStart(side, job) {
  for (let seg = side.first[job]; seg < side.first[job + 1]; seg++) if (!isWaiting(side.phase[seg])) return side.from[seg];
  return Infinity;
}
function moveIntoRange(time) {
  const [from, to] = replay.range;
  if (time < from || time > to) showRange(0, Math.max(replay.win.to, time <= replay.win.to ? 0 : replay.win.end));
  moveTo(time);
}

// Jobs whose fate differs most.
function drawFates() {
  const { win, sides: [left, right] } = replay, rows = [];
  const tally = { sooner: 0, later: 0, equal: 0 };
  win.jobs.id.forEach((_, job) => {
    if (!win.jobs.counted[job]) return;
    const gap = jctOf(win, right, job) - jctOf(win, left, job);
    tally[gap < 0 ? "sooner" : gap > 0 ? "later" : "equal"] += 1;
    rows.push([job, gap]);
  });
  rows.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]) || a[0] - b[0]);
  const count = (number) => `${number.toLocaleString("en")} job${number === 1 ? "" : "s"}`;
  byId("fates-note").textContent = left === right || left.policy === right.policy ? "Choose two different policies to compare." :
    `Under ${right.policy}, ${count(tally.sooner)} end sooner than under ${left.policy}, ${count(tally.later)} later, ${count(tally.equal)} at the same time.`;
  const head = made("tr", {}, ...["job", "GPUs", left.policy, right.policy, "difference"].map((text) => made("th", { textContent: text, scope: "col" })));
  const body = rows.slice(0, 12).filter(([, gap]) => gap).map(([job, gap]) => {
    const name = made("button", { className: "plain", textContent: nameOf(job) });
    name.onclick = () => select(job);
    const swatch = made("span", { textContent: "■ ", ariaHidden: "true" });
    swatch.style.color = tint(job);
    const cells = [win.jobs.gpus[job], briefText(jctOf(win, left, job)), briefText(jctOf(win, right, job))];
    return made("tr", { className: job === replay.job ? "chosen" : "" }, made("td", {}, swatch, name), ...cells.map((text) => made("td", { textContent: text })),
      made("td", { className: gap < 0 ? "sooner" : "later", textContent: `${briefText(Math.abs(gap))} ${gap < 0 ? "sooner" : "later"}` }));
  });
  byId("fates").replaceChildren(made("thead", {}, head), made("tbody", {}, ...body));
  return rows.length ? rows[0][0] : null;
}

// Pointer and keyboard on the canvases.
function jobAt(side, event) {
  const x = event.offsetX, y = event.offsetY, { layout } = side, canvas = event.currentTarget;
  if (canvas === side.list) {
    const place = side.blocks.findIndex(([left, top, wide, high]) => x >= left && x <= left + wide && y >= top - 2 && y <= top + high + 3);
    return place < 0 ? null : side.queue[place];
  }
  if (canvas === side.gantt) {
    const gpu = Math.floor(y / side.ganttRow), time = timeAt(side, x);
    if (gpu < 0 || gpu >= data.gpus) return null;
    const here = holders(side, gpu, time);
    return here[Math.min(here.length - 1, Math.floor(((y / side.ganttRow) % 1) * here.length))] ?? null;
  }
  const column = Math.floor(x / layout.wide), row = Math.floor(y / layout.step), node = column * layout.rows + row;
  const slot = Math.floor((x - column * layout.wide - layout.label) / layout.cell);
  if (row >= layout.rows || !(node < data.nodes.length) || slot < 0 || slot >= data.nodes[node]) return null;
  const here = holders(side, data.nodeFirst[node] + slot, replay.at);
  return here[Math.min(here.length - 1, Math.floor(((y - row * layout.step) / layout.cell) * here.length))] ?? null;
}
const timeAt = (side, x) => scale(30, side.gantt.parentElement.clientWidth - 8, replay.range[0], replay.range[1])(x);
function segText(side, seg) {
  const { win } = replay, job = side.job[seg], gpus = win.gpusOf[side.place[seg]];
  const where = gpus.length ? `\n${placeText(gpus)}` : "";
  return `job ${nameOf(job)}, ${gpusText(win.jobs.gpus[job])}\n${PHASES[side.phase[seg]]} from ${clockText(side.from[seg])} for ${durationText(side.to[seg] - side.from[seg])}${where}`;
}
function listen(side, canvas) {
  canvas.onpointermove = (event) => { const seg = jobAt(side, event); showTip(seg === null ? null : event, seg === null ? "" : segText(side, seg)); };
  canvas.onpointerleave = () => showTip(null);
  canvas.onclick = (event) => { const seg = jobAt(side, event); if (seg !== null) select(side.job[seg]); };
  canvas.onfocus = canvas.onblur = drawMoment;
}
function listenGantt(side) {
  const { gantt } = side;
  let began = null;
  gantt.style.touchAction = "pan-y";
  gantt.onpointerdown = (event) => { began = timeAt(side, event.offsetX); };
  gantt.onclick = (event) => {
    const ended = timeAt(side, event.offsetX), span = replay.range[1] - replay.range[0];
    if (began !== null && Math.abs(ended - began) > span / 60) showRange(Math.round(Math.max(0, Math.min(began, ended))), Math.round(Math.max(began, ended)));
    else {
      const seg = jobAt(side, event);
      play(false);
      replay.at = Math.min(Math.max(ended, replay.range[0]), replay.range[1]);
      if (seg !== null) select(side.job[seg]); else drawMoment();
    }
    began = null;
  };
  gantt.ondblclick = () => showRange(0, replay.win.to);
}
function keysOnGrid(side, event) {
  const node = nodeOf(side.cursor), slot = side.cursor - data.nodeFirst[node];
  const beside = (other) => (other >= 0 && other < data.nodes.length ? data.nodeFirst[other] + Math.min(slot, data.nodes[other] - 1) : side.cursor);
  const to = { ArrowLeft: side.cursor - 1, ArrowRight: side.cursor + 1, ArrowUp: beside(node - 1), ArrowDown: beside(node + 1) }[event.key];
  const here = () => holders(side, side.cursor, replay.at);
  if (to !== undefined) {
    side.cursor = Math.min(Math.max(to, 0), data.gpus - 1);
    byId("said").textContent = `${placeText([side.cursor])}: ${here().map((seg) => `job ${nameOf(side.job[seg])}, ${PHASES[side.phase[seg]]}`).join("; ") || "idle"}`;
    drawMoment();
  } else if (event.key === "Enter" || event.key === " ") {
    if (here().length) select(side.job[here()[0]]);
  } else return;
  event.preventDefault();
}
function keysOnQueue(side, event) {
  const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
  if (by) {
    side.turn = Math.min(Math.max(side.turn + by, 0), Math.max(side.blocks.length - 1, 0));
    const seg = side.queue[side.turn];
    byId("said").textContent = seg === undefined ? "the queue is empty" : `job ${nameOf(side.job[seg])}, ${gpusText(replay.win.jobs.gpus[side.job[seg]])}, waits since ${clockText(side.from[seg])}`;
    drawMoment();
  } else if (event.key === "Enter" || event.key === " ") {
    if (side.queue[side.turn] !== undefined) select(side.job[side.queue[side.turn]]);
  } else return;
  event.preventDefault();
}

function stageOf(side) {
  const canvas = (label) => made("canvas", { tabIndex: 0, role: "application", ariaLabel: `${label} under ${side.policy}: arrow keys move, Enter selects a job` });
  Object.assign(side, { cursor: 0, turn: 0, grid: canvas("GPUs by job"), list: canvas("queue"), gantt: made("canvas", { role: "img", ariaLabel: `jobs by GPU over time under ${side.policy}` }),
    now: made("span", { className: "now" }), head: made("div", { className: "head" }) });
  for (const each of [side.grid, side.list]) listen(side, each);
  listen(side, side.gantt);
  listenGantt(side);
  side.grid.onkeydown = (event) => keysOnGrid(side, event);
  side.list.onkeydown = (event) => keysOnQueue(side, event);
  const caption = (text) => made("p", { className: "caption", textContent: text });
  return made("div", { className: "stage" }, made("h3", {}, side.policy, " "), side.now,
    made("div", { className: "pair" }, made("div", {}, caption("nodes × GPUs"), made("div", {}, side.grid)), made("div", {}, caption("queue, first submitted first"), made("div", {}, side.list))),
    caption("jobs by GPU over time"), made("div", { className: "gantt" }, side.gantt, side.head));
}
async function showWindow() {
  play(false);
  const number = +byId("window").value, win = await unpacked(number), again = replay.win === win;
  replay.win = win;
  byId("begin").textContent = data.begins[number] ? `, ${data.begins[number]}` : "";
  replay.sides = [byId("left").value, byId("right").value].map((policy) => ({ ...decoded(win, policy) }));
  byId("stages").replaceChildren(...replay.sides.map(stageOf));
  if (!again) {
    byId("names").replaceChildren(...win.jobs.id.slice(0, 2000).map((id) => new Option(id, id)));
    Object.assign(replay, { at: Math.round(win.to / 3), range: [0, win.to], job: null });
  }
  const first = drawFates();
  replay.job ??= first;
  drawFates();
  showRange(...replay.range);
}
function startReplay() {
  byId("replay").hidden = byId("load").hidden = !data.replayed.length;
  if (!data.replayed.length) return;
  byId("window").replaceChildren(...data.replayed.map((window) => new Option(window, window)));
  for (const [id, policy] of [["left", data.pair[0]], ["right", data.pair[1]]]) {
    byId(id).replaceChildren(...data.recorded.map((each) => new Option(each, each, false, each === policy)));
    byId(id).onchange = showWindow;
  }
  byId("window").onchange = showWindow;
  byId("slider").oninput = () => { play(false); moveTo(+byId("slider").value); };
  byId("play").onclick = () => play(replay.timer === null);
  byId("before").onclick = () => { play(false); step(-1); };
  byId("after").onclick = () => { play(false); step(1); };
  byId("closer").onclick = () => zoom(0.5);
  byId("wider").onclick = () => zoom(2);
  byId("find").onchange = () => { const job = replay.win.jobs.id.indexOf(byId("find").value.trim()); if (job >= 0) select(job); else byId("said").textContent = "no such job in this window"; };
  const swatch = (style, text) => { const mark = made("i"); mark.style.cssText = style; return made("span", {}, mark, text); };
  const [one, two, three] = data.jobColours.slice(2), rise = (angle) => `background:repeating-linear-gradient(${angle}deg, ${one} 0 3px, var(--bg) 3px 5px)`;
  byId("phase-key").replaceChildren(swatch(`background:linear-gradient(90deg, ${one} 0 33%, ${two} 33% 66%, ${three} 66%)`, "running, a colour for each job"), swatch(rise(-45), "loading"), swatch(rise(45), "pausing"),
    swatch("background:var(--idle)", "idle"), swatch("background:none;border:2px solid var(--ink)", "selected job"));
  showWindow();
}
start();
