// The explorer's page. In: one JSON object, in the element #data (docs/explore.md). Out: what the page shows of it:
//   - the network as a drawing of the residual stream, which selects a place;
//   - seven views of the selected place: formula, IR, step, passes, kernels, memory, roofline;
//   - one kernel: its operations, its buffers and its texts side by side.
// The state is {place, tab, kernel, op} and stands in location.hash. Each link is an <a> with such a hash, so the way
// through the page is: a link changes the hash, apply() reads it, and what depends on what changed is drawn again.
// Views are built when they are first shown. Long lists are built in chunks while the browser is idle.
(() => {

const data = JSON.parse(document.getElementById('data').textContent);

// ---------------------------------------------------------------- small helpers

// 3 significant digits with an SI prefix: 7372800 -> "7.37 M".
function si(value, unit) {
  if (!Number.isFinite(value)) return '–';
  const prefixes = ['', 'k', 'M', 'G', 'T', 'P'];
  let power = 0;
  while (Math.abs(value) >= 999.5 && power + 1 < prefixes.length) { value /= 1000; ++power; }
  const digits = power === 0 && Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(3)));
  return `${digits} ${prefixes[power]}${unit}`.trimEnd();
}

const bytes = (value) => si(value, 'B');
function number3(value) {
  if (!Number.isFinite(value)) return '–';
  return value >= 1000 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(3)));
}

function ms(value) {
  if (value === null || value === undefined) return '–';
  return value.toFixed(value < 0.1 ? 4 : value < 10 ? 3 : 1);
}

// Adds places where a long name may wrap.
function breakable(text) {
  return text.split(/(?<=[._])/).flatMap((part, i) => i === 0 ? [part] : [h('wbr'), part]);
}

function pushTo(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value); else map.set(key, [value]);
}

// ---------------------------------------------------------------- places

// Is the place `at` the place `place` or one of its subplaces? All places are in ''.
const isUnder = (at, place) => place === '' || at === place || at.startsWith(place + '.');

const withoutOptimizer = (at) => at.startsWith('optimizer.') ? at.slice('optimizer.'.length) : at;

// As isUnder, but the optimizer's update of a place's parameters belongs to the place too.
const concerns = (at, place) => isUnder(at, place) || isUnder(withoutOptimizer(at), place);

const parentOf = (at) => at.includes('.') ? at.slice(0, at.lastIndexOf('.')) : '';

const kPhases = [
  ['forward', 'Forward'], ['recomputed', 'Recomputed for the gradient'], ['gradient', 'Gradient'],
  ['optimizer', 'Optimizer']
];

// Which part of a training step a place belongs to.
function phaseOf(at) {
  const parts = at.split('.');
  if (parts[0] === 'optimizer' || parts[0] === 'adamw' || parts[0] === 'sgd') return 'optimizer';
  if (parts.includes('grad')) return 'gradient';
  if (parts.includes('recomputed')) return 'recomputed';
  return 'forward';
}

const blockOfJoin = (join) => join.at.endsWith('.' + join.site) ? parentOf(join.at) : join.at;

const placeName = (at) => at === '' ? 'no place' : at;

// ---------------------------------------------------------------- indices over the data

// "mul at blocks.0.attn" -> {op: "mul", at: "blocks.0.attn"}
function parseMemberOp(text) {
  const cut = text.indexOf(' at ');
  return cut < 0 ? {op: text, at: ''} : {op: text.slice(0, cut), at: text.slice(cut + 4)};
}

const opsOf = (stage) => (stage?.functions ?? []).flatMap((f) => f.ops);

const index = buildIndex();

function buildIndex() {
  const out = {
    stepOps: opsOf(data.step),
    irOps: opsOf(data.ir),
    rewrittenOps: opsOf(data.rewritten),
    stepByPlace: new Map(),      // place -> numbers of ops of the step
    launchesByPlace: new Map(),  // place -> Set of launches
    launchesByOp: new Map(),     // "mul at PLACE" -> Set of launches
    unlistedByPlace: new Map(),  // place -> launches that list no operations: products, attention
    placeOf: [],                 // the place of each launch
    launchesByCode: new Map(),
    writers: new Map(),
    readers: new Map(),
    launchOfName: new Map(),
    keys: [],  // a name for each launch that no other launch has
    places: new Set(),
    prefixes: new Set(),
    timed: data.launches.some((l) => l.ms !== null && l.ms !== undefined),
  };
  out.stepOps.forEach((op, i) => pushTo(out.stepByPlace, op.at, i));
  const names = new Map();
  for (const l of data.launches) names.set(l.name, (names.get(l.name) ?? 0) + 1);
  const addTo = (map, key, i) => { if (!map.has(key)) map.set(key, new Set()); map.get(key).add(i); };
  data.launches.forEach((launch, i) => {
    out.keys.push(names.get(launch.name) > 1 ? `${launch.name}@${i}` : launch.name);
    if (launch.code >= 0) pushTo(out.launchesByCode, launch.code, i);
    for (const member of launch.members) {
      for (const text of member.ops) {
        const op = parseMemberOp(text);
        addTo(out.launchesByPlace, op.at, i);
        addTo(out.launchesByOp, op.op + ' at ' + op.at, i);
      }
      member.reads.forEach((b) => addTo(out.readers, b, i));
      member.writes.forEach((b) => addTo(out.writers, b, i));
      if (!out.launchOfName.has(member.name)) out.launchOfName.set(member.name, i);
    }
  });
  data.launches.forEach((l, i) => { if (names.get(l.name) === 1) out.launchOfName.set(l.name, i); });
  out.keys.forEach((key, i) => out.launchOfName.set(key, i));
  for (const ops of [out.irOps, out.rewrittenOps, out.stepOps]) for (const op of ops) if (op.at) out.places.add(op.at);
  for (const launch of data.launches) if (launch.at) out.places.add(launch.at);
  for (const join of data.joins) out.places.add(join.at);
  for (const place of out.places) for (let p = place; p !== ''; p = parentOf(p)) out.prefixes.add(p);
  data.launches.forEach((launch, i) => {
    const place = placeOfLaunch(launch, out.prefixes);
    out.placeOf.push(place);
    addTo(out.launchesByPlace, place, i);
    if (launch.members.every((m) => !m.ops.length)) pushTo(out.unlistedByPlace, place, i);
  });
  return out;
}

// The nearest place that exists: a buffer or a parameter is named after a place and what it is there.
function nearestPlace(name, prefixes = index.prefixes) {
  for (let p = name; p !== ''; p = parentOf(p)) if (prefixes.has(p)) return p;
  return '';
}

// The launch's own place, else that of its operations, else that of the buffer that it writes.
function placeOfLaunch(launch, prefixes) {
  const [member] = launch.members;
  return launch.at || parseMemberOp(member?.ops[0] ?? '').at ||
      nearestPlace(data.buffers[member?.writes[0]]?.name ?? '', prefixes);
}

function launchConcerns(i, place) {
  return place === '' || concerns(index.placeOf[i], place)
      || data.launches[i].members.some((m) => m.ops.some((op) => concerns(parseMemberOp(op).at, place)));
}

// Operations that a launch need not compute: they only name or move elements.
const kMovement =
    new Set(['load', 'store', 'constant', 'index', 'reshape', 'broadcast', 'transpose', 'slice', 'param', 'state']);

// The launches that compute an operation of the step. Those that list none compute what no other at their place does.
function launchesOfOp(op) {
  const listed = index.launchesByOp.get(op.op + ' at ' + op.at);
  return listed ? [...listed] : kMovement.has(op.op) || op.at === '' ? [] : index.unlistedByPlace.get(op.at) ?? [];
}

// A product's name is its sizes, which many have; so its place belongs to its title.
const launchTitle = (i) => data.launches[i].kind === 'product' ?
    `${data.launches[i].name} at ${placeName(index.placeOf[i])}` :
    data.launches[i].name;

// ---------------------------------------------------------------- state in location.hash

const kTabs = [
  {id: 'formula', title: 'Formula', build: formulaView},
  {id: 'ir', title: 'IR', build: irView},
  {id: 'step', title: 'Step', build: stepView},
  {id: 'passes', title: 'Passes', build: passesView},
  {id: 'kernels', title: 'Kernels', build: kernelsView},
  {id: 'memory', title: 'Memory', build: memoryView},
  {id: 'roofline', title: 'Roofline', build: rooflineView, absent: !data.ceilings},
].filter((tab) => !tab.absent);

let state = {place: '', tab: 'formula', kernel: '', op: ''};

function encode(next) {
  const parts = [];
  const keep = (value) => encodeURIComponent(value).replace(/%3A/g, ':').replace(/%40/g, '@');
  for (const key of ['place', 'tab', 'kernel', 'op']) if (next[key]) parts.push(`${key}=${keep(next[key])}`);
  return '#' + parts.join('&');
}

