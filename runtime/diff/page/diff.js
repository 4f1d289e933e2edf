// Two networks or two runs beside each other.

const data = JSON.parse($('data').textContent);

const scale = (value, unit) => {
  const prefixes = ['', 'k', 'M', 'G', 'T'];
  let at = 0;
  for (; Math.abs(value) >= 1000 && at + 1 < prefixes.length; ++at) value /= 1000;
  return `${at ? value.toPrecision(3) : Math.round(value)} ${prefixes[at]}${unit}`;
};
const kUnits = {
  bytes: (v) => scale(v, 'B'), flops: (v) => scale(v, 'flop'), ms: (v) => `${v.toFixed(3)} ms`,
};
const shown = (value, unit) => {
  if (value === null || value === undefined) return '–';
  if (unit) return unit(value);
  return typeof value === 'number' ? String(Number(value.toPrecision(6))) : String(value);
};
const percent = (a, b) => typeof a === 'number' && typeof b === 'number' && a !== 0 && a !== b ?
    `${b > a ? '+' : ''}${((b / a - 1) * 100).toFixed(1)} %` : '';

const table = (type, head, rows) => h('table', {class: type},
    h('thead', {}, h('tr', {}, head.map((text, i) => h('th', {scope: 'col', class: i ? 'n' : undefined}, text)))),
    h('tbody', {}, rows.map((row) => h('tr', {}, row.map((cell, i) => i ? h('td', {class: 'n'}, cell) :
                                                                         h('th', {scope: 'row', class: 'mono'}, cell))))));

// Text stands left; three columns.
const texts = (rows) => h('table', {class: 'texts'},
    h('thead', {}, h('tr', {}, ['', 'A', 'B'].map((text) => h('th', {scope: 'col'}, text)))),
    h('tbody', {}, rows.map((row) => h('tr', {}, h('th', {scope: 'row', class: 'mono'}, row.key),
                                       h('td', {class: 'mono', 'data-side': 'A'}, shown(row.a)),
                                       h('td', {class: 'mono', 'data-side': 'B'}, shown(row.b))))));

// The content is made when the section is opened first.
function section(title, what, content, level = 'h2', open = false) {
  const body = h('div', {});
  const details = h('details', {}, h('summary', {}, h(level, {}, title), h('span', {class: 'quiet'}, what)), body);
  let made = false;
  const make = () => {
    if (made) return;
    made = true;
    body.append(...[content()].flat());
  };
  details.addEventListener('toggle', () => { if (details.open) make(); });
  if (open) { make(); details.open = true; }
  return details;
}

// What a line defines: lines of both sides that define one value stand in one row.
const defined = (line) => line.text.split(' = ')[0];

function rowsOf(gone, added) {
  const rows = [];
  let next = 0;
  for (const line of gone) {
    const match = added.findIndex((other, i) => i >= next && defined(other) === defined(line));
    for (; next < match; ++next) rows.push([null, added[next]]);
    rows.push([line, match < 0 ? null : added[next++]]);
  }
  for (; next < added.length; ++next) rows.push([null, added[next]]);
  return rows;
}

// Lines of both sides beside each other.
function sides(lines) {
  const cells = [];
  const cell = (line, type) => line ? h('code', {class: type}, `${line.sign} ${line.text}`) : h('code', {class: 'filler'});
  for (let i = 0; i < lines.length;) {
    if (lines[i].sign === ' ') {
      cells.push(cell(lines[i]), cell(lines[i], 'again'));
      ++i;
      continue;
    }
    const run = [];
    while (i < lines.length && lines[i].sign !== ' ') run.push(lines[i++]);
    const rows = rowsOf(run.filter((line) => line.sign === '-'), run.filter((line) => line.sign === '+'));
    for (const [left, right] of rows) cells.push(cell(left, 'removed'), cell(right, 'added'));
  }
  return h('div', {class: 'sides'}, cells);
}

// [[number of the first, the places of all that are like it]].
function alikeIn(list, placeOf) {
  const alike = new Map();
  for (const one of list) alike.set(one.like, [...(alike.get(one.like) ?? []), placeOf(one)]);
  return [...alike];
}

const placesText = (places) => [places[0] || 'no place', places.length > 1 &&
    h('span', {class: 'quiet', title: places.join(', ')}, ` and ${places.length - 1} more like it`)];

const hunks = (list) => alikeIn(list, (hunk) => hunk.at).map(([first, places]) => h('div', {class: 'hunk'},
    h('p', {class: 'mono'}, placesText(places)), sides(list[first].lines)));

