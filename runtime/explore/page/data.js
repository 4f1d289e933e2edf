// The explorer's page. In: one JSON object, in the element #data (docs/guide/explore.md). Out: what the page shows of it:
//   - the network as a drawing of the residual stream, which selects a place;
//   - seven views of the selected place: formula, IR, step, passes, kernels, memory, roofline;
//   - one kernel: its operations, its buffers and its texts side by side.
// The state is {place, tab, kernel, op} and stands in location.hash. Each link is an <a> with such a hash, so the way
// through the page is: a link changes the hash, apply() reads it, and what depends on what changed is drawn again.
// Views are built when they are first shown. Long lists are built in chunks while the browser is idle.

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