// A hash without a tab keeps the tab; one with a kernel alone keeps the place too. Unknown names are left out.
function decode(hash, before) {
  const given = new URLSearchParams(hash.replace(/^#/, '').replace(/\+/g, '%2B'));
  const kernel = index.launchOfName.has(given.get('kernel')) ? given.get('kernel') : '';
  const place = given.has('place') ? nearestPlace(given.get('place')) : kernel ? before.place : '';
  const tab = kTabs.some((t) => t.id === given.get('tab')) ? given.get('tab') : before.tab;
  return {place, tab, kernel, op: given.get('op') ?? ''};
}

const hrefOf = (change) => encode({...state, kernel: '', op: '', ...change});
const placeHref = (place, tab) => encode({place, tab});
const kernelHref = (i) => encode({kernel: index.keys[i]});

function go(change) {
  location.hash = hrefOf(change);
  apply();
}

function apply() {
  const before = state;
  state = decode(location.hash, before);
  if (location.hash !== encode(state)) history.replaceState(null, '', encode(state));
  draw(before);
}

let drawnOnce = false;

function draw(before) {
  const changed = (key) => !drawnOnce || before[key] !== state[key];
  if (changed('place')) { drawSelection(); markNetwork(); }
  if (changed('tab')) markTabs();
  if (changed('kernel')) drawKernel(before.kernel);
  if (!state.kernel) drawPanel();
  drawnOnce = true;
}

// ---------------------------------------------------------------- links and lists

const placeLink = (place, tab = 'step', text = placeName(place)) => place === '' ?
    h('span', {class: 'quiet'}, text) :
    h('a', {href: placeHref(place, tab), class: 'place'}, breakable(text));

// `near`: the place beside which the link stands, which it need not repeat.
function launchLink(i, near) {
  const text = index.placeOf[i] === near ? data.launches[i].name : launchTitle(i);
  return h('a', {href: kernelHref(i), class: 'launch', title: `launch ${i}: ${launchTitle(i)}`},
    h('span', {class: 'order'}, `#${i}`), ' ', h('span', {class: 'name'}, text));
}

// At most `limit` of the links; the rest behind a button.
function someOf(items, make, limit) {
  const box = h('span', {class: 'some'}, items.slice(0, limit).map((item) => [make(item), ' ']));
  if (items.length > limit) {
    box.append(h('button', {type: 'button', class: 'more', onclick: (event) => {
      event.target.replaceWith(...items.slice(limit).flatMap((item) => [make(item), ' ']));
    }}, `and ${items.length - limit} more`));
  }
  return box;
}

// Makes a list one stop of the Tab key, inside which arrow keys, j and k move.
function roving(container, selector, orientation = 'both') {
  container.dataset.roving = '';
  const items = () => [...container.querySelectorAll(selector)].filter((item) => item.getClientRects().length);
  const current = container.querySelector(`${selector}[aria-current="true"], ${selector}[aria-selected="true"]`);
  for (const item of container.querySelectorAll(selector)) item.setAttribute('tabindex', -1);
  (current ?? container.querySelector(selector))?.setAttribute('tabindex', 0);
  if (container.rovingReady) return;
  container.rovingReady = true;
  const back = orientation === 'horizontal' ? ['ArrowLeft'] : ['ArrowUp', 'ArrowLeft', 'k'];
  const forth = orientation === 'horizontal' ? ['ArrowRight'] : ['ArrowDown', 'ArrowRight', 'j'];
  container.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !event.target.matches(selector)) return;
    const list = items(), at = list.indexOf(event.target);
    const to = forth.includes(event.key) ? at + 1 : back.includes(event.key) ? at - 1
      : event.key === 'Home' ? 0 : event.key === 'End' ? list.length - 1 : -1;
    if (to < 0 || to >= list.length) return;
    event.preventDefault();
    list[to].focus();
  });
  container.addEventListener('focusin', (event) => {
    const item = event.target.closest(selector);
    if (!item) return;
    container.querySelectorAll(`${selector}[tabindex="0"]`).forEach((other) => other.setAttribute('tabindex', -1));
    item.setAttribute('tabindex', 0);
  });
}

const kChunk = 120;

// Builds rows in chunks: the first one now, the others when the browser is idle. Returns a function that builds the
// chunk of a given row at once.
function chunked(container, rows, make, rowHeight = 20, size = kChunk) {
  const chunks = [];
  for (let from = 0; from < rows.length; from += size) {
    const part = rows.slice(from, from + size);
    const box = h('div', {
      class: 'chunk',
      style: `contain-intrinsic-height: auto ${part.length * rowHeight}px; min-height: ${part.length * rowHeight}px`
    });
    container.append(box);
    chunks.push(() => {
      if (!box.style.minHeight) return;
      box.append(...part.map((row, i) => make(row, from + i)));
      box.style.minHeight = '';
    });
  }
  chunks[0]?.();
  let next = 1;
  const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 10));
  const work = () => {
    if (next >= chunks.length || !container.isConnected && next > 2) return;
    chunks[next++]();
    idle(work);
  };
  idle(work);
  return (row) => chunks[Math.floor(row / size)]?.();
}

// A checkbox with its label.
function check(label, checked, onchange) {
  return h(
      'label', {class: 'check'},
      h('input', {type: 'checkbox', checked, onchange: (e) => onchange(e.target.checked)}), h('span', {}, label));
}

// One choice of several, as radio buttons in a row.
function choice(name, label, options, chosen, onchange) {
  return h(
      'fieldset', {class: 'choice'}, h('legend', {}, label),
      options.map(
          ([value, text]) => h(
              'label', {},
              h('input', {type: 'radio', name, value, checked: value === chosen, onchange: () => onchange(value)}),
              h('span', {}, text))));
}

const note = (...text) => h('p', {class: 'note'}, ...text);

// ---------------------------------------------------------------- text of the IR

const kIrToken = /(%[\w.]+)|("[^"]*")|(\b(?:bf16|[fiu]\d+)\[[^\]]*\])|(\{[^}]*\})/g;

// A line of IR with values, types, strings and attributes in their colours; the op's name is the first word after "=".
function irText(text) {
  const out = [];
  const name = /^(?:[^=]*? = )?(\w+)/.exec(text);
  const equal = name ? name[0].length - name[1].length : 0;
  let at = 0;
  const plain = (to) => {
    if (name && at <= equal && equal + name[1].length <= to) {
      out.push(text.slice(at, equal), h('span', {class: 'op'}, name[1]));
      at = equal + name[1].length;
    }
    if (to > at) out.push(text.slice(at, to));
    at = to;
  };
  for (const match of text.matchAll(kIrToken)) {
    plain(match.index);
    out.push(h('span', {class: match[1] ? 'value' : match[2] ? 'string' : match[3] ? 'type' : 'attribute'}, match[0]));
    at = match.index + match[0].length;
  }
  plain(text.length);
  return out;
}

// ---------------------------------------------------------------- header

function drawHeader() {
  $('model').textContent = data.model;
  const facts = [
    ['program', data.program], ['batch', data.batch], ['CPU', data.cpu], data.gpu && ['GPU', data.gpu]
  ].filter(Boolean);
  $('facts').append(...facts.map(([key, value]) => h('div', {}, h('dt', {}, key), h('dd', {}, String(value)))));
  for (const plugin of data.plugins) {
    $('facts').append(h('div', {class: 'plugin'}, h('dt', {}, 'plugin'), h('dd', {}, h('details', {},
      h('summary', {}, h('b', {}, plugin.name), plugin.version ? ` ${plugin.version}` : ''),
      h('div', {class: 'plugin-card'}, h('p', {}, plugin.doc), pluginValues(plugin))))));
  }
  document.addEventListener('click', (event) => {
    for (const open of $('facts').querySelectorAll('details[open]'))
      if (!open.contains(event.target)) open.open = false;
  });
  if (!data.plugins.length) $('facts').append(h('div', {}, h('dt', {}, 'plugin'), h('dd', {}, 'none')));
}

const pluginValues = (plugin) =>
    h('dl', {class: 'values'},
      Object.entries(plugin.values ?? {})
          .map(([key, value]) => h('div', {}, h('dt', {}, key), h('dd', {}, String(value)))));

// ---------------------------------------------------------------- network

// The parts of the network in order: {place, sites: [join]} for a block, {places} for what stands before or after.
function networkParts() {
  const blocks = new Map();
  for (const join of data.joins) {
    pushTo(blocks, blockOfJoin(join), join);
  }
  const blockOf = (at) => {
    for (let p = at; p !== ''; p = parentOf(p)) if (blocks.has(p)) return p;
    return '';
  };
  const parts = [], seen = new Set();
  for (const op of index.irOps) {
    if (op.at === '') continue;
    const block = blockOf(op.at);
    const place = block || rootOf(op.at, blocks);
    if (seen.has(place)) continue;
    seen.add(place);
    parts.push({place, sites: blocks.get(place) ?? []});
  }
  for (const [place, sites] of blocks) if (!seen.has(place)) parts.push({place, sites});
  return parts;
}

// The longest first part of a place that holds no block: patch_embed of patch_embed.proj, but backbone.norm.
function rootOf(at, blocks) {
  const parts = at.split('.');
  for (let n = 1; n < parts.length; ++n) {
    const place = parts.slice(0, n).join('.');
    if (![...blocks.keys()].some((block) => isUnder(block, place))) return place;
  }
  return at;
}

const kNetwork = {width: 236, stream: 30, box: 74, boxWidth: 112, site: 40, title: 24, part: 36};

function drawNetwork() {
  const parts = networkParts();
  const svg =
      s('svg', {class: 'net', role: 'group', 'aria-label': 'The residual stream, from the input to the output'});
  let y = 16;
  const top = y;
  const frames = [], body = [];
  for (const part of parts) {
    const drawn = part.sites.length ? drawBlock(part, y) : drawPart(part, y);
    if (drawn.frame) frames.push(drawn.frame);
    body.push(drawn.element);
    y += drawn.height;
  }
  const x = kNetwork.stream;
  svg.append(...frames,
    s('line', {class: 'stream', x1: x, x2: x, y1: top - 8, y2: y + 4}),
    s('path', {class: 'arrow', d: `M${x - 4.5} ${y + 2} L${x} ${y + 11} L${x + 4.5} ${y + 2} Z`}), ...body);
  svg.setAttribute('viewBox', `0 0 ${kNetwork.width} ${y + 16}`);
  svg.setAttribute('width', kNetwork.width);
  svg.setAttribute('height', y + 16);
  $('drawing').append(svg);
  const rewritten = data.joins.filter((j) => j.rewritten).length;
  $('drawing').append(
      h('p', {class: 'legend'}, h('span', {class: 'mark plain', 'aria-hidden': 'true'}, '+'),
        ` ${count(data.joins.length - rewritten, 'plain join')}`, h('br'),
        h('span', {class: 'mark accent', 'aria-hidden': 'true'}, '+'),
        ` ${count(rewritten, 'join')} rewritten by a plugin`));
  roving(svg, 'a.node');
}

function node(place, tab, label, classes, ...shapes) {
  return s(
      'a', {
        href: placeHref(place, tab),
        class: `node ${classes}`,
        'data-place': place,
        'data-tab': tab,
        'aria-label': label
      },
      ...shapes);
}

const shorten = (text, length) => text.length > length ? text.slice(0, length - 1) + '…' : text;

function drawPart(part, y) {
  const {stream, part: height} = kNetwork, width = 176;
  return {height, element: node(part.place, '', part.place, 'part',
    s('rect', {x: stream - 16, y: y + 2, width, height: 24, rx: 3}),
    s('text', {x: stream + 4, y: y + 18}, shorten(part.place, 24)))};
}

function drawBlock(part, y) {
  const g = s('g', {class: 'block'});
  const height = kNetwork.title + part.sites.length * kNetwork.site + 8;
  const frame = s('rect', {class: 'frame', x: 6, y, width: kNetwork.width - 12, height: height - 6, rx: 5});
  g.append(node(part.place, '', `block ${part.place}`, 'title',
    s('rect', {x: kNetwork.stream + 14, y: y + 3, width: kNetwork.width - kNetwork.stream - 26, height: 19, rx: 3}),
    s('text', {x: kNetwork.stream + 20, y: y + 17}, shorten(part.place, 25))));
  part.sites.forEach((join, i) => g.append(...drawSite(join, y + kNetwork.title + i * kNetwork.site)));
  return {height, frame, element: g};
}

