// The page of a report. In: one JSON object, in the element #data (docs/report.md). Out: what the page shows of it:
//   - a summary table: a row for each group of runs, and the curves of the evaluation;
//   - curves of all metrics, diagnostics, pictures and recipes.
// The state stands in location.hash: a control changes it with go(), and apply() draws the open view again. A view
// builds its panel once and returns a function that draws what depends on the state.
// A chart is {title, file, xName, xLabel, log, lines}, a line {label, name, kind, x, y, sd, n, colour, dash, marker};
// a smoothed line has what it was made from in raw and rawSd.
(() => {

const data = JSON.parse(document.getElementById('data').textContent);
const groups = data.groups.map((g, number) => ({label: g.label, number, runs: g.runs.map((r) => data.runs[r])}));

// ---------------------------------------------------------------- small helpers

const short = (text, most = 60) => text.length > most ? `${text.slice(0, most - 1)}…` : text;
const note = (...text) => h('p', {class: 'note'}, ...text);
const distinct = (values) => [...new Set(values)];
const isNumber = (value) => value !== null && value !== undefined && Number.isFinite(value);

// Four significant digits: 0.48154 -> "0.4815", 2193.2 -> "2,193", 0.00036 -> "3.6e-4".
function number(value) {
  if (!isNumber(value)) return '–';
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString('en');
  if (size && size < 1e-3) return Number(value.toPrecision(3)).toExponential();
  return String(Number(value.toPrecision(4)));
}

// The mean and the standard deviation (n - 1) of values. A single value has no deviation.
function meanOf(values) {
  const n = values.length;
  if (!n) return {mean: null, sd: null, n};
  const mean = values.reduce((sum, v) => sum + v, 0) / n;
  const squares = values.reduce((sum, v) => sum + (v - mean) ** 2, 0);
  return {mean, sd: n > 1 ? Math.sqrt(squares / (n - 1)) : null, n};
}

// The function, which remembers its last results.
function cached(make, most = 2000) {
  const results = new Map();
  return (group, ...rest) => {
    const key = [group.number, ...rest].join('\n');
    if (!results.has(key)) {
      if (results.size >= most) results.clear();
      results.set(key, make(group, ...rest));
    }
    return results.get(key);
  };
}

// "0.5689 ± 0.0032": both with the decimals that two digits of the deviation need, at most four for usual sizes.
function meanText({mean, sd}) {
  if (!isNumber(mean)) return '–';
  if (!isNumber(sd) || sd === 0) return sd === 0 ? `${number(mean)} ± 0` : number(mean);
  const size = Math.abs(mean);
  if (size >= 1000) return `${number(mean)} ± ${Math.round(sd).toLocaleString('en')}`;
  const decimals = size >= 100 ? 1 : Math.min(size < 0.1 ? 6 : 4, Math.max(3, 1 - Math.floor(Math.log10(sd))));
  return `${mean.toFixed(decimals)} ± ${sd.toFixed(decimals)}`;
}

// ---------------------------------------------------------------- metrics

// Columns that are no metric: where a line stands, and what an evaluation cost.
const kNoMetric = new Set(['epoch', 'step', 'images', 'seconds']);
const kFirst = ['loss', 'plain_loss', 'top1', 'accuracy', 'top5', 'knn', 'grad_norm', 'lr', 'images_per_s'];

const rank = (name) => kFirst.includes(name) ? kFirst.indexOf(name) : kFirst.length + name.startsWith('report.');
const byRank = (a, b) => rank(a) - rank(b) || a.localeCompare(b, 'en', {numeric: true});

// The metrics that lines of a kind have in at least one run.
function metricsOf(kind) {
  const names = distinct(data.runs.flatMap((run) => Object.keys(run[kind]).filter((name) => !kNoMetric.has(name))));
  return names.filter((name) => data.runs.some((run) => run[kind][name]?.some(isNumber))).sort(byRank);
}

const kEval = metricsOf('eval'), kTrain = metricsOf('train');
const directionOf = (name) => data.metrics[name] ?? '';
const directionText = (name) => directionOf(name) ? `${directionOf(name)} is better` : '';

const lastStep = (run) => Math.max(0, ...['train', 'eval', 'diagnose'].map((kind) => run[kind].step?.at(-1) ?? 0));

// Epochs that a run has done; without steps_per_epoch, those that its last lines name as complete.
function epochsDone(run) {
  if (run.steps_per_epoch) return lastStep(run) / run.steps_per_epoch;
  return Math.max(run.train.epoch?.at(-1) ?? 0, (run.eval.epoch?.at(-1) ?? -1) + 1);
}

// Where a line stands on the x axis; null: not known. An evaluation of epoch 0 is after the first epoch.
function xOf(run, kind, i, axis) {
  if (axis === 'step') return run[kind].step[i];
  if (kind === 'eval') return run.eval.epoch[i] + 1;
  return run.steps_per_epoch ? run[kind].step[i] / run.steps_per_epoch : null;
}

// Exponential moving average, without the bias of its start. null stays null.
function smoothed(values, weight) {
  let sum = 0, total = 0;
  return values.map((value) => {
    if (!isNumber(value)) return null;
    sum = weight * sum + (1 - weight) * value;
    total = weight * total + (1 - weight);
    return sum / total;
  });
}

// The values of x that lines of a group's runs have, and which of them each line has: {xs, at}.
const gridOf = cached((group, kind, axis) => {
  const own = group.runs.map((run) => (run[kind].step ?? []).map((_, i) => xOf(run, kind, i, axis)));
  const xs = [...new Set(own.flat())].filter(isNumber).sort((a, b) => a - b);
  const slots = new Map(xs.map((x, slot) => [x, slot]));
  return {xs, at: own.map((list) => list.map((x) => slots.get(x) ?? -1))};
});

// A metric of a group by x: {x, y, sd, n} with the mean and the deviation over its runs. y is null where a training
// line has no finite value in any run: the curve has a gap there.
const curveOf = cached((group, kind, name, axis, weight = 0) => {
  const {xs, at} = gridOf(group, kind, axis), n = xs.map(() => 0), sum = xs.map(() => 0), squares = xs.map(() => 0);
  const values = group.runs.map((run) => weight ? smoothed(run[kind][name] ?? [], weight) : run[kind][name] ?? []);
  const each = (visit) => values.forEach((list, run) => list.forEach((value, i) => {
    if (isNumber(value) && at[run][i] >= 0) visit(at[run][i], value);
  }));
  each((slot, value) => { ++n[slot]; sum[slot] += value; });
  const y = sum.map((total, slot) => n[slot] ? total / n[slot] : null);
  each((slot, value) => { squares[slot] += (value - y[slot]) ** 2; });
  const sd = squares.map((total, slot) => n[slot] > 1 ? Math.sqrt(total / (n[slot] - 1)) : null);
  const kept = (list) => kind === 'train' ? list : list.filter((_, slot) => n[slot]);
  return {x: kept(xs), y: kept(y), sd: kept(sd), n: kept(n)};
});

// ---------------------------------------------------------------- looks

// A group has a colour, a dash and a marker. The three cycles have different lengths, so 280 groups differ.
const kDashes = ['', '7 3', '2 3', '9 3 2 3', '5 2'];
const kArm = 0.36;
const kMarkers = {
  circle: null,
  square: [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]],
  triangle: [[0, -1.2], [1.15, 0.85], [-1.15, 0.85]],
  diamond: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]],
  cross: [[0, -0.5], [0.7, -1.2], [1.2, -0.7], [0.5, 0], [1.2, 0.7], [0.7, 1.2], [0, 0.5], [-0.7, 1.2], [-1.2, 0.7],
          [-0.5, 0], [-1.2, -0.7], [-0.7, -1.2]],
  down: [[0, 1.2], [1.15, -0.85], [-1.15, -0.85]],
  plus: [[-kArm, -1.2], [kArm, -1.2], [kArm, -kArm], [1.2, -kArm], [1.2, kArm], [kArm, kArm], [kArm, 1.2],
         [-kArm, 1.2], [-kArm, kArm], [-1.2, kArm], [-1.2, -kArm], [-kArm, -kArm]],
};
const kMarkerNames = Object.keys(kMarkers);

