// Tables of the summary: what separates two groups, and tables as text to copy.

// ---------------------------------------------------------------- differences over seeds

// b − a over the seeds that both groups have: {mean, low, high, n}. [low, high] is the 95 % interval of the mean, by
// Student's t; of one pair there is none.
function pairedDifference(a, b, column) {
  const bySeed = (group) => {
    const values = new Map();
    for (const run of group.runs)
      if (isNumber(column.of(run))) values.set(run.seed, [...values.get(run.seed) ?? [], column.of(run)]);
    return values;
  };
  const before = bySeed(a), after = [...bySeed(b)].filter(([seed]) => before.has(seed));
  const {mean, sd, n} = meanOf(after.map(([seed, values]) => meanOf(values).mean - meanOf(before.get(seed)).mean));
  if (n < 2) return {mean, low: null, high: null, n};
  const half = data.student_95[n - 2] * sd / Math.sqrt(n);
  return {mean, low: mean - half, high: mean + half, n};
}

// Whether the interval excludes 0. One without width, of differences that are the same by chance, says nothing.
const separates = ({low, high}) => isNumber(low) && low < high && (low > 0 || high < 0);
const isBetter = (column, {mean}) => directionOf(column.name) === 'lower' ? mean < 0 : mean > 0;

// "+0.0042 [−0.0010, +0.0094]", with the decimals that two digits of the interval's half need.
function differenceText({mean, low, high}) {
  if (!isNumber(mean)) return '–';
  const half = isNumber(low) ? (high - low) / 2 : Math.abs(mean);
  const decimals = half > 0 ? Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(half)))) : 4;
  const text = (value) => `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(decimals)}`;
  return isNumber(low) ? `${text(mean)} [${text(low)}, ${text(high)}]` : text(mean);
}

// ---------------------------------------------------------------- tables as text

const kLatex = {'\\': '\\textbackslash{}', '~': '\\textasciitilde{}', '^': '\\textasciicircum{}', '|': '\\textbar{}',
                '±': '$\\pm$', '−': '$-$', '–': '--', '…': '\\ldots{}'};
const latexCell = ({text, marked}) => {
  const escaped = text.replace(/[\\~^|&%#$_{}±−–…]/g, (c) => kLatex[c] ?? `\\${c}`);
  return marked ? `\\textbf{${escaped}}` : escaped;
};
const markdownCell = ({text, marked}) => {
  const escaped = text.replace(/\|/g, '\\|');
  return marked ? `**${escaped}**` : escaped;
};

// A table is {head: [text], rows: [[{text, marked}]]}. LaTeX needs no package.
function latexOf({head, rows}) {
  const line = (cells) => `${cells.map(latexCell).join(' & ')} \\\\\n`;
  return `\\begin{tabular}{l${'r'.repeat(head.length - 1)}}\n\\hline\n${line(head.map((text) => ({text})))}\\hline\n` +
      `${rows.map(line).join('')}\\hline\n\\end{tabular}\n`;
}

function markdownOf({head, rows}) {
  const line = (cells) => `| ${cells.map(markdownCell).join(' | ')} |\n`;
  return `${line(head.map((text) => ({text})))}${'|---'.repeat(head.length)}|\n${rows.map(line).join('')}`;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // where the page may not, as when it is opened by http
    const area = h('textarea', {class: 'hidden', 'aria-hidden': 'true'});
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

// Two buttons; `table` makes what is copied of what is shown at that time.
function copyButtons(name, table) {
  const button = (form, write) => {
    const element = h('button', {type: 'button', class: 'more', 'aria-label': `Copy ${name} as ${form}`,
      onclick: async () => {
        await copy(write(table()));
        $('spoken').textContent = `${name} is copied as ${form}`;
        element.textContent = 'Copied';
        setTimeout(() => { element.textContent = `Copy as ${form}`; }, 2000);
      }}, `Copy as ${form}`);
    return element;
  };
  return h('div', {class: 'copies'}, button('LaTeX', latexOf), button('Markdown', markdownOf));
}

// ---------------------------------------------------------------- the table of differences

// How each group differs from the first, in figures that have a direction. null: there is nothing to compare.
function differencesOf(figures) {
  const columns = figures.filter((c) => directionOf(c.name)), [first, ...others] = groups;
  const rows = others.map((group) => ({group, cells: columns.map((c) => pairedDifference(first, group, c))}))
      .filter(({cells}) => cells.some((d) => d.n));
  if (!rows.length) return null;
  const looks = (d, c) => ({text: differenceText(d), marked: separates(d),
                            type: separates(d) ? (isBetter(c, d) ? 'n best' : 'n differs') : 'n'});
  const pairs = (cells) => ({text: String(Math.max(...cells.map((d) => d.n))), type: 'n'});
  const head = ['group', 'seeds', ...columns.map((c) => `${c.name} ${c.title}`)];
  const lines = rows.map(({group, cells}) => ({group, cells: [pairs(cells), ...cells.map((d, i) => looks(d, columns[i]))]}));
  const table = h('table', {class: 'differences-table'},
    h('thead', {}, h('tr', {}, head.map((text, i) => h('th', {scope: 'col', class: i ? 'n' : null}, text)))),
    h('tbody', {}, lines.map(({group, cells}) => h('tr', {},
      h('th', {scope: 'row', title: group.label}, sample(lookOf(group.number)), ' ', short(group.label)),
      cells.map(({text, type}) => h('td', {class: type}, text.split(/(?<= )(?=\[)/).map((part) => h('span', {}, part))))))));
  const model = () => ({head, rows: lines.map(({group, cells}) => [{text: group.label}, ...cells])});
  return {table, model, first, hasInterval: rows.some(({cells}) => cells.some((d) => d.n > 1))};
}