// A branch leaves the stream, goes through its box and joins the stream again.
function drawSite(join, y) {
  const {stream: x, box, boxWidth} = kNetwork, out = y + 4, middle = y + 15, joined = y + 29;
  const accent = join.rewritten ? ' rewritten' : '';
  return [
    s('path', {class: 'branch', d: `M${x} ${out - 2} Q${x} ${middle} ${x + 14} ${middle} H${box}`}),
    s('path', {
      class: 'branch',
      d: `M${box + boxWidth} ${middle} h8 q6 0 6 6 v${joined - middle - 12} q0 6 -6 6 H${x + 8}`
    }),
    node(
        join.at, '', `branch ${join.at}`, 'site',
        s('rect', {x: box, y: middle - 11, width: boxWidth, height: 20, rx: 3}),
        s('text', {x: box + 10, y: middle + 3}, join.site || join.at)),
    node(
        join.at, 'formula', `join ${join.at}, ${join.rewritten ? 'rewritten' : 'plain'}`, 'join' + accent,
        s('circle', {class: 'target', cx: x, cy: joined, r: 12}), s('circle', {cx: x, cy: joined, r: 7.5}),
        s('path', {d: `M${x - 4} ${joined} h8 M${x} ${joined - 4} v8`})),
  ];
}

function markNetwork() {
  let first = null;
  for (const item of $('drawing').querySelectorAll('a.node')) {
    const here = state.place !== '' && item.dataset.place === state.place;
    if (here) item.setAttribute('aria-current', 'true'); else item.removeAttribute('aria-current');
    item.classList.toggle('holds', state.place !== '' && !here && isUnder(state.place, item.dataset.place));
    if (!item.dataset.tab) item.setAttribute('href', placeHref(item.dataset.place, ''));
    if (here && !first) first = item;
  }
  if (!first) return;
  const shown = $('drawing').getBoundingClientRect(), at = first.getBoundingClientRect();
  if (at.top < shown.top || at.bottom > shown.bottom) $('drawing').scrollTop += at.top - shown.top - shown.height / 2;
}

// ---------------------------------------------------------------- selection and tabs

function drawSelection() {
  const {place} = state;
  $('selection').replaceChildren(place === '' ? 'Whole network' : place);
  const parts = place.split('.');
  const crumbs = place === '' ? [] : [
    h('li', {}, h('a', {href: hrefOf({place: ''})}, 'Whole network')),
    ...parts.slice(0, -1).map(
        (part, i) => h('li', {}, h('a', {href: hrefOf({place: parts.slice(0, i + 1).join('.')})}, part)))
  ];
  $('crumbs').replaceChildren(...crumbs);
  $('crumbs').hidden = !crumbs.length;
  const here = (ops) => ops.reduce((n, op) => n + (concerns(op.at, place) ? 1 : 0), 0);
  const launches = data.launches.reduce((n, _, i) => n + (launchConcerns(i, place) ? 1 : 0), 0);
  const [before, after, step] = [index.irOps, index.rewrittenOps, index.stepOps].map(here);
  $('counts').textContent = `${count(before, 'operation')} before the plugins, ${after.toLocaleString('en')} after, ` +
      `${step.toLocaleString('en')} in the step; ${count(launches, 'launch', 'launches')}`;
}

function drawTabs() {
  kTabs.forEach((tab, i) => {
    const select = () => go({tab: tab.id});
    $('tabs').append(h('button', {type: 'button', role: 'tab', id: `tab-${tab.id}`, 'aria-controls': `panel-${tab.id}`,
      'aria-keyshortcuts': String(i + 1), onclick: select}, tab.title));
    $('panels').append(h('div', {
      role: 'tabpanel',
      id: `panel-${tab.id}`,
      class: `panel ${tab.id}`,
      'aria-labelledby': `tab-${tab.id}`,
      tabindex: 0,
      hidden: true
    }));
  });
}

function markTabs() {
  for (const tab of kTabs) {
    $(`tab-${tab.id}`).setAttribute('aria-selected', String(tab.id === state.tab));
    $(`panel-${tab.id}`).hidden = tab.id !== state.tab;
  }
  roving($('tabs'), '[role=tab]', 'horizontal');
  const tab = $(`tab-${state.tab}`), bar = $('tabs');
  if (tab.offsetLeft < bar.scrollLeft || tab.offsetLeft + tab.offsetWidth > bar.scrollLeft + bar.clientWidth)
    bar.scrollLeft = tab.offsetLeft - 20;
}

// The panel shown is built again when the place changed since it was built.
function drawPanel(again = false) {
  const tab = kTabs.find((t) => t.id === state.tab), panel = $(`panel-${tab.id}`);
  const key = `${state.place} ${state.op}`;
  if (panel.dataset.built === key && !again) return;
  panel.dataset.built = key;
  panel.replaceChildren();
  panel.scrollTop = 0;
  tab.build(panel);
}

// ---------------------------------------------------------------- view: formula

const kMathElements = new Set([
  'math',       'mrow',   'mi',    'mn',   'mo',      'ms',       'mtext',  'mspace',
  'mfrac',      'msqrt',  'mroot', 'msub', 'msup',    'msubsup',  'munder', 'mover',
  'munderover', 'mtable', 'mtr',   'mtd',  'mpadded', 'mphantom', 'mstyle', 'mmultiscripts',
  'mprescripts'
]);
const kMathAttributes = new Set([
  'display', 'mathvariant', 'stretchy',    'fence',         'separator',    'lspace',      'rspace',
  'width',   'height',      'depth',       'linethickness', 'displaystyle', 'scriptlevel', 'movablelimits',
  'accent',  'form',        'columnalign', 'minsize',       'maxsize',      'symmetric'
]);

const kTall = 'mfrac, munder, mover, munderover, mtable, msqrt, mroot';

// MathML text as elements, of which only those of mathematics are kept. Without a font for mathematics, a browser draws
// stretched parentheses far too tall; those around one line of text don't have to stretch.
function math(formula) {
  const parsed = new DOMParser().parseFromString(formula.mathml || '', 'text/html').body.querySelector('math');
  if (!parsed) return h('code', {}, formula.text);
  const copy = (from) => {
    const to = document.createElementNS('http://www.w3.org/1998/Math/MathML', from.localName);
    for (const {name, value} of from.attributes) if (kMathAttributes.has(name)) to.setAttribute(name, value);
    if (/^[()[\]{}|‖⟨⟩]$/u.test(from.textContent) && !from.parentElement.querySelector(kTall))
      to.setAttribute('stretchy', 'false');
    for (const child of from.childNodes) {
      if (child.nodeType === Node.TEXT_NODE) to.append(child.data);
      else if (kMathElements.has(child.localName)) to.append(copy(child));
    }
    return to;
  };
  const out = copy(parsed);
  out.setAttribute('display', 'block');
  return out;
}

// The joins inside a place, or the join that the place is part of.
const joinsAt = (place) => data.joins.filter((j) => isUnder(j.at, place) || isUnder(place, j.at));

function formulaView(panel) {
  const groups = new Map();
  for (const join of joinsAt(state.place)) pushTo(groups, formulaKey(join), join);
  if (!groups.size) {
    panel.append(note('No branch joins the residual stream at this place.'), joinsHint());
    return;
  }
  for (const joins of groups.values()) panel.append(formulaGroup(joins));
  if (joinsAt(state.place).some((join) => join.rewritten)) panel.append(...data.plugins.map(pluginSection));
}

// Equal for joins whose formulas differ in nothing but the block whose weights they name.
const formulaKey = (join) => JSON.stringify([join.rewritten, join.plain, join.formulas, join.symbols])
                                 .replaceAll(`${blockOfJoin(join)}.`, '');

const pluginSection = (plugin) =>
    h('section', {class: 'join-group'}, h('h3', {}, `Plugin ${plugin.name} ${plugin.version ?? ''}`),
      h('p', {class: 'note'}, `${plugin.name} ${plugin.doc}.`), pluginValues(plugin));

const joinsHint = () => note(
    'Joins are the ', h('b', {}, '⊕'), ' nodes of the network. ',
    h('a', {href: hrefOf({place: ''})}, 'Show all joins.'));

function formulaGroup(joins) {
  const [join] = joins;
  const box = h('section', {class: 'join-group'},
    h('h3', {}, joins.length === 1 ? `Join at ${join.at}` : `${joins.length} joins with the same formula`));
  if (joins.length > 1) box.append(h('p', {class: 'joins'}, someOf(joins, (j) => placeLink(j.at, 'formula'), 8)));
  const names = data.plugins.map((p) => p.name).join(', ');
  const before = formulaCard('before', 'Before the plugins', [join.plain].filter(Boolean));
  const after = join.rewritten
    ? formulaCard('after', names ? `After ${names}` : 'After the plugins', join.formulas)
    : h('div', {class: 'card'}, h('h4', {}, 'After the plugins'), note('No plugin rewrote this join.'));
  box.append(h('div', {class: 'cards'}, before, after));
  if (join.symbols?.length) {
    box.append(
        h('h4', {}, joins.length > 1 ? `Symbols, at ${join.at}` : 'Symbols'),
        h('dl', {class: 'symbols'},
          join.symbols.map((symbol) => h('div', {}, h('dt', {}, symbol.name), h('dd', {}, symbol.meaning)))));
  }
  box.append(
      h('p', {class: 'onward'}, h('a', {href: placeHref(join.at, 'ir')}, `IR at ${join.at}`), ' ',
        h('a', {href: placeHref(join.at, 'step')}, `Step at ${join.at}`)));
  return box;
}

function formulaCard(kind, title, formulas) {
  return h(
      'div', {class: `card ${kind}`}, h('h4', {}, title),
      formulas.length ?
          formulas.map(
              (f) => h('div', {class: 'equation'}, h('div', {class: 'math'}, math(f)), h('code', {}, f.text))) :
          note('The plugin gives no formula for this join. The view “IR” shows its operations.'));
}

// ---------------------------------------------------------------- view: IR before and after the plugins

// Lines are compared without the numbers of their values, which shift when a line is added.
const comparable = (op) => op.at + '\n' + op.text.replace(/%\d+/g, '%');

