// Search, keys, and the start of the page.

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
