// The views of what the plugins made of a place: its formula, and the IR line by line.

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

const kTall = 'mfrac, munder, mover:not([accent]), munderover, mtable, msqrt, mroot';

// MathML text as elements, of which only those of mathematics are kept. Without a font for mathematics, a browser draws
// stretched parentheses far too tall; those around one line of text don't have to stretch.
function math(formula) {
  const parsed = new DOMParser().parseFromString(formula.mathml || '', 'text/html').body.querySelector('math');
  if (!parsed) return h('code', {}, formula.text);
  const copy = (from) => {
    const to = document.createElementNS('http://www.w3.org/1998/Math/MathML', from.localName);
    for (const {name, value} of from.attributes) if (kMathAttributes.has(name)) to.setAttribute(name, value);
    if (/^[()[\]{}|‖⟨⟩⌊⌋]$/u.test(from.textContent) && !from.parentElement.querySelector(kTall))
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
  const isRewritten = joinsAt(state.place).some((join) => join.rewritten);
  panel.append(...data.plugins.filter((plugin) => isRewritten || plugin.notation?.length).map(pluginSection));
}

// Equal for joins whose formulas differ in nothing but the block whose weights they name.
const formulaKey = (join) => JSON.stringify([join.rewritten, join.plain, join.formulas, join.symbols])
                                 .replaceAll(`${blockOfJoin(join)}.`, '');

const pluginSection = (plugin) =>
    h('section', {class: 'join-group'}, h('h3', {}, `Plugin ${plugin.name} ${plugin.version ?? ''}`),
      h('p', {class: 'note'}, `${plugin.name} ${plugin.doc}.`), pluginNotation(plugin),
      pluginValues(plugin, (plugin.notation ?? []).map((formula) => formula.name)));

// Parameters that are formulas, as typed and as mathematics.
const pluginNotation = (plugin) => plugin.notation?.length ?
    h('dl', {class: 'notation'},
      plugin.notation.map(
          (formula) => h(
              'div', {}, h('dt', {}, breakable(formula.name)), h('dd', {}, h('code', {}, formula.text)),
              h('dd', {class: 'math'}, math(formula))))) :
    null;

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