// Myers' difference of two lists of strings: [[i, j]] with -1 for none, in order. O((n + m) d) for d differences.
function difference(a, b) {
  let head = 0, tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) ++head;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) ++tail;
  const n = a.length - head - tail, m = b.length - head - tail, max = n + m;
  const reach = new Int32Array(2 * max + 3), trace = [];
  let d = 0;
  search: for (; d <= max; ++d) {
    trace.push(reach.slice(max + 1 - d - 1, max + 1 + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const at = max + 1 + k;
      let x = k === -d || (k !== d && reach[at - 1] < reach[at + 1]) ? reach[at + 1] : reach[at - 1] + 1;
      while (x < n && x - k < m && a[head + x] === b[head + x - k]) ++x;
      reach[at] = x;
      if (x >= n && x - k >= m) break search;
    }
  }
  const pairs = [];
  for (let i = 1; i <= tail; ++i) pairs.push([a.length - i, b.length - i]);
  let x = n, y = m;
  for (; d >= 0 && (x > 0 || y > 0); --d) {
    const k = x - y, past = trace[d], at = d + 1 + k;
    const down = k === -d || (k !== d && past[at - 1] < past[at + 1]);
    const fromX = d === 0 ? 0 : down ? past[at + 1] : past[at - 1];
    const fromY = d === 0 ? 0 : fromX - (down ? k + 1 : k - 1);
    while (x > fromX && y > fromY && x > 0 && y > 0) pairs.push([head + --x, head + --y]);
    if (d === 0) break;
    if (down) pairs.push([-1, head + --y]); else pairs.push([head + --x, -1]);
  }
  for (let i = head - 1; i >= 0; --i) pairs.push([i, i]);
  return pairs.reverse();
}

// Rows {before, after, at, name, changed} of all functions, in order; `name` is the function's.
const irRows = (() => {
  let rows = null;
  return () => rows ??= rowsOfFunctions();
})();

function rowsOfFunctions() {
  const names = [...new Set([...(data.ir?.functions ?? []), ...(data.rewritten?.functions ?? [])].map((f) => f.name))];
  return names.flatMap((name) => {
    const before = data.ir?.functions.find((f) => f.name === name),
          after = data.rewritten?.functions.find((f) => f.name === name);
    const a = before?.ops ?? [], b = after?.ops ?? [];
    const rows = difference(a.map(comparable), b.map(comparable))
                     .map(([i, j]) => ({before: a[i], after: b[j], at: (a[i] ?? b[j]).at, name}));
    return pairUp(rows);
  });
}

// In each run of changed lines, a removed line stands beside the added one of the same place and operation.
function pairUp(rows) {
  const out = [];
  const isSame = (row) => row.before && row.after;
  for (let i = 0; i < rows.length;) {
    if (isSame(rows[i])) { out.push(rows[i++]); continue; }
    const removed = [], added = [];
    for (; i < rows.length && !isSame(rows[i]); ++i) (rows[i].before ? removed : added).push(rows[i]);
    let next = 0;
    for (const row of removed) {
      const match = added.findIndex((other, k) => k >= next && other.at === row.at && other.after.op === row.before.op);
      if (match < 0) { out.push({...row, changed: true}); continue; }
      while (next < match) out.push({...added[next++], changed: true});
      out.push({...row, after: added[next++].after, changed: true});
    }
    while (next < added.length) out.push({...added[next++], changed: true});
  }
  return out;
}

const irOptions = {whole: false, changesOnly: false};

function irView(panel) {
  const again = () => drawPanel(true);
  const bar = h('div', {class: 'bar'});
  if (state.place) {
    bar.append(choice(
        'ir-scope', 'Show', [['place', 'selected place'], ['whole', 'whole function']],
        irOptions.whole ? 'whole' : 'place', (value) => {
          irOptions.whole = value === 'whole';
          again();
        }));
  }
  bar.append(check('changed lines only', irOptions.changesOnly, (on) => { irOptions.changesOnly = on; again(); }));
  const place = irOptions.whole ? '' : state.place;
  let rows = irRows().filter((row) => isUnder(row.at, place));
  const removed = rows.filter((row) => row.changed && row.before).length,
        added = rows.filter((row) => row.changed && row.after).length;
  bar.append(
      h('p', {class: 'sum'}, h('span', {class: 'minus'}, `− ${count(removed, 'line')} removed`),
        h('span', {class: 'plus'}, `+ ${count(added, 'line')} added`)));
  panel.append(bar);
  if (irOptions.changesOnly) rows = rows.filter((row) => row.changed);
  if (!rows.length) {
    panel.append(note(
        irOptions.changesOnly ?
            'The plugins change no line here.' :
            'The network has no operation at this place. The step may have: see the view “Step”.'));
    return;
  }
  panel.append(h('div', {class: 'diff-head'}, h('h3', {}, 'Before the plugins'), h('h3', {}, 'After the plugins')));
  const diff = h('div', {class: 'diff code'});
  panel.append(diff);
  const make = (row, i) => diffRow(row, i === 0 || rows[i - 1].at !== row.at || rows[i - 1].name !== row.name);
  const build = chunked(diff, rows, make, 19);
  if (irOptions.whole && state.place) {
    const first = rows.findIndex((row) => isUnder(row.at, state.place));
    if (first >= 0) {
      build(first);
      requestAnimationFrame(() => diff.querySelector('.here')?.scrollIntoView({block: 'center'}));
    }
  }
}

function diffRow(row, heads) {
  const cell = (op, side) => {
    const sign = !row.changed || !op ? '' : side === 'a' ? '−' : '+';
    const spoken = sign === '−' ? 'removed: ' : sign === '+' ? 'added: ' : '';
    const kind = !op ? 'empty' : sign === '−' ? 'removed' : sign === '+' ? 'added' : '';
    return h(
        'div', {class: `${side} ${kind}`},
        h('span', {class: 'sign', 'aria-hidden': 'true'}, sign), spoken && h('span', {class: 'hidden'}, spoken),
        op ? h('span', {class: 'text'}, irText(op.text)) : null);
  };
  const here = state.place !== '' && irOptions.whole && isUnder(row.at, state.place);
  const line =
      h('div', {class: `row ${row.changed ? 'changed' : 'same'} ${here ? 'here' : ''}`}, cell(row.before, 'a'),
        cell(row.after, 'b'));
  if (!heads) return line;
  return h('div', {class: 'headed'}, h('div', {class: 'at'}, placeLink(row.at, 'ir')), line);
}

// ---------------------------------------------------------------- view: step

const kOpenAtOnce = 250;
const stepOptions = {open: null};   // null: open where there are few operations

function stepView(panel) {
  const groups = new Map(kPhases.map(([phase]) => [phase, []]));
  for (const [at, ops] of index.stepByPlace) if (concerns(at, state.place)) groups.get(phaseOf(at)).push({at, ops});
  const all = [...groups.values()].flat(), total = all.reduce((n, group) => n + group.ops.length, 0);
  if (!total) {
    panel.append(note('The training step has no operation at this place.'));
    return;
  }
  const target = /^step:(\d+)$/.exec(state.op)?.[1];
  const open = stepOptions.open ?? total <= kOpenAtOnce;
  panel.append(h(
      'div', {class: 'bar'},
      check(
          'show the operations of each place', open,
          (on) => {
            stepOptions.open = on;
            drawPanel(true);
          }),
      h('p', {class: 'sum'}, h('span', {}, count(total, 'operation')), h('span', {}, count(all.length, 'place')))));
  for (const [phase, title] of kPhases) {
    const places = groups.get(phase);
    if (!places.length) continue;
    const n = places.reduce((sum, group) => sum + group.ops.length, 0);
    panel.append(
        h('h3', {class: 'phase'}, h('span', {class: `swatch ${phase}`, 'aria-hidden': 'true'}), title,
          h('span', {class: 'quiet'}, ` ${count(n, 'operation')} at ${count(places.length, 'place')}`)));
    const list = h('div', {class: 'groups'});
    panel.append(list);
    chunked(list, places, (group) => placeGroup(group, open), open ? 300 : 30, open ? 12 : kChunk);
  }
  if (target !== undefined) showOp(panel, Number(target));
}

// A place of the step: its launches, and its operations when it is open.
function placeGroup({at, ops}, open) {
  const body = h('ol', {class: 'ops code', hidden: true, 'aria-label': `operations at ${placeName(at)}`});
  const button = h(
      'button', {type: 'button', class: 'toggle', 'aria-expanded': 'false', onclick: () => box.expand(body.hidden)},
      h('span', {class: 'place'}, breakable(placeName(at))), h('span', {class: 'quiet'}, ` ${ops.length}`),
      h('span', {class: 'hidden'}, ' operations'));
  const launches = [...(index.launchesByPlace.get(at) ?? [])].sort((a, b) => a - b);
  const box =
      h('section', {class: 'place-group', 'data-at': at},
        h('div', {class: 'place-head'}, button,
          at && at !== state.place ?
              h('a', {class: 'select', href: placeHref(at, 'step'), 'aria-label': `select ${at}`}, 'select') :
              null,
          h('span', {class: 'launches'},
            launches.length ? someOf(launches, (i) => launchLink(i, at), 2) :
                              h('span', {class: 'quiet'}, 'computed by no launch'))),
        body);
  box.expand = (on) => {
    if (on && !body.childElementCount) body.append(...ops.map(opRow));
    body.hidden = !on;
    button.setAttribute('aria-expanded', String(on));
  };
  if (open) box.expand(true);
  return box;
}

// An operation of the step, with the launches that compute it.
function opRow(i) {
  const op = index.stepOps[i];
  const launches = launchesOfOp(op);
  return h(
      'li', {class: 'op-row', id: `op-${i}`}, h('span', {class: 'text'}, irText(op.text)),
      h('span', {class: 'computed'},
        launches.slice(0, 4).map(
            (l) =>
                [h('a', {
                   href: encode({kernel: index.keys[l], op: `step:${i}`}),
                   class: 'chip',
                   title: launchTitle(l),
                   'aria-label': `launch ${l}, ${launchTitle(l)}`
                 },
                   `#${l}`),
                 ' ']),
        launches.length > 4 ? h('span', {class: 'quiet'}, `+${launches.length - 4}`) : null));
}

function showOp(panel, i) {
  const at = index.stepOps[i]?.at;
  if (at === undefined) return;
  const find = () => [...panel.querySelectorAll('.place-group')].find((group) => group.dataset.at === at);
  const show = (tries) => {
    const group = find();
    if (!group) { if (tries) setTimeout(() => show(tries - 1), 50); return; }
    group.expand(true);
    const row = $(`op-${i}`);
    row.classList.add('target');
    row.scrollIntoView({block: 'center'});
  };
  show(40);
}

// ---------------------------------------------------------------- view: passes