const lookOf = (i) => ({
  colour: `var(--group-${i % 8})`,
  dash: kDashes[i % kDashes.length],
  marker: kMarkerNames[i % kMarkerNames.length]
});

function markerPath(marker, x, y, r = 3.6) {
  if (!kMarkers[marker]) return `M${fixed(x - r)} ${fixed(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
  return `M${kMarkers[marker].map(([dx, dy]) => `${fixed(x + dx * r)} ${fixed(y + dy * r)}`).join('L')}Z`;
}

const kRamp = [
  [[217, 138, 0], [194, 54, 107], [59, 26, 143]],      // light
  [[255, 209, 102], [240, 113, 155], [143, 140, 255]]  // dark
];

// A colour of the ordered scale, of `part` in 0…1.
function rampColour(part) {
  const at = (stops) => {
    const low = part < 0.5 ? 0 : 1, t = part * 2 - low;
    return `rgb(${stops[low].map((c, k) => Math.round(c + t * (stops[low + 1][k] - c))).join(' ')})`;
  };
  return `light-dark(${at(kRamp[0])}, ${at(kRamp[1])})`;
}

// The piece of a curve that stands for it in legends: a line with its dash, and its marker.
function sample(look, kind = 'both') {
  return s('svg', {class: 'sample', width: 28, height: 14, 'aria-hidden': 'true'}, sampleShapes(look, kind, 0, 7));
}

function sampleShapes(look, kind, x, y) {
  return [
    s('path', {class: 'curve eval', d: `M${x + 1} ${y}h26`, style: `stroke: ${look.colour}`,
               'stroke-dasharray': look.dash || null}),
    kind !== 'train' && look.marker &&
        s('path', {class: 'marker', d: markerPath(look.marker, x + 14, y), style: `fill: ${look.colour}`})
  ];
}

// ---------------------------------------------------------------- state in location.hash

const hasDiagnose = data.runs.some((run) => Object.keys(run.diagnose).some((name) => !kNoMetric.has(name)));

const kTabs = [
  {id: 'summary', title: 'Summary', build: summaryView},
  {id: 'curves', title: 'Curves', build: curvesView},
  {id: 'diagnostics', title: 'Diagnostics', build: diagnosticsView, absent: !hasDiagnose},
  {id: 'pictures', title: 'Pictures', build: picturesView, absent: !data.runs.some((run) => run.pictures.length)},
  {id: 'recipes', title: 'Recipes', build: recipesView},
].filter((tab) => !tab.absent);

// Epochs are the x axis where at least one training run tells how many steps they have.
const hasEpochs = data.runs.some((run) => run.steps_per_epoch);
const kDefaults = {tab: 'summary', x: hasEpochs ? 'epoch' : 'step', y: 'linear', smooth: '0', hide: '', kind: '',
                   view: 'training', at: ''};
const kChoices = {tab: kTabs.map((t) => t.id), x: hasEpochs ? ['epoch', 'step'] : ['step'], y: ['linear', 'log'],
                  view: ['training', 'depth']};
let state = {...kDefaults};

function encode(next) {
  const parts = [`tab=${next.tab}`];
  for (const key of Object.keys(kDefaults).slice(1))
    if (next[key] !== kDefaults[key]) parts.push(`${key}=${encodeURIComponent(next[key]).replace(/%2C/g, ',')}`);
  return '#' + parts.join('&');
}

// What a hash does not tell, or tells wrongly, has its default.
function decode(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, '')), out = {...kDefaults};
  for (const key of Object.keys(out)) {
    const value = given.get(key);
    if (value !== null && (!kChoices[key] || kChoices[key].includes(value))) out[key] = value;
  }
  out.hide = distinct(out.hide.split(',').filter((i) => /^\d+$/.test(i) && groups[i])).join(',');
  const smooth = Number(out.smooth);
  out.smooth = smooth > 0 && smooth < 1 ? String(smooth) : '0';
  return out;
}

// Changes the state. `replace`: without a new entry in the history, as for each move of a slider.
function go(change, replace = false) {
  const next = encode({...state, ...change});
  if (replace) history.replaceState(null, '', next); else if (next !== location.hash) location.hash = next;
  apply();
}

const updates = new Map();  // tab -> the function that draws what depends on the state

function apply() {
  const before = state;
  state = decode(location.hash);
  if (location.hash !== encode(state)) history.replaceState(null, '', encode(state));
  if (updates.size && encode(before) === encode(state)) return;
  closeReading();
  markTabs();
  const tab = kTabs.find((t) => t.id === state.tab), panel = $(`panel-${tab.id}`);
  if (!updates.has(tab.id)) updates.set(tab.id, tab.build(panel) ?? (() => {}));
  updates.get(tab.id)();
}

const isHidden = (group) => state.hide.split(',').includes(String(group.number));
const shownGroups = () => groups.filter((group) => !isHidden(group));

// ---------------------------------------------------------------- controls

// Makes a list one stop of the Tab key, inside which the arrow keys move.
function roving(container, selector) {
  container.dataset.roving = '';
  const items = [...container.querySelectorAll(selector)];
  const stop = (item) => items.forEach((other) => other.setAttribute('tabindex', other === item ? 0 : -1));
  stop(container.querySelector(`${selector}[aria-selected="true"]`) ?? items[0]);
  if (container.rovingReady) return;
  container.rovingReady = true;
  container.addEventListener('keydown', (event) => {
    const at = items.indexOf(event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || at < 0) return;
    const to = event.key === 'ArrowRight' ? at + 1 : event.key === 'ArrowLeft' ? at - 1
      : event.key === 'Home' ? 0 : event.key === 'End' ? items.length - 1 : -1;
    if (to < 0 || to >= items.length) return;
    event.preventDefault();
    items[to].focus();
  });
  container.addEventListener('focusin', (event) => { if (items.includes(event.target)) stop(event.target); });
}

// One choice of several as radio buttons in a row, for a key of the state.
function choice(id, key, label, options) {
  const inputs = options.map(
      ([value]) => h('input', {type: 'radio', name: `${id}-${key}`, value, onchange: () => go({[key]: value})}));
  const element = h('fieldset', {class: 'choice'}, h('legend', {}, label),
                    options.map(([, text], i) => h('label', {}, inputs[i], h('span', {}, text))));
  return {element, update: () => inputs.forEach((input) => { input.checked = input.value === state[key]; })};
}

const xChoice = (id) => choice(id, 'x', 'x axis', [...hasEpochs ? [['epoch', 'Epochs']] : [], ['step', 'Steps']]);
const yChoice = (id) => choice(id, 'y', 'y axis', [['linear', 'Linear'], ['log', 'Log']]);

// A slider over 0…max. `read` tells its place, `write` the change of state, `text` what stands beside it.
function slider(label, max, read, write, text) {
  const output = h('output', {});
  const input = h('input', {type: 'range', min: 0, max, step: 1, oninput: () => go(write(Number(input.value)), true)});
  const element = h('label', {class: 'control'}, h('span', {}, label), input, output);
  const update = () => {
    input.value = read();
    output.textContent = text();
    input.setAttribute('aria-valuetext', text());
  };
  return {element, input, update};
}

// The groups as buttons that show and hide them.
function legend(kinds = true) {
  const buttons = groups.map((group) => h('button', {type: 'button', title: group.label,
    onclick: (event) => toggle(group, event.shiftKey)}, sample(lookOf(group.number)), short(group.label)));
  const all = h('button', {type: 'button', class: 'more', onclick: () => { buttons[0].focus(); go({hide: ''}); }},
                'Show all');
  const plain = {colour: 'var(--quiet)', dash: '', marker: 'circle'};
  const several = groups.some((g) => g.runs.length > 1);
  const element = h('div', {class: 'keys', role: 'group', 'aria-label': 'Groups'},
    h('div', {class: 'legend'}, buttons), all,
    kinds && h('span', {class: 'kinds'}, h('span', {}, sample(plain, 'train'), 'training'),
               h('span', {}, sample(plain), 'evaluation'),
               several && h('span', {}, 'band: mean ± standard deviation over runs')));
  roving(element.firstChild, 'button');
  const update = () => {
    buttons.forEach((button, i) => button.setAttribute('aria-pressed', String(!isHidden(groups[i]))));
    all.hidden = !state.hide;
  };
  return {element, update};
}

function toggle(group, alone) {
  const now = groups.filter(isHidden).map((g) => g.number);
  const next = alone ? groups.filter((g) => g !== group).map((g) => g.number)
    : isHidden(group) ? now.filter((i) => i !== group.number) : [...now, group.number].sort((a, b) => a - b);
  go({hide: next.join(',')});
}

// ---------------------------------------------------------------- scales

const fixed = (value) => Math.round(value * 100) / 100;

// About `want` round numbers between low and high.
function linearTicks(low, high, want) {
  const rough = (high - low) / Math.max(1, want), power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; ++k) ticks.push(k * step);
  return ticks;
}

function logTicks(low, high, want) {
  const ticks = [];
  const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const stride = Math.max(1, Math.ceil((to - from) / (want + 2)));
  const parts = to - from > 3 ? [1] : [1, 2, 5];
  for (let power = from; power <= to; power += stride)
    for (const part of parts) {
      const tick = part * 10 ** power;
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  return ticks.length >= 3 ? ticks : linearTicks(low, high, want);
}

// The texts of ticks, all with the same decimals.
function tickTexts(ticks) {
  const most = Math.max(...ticks.map(Math.abs));
  const short = (v) => v === 0 ? '0' : String(Number(v.toPrecision(6)));
  if (most >= 1e4 && most < 1e6) return ticks.map((v) => v === 0 ? '0' : `${short(v / 1000)}k`);
  if (most >= 1e6 || most < 5e-3)
    return ticks.map((v) => v === 0 ? '0' : Number(v.toPrecision(4)).toExponential().replace('e+', 'e'));
  const decimals = Math.max(...ticks.map((v) => (short(v).split('.')[1] ?? '').length));
  return ticks.map((v) => decimals > 4 ? short(v) : v.toFixed(decimals));
}

// What is drawn of the y axis: [low, high] of lines, their raw values and their bands.
function rangeOf(lines, log) {
  let low = Infinity, high = -Infinity;
  const take = (v) => {
    if (!isNumber(v) || log && v <= 0) return;
    if (v < low) low = v;
    if (v > high) high = v;
  };
  for (const line of lines) {
    line.y.forEach((y, i) => {
      take(y);
      if (isNumber(line.sd?.[i])) { take(y - line.sd[i]); take(y + line.sd[i]); }
    });
    line.raw?.forEach(take);
  }
  if (low > high) return null;
  if (log) return low === high ? [low / 2, high * 2] : [low / (high / low) ** 0.04, high * (high / low) ** 0.04];
  const room = low === high ? Math.abs(low) * 0.1 || 1 : (high - low) * 0.04;
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

// ---------------------------------------------------------------- charts

const kMost = 600;  // points of a path
const kMostMarkers = 16;

// Which points of a long curve are drawn: of each part the lowest and the highest, and one gap if it has one.
function thin(values) {
  if (values.length <= kMost) return values.map((_, i) => i);
  const parts = kMost / 2, out = [];
  for (let part = 0; part < parts; ++part) {
    const from = Math.floor(part * values.length / parts), to = Math.floor((part + 1) * values.length / parts);
    let low = -1, high = -1, gap = -1;
    for (let i = from; i < to; ++i) {
      if (!isNumber(values[i])) { gap = i; continue; }
      if (low < 0 || values[i] < values[low]) low = i;
      if (high < 0 || values[i] > values[high]) high = i;
    }
    out.push(...distinct([low, high, gap].filter((i) => i >= 0)).sort((a, b) => a - b));
  }
  return out;
}

// A path through points [x, y]; null: a gap. A point between two gaps is a dot.
function pathOf(points) {
  let d = '', pen = 0;
  points.forEach((point, i) => {
    if (!point) { pen = 0; return; }
    d += `${pen ? 'L' : 'M'}${fixed(point[0])} ${fixed(point[1])}`;
    if (!pen && !points[i + 1]) d += 'h0';
    pen = 1;
  });
  return d;
}

// The band of a line: a closed path for each stretch that has a deviation.
function bandPath(line, chosen, px, py, floor) {
  const stretches = [[]];
  for (const i of chosen)
    if (isNumber(line.y[i]) && isNumber(line.sd[i])) stretches.at(-1).push(i);
    else if (stretches.at(-1).length) stretches.push([]);
  const edge = (list, sign) => list.map(
      (i) => `${fixed(px(line.x[i]))} ${fixed(py(Math.max(floor, line.y[i] + sign * line.sd[i])))}`);
  return stretches.filter((list) => list.length > 1)
      .map((list) => `M${[...edge(list, 1), ...edge(list, -1).reverse()].join('L')}Z`).join('');
}

// The scales of a chart for a width: {px, py, box, xs, ys}; null: nothing can be drawn.
function layout(chart, width, height) {
  const range = chart.range ?? rangeOf(chart.lines, chart.log);
  const xs = chart.lines.flatMap((line) => line.x.length ? [line.x[0], line.x.at(-1)] : []);
  if (!range || !xs.length) return null;
  const ys = chart.log ? logTicks(...range, 5) : linearTicks(...range, 7), texts = tickTexts(ys);
  const box = {left: 14 + 6.4 * Math.max(...texts.map((t) => t.length)), right: width - 12, top: 8,
               bottom: height - 36};
  let [low, high] = [Math.min(...xs), Math.max(...xs)];
  if (!chart.ticks && low > 0 && low < 0.3 * high) low = 0;
  if (low === high) { low -= 0.5; high += 0.5; }
  const inset = chart.ticks ? 14 : 4;
  const scale = chart.log ? Math.log : (v) => v, [bottom, top] = range.map(scale);
  return {
    box, ys, texts, range, low, high,
    px: (x) => box.left + inset + (x - low) / (high - low) * (box.right - box.left - 2 * inset),
    py: (y) => box.bottom - (scale(y) - bottom) / (top - bottom) * (box.bottom - box.top)
  };
}

function axes(chart, {box, ys, texts, low, high, px, py}) {
  const room = Math.floor((box.right - box.left) / (chart.ticks ? 46 : 70)), middle = (box.left + box.right) / 2;
  const stride = chart.ticks ? Math.ceil(chart.ticks.length / room) : 1;
  const xs = chart.ticks ? chart.ticks.map((_, i) => i).filter((i) => i % stride === 0) :
                           linearTicks(low, high, Math.min(room, 10, Math.max(3, Math.floor(high - low))));
  const names = chart.ticks ? xs.map((i) => chart.ticks[i]) : tickTexts(xs);
  return s('g', {},
    ys.map((y, i) => [
      s('line', {class: 'grid', x1: box.left, x2: box.right, y1: fixed(py(y)), y2: fixed(py(y))}),
      s('text', {x: box.left - 6, y: fixed(py(y) + 4), 'text-anchor': 'end'}, texts[i])
    ]),
    xs.map((x, i) => [
      s('line', {class: 'frame', x1: fixed(px(x)), x2: fixed(px(x)), y1: box.bottom, y2: box.bottom + 4}),
      s('text', {x: fixed(px(x)), y: box.bottom + 16, 'text-anchor': 'middle'}, names[i])
    ]),
    s('path', {class: 'frame', d: `M${fixed(box.left)} ${box.top}V${box.bottom}H${box.right}`}),
    s('text', {x: fixed(middle), y: box.bottom + 31, 'text-anchor': 'middle'}, chart.xLabel));
}

function curveShapes(line, chart, {px, py, range}) {
  const floor = chart.log ? range[0] : -Infinity;
  const points = (values, chosen) =>
      chosen.map((i) => isNumber(values[i]) && !(chart.log && values[i] <= 0) ? [px(line.x[i]), py(values[i])] : null);
  const chosen = thin(line.y), drawn = points(line.y, chosen);
  const faint = line.under ? ' under' : '';
  const curve = (kind, d) => s('path', {class: `curve ${kind}${faint}`, d, style: `stroke: ${line.colour}`,
                                        'stroke-dasharray': kind.includes('raw') ? null : line.dash || null});
  const out = [];
  if (line.sd?.some(isNumber))
    out.push(s('path', {class: `band${faint}`, style: `fill: ${line.colour}`,
                        d: bandPath(line, chosen, px, py, floor)}));
  if (line.raw) out.push(curve('train raw', pathOf(points(line.raw, thin(line.raw)))));
  out.push(curve(line.kind, pathOf(drawn)));
  const some = drawn.filter(Boolean), stride = Math.max(1, Math.ceil(some.length / kMostMarkers));
  if (line.marker && (line.kind === 'eval' || some.length < 4)) {
    const d = some.filter((_, i) => (some.length - 1 - i) % stride === 0).map((p) => markerPath(line.marker, ...p));
    out.push(s('path', {class: 'marker', d: d.join(''), style: `fill: ${line.colour}`}));
  }
  return out;
}

// Draws a chart into its place on the page, as wide as that is.
function drawChart(chart) {
  const width = Math.max(240, chart.plot.clientWidth), height = chart.height ?? 270;
  const scales = layout(chart, width, height);
  chart.scales = scales;
  if (!scales) { chart.plot.replaceChildren(note('Nothing to draw.')); return; }
  chart.cross = s('g', {class: 'cross'});
  chart.svg = s('svg', {viewBox: `0 0 ${width} ${height}`, height, 'aria-hidden': 'true'}, axes(chart, scales),
                chart.lines.map((line) => s('g', {}, curveShapes(line, chart, scales))), chart.cross);
  chart.plot.replaceChildren(chart.svg);
}

function figureOf(chart) {
  const save = (label, act) => h('button', {type: 'button', class: 'more', onclick: () => act(chart),
                                            'aria-label': `Save ${chart.title} as ${label}`}, label);
  chart.plot = h('div', {class: 'plot', tabindex: 0, role: 'group', 'aria-roledescription': 'chart',
                         'aria-label': `${chart.title} by ${chart.xLabel}. Arrow keys read the values.`});
  readable(chart);
  return h('figure', {class: 'chart', 'aria-label': chart.title},
    h('div', {class: 'chart-head'}, h('h3', {title: chart.title}, short(chart.title)),
      chart.hint && h('span', {class: 'quiet'}, chart.hint),
      h('span', {class: 'saves'}, save('SVG', saveSvg), save('PNG', savePng), save('CSV', saveCsv))),
    chart.plot);
}

let drawnCharts = [];

function showCharts(container, charts) {
  drawnCharts = charts;
  container.replaceChildren(...charts.map(figureOf));
  charts.forEach(drawChart);
}

// ---------------------------------------------------------------- values under the pointer

let reading = null;  // {chart, x}

function closeReading() {
  reading?.chart.cross?.replaceChildren();
  reading = null;
  $('tip').hidden = true;
}

// The number of the point of a line nearest to x; -1: x is beyond the line.
function nearest(line, x) {
  let low = 0, high = line.x.length - 1;
  if (high < 0) return -1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (line.x[middle] < x) low = middle + 1; else high = middle;
  }
  const best = low > 0 && x - line.x[low - 1] < line.x[low] - x ? low - 1 : low;
  const gap = Math.max(line.x[best + 1] - line.x[best] || 0, line.x[best] - line.x[best - 1] || 0);
  return Math.abs(line.x[best] - x) > Math.max(gap, 1e-9) ? -1 : best;
}

// A line for each label: that of the evaluation where there are two.
const legendOf = (lines) => [...new Map(lines.map((line) => [line.label, line])).values()];

const xText = (chart, x) => chart.ticks ? chart.ticks[x] : `${chart.xName} ${number(x)}`;

// Shows the values of all lines at x. Returns them as one text.
function read(chart, x, left, top) {
  if (reading && reading.chart !== chart) closeReading();
  reading = {chart, x};
  const {px, py, box} = chart.scales, shown = [];
  for (const line of chart.lines) {
    const i = nearest(line, x), y = line.y[i];
    if (i >= 0 && isNumber(y)) shown.push({line, i, y});
  }
  chart.cross.replaceChildren(
      s('line', {x1: fixed(px(x)), x2: fixed(px(x)), y1: box.top, y2: box.bottom}),
      ...shown.filter(({y}) => !chart.log || y > 0)
          .map(({line, i, y}) => s('circle', {cx: fixed(px(line.x[i])), cy: fixed(py(y)), r: 3.5,
                                              style: `fill: ${line.colour}`})));
  const texts = shown.map(({line, i, y}) => ({line, text: meanText({mean: y, sd: line.sd?.[i]})}));
  const tip = $('tip'), kinds = distinct(texts.map(({line}) => line.kindName));
  const cell = (label, kind) => texts.find(({line}) => line.label === label && line.kindName === kind)?.text ?? '';
  tip.replaceChildren(h('table', {},
    h('tr', {}, h('th', {}, xText(chart, x)), kinds.length > 1 && kinds.map((kind) => h('th', {class: 'n'}, kind))),
    legendOf(chart.lines).filter(({label}) => kinds.some((kind) => cell(label, kind))).map((line) => h('tr', {},
      h('td', {}, sample(line, line.kind), short(line.label)),
      kinds.map((kind) => h('td', {class: 'n'}, cell(line.label, kind)))))));
  tip.hidden = false;
  const rect = chart.plot.getBoundingClientRect(), at = left ?? rect.left + px(x), y = top ?? rect.top + 10;
  tip.style.left = '0';
  const side = at + 14 + tip.offsetWidth > innerWidth - 4 ? at - tip.offsetWidth - 14 : at + 14;
  tip.style.left = `${Math.max(4, Math.min(side, innerWidth - tip.offsetWidth - 4))}px`;
  tip.style.top = `${Math.max(4, Math.min(y, innerHeight - tip.offsetHeight - 4))}px`;
  return [xText(chart, x), ...texts.map(({line, text}) => `${line.name} ${text}`)].join('; ');
}

function readable(chart) {
  const {plot} = chart;
  const xs = () => distinct(chart.lines.flatMap((line) => line.x)).sort((a, b) => a - b);
  plot.addEventListener('pointermove', (event) => {
    if (!chart.scales) return;
    const {px, low, high} = chart.scales, rect = plot.getBoundingClientRect();
    const part = (event.clientX - rect.left - px(low)) / (px(high) - px(low));
    const wanted = low + Math.max(0, Math.min(1, part)) * (high - low), near = {x: xs()};
    const i = nearest(near, wanted);
    read(chart, near.x[Math.max(0, i)], event.clientX, event.clientY + 12);
  });
  plot.addEventListener('pointerleave', closeReading);
  plot.addEventListener('blur', closeReading);
  plot.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') closeReading();
    if (!chart.scales) return;
    const all = xs(), last = all.length - 1, now = reading?.chart === chart ? all.indexOf(reading.x) : -1;
    const one = Math.max(1, Math.round(last / 250)), ten = Math.max(1, Math.round(last / 10));
    const to = {ArrowRight: now + one, ArrowLeft: now < 0 ? last : now - one, PageDown: now + ten, PageUp: now - ten,
                Home: 0, End: last}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    $('spoken').textContent = read(chart, all[Math.max(0, Math.min(last, to))]);
  });
}

// ---------------------------------------------------------------- saving figures

function download(name, blob) {
  const url = URL.createObjectURL(blob), link = h('a', {href: url, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

const fileName = (chart, end) => `${chart.file.replace(/[^\w.=-]+/g, '-').slice(0, 100)}.${end}`;
const kInlined = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linejoin', 'stroke-linecap',
                  'fill-opacity', 'stroke-opacity', 'font-size', 'font-weight', 'text-anchor'];

// The chart with its title and its legend, in the light colours, without the page's style sheet.
function standalone(chart) {
  const [, , width, height] = chart.svg.getAttribute('viewBox').split(' ').map(Number);
  const keys = legendOf(chart.lines), wide = 50 + 6.6 * Math.max(...keys.map(({label}) => short(label).length));
  const about = chart.of ? `: ${chart.hint}` :
      chart.lines.some((line) => line.under) ? ' (training; with marks: evaluation)' : '';
  const columns = Math.max(1, Math.floor((width - 20) / wide)), rows = Math.ceil(keys.length / columns);
  const total = height + 26 + rows * 18 + 6, body = chart.svg.cloneNode(true);
  body.querySelector('.cross').remove();
  const svg = s('svg', {xmlns: kSvg, width, height: total, viewBox: `0 0 ${width} ${total}`, class: 'plot'},
    s('rect', {width, height: total, style: 'fill: #ffffff'}),
    s('text', {class: 'title', x: 14, y: 18}, short(chart.title) + about),
    s('g', {transform: 'translate(0 26)'}, ...body.childNodes),
    keys.map((line, i) => {
      const x = 14 + (i % columns) * wide, y = height + 36 + Math.floor(i / columns) * 18;
      return [sampleShapes(line, line.kind, x, y), s('text', {x: x + 34, y: y + 4}, short(line.label))];
    }));
  const root = document.documentElement, theme = root.dataset.theme, box = h('div', {class: 'plot hidden'}, svg);
  root.dataset.theme = 'light';
  document.body.append(box);
  for (const element of svg.querySelectorAll('path, line, text, rect')) {
    const style = getComputedStyle(element);
    const own = kInlined.filter((key) => style[key] && !(key.startsWith('font') && element.tagName !== 'text'));
    element.setAttribute('style', own.map((key) => `${key}: ${style.getPropertyValue(key)}`).join('; '));
    element.removeAttribute('class');
    if (element.tagName === 'text') element.setAttribute('font-family', 'Helvetica, Arial, sans-serif');
  }
  box.remove();
  if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
  svg.removeAttribute('class');
  return {text: new XMLSerializer().serializeToString(svg), width, height: total};
}

function saveSvg(chart) {
  if (chart.scales) download(fileName(chart, 'svg'), new Blob([standalone(chart).text], {type: 'image/svg+xml'}));
}

function savePng(chart) {
  if (!chart.scales) return;
  const {text, width, height} = standalone(chart), image = new Image();
  const url = URL.createObjectURL(new Blob([text], {type: 'image/svg+xml'}));
  image.onload = () => {
    const canvas = h('canvas', {width: 2 * width, height: 2 * height});
    canvas.getContext('2d').drawImage(image, 0, 0, 2 * width, 2 * height);
    URL.revokeObjectURL(url);
    canvas.toBlob((blob) => download(fileName(chart, 'png'), blob), 'image/png');
  };
  image.src = url;
}

// All points of the lines that are drawn, not only those that a path is thinned to.
function csvOf(chart) {
  const cell = (value) => value === null || value === undefined ? ''
    : /[",\n]/.test(String(value)) ? `"${String(value).replace(/"/g, '""')}"` : String(value);
  const rows = [[chart.of ?? 'group', 'kind', chart.xName, 'value', 'sd', 'runs', 'smoothed']];
  for (const line of chart.lines)
    line.x.forEach((x, i) => rows.push([line.label, line.kindName ?? line.kind, chart.ticks ? chart.ticks[x] : x,
      line.raw ? line.raw[i] : line.y[i], line.raw ? line.rawSd[i] : line.sd?.[i], line.n?.[i],
      line.raw ? line.y[i] : null]));
  return rows.map((row) => row.map(cell).join(',')).join('\n') + '\n';
}

