// What the page shows stands in location.hash; links and lists that change it; the text of the IR in colours.

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
