// Charts: scales, lines and bands, the values under pointer or keyboard, and figures as files.

// ---------------------------------------------------------------- scales

const fixed = (value) => Math.round(value * 100) / 100;

// About `want` round numbers between low and high.
function linearTicks(low, high, want) {
  const rough = (high - low) / Math.max(1, want), power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; ++k) ticks.push(k * step);
  return ticks;
}

function logTicks(low, high, want) {
  const ticks = [];
  const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const stride = Math.max(1, Math.ceil((to - from) / (want + 2)));
  const parts = to - from > 3 ? [1] : [1, 2, 5];
  for (let power = from; power <= to; power += stride)
    for (const part of parts) {
      const tick = part * 10 ** power;
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  return ticks.length >= 3 ? ticks : linearTicks(low, high, want);
}

// The texts of ticks, all with the same decimals.
function tickTexts(ticks) {
  const most = Math.max(...ticks.map(Math.abs));
  const short = (v) => v === 0 ? '0' : String(Number(v.toPrecision(6)));
  if (most >= 1e4 && most < 1e6) return ticks.map((v) => v === 0 ? '0' : `${short(v / 1000)}k`);
  if (most >= 1e6 || most < 5e-3)
    return ticks.map((v) => v === 0 ? '0' : Number(v.toPrecision(4)).toExponential().replace('e+', 'e'));
  const decimals = Math.max(...ticks.map((v) => (short(v).split('.')[1] ?? '').length));
  return ticks.map((v) => decimals > 4 ? short(v) : v.toFixed(decimals));
}

// What is drawn of the y axis: [low, high] of lines, their raw values and their bands.
function rangeOf(lines, log) {
  let low = Infinity, high = -Infinity;
  const take = (v) => {
    if (!isNumber(v) || log && v <= 0) return;
    if (v < low) low = v;
    if (v > high) high = v;
  };
  for (const line of lines) {
    line.y.forEach((y, i) => {
      take(y);
      if (isNumber(line.sd?.[i])) { take(y - line.sd[i]); take(y + line.sd[i]); }
    });
    line.raw?.forEach(take);
  }
  if (low > high) return null;
  if (log) return low === high ? [low / 2, high * 2] : [low / (high / low) ** 0.04, high * (high / low) ** 0.04];
  const room = low === high ? Math.abs(low) * 0.1 || 1 : (high - low) * 0.04;
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

// ---------------------------------------------------------------- charts

const kMost = 600;  // points of a path
const kMostMarkers = 16;

// Which points of a long curve are drawn: of each part the lowest and the highest, and one gap if it has one.
function thin(values) {
  if (values.length <= kMost) return values.map((_, i) => i);
  const parts = kMost / 2, out = [];
  for (let part = 0; part < parts; ++part) {
    const from = Math.floor(part * values.length / parts), to = Math.floor((part + 1) * values.length / parts);
    let low = -1, high = -1, gap = -1;
    for (let i = from; i < to; ++i) {
      if (!isNumber(values[i])) { gap = i; continue; }
      if (low < 0 || values[i] < values[low]) low = i;
      if (high < 0 || values[i] > values[high]) high = i;
    }
    out.push(...distinct([low, high, gap].filter((i) => i >= 0)).sort((a, b) => a - b));
  }
  return out;
}

// A path through points [x, y]; null: a gap. A point between two gaps is a dot.
function pathOf(points) {
  let d = '', pen = 0;
  points.forEach((point, i) => {
    if (!point) { pen = 0; return; }
    d += `${pen ? 'L' : 'M'}${fixed(point[0])} ${fixed(point[1])}`;
    if (!pen && !points[i + 1]) d += 'h0';
    pen = 1;
  });
  return d;
}

// The band of a line: a closed path for each stretch that has a deviation.
function bandPath(line, chosen, px, py, floor) {
  const stretches = [[]];
  for (const i of chosen)
    if (isNumber(line.y[i]) && isNumber(line.sd[i])) stretches.at(-1).push(i);
    else if (stretches.at(-1).length) stretches.push([]);
  const edge = (list, sign) => list.map(
      (i) => `${fixed(px(line.x[i]))} ${fixed(py(Math.max(floor, line.y[i] + sign * line.sd[i])))}`);
  return stretches.filter((list) => list.length > 1)
      .map((list) => `M${[...edge(list, 1), ...edge(list, -1).reverse()].join('L')}Z`).join('');
}

// The scales of a chart for a width: {px, py, box, xs, ys}; null: nothing can be drawn.
function layout(chart, width, height) {
  const range = chart.range ?? rangeOf(chart.lines, chart.log);
  const xs = chart.lines.flatMap((line) => line.x.length ? [line.x[0], line.x.at(-1)] : []);
  if (!range || !xs.length) return null;
  const ys = chart.log ? logTicks(...range, 5) : linearTicks(...range, 7), texts = tickTexts(ys);
  const box = {left: 14 + 6.4 * Math.max(...texts.map((t) => t.length)), right: width - 12, top: 8,
               bottom: height - 36};
  let [low, high] = [Math.min(...xs), Math.max(...xs)];
  if (!chart.ticks && low > 0 && low < 0.3 * high) low = 0;
  if (low === high) { low -= 0.5; high += 0.5; }
  const inset = chart.ticks ? 14 : 4;
  const scale = chart.log ? Math.log : (v) => v, [bottom, top] = range.map(scale);
  return {
    box, ys, texts, range, low, high,
    px: (x) => box.left + inset + (x - low) / (high - low) * (box.right - box.left - 2 * inset),
    py: (y) => box.bottom - (scale(y) - bottom) / (top - bottom) * (box.bottom - box.top)
  };
}

function axes(chart, {box, ys, texts, low, high, px, py}) {
  const room = Math.floor((box.right - box.left) / (chart.ticks ? 46 : 70)), middle = (box.left + box.right) / 2;
  const stride = chart.ticks ? Math.ceil(chart.ticks.length / room) : 1;
  const xs = chart.ticks ? chart.ticks.map((_, i) => i).filter((i) => i % stride === 0) :
                           linearTicks(low, high, Math.min(room, 10, Math.max(3, Math.floor(high - low))));
  const names = chart.ticks ? xs.map((i) => chart.ticks[i]) : tickTexts(xs);
  return s('g', {},
    ys.map((y, i) => [
      s('line', {class: 'grid', x1: box.left, x2: box.right, y1: fixed(py(y)), y2: fixed(py(y))}),
      s('text', {x: box.left - 6, y: fixed(py(y) + 4), 'text-anchor': 'end'}, texts[i])
    ]),
    xs.map((x, i) => [
      s('line', {class: 'frame', x1: fixed(px(x)), x2: fixed(px(x)), y1: box.bottom, y2: box.bottom + 4}),
      s('text', {x: fixed(px(x)), y: box.bottom + 16, 'text-anchor': 'middle'}, names[i])
    ]),
    s('path', {class: 'frame', d: `M${fixed(box.left)} ${box.top}V${box.bottom}H${box.right}`}),
    s('text', {x: fixed(middle), y: box.bottom + 31, 'text-anchor': 'middle'}, chart.xLabel));
}

function curveShapes(line, chart, {px, py, range}) {
  const floor = chart.log ? range[0] : -Infinity;
  const points = (values, chosen) =>
      chosen.map((i) => isNumber(values[i]) && !(chart.log && values[i] <= 0) ? [px(line.x[i]), py(values[i])] : null);
  const chosen = thin(line.y), drawn = points(line.y, chosen);
  const faint = line.under ? ' under' : '';
  const curve = (kind, d) => s('path', {class: `curve ${kind}${faint}`, d, style: `stroke: ${line.colour}`,
                                        'stroke-dasharray': kind.includes('raw') ? null : line.dash || null});
  const out = [];
  if (line.sd?.some(isNumber))
    out.push(s('path', {class: `band${faint}`, style: `fill: ${line.colour}`,
                        d: bandPath(line, chosen, px, py, floor)}));
  if (line.raw) out.push(curve('train raw', pathOf(points(line.raw, thin(line.raw)))));
  out.push(curve(line.kind, pathOf(drawn)));
  const some = drawn.filter(Boolean), stride = Math.max(1, Math.ceil(some.length / kMostMarkers));
  if (line.marker && (line.kind === 'eval' || some.length < 4)) {
    const d = some.filter((_, i) => (some.length - 1 - i) % stride === 0).map((p) => markerPath(line.marker, ...p));
    out.push(s('path', {class: 'marker', d: d.join(''), style: `fill: ${line.colour}`}));
  }
  return out;
}

// Draws a chart into its place on the page, as wide as that is.
function drawChart(chart) {
  const width = Math.max(240, chart.plot.clientWidth), height = chart.height ?? 270;
  const scales = layout(chart, width, height);
  chart.scales = scales;
  if (!scales) { chart.plot.replaceChildren(note('Nothing to draw.')); return; }
  chart.cross = s('g', {class: 'cross'});
  chart.svg = s('svg', {viewBox: `0 0 ${width} ${height}`, height, 'aria-hidden': 'true'}, axes(chart, scales),
                chart.lines.map((line) => s('g', {}, curveShapes(line, chart, scales))), chart.cross);
  chart.plot.replaceChildren(chart.svg);
}

function figureOf(chart) {
  const save = (label, act) => h('button', {type: 'button', class: 'more', onclick: () => act(chart),
                                            'aria-label': `Save ${chart.title} as ${label}`}, label);
  chart.plot = h('div', {class: 'plot', tabindex: 0, role: 'group', 'aria-roledescription': 'chart',
                         'aria-label': `${chart.title} by ${chart.xLabel}. Arrow keys read the values.`});
  readable(chart);
  return h('figure', {class: 'chart', 'aria-label': chart.title},
    h('div', {class: 'chart-head'}, h('h3', {title: chart.title}, short(chart.title)),
      chart.hint && h('span', {class: 'quiet'}, chart.hint),
      h('span', {class: 'saves'}, save('SVG', saveSvg), save('PNG', savePng), save('CSV', saveCsv))),
    chart.plot);
}

let drawnCharts = [];

function showCharts(container, charts) {
  drawnCharts = charts;
  container.replaceChildren(...charts.map(figureOf));
  charts.forEach(drawChart);
}

// ---------------------------------------------------------------- values under the pointer

let reading = null;  // {chart, x}

function closeReading() {
  reading?.chart.cross?.replaceChildren();
  reading = null;
  $('tip').hidden = true;
}

// The number of the point of a line nearest to x; -1: x is beyond the line.
function nearest(line, x) {
  let low = 0, high = line.x.length - 1;
  if (high < 0) return -1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (line.x[middle] < x) low = middle + 1; else high = middle;
  }
  const best = low > 0 && x - line.x[low - 1] < line.x[low] - x ? low - 1 : low;
  const gap = Math.max(line.x[best + 1] - line.x[best] || 0, line.x[best] - line.x[best - 1] || 0);
  return Math.abs(line.x[best] - x) > Math.max(gap, 1e-9) ? -1 : best;
}

// A line for each label: that of the evaluation where there are two.
const legendOf = (lines) => [...new Map(lines.map((line) => [line.label, line])).values()];

const xText = (chart, x) => chart.ticks ? chart.ticks[x] : `${chart.xName} ${number(x)}`;

// Shows the values of all lines at x. Returns them as one text.
function read(chart, x, left, top) {
  if (reading && reading.chart !== chart) closeReading();
  reading = {chart, x};
  const {px, py, box} = chart.scales, shown = [];
  for (const line of chart.lines) {
    const i = nearest(line, x), y = line.y[i];
    if (i >= 0 && isNumber(y)) shown.push({line, i, y});
  }
  chart.cross.replaceChildren(
      s('line', {x1: fixed(px(x)), x2: fixed(px(x)), y1: box.top, y2: box.bottom}),
      ...shown.filter(({y}) => !chart.log || y > 0)
          .map(({line, i, y}) => s('circle', {cx: fixed(px(line.x[i])), cy: fixed(py(y)), r: 3.5,
                                              style: `fill: ${line.colour}`})));
  const texts = shown.map(({line, i, y}) => ({line, text: meanText({mean: y, sd: line.sd?.[i]})}));
  const tip = $('tip'), kinds = distinct(texts.map(({line}) => line.kindName));
  const cell = (label, kind) => texts.find(({line}) => line.label === label && line.kindName === kind)?.text ?? '';
  tip.replaceChildren(h('table', {},
    h('tr', {}, h('th', {}, xText(chart, x)), kinds.length > 1 && kinds.map((kind) => h('th', {class: 'n'}, kind))),
    legendOf(chart.lines).filter(({label}) => kinds.some((kind) => cell(label, kind))).map((line) => h('tr', {},
      h('td', {}, sample(line, line.kind), short(line.label)),
      kinds.map((kind) => h('td', {class: 'n'}, cell(line.label, kind)))))));
  tip.hidden = false;
  const rect = chart.plot.getBoundingClientRect(), at = left ?? rect.left + px(x), y = top ?? rect.top + 10;
  tip.style.left = '0';
  const side = at + 14 + tip.offsetWidth > innerWidth - 4 ? at - tip.offsetWidth - 14 : at + 14;
  tip.style.left = `${Math.max(4, Math.min(side, innerWidth - tip.offsetWidth - 4))}px`;
  tip.style.top = `${Math.max(4, Math.min(y, innerHeight - tip.offsetHeight - 4))}px`;
  return [xText(chart, x), ...texts.map(({line, text}) => `${line.name} ${text}`)].join('; ');
}

function readable(chart) {
  const {plot} = chart;
  const xs = () => distinct(chart.lines.flatMap((line) => line.x)).sort((a, b) => a - b);
  plot.addEventListener('pointermove', (event) => {
    if (!chart.scales) return;
    const {px, low, high} = chart.scales, rect = plot.getBoundingClientRect();
    const part = (event.clientX - rect.left - px(low)) / (px(high) - px(low));
    const wanted = low + Math.max(0, Math.min(1, part)) * (high - low), near = {x: xs()};
    const i = nearest(near, wanted);
    read(chart, near.x[Math.max(0, i)], event.clientX, event.clientY + 12);
  });
  plot.addEventListener('pointerleave', closeReading);
  plot.addEventListener('blur', closeReading);
  plot.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') closeReading();
    if (!chart.scales) return;
    const all = xs(), last = all.length - 1, now = reading?.chart === chart ? all.indexOf(reading.x) : -1;
    const one = Math.max(1, Math.round(last / 250)), ten = Math.max(1, Math.round(last / 10));
    const to = {ArrowRight: now + one, ArrowLeft: now < 0 ? last : now - one, PageDown: now + ten, PageUp: now - ten,
                Home: 0, End: last}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    $('spoken').textContent = read(chart, all[Math.max(0, Math.min(last, to))]);
  });
}