const saveCsv = (chart) => download(fileName(chart, 'csv'), new Blob([csvOf(chart)], {type: 'text/csv'}));

// ---------------------------------------------------------------- view: summary

function epochText(runs) {
  const done = runs.map((run) => String(Math.floor(epochsDone(run) * 10 + 1e-6) / 10));
  const range = distinct(done.sort((a, b) => a - b)), of = distinct(runs.map((run) => run.epochs)).join('/');
  return `${range[0]}${range.length > 1 ? `–${range.at(-1)}` : ''} of ${of}`;
}

const finite = (values) => (values ?? []).filter(isNumber);
const best = (values, name) => directionOf(name) === 'lower' ? Math.min(...values) : Math.max(...values);
const over = (runs, column) => meanOf(runs.map(column.of).filter(isNumber));

// What the summary is of: evaluations, or training where no run has one.
const kFigures = kEval.length ? {kind: 'eval', names: kEval} :
    {kind: 'train', names: kTrain.filter((name) => directionOf(name) && name !== 'images_per_s')};

// The columns of figures: the final and the best value of each metric, and the speed.
function figureColumns() {
  const {kind, names} = kFigures, last = kind === 'eval' ? 'final' : 'latest';
  const values = (run, name) => finite(run[kind][name]), speed = 'images_per_s';
  const bestOf = (name) => (run) => values(run, name).length ? best(values(run, name), name) : null;
  const columns = names.flatMap((name) => [
    {id: `${name}.final`, title: last, name, first: true, of: (run) => values(run, name).at(-1)},
    ...directionOf(name) ? [{id: `${name}.best`, title: 'best', name, of: bestOf(name)}] : []
  ]);
  const speedOf = (run) => meanOf(finite(run.train[speed])).mean;
  columns.push({id: 'speed', title: 'images/s', name: speed, first: true, of: speedOf});
  return columns.map((c) => ({...c, value: (group) => over(group.runs, c).mean}));
}

