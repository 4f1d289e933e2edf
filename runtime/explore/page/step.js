// The views of the training step at a place: ops, passes, launches.

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
      state.place ? `Those that changed ${state.place} show what they removed (−) and added (+) there.` :
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
        h('caption', {class: 'hidden'}, 'Launches. The button of a column sorts by that column.'), h('thead', {}, head), body);
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

// A table's name says what it is, as the program spells it.
const saysTable = (launch) => launch.name.endsWith(`a table of ${launch.members.length}`);

function kernelRow(i) {
  const launch = data.launches[i];
  return h('tr', {}, kColumns.map((column) => {
    const value = column.of(launch, i);
    if (column.id === 'name') {
      return h('th', {scope: 'row'}, h('a', {class: 'launch-name', href: kernelHref(i)}, breakable(launch.name)),
        launch.members.length > 1 && !saysTable(launch) ?
            h('span', {class: 'quiet'}, ` table of ${launch.members.length}`) : null);
    }
    if (column.id === 'place') return h('td', {}, placeLink(value, 'kernels'));
    return h('td', {class: column.words ? '' : 'n'}, column.text ? column.text(value) : value);
  }));
}