function passesView(panel) {
  const longest = Math.max(...data.passes.map((p) => p.ms), 1e-9),
        total = data.passes.reduce((sum, p) => sum + p.ms, 0);
  panel.append(note(
      `${count(data.passes.length, 'pass', 'passes')} changed the IR, in ${ms(total)} ms. `,
      state.place ? `Those that changed ${state.place} say what they removed (−) and added (+) there.` :
                    'Select a place to see what they changed there.'));
  const body = h('tbody');
  data.passes.forEach((pass, i) => {
    const places = (pass.places ?? []).filter((p) => concerns(p.at, state.place));
    const delta = pass.ops_after - pass.ops_before;
    body.append(
        h('tr', {class: places.length ? 'active' : 'idle'}, h('td', {class: 'n'}, i + 1),
          h('th', {scope: 'row'}, pass.name), h('td', {class: 'n'}, ms(pass.ms)),
          h('td', {class: 'meter', 'aria-hidden': 'true'},
            h('span', {style: `width:${Math.max(1, 100 * pass.ms / longest)}%`})),
          h('td', {class: 'n'}, pass.ops_before.toLocaleString('en')),
          h('td', {class: 'n'}, pass.ops_after.toLocaleString('en')),
          h('td', {class: 'n'}, delta === 0 ? '0' : delta > 0 ? `+${delta}` : `−${-delta}`),
          h('td', {class: 'n'}, places.length || '–')));
    if (places.length) body.append(passChanges(places));
  });
  panel.append(
      h('div', {class: 'table-box'},
        h('table', {class: 'passes-table'},
          h('thead', {},
            h('tr', {},
              [
                '#', 'Pass', 'ms', '', 'Operations before', 'after', 'change',
                state.place ? 'Places changed here' : 'Places changed'
              ].map((title, i) => i === 3 ? h('td') : h('th', {scope: 'col', class: i === 1 ? '' : 'n'}, title)))),
          body)));
}

function passChanges(places) {
  const kinds = (map, sign) => Object.entries(map ?? {}).map(([op, n]) =>
    [h('span', {class: sign === '−' ? 'minus' : 'plus'}, `${sign} ${n > 1 ? n + ' ' : ''}${op}`), ' ']);
  const line = (p) =>
      h('span', {class: 'change'}, placeLink(p.at, 'passes'), ' ', kinds(p.removed, '−'), kinds(p.added, '+'));
  return h('tr', {class: 'changes'}, h('td'), h('td', {colspan: 7}, someOf(places, line, state.place ? 12 : 3)));
}

// ---------------------------------------------------------------- view: kernels

const intensity = (l) => l.bytes ? l.flops / l.bytes : 0;
const gbPerS = (l) => l.ms ? l.bytes / l.ms / 1e6 : 0;
const gflops = (l) => l.ms ? l.flops / l.ms / 1e6 : 0;

const kColumns = [
  {id: 'order', title: '#', of: (l, i) => i, text: (v) => String(v)},
  {id: 'name', title: 'Name', words: true, of: (l) => l.name},
  {id: 'kind', title: 'Kind', words: true, of: (l) => l.kind},
  {id: 'place', title: 'Place', words: true, of: (l, i) => index.placeOf[i]},
  {id: 'bytes', title: 'Bytes', of: (l) => l.bytes, text: bytes},
  {id: 'flops', title: 'Flop', of: (l) => l.flops, text: (v) => si(v, '')},
  {id: 'intensity', title: 'Flop/byte', of: intensity, text: number3},
  {id: 'ms', title: 'ms', timed: true, of: (l) => l.ms ?? 0, text: ms},
  {id: 'gbs', title: 'GB/s', timed: true, of: gbPerS, text: number3},
  {id: 'gflops', title: 'GFLOP/s', timed: true, of: gflops, text: number3},
].filter((column) => !column.timed || index.timed);

const kernelOptions = {sort: 'order', descending: false, all: false};

function kernelsView(panel) {
  const place = kernelOptions.all ? '' : state.place;
  const rows = data.launches.map((l, i) => i).filter((i) => launchConcerns(i, place));
  const sum = (of) => rows.reduce((total, i) => total + of(data.launches[i]), 0);
  const bar = h('div', {class: 'bar'});
  if (state.place) {
    bar.append(choice(
        'kernel-scope', 'Show', [['place', 'selected place'], ['all', 'whole step']],
        kernelOptions.all ? 'all' : 'place', (value) => {
          kernelOptions.all = value === 'all';
          drawPanel(true);
        }));
  }
  bar.append(h('p', {class: 'sum'}, [
    count(rows.length, 'launch', 'launches'), bytes(sum((l) => l.bytes)), `${si(sum((l) => l.flops), '')}flop`,
    index.timed ? `${ms(sum((l) => l.ms ?? 0))} ms` : null
  ].filter(Boolean).map((text) => h('span', {}, text))));
  panel.append(bar);
  const body = h('tbody'), head = h('tr');
  const table =
      h('table', {class: 'kernel-table'},
        h('caption', {class: 'hidden'}, 'Launches. A column’s button sorts by it.'), h('thead', {}, head), body);
  const sorted = () => {
    const column = kColumns.find((c) => c.id === kernelOptions.sort), sign = kernelOptions.descending ? -1 : 1;
    const keys = new Map(rows.map((i) => [i, column.of(data.launches[i], i)]));
    const compare = column.words ? (a, b) => a.localeCompare(b, 'en', {numeric: true}) : (a, b) => a - b;
    return [...rows].sort((i, j) => sign * compare(keys.get(i), keys.get(j)) || i - j);
  };
  const redraw = () => {
    for (const th of head.children) {
      th.setAttribute(
          'aria-sort',
          th.dataset.id !== kernelOptions.sort ? 'none' :
              kernelOptions.descending         ? 'descending' :
                                                 'ascending');
    }
    body.replaceChildren(...sorted().map(kernelRow));
    roving(body, 'a.launch-name');
  };
  for (const column of kColumns) {
    head.append(
        h('th', {scope: 'col', class: column.words ? '' : 'n', 'data-id': column.id},
          h('button', {
            type: 'button',
            onclick: () => {
              const same = kernelOptions.sort === column.id;
              kernelOptions.descending = same ? !kernelOptions.descending : !column.words && column.id !== 'order';
              kernelOptions.sort = column.id;
              redraw();
            }
          },
            column.title, h('span', {class: 'arrow', 'aria-hidden': 'true'}))));
  }
  redraw();
  panel.append(
      rows.length ? h('div', {class: 'table-box'}, table) : note('No launch computes an operation at this place.'));
}

function kernelRow(i) {
  const launch = data.launches[i];
  return h('tr', {}, kColumns.map((column) => {
    const value = column.of(launch, i);
    if (column.id === 'name') {
      return h('th', {scope: 'row'}, h('a', {class: 'launch-name', href: kernelHref(i)}, breakable(launch.name)),
        launch.members.length > 1 ? h('span', {class: 'quiet'}, ` table of ${launch.members.length}`) : null);
    }
    if (column.id === 'place') return h('td', {}, placeLink(value, 'kernels'));
    return h('td', {class: column.words ? '' : 'n'}, column.text ? column.text(value) : value);
  }));
}

// ---------------------------------------------------------------- pictures

// Round steps that divide [0, top] into some `parts`: 1, 2 or 5 times a power of ten.
function ticks(top, parts) {
  const raw = top / parts, power = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= raw);
  const out = [];
  for (let value = 0; value <= top * 1.0001; value += step) out.push(value);
  return out;
}

// Draws into a box now, and again when its width changes.
function drawn(box, draw) {
  let width = 0;
  const redraw = () => {
    if (!box.clientWidth || Math.abs(box.clientWidth - width) < 2) return;
    width = box.clientWidth;
    box.replaceChildren();
    draw(width);
  };
  redraw();
  new ResizeObserver(() => requestAnimationFrame(redraw)).observe(box);
}