function summaryTable() {
  const figures = figureColumns(), open = new Set(), sorting = {id: '', down: false};
  const columns = [...figures, {id: 'label', value: (g) => g.label}, {id: 'runs', value: (g) => g.runs.length},
                   {id: 'epochs', value: (g) => meanOf(g.runs.map(epochsDone)).mean}];
  const body = h('tbody', {});
  const sort = (id) => {
    const higherFirst = figures.some((c) => c.id === id && directionOf(c.name) !== 'lower');
    sorting.down = sorting.id === id ? !sorting.down : higherFirst;
    sorting.id = id;
    for (const th of body.parentElement.querySelectorAll('th[data-id]'))
      th.setAttribute('aria-sort', th.dataset.id !== id ? 'none' : sorting.down ? 'descending' : 'ascending');
    drawRows();
  };
  const head = (id, title, attributes) => h('th', {'data-id': id, scope: 'col', ...attributes},
    h('button', {type: 'button', onclick: () => sort(id)}, title, h('span', {class: 'arrow', 'aria-hidden': 'true'})));
  const sorted = () => {
    const value = columns.find((c) => c.id === sorting.id)?.value ?? ((g) => g.number), sign = sorting.down ? -1 : 1;
    const order = (a, b) => typeof a === 'string' ? a.localeCompare(b, 'en', {numeric: true}) : a - b;
    return [...groups].sort((a, b) => {
      const [va, vb] = [value(a), value(b)];
      return (va === null) - (vb === null) || sign * order(va, vb) || a.number - b.number;
    });
  };
  const wins = (group, column) => {
    const values = groups.map(column.value).filter(isNumber);
    return directionOf(column.name) && values.length > 1 && column.value(group) === best(values, column.name);
  };
  const cells = (runs, group) => [
    h('td', {class: 'n'}, String(runs.length)),
    h('td', {class: 'seeds'}, distinct(runs.map((run) => run.seed)).join(', ')),
    h('td', {class: 'n'}, epochText(runs)),
    figures.map((c) => h('td', {class: `n${c.first ? ' first' : ''}${group && wins(group, c) ? ' best' : ''}`},
                         meanText(over(runs, c)))),
    h('td', {}, runs.every((run) => run.ended) ? 'yes' : h('span', {class: 'running'},
      runs.length === 1 ? 'no' : `${runs.filter((run) => run.ended).length} of ${runs.length}`))
  ];
  const rowsOf = (group) => {
    const isOpen = open.has(group);
    const button = h('button', {type: 'button', class: 'toggle', 'aria-expanded': String(isOpen), onclick: () => {
      if (!open.delete(group)) open.add(group);
      drawRows();
      body.querySelector(`[data-group="${group.number}"] button`).focus();
    }, title: group.label}, sample(lookOf(group.number)), short(group.label));
    const row = (type, title, rest) =>
        h('tr', {class: type, 'data-group': group.number}, h('th', {scope: 'row'}, title), rest);
    const runs = isOpen ? group.runs.map((run) => row('run', run.name, cells([run]))) : [];
    return [row('group', button, cells(group.runs, group)), ...runs];
  };
  const drawRows = () => body.replaceChildren(...sorted().flatMap(rowsOf));
  drawRows();
  const both = {rowspan: 2}, metrics = figures.filter((c) => c.id !== 'speed');
  return h('table', {class: 'summary-table'}, h('thead', {},
    h('tr', {}, head('label', 'group', both), head('runs', 'runs', {...both, class: 'n'}),
      h('th', {...both, scope: 'col'}, 'seeds'), head('epochs', 'epochs', {...both, class: 'n'}),
      kFigures.names.map((name) => h('th', {colspan: metrics.filter((c) => c.name === name).length, scope: 'colgroup',
                                            class: 'first'}, name, kFigures.kind === 'train' && ' (training)',
        h('span', {class: 'quiet'}, ` ${directionText(name)}`))),
      head('speed', 'images/s', {...both, class: 'n first'}), h('th', {...both, scope: 'col'}, 'ended')),
    h('tr', {}, metrics.map((c) => head(c.id, c.title, {class: c.first ? 'n first' : 'n'})))), body);
}

