// One kernel: its operations, its buffers and its texts, whose lines light up together.

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
    ['kind', launch.members.length > 1 && !saysTable(launch) ? `${launch.kind}, table of ${launch.members.length}` :
                                                                launch.kind],
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
        launch.kind === 'product' ? 'A matrix product has no code of its own: all products share one code, or a library computes it.' :
                                    'A call has no code of its own: a library computes it, or the code that all products share.'));
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
          h('p', {class: 'hint'}, 'Point at a line or an operation to highlight the lines with the same value.') :
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