// Elements with data-tip show it when the pointer is over them or they have the focus.
function setUpTips() {
  const tip = $('tip');
  const show = (target, x, y) => {
    tip.textContent = target.dataset.tip;
    tip.hidden = false;
    tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${y + 16 + tip.offsetHeight > innerHeight ? Math.max(4, y - tip.offsetHeight - 10) : y + 16}px`;
  };
  document.addEventListener('pointermove', (event) => {
    const target = event.target.closest?.('[data-tip]');
    if (target) show(target, event.clientX, event.clientY);
    else if (!document.activeElement?.dataset?.tip) tip.hidden = true;
  });
  document.addEventListener('focusin', (event) => {
    if (!event.target.dataset?.tip) { tip.hidden = true; return; }
    const box = event.target.getBoundingClientRect();
    show(event.target, box.left, box.top);
  });
}

const hideTip = () => { $('tip').hidden = true; };

// ---------------------------------------------------------------- view: memory

const memoryOptions = {colour: 'phase'};
const blockOfName = new Map(data.joins.map((j) => [blockOfJoin(j), j.block]));
const blockCount = new Set(blockOfName.values()).size;

// The number of the block that a name belongs to, -1: none.
function blockNumber(name) {
  for (let p = withoutOptimizer(name); p !== ''; p = parentOf(p)) if (blockOfName.has(p)) return blockOfName.get(p);
  return -1;
}

function colourOf(name) {
  if (memoryOptions.colour === 'phase') return `var(--${phaseOf(name || 'forward')})`;
  const block = blockNumber(name);
  return block < 0 ?
      'var(--neutral)' :
      `oklch(var(--block-l) 0.13 ${Math.round(250 + 250 * block / Math.max(1, blockCount - 1)) % 360})`;
}

function memoryView(panel) {
  const {memory} = data;
  if (!memory?.buffers?.length) { panel.append(note('The step has no temporaries in the arena.')); return; }
  const bar =
      h('div', {class: 'bar'},
        choice(
            'memory-colour', 'Colour', [['phase', 'part of the step'], ['block', 'block']], memoryOptions.colour,
            (value) => {
              memoryOptions.colour = value;
              drawPanel(true);
            }),
        h('p', {class: 'sum'}, h('span', {}, `arena ${bytes(memory.arena_bytes)}`),
          h('span', {}, `live peak ${bytes(memory.live_peak_bytes)}`),
          h('span', {}, count(memory.buffers.length, 'temporary', 'temporaries'))));
  panel.append(bar, memoryLegend());
  const box = h('div', {class: 'picture'});
  panel.append(
      box,
      note(
          'A rectangle is a temporary: from its first to its last launch, at its offset in the arena. The line is the ',
          'number of live bytes. Click a rectangle, or press Enter on it, to select its place.'));
  drawn(box, (width) => box.append(memoryPicture(width)));
}

function memoryLegend() {
  const item = (colour, text) =>
      h('span', {class: 'key'}, h('span', {class: 'swatch', style: `background:${colour}`, 'aria-hidden': 'true'}),
        text);
  const keys =
      memoryOptions.colour === 'phase' ? kPhases.map(([phase, title]) => item(`var(--${phase})`, title)) : [
        ...[...blockOfName]
            .filter(
                (_, i, all) =>
                    all.length <= 6 || i === 0 || i === all.length - 1 || i % Math.ceil(all.length / 5) === 0)
            .map(([place]) => item(colourOf(place), place)),
        item('var(--neutral)', 'no block')
      ];
  return h(
      'p', {class: 'keys'}, keys,
      h('span', {class: 'key'}, h('span', {class: 'swatch line', 'aria-hidden': 'true'}), 'live bytes'));
}

function memoryPicture(width) {
  const {memory} = data, launches = data.launches.length;
  const box = {left: 62, right: 12, top: 10, bottom: 34}, height = Math.max(320, Math.min(560, innerHeight - 330));
  const x = (launch) => box.left + (width - box.left - box.right) * launch / launches;
  const y = (offset) =>
      height - box.bottom - (height - box.top - box.bottom) * offset / Math.max(1, memory.arena_bytes);
  const svg = s('svg', {
    class: 'plot',
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: 'group',
    'aria-label': 'Temporaries in the arena by launch'
  });
  svg.append(axes({
    width,
    height,
    box,
    x: ticks(launches, width / 90).map((v) => [x(v), String(v)]),
    y: ticks(memory.arena_bytes, 6).map((v) => [y(v), bytes(v)]),
    xTitle: 'launch',
    yTitle: 'offset'
  }));
  const rects = s('g', {class: 'temporaries'});
  for (const t of memory.buffers) {
    const buffer = data.buffers[t.buffer], place = nearestPlace(buffer.name), name = buffer.name || 'without a name';
    const tip = `${name}\n${buffer.type}, ${bytes(t.bytes)}\nlaunches ${t.first} to ${t.last}, offset ${
        t.offset.toLocaleString('en')}`;
    const dim = state.place && !concerns(buffer.name, state.place) ? ' dim' : '';
    rects.append(
        s('a', {
          class: 'temporary' + dim,
          href: place ? placeHref(place, 'memory') : kernelHref(t.first),
          'aria-label': tip.replaceAll('\n', ', '),
          'data-tip': tip
        },
          s('rect', {
            x: x(t.first),
            y: y(t.offset + t.bytes),
            width: Math.max(1, x(t.last + 1) - x(t.first)),
            height: Math.max(1, y(t.offset) - y(t.offset + t.bytes)),
            style: `fill:${colourOf(buffer.name)}`
          })));
  }
  svg.append(rects, s('path', {class: 'live', d: liveLine(x, y)}));
  roving(rects, 'a.temporary');
  return svg;
}

function liveLine(x, y) {
  const change = new Float64Array(data.launches.length + 1);
  for (const t of data.memory.buffers) { change[t.first] += t.bytes; change[t.last + 1] -= t.bytes; }
  let live = 0, path = '';
  for (let i = 0; i < data.launches.length; ++i) {
    live += change[i];
    path += `${i ? 'L' : 'M'}${x(i).toFixed(1)} ${y(live).toFixed(1)}H${x(i + 1).toFixed(1)}`;
  }
  return path;
}

function axes({width, height, box, x, y, xTitle, yTitle}) {
  const g = s('g', {class: 'axes', 'aria-hidden': 'true'});
  for (const [at, text] of y)
    g.append(
        s('line', {x1: box.left, x2: width - box.right, y1: at, y2: at}),
        s('text', {x: box.left - 8, y: at + 4, 'text-anchor': 'end'}, text));
  for (const [at, text] of x)
    g.append(
        s('line', {x1: at, x2: at, y1: height - box.bottom, y2: height - box.bottom + 4}),
        s('text', {x: at, y: height - box.bottom + 16, 'text-anchor': 'middle'}, text));
  g.append(
      s('text', {x: (width + box.left) / 2, y: height - 3, 'text-anchor': 'middle', class: 'title'}, xTitle),
      s('text', {
        transform: `translate(11 ${(height - box.bottom) / 2}) rotate(-90)`,
        'text-anchor': 'middle',
        class: 'title'
      },
        yTitle));
  return g;
}

// ---------------------------------------------------------------- view: roofline

function rooflineView(panel) {
  const dots = data.launches.map((l, i) => i).filter((i) => gflops(data.launches[i]) > 0 && data.launches[i].bytes > 0);
  const without = data.launches.length - dots.length;
  panel.append(
      h('div', {class: 'bar'},
        h('p', {class: 'sum'}, h('span', {}, `${number3(data.ceilings.gflops)} GFLOP/s`),
          h('span', {}, `${number3(data.ceilings.gb_per_s)} GB/s`),
          h('span', {}, count(dots.length, 'launch', 'launches')))),
      h('p', {class: 'keys'},
        ['kernel', 'product', 'call']
            .filter((kind) => dots.some((i) => data.launches[i].kind === kind))
            .map(
                (kind) =>
                    h('span', {class: 'key'}, h('span', {class: `swatch dot ${kind}`, 'aria-hidden': 'true'}),
                      kind))));
  const box = h('div', {class: 'picture'});
  panel.append(
      box,
      note(
          'A dot is a launch; it is larger the more time the launch takes. The lines are this machine’s ceilings: ',
          'memory bandwidth to the left, arithmetic to the right. A launch above the slanted line reads from caches.',
          without ? ` ${count(without, 'launch', 'launches')} without arithmetic or time ${
                        without === 1 ? 'is' : 'are'} left out.` :
                    ''));
  if (dots.length) drawn(box, (width) => box.append(rooflinePicture(width, dots)));
}

const kDecades = 5;   // at most; a slower launch stands on the lower edge

function rooflinePicture(width, dots) {
  const {gflops: flopCeiling, gb_per_s: byteCeiling} = data.ceilings;
  const at = dots.map((i) => ({i, x: intensity(data.launches[i]), y: gflops(data.launches[i])}));
  const low = (values) => Math.floor(Math.log10(Math.min(...values))),
        high = (values) => Math.ceil(Math.log10(Math.max(...values)));
  const xs = [...at.map((p) => p.x), flopCeiling / byteCeiling], ys = [...at.map((p) => p.y), flopCeiling * 1.2];
  const range = {x0: low(xs), x1: high(xs), y0: Math.max(low(ys), high(ys) - kDecades), y1: high(ys)};
  const box = {left: 62, right: 24, top: 12, bottom: 38}, height = Math.max(320, Math.min(560, innerHeight - 330));
  const x = (v) =>
      box.left + (width - box.left - box.right) * (Math.log10(v) - range.x0) / Math.max(1, range.x1 - range.x0);
  const y = (v) => height - box.bottom -
      (height - box.top - box.bottom) * (Math.log10(v) - range.y0) / Math.max(1, range.y1 - range.y0);
  const decades = (from, to, scale) => Array.from({length: to - from + 1}, (_, k) => 10 ** (from + k))
                                           .map((v) => [scale(v), String(Number(v.toPrecision(1)))]);
  const svg = s('svg', {
    class: 'plot',
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: 'group',
    'aria-label': 'Roofline: GFLOP/s by flop per byte'
  });
  svg.append(axes({
    width,
    height,
    box,
    x: decades(range.x0, range.x1, x),
    y: decades(range.y0, range.y1, y),
    xTitle: 'flop per byte',
    yTitle: 'GFLOP/s'
  }));
  const ridge = flopCeiling / byteCeiling, left = Math.max(10 ** range.x0, 10 ** range.y0 / byteCeiling);
  svg.append(
      s('path', {
        class: 'ceiling',
        d: `M${x(left)} ${y(left * byteCeiling)}L${x(ridge)} ${y(flopCeiling)}H${width - box.right}`
      }),
      s('text', {class: 'ceiling-label', x: x(ridge) + 2, y: y(flopCeiling) - 6},
        `${number3(flopCeiling)} GFLOP/s`),
      s('text', {class: 'ceiling-label', x: x(left) + 8, y: Math.max(24, y(left * byteCeiling) - 14)},
        `${number3(byteCeiling)} GB/s`));
  const total = dots.reduce((sum, i) => sum + data.launches[i].ms, 0), group = s('g', {class: 'dots'});
  for (const p of at.sort((a, b) => data.launches[b.i].ms - data.launches[a.i].ms)) {
    const launch = data.launches[p.i], share = launch.ms / total;
    const tip = `${launchTitle(p.i)}\n${number3(p.x)} flop/byte, ${number3(p.y)} GFLOP/s, ${
        number3(gbPerS(launch))} GB/s\n${ms(launch.ms)} ms, ${(100 * share).toFixed(1)} % of the time`;
    const dim = state.place && !launchConcerns(p.i, state.place) ? ' dim' : '';
    group.append(
        s('a', {
          class: `dot ${launch.kind}${dim}`,
          href: kernelHref(p.i),
          'aria-label': tip.replaceAll('\n', ', '),
          'data-tip': tip
        },
          s('circle', {cx: x(p.x), cy: y(Math.max(p.y, 10 ** range.y0)), r: 3 + 22 * Math.sqrt(share)})));
  }
  svg.append(group);
  roving(group, 'a.dot');
  return svg;
}

// ---------------------------------------------------------------- one kernel

const kTexts = [['tile', 'Tile IR'], ['llvm', 'LLVM IR'], ['asm', 'Assembly'], ['cuda', 'CUDA C++'], ['ptx', 'PTX']];
let opener = null;   // what had the focus when the kernel was opened

function drawKernel(before) {
  const view = $('kernel');
  hideTip();
  document.body.classList.toggle('in-kernel', state.kernel !== '');
  view.hidden = state.kernel === '';
  $('work').hidden = $('network').hidden = state.kernel !== '';
  if (state.kernel === '') {
    view.replaceChildren();
    if (before)
      (opener?.isConnected && opener.getClientRects().length ? opener : $('selection')).focus({
        preventScroll: !!opener
      });
    return;
  }
  if (!before) opener = document.activeElement;
  const i = index.launchOfName.get(state.kernel);
  view.replaceChildren(...kernelParts(i));
  view.scrollTop = 0;
  if (!matchMedia('(min-width: 900px)').matches) scrollTo(0, 0);
  if (drawnOnce) $('kernel-title').focus({preventScroll: true});
}

function kernelParts(i) {
  const launch = data.launches[i], code = data.codes[launch.code] ?? {};
  const links = linkTexts(code);
  const facts = [
    ['order', `#${i}`],
    ['kind', launch.members.length > 1 ? `${launch.kind}, table of ${launch.members.length}` : launch.kind],
    ['bytes', bytes(launch.bytes)], ['flop', si(launch.flops, '')], ['flop/byte', number3(intensity(launch))],
    ...(launch.ms ?
            [['ms', ms(launch.ms)], ['GB/s', number3(gbPerS(launch))], ['GFLOP/s', number3(gflops(launch))]] :
            [])
  ];
  const step = (to, text) =>
      data.launches[to] ? h('a', {href: kernelHref(to), class: 'step-to', title: launchTitle(to)}, text) : null;
  const close =
      h('a', {class: 'close', href: hrefOf({}), 'aria-label': 'Close the kernel', title: 'Close (Esc)'}, '✕');
  const texts = textPanes(code, links);
  return [
    h('div', {class: 'kernel-head'}, h('h2', {id: 'kernel-title', tabindex: -1}, breakable(launchTitle(i))),
      h('nav', {class: 'steps', 'aria-label': 'Launches'}, step(i - 1, '← previous'), step(i + 1, 'next →')),
      close),
    h('dl', {class: 'facts'}, h('div', {}, h('dt', {}, 'place'), h('dd', {}, placeLink(index.placeOf[i]))),
      facts.map(([key, value]) => h('div', {}, h('dt', {}, key), h('dd', {}, value)))),
    h('div', {class: 'kernel-facts'}, kernelOps(launch, links), kernelBuffers(launch, i), kernelShared(launch, i)),
    ...texts,
  ];
}