const isSame = (stage) => !stage.functions.length && !stage.declarations.length;

function stageSection(name, stage, open) {
  const what = `${stage.ops[0]} → ${stage.ops[1]} ops, ${stage.gone} lines removed, ${stage.added} added`;
  return section(name, what, () => [
    stage.declarations.length ? texts(stage.declarations) : [],
    stage.functions.map((f) => [h('h3', {}, f.name), hunks(f.hunks)])
  ].flat(Infinity), 'h2', open);
}

const launchName = ({name: [a, b]}) => a === null || b === null || a === b ? a ?? b : `${a} → ${b}`;

const both = ([a, b], unit) => a === b ? shown(a, unit) : `${shown(a, unit)} → ${shown(b, unit)}`;

function launchSection() {
  const {rows, codes} = data.kernels;
  return section('Launches', count(rows.length, 'launch differs', 'launches differ'), () => [
    table('launches', ['launch', 'status', 'bytes', 'flops', 'time'], rows.map((row) => [
      launchName(row), row.status, both(row.bytes, kUnits.bytes), both(row.flops, kUnits.flops), both(row.ms, kUnits.ms)])),
    codes.map((code, i) => {
      const of = rows.filter((row) => row.code === i);
      return section(launchName(of[0]), `tile IR, ${of[0].status}${of.length > 1 ? `, ${of.length} launches` : ''}`,
                     () => hunks(code.hunks), 'h3');
    })
  ].flat());
}

const summaryRow = (key, a, b, unit) => [key, shown(a, unit), shown(b, unit), percent(a, b)];

function drawNetworks(main) {
  const {stages, kernels, memory, joins, choices} = data;
  const stageRows = Object.entries(stages).map(([name, stage]) => summaryRow(`${name}: ops`, ...stage.ops));
  const totals = kernels.totals.filter((row) => row.a !== null && row.b !== null)
                     .map((row) => summaryRow(row.key, row.a, row.b, kUnits[row.key]));
  main.append(table('summary', ['', 'A', 'B', 'change'],
                    [...stageRows, ...totals, ...memory.map((row) => summaryRow(row.key, row.a, row.b, kUnits.bytes))]));
  if (data.about.length) main.append(section('About', '', () => texts(data.about), 'h2', true));
  if (joins.length) main.append(section('Joins', `${joins.length} with a different formula`, () => texts(
      alikeIn(joins, (row) => row.key).map(([first, places]) => ({...joins[first], key: placesText(places)}))), 'h2', true));
  let open = true;
  for (const [name, stage] of Object.entries(stages)) {
    if (isSame(stage)) continue;
    main.append(stageSection(name, stage, open));
    open = false;
  }
  if (kernels.rows.length) main.append(launchSection());
  if (kernels.times.length) main.append(section('Times of unchanged launches', '', () => table(
      '', ['launch', 'A', 'B', 'change'], kernels.times.map((row) => summaryRow(row.name, ...row.ms, kUnits.ms)))));
  if (choices?.length) main.append(section('Choices', '', () => texts(choices)));
}

const kMetricHead = ['metric', 'final', 'best', 'differ at'];

const metricRow = (row) => [`${row.kind} ${row.name}`, both(row.final), both(row.best), row.part ? `step ${row.part.step}` : ''];

function drawRuns(main) {
  const speed = data.speed.filter((row) => row.name === 'samples_per_s');
  const shownFirst = data.metrics.filter((row) => row.kind !== 'diagnose');
  main.append(table('summary', kMetricHead, [...shownFirst, ...speed.map((row) => ({...row, part: null}))].map(metricRow)));
  const diagnosed = data.metrics.filter((row) => row.kind === 'diagnose');
  if (diagnosed.length) main.append(section('Diagnostics', '', () => table('', kMetricHead, diagnosed.map(metricRow))));
  for (const key of ['recipe', 'plugins', 'environment', 'choices']) {
    if (data[key].length) main.append(section(key[0].toUpperCase() + key.slice(1), '', () => texts(data[key]), 'h2', true));
  }
}

const fact = (key, value) => h('div', {}, h('dt', {}, key), h('dd', {}, value));
$('title').textContent = data.same ? 'No difference' : data.kind === 'runs' ? 'Two runs' : 'Two networks';
$('facts').append(fact('A', data.a), fact('B', data.b));
$('skip').addEventListener('click', () => $('main').focus());
setUpTheme();
if (data.kind === 'runs') drawRuns($('main'));
else drawNetworks($('main'));
markReady();
