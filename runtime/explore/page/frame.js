// What is there in every view: header, drawing of the network, the selected place, tabs.

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

// The values in force, without empty ones and those of the keys in `shown`.
const pluginValues = (plugin, shown = []) =>
    h('dl', {class: 'values'},
      Object.entries(plugin.values ?? {})
          .filter(([key, value]) => value !== '' && !shown.includes(key))
          .map(([key, value]) => h('div', {}, h('dt', {}, breakable(key)), h('dd', {}, String(value)))));

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

// Numbers that training changes, at a place and below it; "444 k".
function parametersAt(place) {
  const elements = (type) => (/\[(.*)\]/.exec(type)?.[1].split(',') ?? []).reduce((n, extent) => n * Number(extent), 1);
  return data.rewritten.parameters.filter((p) => p.trainable && isUnder(p.name, place))
      .reduce((n, p) => n + elements(p.type), 0);
}

// The stream's shape behind a join, without the batch: "50 × 192".
function streamShape(join) {
  const op = index.irOps.find((o) => o.op === 'residual' && o.at === join.at);
  const extents = /\[([\d,]*)\]$/.exec(op?.text ?? '')?.[1].split(',');
  return extents ? extents.slice(1).join(' × ') : '';
}

const kNetwork = {width: 236, stream: 30, box: 74, boxWidth: 112, site: 40, title: 24, part: 36, shape: 20};

function drawNetwork() {
  const parts = networkParts();
  const svg =
      s('svg', {class: 'net', role: 'group', 'aria-label': 'The residual stream, from the input to the output'});
  let y = 16;
  const top = y;
  const frames = [], body = [];
  let shape = '';
  for (const part of parts) {
    const now = part.sites.length ? streamShape(part.sites[0]) : shape;
    if (now !== shape) {
      shape = now;
      body.push(s('text', {class: 'shape', x: kNetwork.stream + 8, y: y + 12}, `${shape} on the stream`));
      y += kNetwork.shape;
    }
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
  g.append(node(part.place, '', `block ${part.place}, ${si(parametersAt(part.place), '')} parameters`, 'title',
    s('rect', {x: kNetwork.stream + 14, y: y + 3, width: kNetwork.width - kNetwork.stream - 26, height: 19, rx: 3}),
    s('text', {x: kNetwork.stream + 20, y: y + 17}, shorten(part.place, 16)),
    s('text', {class: 'size', x: kNetwork.width - 16, y: y + 17}, si(parametersAt(part.place), ''))));
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
  $('counts').textContent = `${si(parametersAt(place), '')} parameters; ${count(before, 'operation')} before the plugins, ${after.toLocaleString('en')} after, ` +
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
