// The page of a report. In: one JSON object, in the element #data (docs/guide/reports.md). Out: what the page shows of it:
//   - a summary table: a row for each group of runs, and the curves of the evaluation;
//   - curves of all metrics, diagnostics, pictures and recipes.
// The state stands in location.hash: a control changes it with go(), and apply() draws the open view again. A view
// builds its panel once and returns a function that draws what depends on the state.
// A chart is {title, file, xName, xLabel, log, lines}, a line {label, name, kind, x, y, sd, n, colour, dash, marker};
// a smoothed line has what it was made from in raw and rawSd.

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
const kNoMetric = new Set(['epoch', 'step', 'samples', 'seconds']);
const kFirst = ['loss', 'plain_loss', 'top1', 'accuracy', 'top5', 'knn', 'grad_norm', 'lr', 'samples_per_s'];

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