// The operations of each member, and why its group stopped growing.
function kernelOps(launch, links) {
  const wanted = /^step:(\d+)$/.exec(state.op)?.[1], marked = wanted === undefined ? null : index.stepOps[wanted];
  const box = h('div', {class: 'kernel-ops'}, h('h3', {}, 'Operations'));
  const total = launch.members.reduce((n, m) => n + m.ops.length, 0);
  if (!total) box.append(note('This launch lists no operations.'));
  const member = (m) =>
      h('div', {class: 'member'}, launch.members.length > 1 ? h('h4', {}, breakable(m.name)) : null,
        opRuns(m, links, marked),
        m.stopped ? h('p', {class: 'stopped'}, h('b', {}, 'The group stopped growing: '), m.stopped, '.') : null);
  const named = launch.members.filter((m) => m.name === state.kernel);   // a link may name one member of a table
  box.append(someOf([...new Set([...named, ...launch.members])], member, 6));
  return box;
}

// Operations in order; those of one place stand behind its name. Each is a link to the place, and lights its line.
function opRuns(member, links, marked) {
  const ops = member.ops.map(parseMemberOp), values = valuesOfOps(ops, links);
  const list = h('ul', {class: 'runs'});
  let run = null, at = null;
  ops.forEach((op, k) => {
    if (op.at !== at) {
      at = op.at;
      run = h('li', {}, placeLink(at), ' ');
      list.append(run);
    }
    const isMarked = marked && marked.op === op.op && marked.at === op.at;
    const chip = h(op.at ? 'a' : 'span', {
      href: op.at ? placeHref(op.at, 'step') : null,
      class: 'chip' + (isMarked ? ' marked' : ''),
      'data-value': values[k],
      'aria-label': op.at ? `${op.op} at ${op.at}` : null
    }, op.op);
    if (values[k] !== null) pushTo(links.lines, values[k], {element: chip, define: true});
    run.append(chip, ' ');
  });
  lightsUp(list, links);
  return list;
}

function kernelBuffers(launch, i) {
  const uses = new Map();
  for (const m of launch.members) {
    for (const b of m.reads) uses.set(b, 'read');
    for (const b of m.writes) uses.set(b, uses.get(b) === 'read' ? 'read and written' : uses.get(b) ?? 'written');
  }
  const row = ([b, use]) => {
    const buffer = data.buffers[b];
    const others = [...new Set([...(index.writers.get(b) ?? []), ...(index.readers.get(b) ?? [])])]
                       .filter((l) => l !== i)
                       .sort((p, q) => p - q);
    return h(
        'tr', {}, h('td', {}, use), h('th', {scope: 'row'}, breakable(buffer.name || `buffer ${b}`)),
        h('td', {class: 'mono'}, buffer.type), h('td', {}, buffer.kind), h('td', {class: 'n'}, bytes(buffer.bytes)),
        h('td', {},
          someOf(
              others,
              (l) =>
                  h('a', {
                    class: 'chip',
                    href: kernelHref(l),
                    title: launchTitle(l),
                    'aria-label': `launch ${l}, ${launchTitle(l)}`
                  },
                    `#${l}`),
              5)));
  };
  const rows = [...uses], shown = rows.slice(0, 24), body = h('tbody', {}, shown.map(row));
  const box =
      h('div', {class: 'kernel-buffers'}, h('h3', {}, 'Buffers'),
        h('div', {class: 'table-box'},
          h('table', {},
            h('thead', {},
              h('tr', {},
                ['Use', 'Name', 'Type', 'Kind', 'Bytes', 'Other launches'].map(
                    (t) => h('th', {scope: 'col', class: t === 'Bytes' ? 'n' : ''}, t)))),
            body)));
  if (rows.length > shown.length) {
    box.append(
        h('button', {
          type: 'button',
          class: 'more',
          onclick: (e) => {
            body.append(...rows.slice(shown.length).map(row));
            e.target.remove();
          }
        },
          `and ${rows.length - shown.length} more`));
  }
  return box;
}

function kernelShared(launch, i) {
  const others = (index.launchesByCode.get(launch.code) ?? []).filter((l) => l !== i);
  const box = h('div', {class: 'kernel-shared'}, h('h3', {}, 'Same code'));
  if (launch.code < 0)
    box.append(note(
        launch.kind === 'product' ? 'A matrix product has no code of its own: one code serves all products, or a library does.' :
                                    'A call has no code of its own: a library computes it, or the code of all products.'));
  else if (!others.length) box.append(note('No other launch runs this code.'));
  else
    box.append(
        note(`${count(others.length, 'other launch runs', 'other launches run')} this code.`),
        h('div', {class: 'stack'}, someOf(others, (l) => launchLink(l), 6)));
  return box;
}

// ---------------------------------------------------------------- lines that belong together

// Which values of the tile text each line of a text defines or uses. The data say it of LLVM IR and assembly.
// A CUDA identifier is an op's name and a value's number (add11), or a buffer's name, "_" and the number (attn_proj_5).
function linkTexts(code) {
  const tile = (code.tile ?? '').trimEnd().split('\n').map((text) => {
    const define = /^\s*%(\d+) : .*? = (\w+)/.exec(text);
    const values = [...text.matchAll(/%(\d+)\b/g)].map((m) => Number(m[1]));
    return {
      text,
      define: define ? Number(define[1]) : -1,
      op: define?.[2] ?? '',
      uses: define ? values.slice(1) : values
    };
  });
  const ops = new Map(tile.filter((line) => line.define >= 0).map((line) => [line.define, line.op]));
  const valueOf = (word) => {
    const match = /^([A-Za-z]\w*?)(_?)(\d+)$/.exec(word);
    if (!match) return -1;
    const value = Number(match[3]), op = ops.get(value);
    return op !== undefined && (match[2] ? op === 'load' || op === match[1] : op === match[1]) ? value : -1;
  };
  const cuda = (code.cuda ?? '').trimEnd().split('\n').map((text) => {
    const values = [...new Set([...text.matchAll(/[A-Za-z_]\w*/g)].map((m) => valueOf(m[0])).filter((v) => v >= 0))];
    return {text, define: -1, uses: text.startsWith('//') ? [] : values};
  });
  const numbered = (key) => code[`${key}_values`] && code[key].trimEnd().split('\n').map((text, i) => {
    const value = code[`${key}_values`][i];
    return {text, define: -1, uses: value >= 0 ? [value] : []};
  });
  return {tile, cuda, llvm: numbered('llvm'), asm: numbered('asm'), lines: new Map(), lit: []};
}

// The tile value that each operation became: both lists name the same arithmetic in the same order, or nothing is told.
function valuesOfOps(ops, links) {
  const same = (op, value) => op === value || op === 'sum' && value === 'add';
  const arithmetic =
      links.tile.filter((l) => l.define >= 0 && !kMovement.has(l.op)).sort((a, b) => a.define - b.define);
  const wanted = ops.filter((o) => !kMovement.has(o.op));
  if (arithmetic.length !== wanted.length || wanted.some((o, k) => !same(o.op, arithmetic[k].op)))
    return ops.map(() => null);
  let next = 0;
  return ops.map((o) => kMovement.has(o.op) ? null : arithmetic[next++].define);
}

function light(links, values) {
  for (const element of links.lit) element.classList.remove('lit', 'lit-define');
  links.lit = [];
  for (const value of values) {
    for (const {element, define} of links.lines.get(value) ?? []) {
      element.classList.add(define ? 'lit-define' : 'lit');
      links.lit.push(element);
    }
  }
}

// Brings the first lit line of each pane other than `from` into view, within the pane.
function revealLit(links, from) {
  const done = new Set([from]);
  for (const element of links.lit) {
    const pane = element.closest('.text');
    if (!pane || done.has(pane)) continue;
    done.add(pane);
    const top = element.offsetTop;
    if (top < pane.scrollTop || top > pane.scrollTop + pane.clientHeight - 20)
      pane.scrollTop = top - pane.clientHeight / 3;
  }
}

const valuesOf = (element) => (element?.dataset.value ?? '').split(' ').filter(Boolean).map(Number);

// Lines and operations with data-value light up what belongs to them, while the pointer is over them or they have the
// focus.
function lightsUp(container, links) {
  const focused = () => document.activeElement?.closest('[data-value]');
  container.addEventListener('pointerover', (e) => {
    const line = e.target.closest('[data-value]');
    if (line) light(links, valuesOf(line));
  });
  container.addEventListener('pointerleave', () => light(links, valuesOf(focused())));
  container.addEventListener('focusin', (e) => {
    light(links, valuesOf(e.target.closest('[data-value]')));
    revealLit(links, container);
  });
  container.addEventListener('focusout', () => light(links, []));
}

// ---------------------------------------------------------------- texts side by side