function summaryView(panel) {
  const running = data.runs.filter((run) => !run.ended).map((run) => run.name);
  const keys = legend(false), charts = h('div', {class: 'charts'});
  panel.append(...[
    h('h2', {class: 'hidden'}, 'Summary'),
    running.length && note(
        `${count(running.length, 'run has', 'runs have')} not ended: ${running.slice(0, 4).join(', ')}`,
        `${running.length > 4 ? ', …' : ''}. Final values are the latest ones.`),
    kFigures.kind === 'train' && note('No run has been evaluated yet. The figures are of training.'),
    h('div', {class: 'table-box', tabindex: 0, role: 'region', 'aria-label': 'Summary table'}, summaryTable()),
    note(groups.length > 1 && 'Green marks the best group. ', groups.some((g) => g.runs.length > 1) &&
         'Figures are mean ± standard deviation (n − 1) over the runs of a group.'),
    keys.element, charts
  ].filter(Boolean));
  const names = kFigures.names.filter((name) => directionOf(name)).slice(0, 2);
  return () => { keys.update(); showCharts(charts, names.map((name) => metricChart(name, [kFigures.kind]))); };
}

// ---------------------------------------------------------------- view: curves

const kKindNames = {train: 'training', eval: 'evaluation'};

function metricChart(name, wanted = ['train', 'eval']) {
  const weight = Number(state.smooth), lines = [];
  const kinds = wanted.filter((kind) => (kind === 'train' ? kTrain : kEval).includes(name));
  for (const kind of kinds)
    for (const group of shownGroups()) {
      const raw = curveOf(group, kind, name, state.x);
      if (!raw.y.some(isNumber)) continue;
      const smooth = kind === 'train' && weight > 0;
      const curve = smooth ? {...curveOf(group, kind, name, state.x, weight), raw: raw.y, rawSd: raw.sd} : raw;
      const both = kinds.length > 1;
      lines.push({...curve, ...lookOf(group.number), label: group.label, kind, kindName: kKindNames[kind],
                  under: both && kind === 'train', name: both ? `${group.label}, ${kKindNames[kind]}` : group.label});
    }
  const hint = [directionText(name), kinds.length === 1 && kKindNames[kinds[0]]].filter(Boolean).join(', ');
  return {title: name, hint, file: name, xName: state.x, xLabel: `${state.x}s`, log: state.y === 'log', lines};
}

