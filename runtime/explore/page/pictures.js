// The views that are pictures: memory and roofline.

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
  const {load} = data.ceilings, box = h('div', {class: 'picture'});
  panel.append(
      load ? note(h('b', {class: 'warning'}, 'Measured under load: '), `other programs kept ${number3(load)} CPUs busy. `,
                  'The ceilings may be too low and the times too long; measure again on an idle machine.') : '',
      box,
      note(
          'A dot is a launch, and its size grows with the launch’s time. The lines are this machine’s ceilings: ',
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
