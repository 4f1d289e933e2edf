// The views: summary, curves, diagnostics, pictures, recipes.

// ---------------------------------------------------------------- view: summary

function epochText(runs) {
  const done = runs.map((run) => String(Math.floor(epochsDone(run) * 10 + 1e-6) / 10));
  const range = distinct(done.sort((a, b) => a - b)), of = distinct(runs.map((run) => run.epochs)).join('/');
  return `${range[0]}${range.length > 1 ? `–${range.at(-1)}` : ''} of ${of}`;
}

const finite = (values) => (values ?? []).filter(isNumber);
const best = (values, name) => directionOf(name) === 'lower' ? Math.min(...values) : Math.max(...values);
const over = (runs, column) => {
  const mean = meanOf(runs.map(column.of).filter(isNumber));
  return column.whole ? {...mean, mean: column.whole(runs)} : mean;
};

// All images over all seconds of the runs, by their lines: a mean of rates counts a slow line too little.
function speedOf(runs) {
  let steps = 0, time = 0;  // in steps, which have equally many images, and in units of an image's
  for (const {train} of runs) {
    (train.samples_per_s ?? []).forEach((rate, i) => {
      const done = train.step[i] - (train.step[i - 1] ?? 0);
      if (!isNumber(rate) || rate <= 0 || done <= 0) return;
      steps += done;
      time += done / rate;
    });
  }
  return time ? steps / time : null;
}

// What the summary is of: evaluations, or training where no run has one.
const kFigures = kEval.length ? {kind: 'eval', names: kEval} :
    {kind: 'train', names: kTrain.filter((name) => directionOf(name) && name !== 'samples_per_s')};

// The columns of figures: the final and the best value of each metric, and the speed.
function figureColumns() {
  const {kind, names} = kFigures, last = kind === 'eval' ? 'final' : 'latest';
  const values = (run, name) => finite(run[kind][name]), speed = 'samples_per_s';
  const bestOf = (name) => (run) => values(run, name).length ? best(values(run, name), name) : null;
  const columns = names.flatMap((name) => [
    {id: `${name}.final`, title: last, name, first: true, of: (run) => values(run, name).at(-1)},
    ...directionOf(name) ? [{id: `${name}.best`, title: 'best', name, of: bestOf(name)}] : []
  ]);
  columns.push({id: 'speed', title: 'samples/s', name: speed, first: true, of: (run) => speedOf([run]), whole: speedOf});
  return columns.map((c) => ({...c, value: (group) => over(group.runs, c).mean}));
}

function summaryTable(figures) {
  const open = new Set(), sorting = {id: '', down: false};
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
  // Better than every other group, by more than the seeds scatter by.
  const wins = (group, column) => {
    const others = groups.filter((g) => g !== group && isNumber(column.value(g)));
    const differences = others.map((other) => pairedDifference(other, group, column));
    return directionOf(column.name) && others.length > 0 && differences.every((d) => separates(d) && isBetter(column, d));
  };
  const cells = (runs, group) => {
    const ended = runs.filter((run) => run.ended).length, all = ended === runs.length;
    return [
      {text: String(runs.length), type: 'n'},
      {text: distinct(runs.map((run) => run.seed)).join(', '), type: 'seeds'},
      {text: epochText(runs), type: 'n'},
      {text: all ? 'yes' : runs.length === 1 ? 'no' : `${ended} of ${runs.length}`, type: all ? null : 'running'},
      ...figures.map((c) => {
        const marked = Boolean(group && wins(group, c));
        return {text: meanText(over(runs, c)), type: `n${c.first ? ' first' : ''}${marked ? ' best' : ''}`, marked};
      })
    ];
  };
  const rowsOf = (group) => {
    const isOpen = open.has(group);
    const button = h('button', {type: 'button', class: 'toggle', 'aria-expanded': String(isOpen), onclick: () => {
      if (!open.delete(group)) open.add(group);
      drawRows();
      body.querySelector(`[data-group="${group.number}"] button`).focus();
    }, title: group.label}, sample(lookOf(group.number)), short(group.label));
    const row = (type, title, rest) =>
        h('tr', {class: type, 'data-group': group.number}, h('th', {scope: 'row'}, title),
          rest.map((cell) => h('td', {class: cell.type}, cell.text)));
    const runs = isOpen ? group.runs.map((run) => row('run', run.name, cells([run]))) : [];
    return [row('group', button, cells(group.runs, group)), ...runs];
  };
  const drawRows = () => body.replaceChildren(...sorted().flatMap(rowsOf));
  drawRows();
  const both = {rowspan: 2}, metrics = figures.filter((c) => c.id !== 'speed');
  const model = () => ({
    head: ['group', 'runs', 'seeds', 'epochs', 'ended', ...figures.map((c) => c.id === 'speed' ? c.title : `${c.name} ${c.title}`)],
    rows: sorted().map((group) => [{text: group.label}, ...cells(group.runs, group)])
  });
  const table = h('table', {class: 'summary-table'}, h('thead', {},
    h('tr', {}, head('label', 'group', both), head('runs', 'runs', {...both, class: 'n'}),
      h('th', {...both, scope: 'col'}, 'seeds'), head('epochs', 'epochs', {...both, class: 'n'}),
      h('th', {...both, scope: 'col'}, 'ended'),
      kFigures.names.map((name) => h('th', {colspan: metrics.filter((c) => c.name === name).length, scope: 'colgroup',
                                            class: 'first'}, name, kFigures.kind === 'train' && ' (training)',
        h('span', {class: 'quiet'}, ` ${directionText(name)}`))),
      head('speed', 'samples/s', {...both, class: 'n first'})),
    h('tr', {}, metrics.map((c) => head(c.id, c.title, {class: c.first ? 'n first' : 'n'})))), body);
  return {table, model};
}

function summaryView(panel) {
  const running = data.runs.filter((run) => !run.ended).map((run) => run.name);
  const keys = legend(false), charts = h('div', {class: 'charts'});
  const figures = figureColumns(), summary = summaryTable(figures), differences = differencesOf(figures);
  const box = (name, {table}) => h('div', {class: 'table-box', tabindex: 0, role: 'region', 'aria-label': name}, table);
  panel.append(...[
    h('h2', {class: 'hidden'}, 'Summary'),
    running.length && note(
        `${count(running.length, 'run has', 'runs have')} not ended: ${running.slice(0, 4).join(', ')}`,
        `${running.length > 4 ? ', …' : ''}. Final values are the latest ones.`),
    data.mixed_data.length && note(h('strong', {}, 'Data: '), `${data.mixed_data.join('; ')}.`),
    kFigures.kind === 'train' && note('No run has been evaluated yet. The figures are from training.'),
    box('Summary table', summary),
    copyButtons('the summary', summary.model),
    note(groups.some((g) => g.runs.length > 1) && 'Figures are mean ± standard deviation (n − 1) over the runs of a group. ',
         differences?.hasInterval && 'Green marks a group whose figure differs from that of every other group (see below).'),
    ...differences ? [
      h('h2', {}, `Differences to ${short(differences.first.label)}`),
      box('Differences', differences),
      copyButtons('the differences', differences.model),
      note(differences.hasInterval ?
        'Mean differences between runs of the same seed, with 95 % intervals (Student’s t). A mark means that the interval ' +
        'excludes 0; it is green where the group is better. Other differences may be noise. An interval of zero width, from ' +
        'seeds that agree by chance, says nothing.' :
        'Differences for one seed. More seeds are needed to tell them from chance.')
    ] : [],
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
  const missing = note(`Not drawn by epoch, because no epoch is complete: ${lost.map((run) => run.name).join(', ')}.`);
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