// ---------------------------------------------------------------- saving figures

function download(name, blob) {
  const url = URL.createObjectURL(blob), link = h('a', {href: url, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

const fileName = (chart, end) => `${chart.file.replace(/[^\w.=-]+/g, '-').slice(0, 100)}.${end}`;
const kInlined = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linejoin', 'stroke-linecap',
                  'fill-opacity', 'stroke-opacity', 'font-size', 'font-weight', 'text-anchor'];

// The chart with its title and its legend, in the light colours, without the page's style sheet.
function standalone(chart) {
  const [, , width, height] = chart.svg.getAttribute('viewBox').split(' ').map(Number);
  const keys = legendOf(chart.lines), wide = 50 + 6.6 * Math.max(...keys.map(({label}) => short(label).length));
  const about = chart.of ? `: ${chart.hint}` :
      chart.lines.some((line) => line.under) ? ' (training; with marks: evaluation)' : '';
  const columns = Math.max(1, Math.floor((width - 20) / wide)), rows = Math.ceil(keys.length / columns);
  const total = height + 26 + rows * 18 + 6, body = chart.svg.cloneNode(true);
  body.querySelector('.cross').remove();
  const svg = s('svg', {xmlns: kSvg, width, height: total, viewBox: `0 0 ${width} ${total}`, class: 'plot'},
    s('rect', {width, height: total, style: 'fill: #ffffff'}),
    s('text', {class: 'title', x: 14, y: 18}, short(chart.title) + about),
    s('g', {transform: 'translate(0 26)'}, ...body.childNodes),
    keys.map((line, i) => {
      const x = 14 + (i % columns) * wide, y = height + 36 + Math.floor(i / columns) * 18;
      return [sampleShapes(line, line.kind, x, y), s('text', {x: x + 34, y: y + 4}, short(line.label))];
    }));
  const root = document.documentElement, theme = root.dataset.theme, box = h('div', {class: 'plot hidden'}, svg);
  root.dataset.theme = 'light';
  document.body.append(box);
  for (const element of svg.querySelectorAll('path, line, text, rect')) {
    const style = getComputedStyle(element);
    const own = kInlined.filter((key) => style[key] && !(key.startsWith('font') && element.tagName !== 'text'));
    element.setAttribute('style', own.map((key) => `${key}: ${style.getPropertyValue(key)}`).join('; '));
    element.removeAttribute('class');
    if (element.tagName === 'text') element.setAttribute('font-family', 'Helvetica, Arial, sans-serif');
  }
  box.remove();
  if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
  svg.removeAttribute('class');
  return {text: new XMLSerializer().serializeToString(svg), width, height: total};
}

function saveSvg(chart) {
  if (chart.scales) download(fileName(chart, 'svg'), new Blob([standalone(chart).text], {type: 'image/svg+xml'}));
}

function savePng(chart) {
  if (!chart.scales) return;
  const {text, width, height} = standalone(chart), image = new Image();
  const url = URL.createObjectURL(new Blob([text], {type: 'image/svg+xml'}));
  image.onload = () => {
    const canvas = h('canvas', {width: 2 * width, height: 2 * height});
    canvas.getContext('2d').drawImage(image, 0, 0, 2 * width, 2 * height);
    URL.revokeObjectURL(url);
    canvas.toBlob((blob) => download(fileName(chart, 'png'), blob), 'image/png');
  };
  image.src = url;
}

// All points of the lines that are drawn, not only those that a path is thinned to.
function csvOf(chart) {
  const cell = (value) => {
    let text = String(value ?? '');
    // A spreadsheet would run it as a formula.
    if (/^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text))) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  const rows = [[chart.of ?? 'group', 'kind', chart.xName, 'value', 'sd', 'runs', 'smoothed']];
  for (const line of chart.lines)
    line.x.forEach((x, i) => rows.push([line.label, line.kindName ?? line.kind, chart.ticks ? chart.ticks[x] : x,
      line.raw ? line.raw[i] : line.y[i], line.raw ? line.rawSd[i] : line.sd?.[i], line.n?.[i],
      line.raw ? line.y[i] : null]));
  return rows.map((row) => row.map(cell).join(',')).join('\n') + '\n';
}

const saveCsv = (chart) => download(fileName(chart, 'csv'), new Blob([csvOf(chart)], {type: 'text/csv'}));