function textPanes(code, links) {
  const present = kTexts.filter(([key]) => code[key]);
  if (!present.length) return [];
  const hiddenOnes = new Set((remembered.get('hidden-texts') ?? '').split(' ').filter(Boolean));
  if (present.every(([key]) => hiddenOnes.has(key))) hiddenOnes.clear();
  const panes = h('div', {class: 'texts'});
  const toggles = h('fieldset', {class: 'choice toggles'}, h('legend', {}, 'Texts'));
  for (const [key, title] of present) {
    const pane = textPane(key, title, code, links);
    pane.hidden = hiddenOnes.has(key);
    panes.append(pane);
    toggles.append(h('label', {}, h('input', {type: 'checkbox', checked: !pane.hidden, onchange: (e) => {
      pane.hidden = !e.target.checked;
      if (pane.hidden) hiddenOnes.add(key); else hiddenOnes.delete(key);
      remembered.set('hidden-texts', [...hiddenOnes].join(' '));
    }}), h('span', {}, title)));
  }
  return [
    h('div', {class: 'bar'}, toggles,
      links.lines.size ?
          h('p', {class: 'hint'}, 'Point at a line or an operation: the lines with the same value light up.') :
          null),
    panes
  ];
}

// The line that a text is scrolled to at first. What stands before it is a header, or in the kernel's lists too.
const kFirstLine =
    {tile: /^(prologue|body):/, llvm: /^define /, asm: /^kernel[\w.]*:/, cuda: /^(?!\/\/)\S/, ptx: /\.entry /};

function textPane(key, title, code, links) {
  const box = links[key] ? linkedText(key, title, links)
    : h('pre', {class: 'text code', tabindex: 0, role: 'region', 'aria-label': title}, plainLines(code[key]));
  const first = code[key].split('\n').findIndex((line) => kFirstLine[key].test(line));
  if (first > 0)
    requestAnimationFrame(() => {
      box.scrollTop = 5 + (box.scrollHeight - 12) * first / code[key].trimEnd().split('\n').length;
    });
  return h(
      'section', {class: `pane ${key}`},
      h('h3', {}, title, h('span', {class: 'quiet'}, ` ${count(code[key].trimEnd().split('\n').length, 'line')}`)),
      box);
}

// Lines that name values can have the focus. The list is one stop of the Tab key.
function linkedText(key, title, links) {
  const box = h('div', {class: 'text code', role: 'group', tabindex: 0, 'aria-label': title});
  for (const line of links[key]) {
    const values = line.define >= 0 ? [line.define] : line.uses;
    const element =
        h('div', {
          class: 'line ' + lineClass(line.text),
          'data-value': values.length ? values.join(' ') : null,
          role: values.length ? 'button' : null
        },
          key === 'tile' ? tileText(line.text) : line.text || ' ');
    if (line.define >= 0) pushTo(links.lines, line.define, {element, define: true});
    for (const value of new Set(line.uses))
      if (value !== line.define) pushTo(links.lines, value, {element, define: false});
    box.append(element);
  }
  if (box.querySelector('[data-value]')) {
    box.removeAttribute('tabindex');
    roving(box, '[data-value]');
  }
  lightsUp(box, links);
  return box;
}

const tileText = (text) => /^\s*(%|store|read|write)/.test(text) ? irText(text) : text || ' ';

function lineClass(text) {
  if (/^\s*(\/\/|;|#(?!pragma))/.test(text)) return 'comment';
  if (/^\s*(kernel .*|[\w.$]+:)/.test(text)) return 'label';
  return '';
}

// Text whose comments and labels have their colours. Neighbouring lines of one kind are one element.
function plainLines(text) {
  const out = [];
  let run = [], kind = '';
  const flush = () => {
    if (run.length) out.push(kind ? h('span', {class: kind}, run.join('\n') + '\n') : run.join('\n') + '\n');
    run = [];
  };
  for (const line of text.trimEnd().split('\n')) {
    const next = lineClass(line);
    if (next !== kind) { flush(); kind = next; }
    run.push(line);
  }
  flush();
  return out;
}

// ---------------------------------------------------------------- search

// What can be found: {kind, text, detail, href, low}. Built when the search box first has the focus.
const searchable = (() => {
  let items = null;
  const build = () => {
    const item = (kind, text, detail, href) => ({kind, text, detail, href, low: `${text} ${detail}`.toLowerCase()});
    const opOfParameter = new Map();
    index.stepOps.forEach((op, i) => {
      const name = op.op === 'param' || op.op === 'state' ? /name = "([^"]*)"/.exec(op.text)?.[1] : undefined;
      if (name !== undefined && !opOfParameter.has(name)) opOfParameter.set(name, i);
    });
    // Operations such as layer_norm, of which a pass makes others: the IR has them, the step does not.
    const inStep = new Set(index.stepOps.map((op) => `${op.op} ${op.at}`));
    const decomposed = index.rewrittenOps.filter((op) => op.at && !inStep.has(`${op.op} ${op.at}`));
    const stepHref = (i) => encode({place: index.stepOps[i].at, tab: 'step', op: `step:${i}`});
    const members = data.launches.flatMap(
        (l, i) => l.members.length > 1 ?
            l.members.map((m) => item('kernel', m.name, `in table #${i}`, kernelHref(i))) :
            []);
    return [
      ...[...index.prefixes].map((p) => item('place', p, '', placeHref(p, 'step'))),
      ...data.launches.map((l, i) => item('kernel', launchTitle(i), `#${i}`, kernelHref(i))),
      ...members,
      ...(data.rewritten?.parameters ?? [])
          .map(
              (p) => item(
                  'parameter', p.name, p.type,
                  opOfParameter.has(p.name) ? stepHref(opOfParameter.get(p.name)) :
                                              placeHref(nearestPlace(p.name), 'step'))),
      ...index.stepOps.map((op, i) => item('operation', op.text, op.at, stepHref(i))),
      ...decomposed.map((op) => item('operation', op.text, op.at, placeHref(op.at, 'ir'))),
    ];
  };
  return () => items ??= build();
})();

const kPerKind = 10;

function find(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean), found = new Map();
  let total = 0;
  for (const item of searchable()) {
    if (!words.every((word) => item.low.includes(word))) continue;
    ++total;
    pushTo(found, item.kind, item);
  }
  const rank = (item) => item.low.startsWith(words[0]) ? 0 : 1;
  const out = ['place', 'kernel', 'parameter', 'operation'].flatMap(
      (kind) => (found.get(kind) ?? [])
                    .map((item, i) => [rank(item), item.text.length, i, item])
                    .sort((a, b) => a[0] - b[0] || (kind === 'operation' ? 0 : a[1] - b[1]) || a[2] - b[2])
                    .slice(0, kPerKind)
                    .map((r) => r[3]));
  return {items: out, total};
}

function setUpSearch() {
  const input = $('query'), list = $('results');
  let active = -1;
  const close = () => {
    list.hidden = true;
    active = -1;
    input.setAttribute('aria-expanded', 'false');
    input.removeAttribute('aria-activedescendant');
  };
  const activate = (to) => {
    const options = list.querySelectorAll('[role=option]');
    if (!options.length) return;
    options[active]?.setAttribute('aria-selected', 'false');
    active = (to + options.length) % options.length;
    options[active].setAttribute('aria-selected', 'true');
    options[active].scrollIntoView({block: 'nearest'});
    input.setAttribute('aria-activedescendant', options[active].id);
  };
  const take = (href) => {
    close();
    input.value = '';
    location.hash = href;
    apply();
    (state.kernel ? $('kernel-title') : $('selection')).focus();
  };
  const update = () => {
    if (!input.value.trim()) { close(); return; }
    const {items, total} = find(input.value.trim());
    list.replaceChildren(...items.map(
        (item, i) =>
            h('li', {
              role: 'option',
              id: `result-${i}`,
              'aria-selected': 'false',
              class: item.kind,
              onpointerdown: (e) => {
                e.preventDefault();
                take(item.href);
              }
            },
              h('span', {class: 'kind'}, item.kind), h('span', {class: 'what'}, item.text),
              h('span', {class: 'quiet'}, item.detail))));
    if (!items.length)
      list.append(
          h('li', {class: 'none', role: 'option', 'aria-disabled': 'true', 'aria-selected': 'false'},
            'Nothing found.'));
    $('found').textContent = total > items.length ? `${total} found, ${items.length} shown` : `${total} found`;
    list.hidden = false;
    input.setAttribute('aria-expanded', 'true');
    active = -1;
    if (items.length) { list.hrefs = items.map((item) => item.href); activate(0); } else list.hrefs = [];
  };
  input.addEventListener('input', update);
  input.addEventListener('focus', () => { searchable(); if (input.value) update(); });
  input.addEventListener('blur', close);
  input.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowDown') { activate(active + 1); event.preventDefault(); }
    else if (event.key === 'ArrowUp') { activate(active - 1); event.preventDefault();
    } else if (event.key === 'Enter' && !list.hidden && list.hrefs[active]) {
      event.preventDefault();
      take(list.hrefs[active]);
    } else if (event.key === 'Escape') {
      event.stopPropagation();
      if (list.hidden)
        input.blur();
      else
        close();
    }
  });
}

// ---------------------------------------------------------------- keys

function setUpKeys() {
  const help = $('help');
  const showHelp = () => { if (!help.open) help.showModal(); };
  $('help-open').addEventListener('click', showHelp);
  help.addEventListener('click', (event) => { if (event.target === help) help.close(); });
  $('skip').addEventListener('click', () => (state.kernel ? $('kernel-title') : $('selection')).focus());
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.matches('input[type=text], textarea, select')) return;
    if (event.key === '/') { event.preventDefault(); $('query').focus(); $('query').select(); }
    else if (event.key === '?') { event.preventDefault(); showHelp(); }
    else if (event.key === 'Escape') {
      const card = $('facts').querySelector('details[open]');
      if (card) { card.open = false; card.firstChild.focus(); }
      else if (!$('tip').hidden && !state.kernel) hideTip();
      else if (state.kernel) go({});
    } else if (/^[1-9]$/.test(event.key) && kTabs[event.key - 1]) {
      go({tab: kTabs[event.key - 1].id});
      $(`tab-${state.tab}`).focus();
    }
  });
  $('tabs').addEventListener('focusin', (event) => {
    // Arrow keys open the view that they reach; a click does it by itself.
    const tab = event.target.closest('[role=tab]')?.id.slice('tab-'.length);
    if (tab && tab !== state.tab && event.target.matches(':focus-visible')) go({tab});
  });
}

// ---------------------------------------------------------------- start

setUpTheme();
drawHeader();
drawNetwork();
drawTabs();
setUpTips();
setUpSearch();
setUpKeys();
addEventListener('hashchange', apply);
state.tab = kTabs[0].id;
apply();
markReady();

})();