function curvesView(panel) {
  const names = distinct([...kEval, ...kTrain]).sort(byRank);
  const controls = [
    xChoice('curves'), yChoice('curves'),
    slider('Smoothing of training', 99, () => Math.round(100 * Number(state.smooth)),
           (v) => ({smooth: String(v / 100)}), () => Number(state.smooth).toFixed(2)),
    legend()
  ];
  const charts = h('div', {class: 'charts'});
  const lost = hasEpochs ? data.runs.filter((run) => !run.steps_per_epoch && run.train.step?.length) : [];
  const missing = note(`Not drawn by epochs, for lack of a complete one: ${lost.map((run) => run.name).join(', ')}.`);
  panel.append(h('div', {class: 'bars'}, h('h2', {class: 'hidden'}, 'Curves'),
                 h('div', {class: 'bar'}, controls.slice(0, 3).map((c) => c.element)), controls[3].element),
               missing, charts, names.length ? '' : note('The runs have no lines yet.'));
  return () => {
    controls.forEach((c) => c.update());
    missing.hidden = !lost.length || state.x !== 'epoch';
    showCharts(charts, names.map((name) => metricChart(name)));
  };
}

// ---------------------------------------------------------------- view: diagnostics

// "diagnose.blocks.0.attn.cosine" -> {place: "blocks.0.attn", kind: "cosine", block: 0, site: "attn"}
function parseQuantity(name) {
  const parts = name.replace(/^diagnose\./, '').split('.'), kind = parts.pop(), place = parts.join('.');
  const match = /^(.*?\.)?(\d+)(?:\.(.*))?$/.exec(place);
  return {name, kind, place, block: match ? Number(match[2]) : null, site: match?.[3] ?? ''};
}

// By kind, the quantities in the order of depth; those without a block are last.
function quantitiesByKind() {
  const names = distinct(data.runs.flatMap((run) => Object.keys(run.diagnose))).filter((name) => !kNoMetric.has(name));
  const order = (q) => q.block ?? (q.place ? 1e6 : 2e6);
  const all = names.map(parseQuantity);
  all.sort((a, b) => order(a) - order(b) || a.place.localeCompare(b.place, 'en', {numeric: true}));
  const kinds = new Map();
  for (const q of all) kinds.set(q.kind, [...kinds.get(q.kind) ?? [], q]);
  return kinds;
}

// A quantity's line: the colour tells the block, the dash what of the block it is.
function lineOfQuantity(group, quantity, quantities) {
  const last = Math.max(1, ...quantities.map((q) => q.block ?? 0));
  const site = distinct(quantities.map((q) => q.site)).indexOf(quantity.site);
  const colour = quantity.block === null ? 'var(--quiet)' : rampColour(quantity.block / last);
  const name = quantity.place || 'whole network';
  return {...curveOf(group, 'diagnose', quantity.name, state.x), sd: null, label: name, name, kind: 'train',
          kindName: group.label, colour, dash: kDashes[site % kDashes.length], marker: 'circle'};
}

function overTraining(kind, quantities) {
  const charts = shownGroups().map((group) => ({
    title: group.label, hint: kind + (group.runs.length > 1 ? `, mean of ${group.runs.length} runs` : ''), of: 'place',
    file: `${kind}-${group.label}`, xName: state.x, xLabel: `${state.x}s`, log: state.y === 'log',
    lines: quantities.map((q) => lineOfQuantity(group, q, quantities))
  }));
  const range = rangeOf(charts.flatMap((chart) => chart.lines), state.y === 'log');
  return charts.filter((chart) => chart.lines.some((line) => line.y.some(isNumber)))
      .map((chart) => ({...chart, range}));  // one y axis, so that groups compare
}

// The values of the quantities at the last diagnose line that is not after `step`.
function overDepth(kind, quantities, step) {
  const places = quantities.filter((q) => q.place);
  const short = places.map((q) => q.block === null ? q.place : [q.block, q.site].filter((p) => p !== '').join('.'));
  const lines = shownGroups().map((group) => {
    const at = places.map((q) => {
      const curve = curveOf(group, 'diagnose', q.name, 'step'), i = curve.x.findLastIndex((x) => x <= step);
      return i < 0 ? meanOf([]) : {mean: curve.y[i], sd: curve.sd[i], n: curve.n[i]};
    });
    return {...lookOf(group.number), label: group.label, name: group.label, kind: 'eval', kindName: `step ${step}`,
            x: places.map((_, i) => i), y: at.map((m) => m.mean), sd: at.map((m) => m.sd), n: at.map((m) => m.n)};
  });
  return [{title: `${kind} at step ${step}`, file: `${kind}-step-${step}`, xName: 'place', height: 340, ticks: short,
           xLabel: places.some((q) => q.site) ? 'joins, in order of depth' : 'blocks, in order of depth',
           log: state.y === 'log', lines: lines.filter((line) => line.y.some(isNumber))}];
}

// What the lines of the charts over training mean: the colours of the blocks, the dashes of the joins.
function scaleKey(quantities) {
  const blocks = distinct(quantities.map((q) => q.block)).filter((b) => b !== null), last = Math.max(1, ...blocks);
  const sites = distinct(quantities.map((q) => q.site)).filter(Boolean), quiet = {colour: 'var(--quiet)', dash: ''};
  const others = quantities.filter((q) => q.block === null).map((q) => q.place || 'whole network');
  return [
    blocks.length > 1 && h('span', {class: 'scale'}, `block ${blocks[0]}`, h('span', {},
      blocks.map((b) => h('i', {style: `background: ${rampColour(b / last)}`}))), `block ${blocks.at(-1)}`),
    sites.length > 1 && sites.map((site, i) => h('span', {class: 'scale'},
      sample({...quiet, dash: kDashes[i % kDashes.length]}, 'train'), site)),
    others.length > 0 && h('span', {class: 'scale'}, sample(quiet, 'train'), short(others.join(', ')))
  ];
}

function diagnosticsView(panel) {
  const kinds = quantitiesByKind(), names = [...kinds.keys()].sort();
  const steps = distinct(data.runs.flatMap((run) => run.diagnose.step ?? [])).sort((a, b) => a - b);
  const kindNow = () => kinds.has(state.kind) ? state.kind : kinds.has('cosine') ? 'cosine' : names[0];
  const stepNow = () => {
    const i = state.at === '' ? -1 : steps.findLastIndex((step) => step <= Number(state.at));
    return i < 0 ? steps.length - 1 : i;
  };
  const select = h('select', {onchange: () => go({kind: select.value})},
                   names.map((name) => h('option', {value: name}, name)));
  const view = choice('diagnose', 'view', 'View', [['training', 'Over training'], ['depth', 'Over depth']]);
  const x = xChoice('diagnose'), y = yChoice('diagnose');
  const step = slider('Step', steps.length - 1, stepNow, (i) => ({at: String(steps[i])}),
                      () => steps[stepNow()].toLocaleString('en'));
  const keys = legend(false), charts = h('div', {class: 'charts'}), scale = h('div', {class: 'bar'});
  panel.append(h('div', {class: 'bars'}, h('h2', {class: 'hidden'}, 'Diagnostics'),
    h('div', {class: 'bar'}, h('label', {class: 'control'}, h('span', {}, 'Quantity'), select),
      view.element, step.element, x.element, y.element), keys.element, scale), charts);
  return () => {
    const kind = kindNow(), quantities = kinds.get(kind), depth = state.view === 'depth';
    select.value = kind;
    [view, x, y, step, keys].forEach((c) => c.update());
    step.element.hidden = !depth;
    x.element.hidden = scale.hidden = depth;
    scale.replaceChildren(...scaleKey(quantities).flat().filter(Boolean));
    scale.hidden ||= !scale.firstChild;
    charts.className = depth ? 'charts wide' : 'charts small';
    if (depth && !quantities.some((q) => q.place))
      charts.replaceChildren(note(`${kind} is a quantity of the whole network: it has no values over depth.`));
    else showCharts(charts, depth ? overDepth(kind, quantities, steps[stepNow()]) : overTraining(kind, quantities));
  };
}

// ---------------------------------------------------------------- view: pictures

function picturesView(panel) {
  const figure = (run, {epoch, png}) => h('figure', {},
    h('img', {src: png, alt: `Evaluation of ${run.name} after epoch ${epoch}`, loading: 'lazy'}),
    h('figcaption', {}, `after epoch ${epoch} of ${run.epochs}`));
  const shown = groups.filter((group) => group.runs.some((run) => run.pictures.length));
  const lists = shown.map((group) => h('section', {}, h('h2', {}, short(group.label, 120)),
    group.runs.filter((run) => run.pictures.length).map((run) => [
      h('h3', {class: 'run-name'}, run.name),
      h('div', {class: 'pictures'}, run.pictures.map((picture) => figure(run, picture)))
    ])));
  const keys = legend(false);
  panel.append(h('div', {class: 'bars'}, h('h2', {class: 'hidden'}, 'Pictures'), keys.element), ...lists);
  return () => {
    keys.update();
    lists.forEach((list, i) => { list.hidden = isHidden(shown[i]); });
  };
}

// ---------------------------------------------------------------- view: recipes

// The value that most columns have, which the others differ from.
function commonest(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].reduce((a, b) => b[1] > a[1] ? b : a)[0];
}

// A table of {key, values by run}; a column is {title, runs}. Cells that differ from the usual value are marked.
function valuesTable(rows, columns) {
  const row = ({key, values}) => {
    const texts = columns.map((c) => distinct(c.runs.map((r) => values[r] ?? 'not set')).join(', '));
    const usual = commonest(texts);
    return h('tr', {}, h('th', {scope: 'row'}, key),
             texts.map((text) => h('td', {class: text === usual ? null : 'differs'}, text === '' ? '""' : text)));
  };
  return h('table', {class: 'recipes-table'},
    h('thead', {}, h('tr', {}, ['key', ...columns.map((c) => c.title)].map((text) => h('th', {scope: 'col'}, text)))),
    h('tbody', {}, rows.map(row)));
}

function environmentTable() {
  const keys = distinct(data.runs.flatMap((run) => Object.keys(run.environment ?? {})));
  const rows = keys.map((key) => ({key, values: data.runs.map((run) => run.environment?.[key] ?? null)}));
  const same = rows.every((row) => distinct(row.values).length === 1), all = data.runs.map((_, r) => r);
  return valuesTable(rows, same ? [{title: data.runs.length > 1 ? 'all runs' : 'value', runs: all}] :
                                  data.runs.map((run, r) => ({title: run.name, runs: [r]})));
}

function recipesView(panel) {
  const several = data.runs.length > 1;
  const box = (name, table) => h('div', {class: 'table-box', tabindex: 0, role: 'region', 'aria-label': name}, table);
  const byGroup = data.groups.map((g) => ({title: short(g.label), runs: g.runs}));
  panel.append(...[
    several && h('h2', {}, 'Differences between recipes'),
    several && (data.differences.length ? box('Differences', valuesTable(data.differences, byGroup)) :
                                          note('The recipes are the same.')),
    h('h2', {}, several ? 'Recipes' : 'Recipe'),
    ...data.runs.map((run) => h('details', {class: 'recipe', open: !several},
      h('summary', {}, h('code', {}, run.name), ' ', h('span', {class: 'quiet'}, run.path)),
      h('pre', {tabindex: 0, role: 'region', 'aria-label': `Recipe of ${run.name}`}, run.recipe))),
    h('h2', {}, 'Environment'), box('Environment', environmentTable())
  ].filter(Boolean));
}

// ---------------------------------------------------------------- header, tabs and keys

function drawHeader() {
  const {runs} = data, plugins = distinct(runs.flatMap((run) => run.plugins)), [run] = runs;
  const fact = (key, value, type) => h('div', {class: type}, h('dt', {}, key), h('dd', {}, value));
  $('model').textContent = distinct(runs.map((r) => r.model)).join(', ');
  $('facts').append(...[
    runs.length === 1 ? [fact('run', run.name), fact('seed', String(run.seed))] :
                        fact('runs', `${count(runs.length, 'run')} in ${count(groups.length, 'group')}`),
    plugins.length ? plugins.map((name) => fact('plugin', name, 'plugin')) : fact('plugin', 'none'),
    fact('Rewire', data.version)
  ].flat());
}

function drawTabs() {
  kTabs.forEach(({id, title}, i) => {
    $('tabs').append(h('button', {type: 'button', role: 'tab', id: `tab-${id}`, 'aria-controls': `panel-${id}`,
                                  'aria-keyshortcuts': String(i + 1), onclick: () => openTab(id)}, title));
    $('panels').append(h('div', {role: 'tabpanel', id: `panel-${id}`, class: 'panel', 'aria-labelledby': `tab-${id}`,
                                 tabindex: 0, hidden: true}));
  });
  $('tabs').addEventListener('focusin', (event) => {
    // Arrow keys open the view that they reach; a click does it by itself.
    const tab = event.target.closest('[role=tab]')?.id.slice('tab-'.length);
    if (tab && event.target.matches(':focus-visible')) openTab(tab);
  });
}

const openTab = (tab) => { if (tab !== state.tab) go({tab}); };

function markTabs() {
  for (const {id} of kTabs) {
    $(`tab-${id}`).setAttribute('aria-selected', String(id === state.tab));
    $(`panel-${id}`).hidden = id !== state.tab;
  }
  roving($('tabs'), '[role=tab]');
}

function setUpKeys() {
  const help = $('help');
  const showHelp = () => { if (!help.open) help.showModal(); };
  $('help-open').addEventListener('click', showHelp);
  help.addEventListener('click', (event) => { if (event.target === help) help.close(); });
  $('skip').addEventListener('click', () => $(`panel-${state.tab}`).focus());
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open || event.target.matches('select')) return;
    if (event.key === '?') { event.preventDefault(); showHelp(); }
    else if (event.key === 'Escape') closeReading();
    else if (/^[1-9]$/.test(event.key) && kTabs[event.key - 1]) {
      openTab(kTabs[event.key - 1].id);
      $(`tab-${state.tab}`).focus();
    }
  });
}

// ---------------------------------------------------------------- start

setUpTheme();
drawHeader();
drawTabs();
setUpKeys();
addEventListener('hashchange', apply);
addEventListener('resize', () => {
  closeReading();
  drawnCharts.filter((chart) => chart.plot.isConnected && chart.plot.clientWidth).forEach(drawChart);
});
apply();
markReady();

})();
