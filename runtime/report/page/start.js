// Header, tabs, keys, and the start of the page.

// ---------------------------------------------------------------- header, tabs and keys

function drawHeader() {
  const {runs} = data, plugins = distinct(runs.flatMap((run) => run.plugins)), [run] = runs;
  const fact = (key, value, type) => h('div', {class: type}, h('dt', {}, key), h('dd', {}, value));
  $('model').textContent = distinct(runs.map((r) => r.model)).join(', ');
  $('facts').append(...[
    runs.length === 1 ? [fact('run', run.name), fact('seed', String(run.seed))] :
                        fact('runs', `${count(runs.length, 'run')} in ${count(groups.length, 'group')}`),
    plugins.length ? plugins.map((name) => fact('plugin', name, 'plugin')) : fact('plugin', 'none'),
    fact('Rewire', data.version)
  ].flat());
}

function drawTabs() {
  kTabs.forEach(({id, title}, i) => {
    $('tabs').append(h('button', {type: 'button', role: 'tab', id: `tab-${id}`, 'aria-controls': `panel-${id}`,
                                  'aria-keyshortcuts': String(i + 1), onclick: () => openTab(id)}, title));
    $('panels').append(h('div', {role: 'tabpanel', id: `panel-${id}`, class: 'panel', 'aria-labelledby': `tab-${id}`,
                                 tabindex: 0, hidden: true}));
  });
  $('tabs').addEventListener('focusin', (event) => {
    // Arrow keys open the view that they reach; a click does it by itself.
    const tab = event.target.closest('[role=tab]')?.id.slice('tab-'.length);
    if (tab && event.target.matches(':focus-visible')) openTab(tab);
  });
}

const openTab = (tab) => { if (tab !== state.tab) go({tab}); };

function markTabs() {
  for (const {id} of kTabs) {
    $(`tab-${id}`).setAttribute('aria-selected', String(id === state.tab));
    $(`panel-${id}`).hidden = id !== state.tab;
  }
  roving($('tabs'), '[role=tab]');
}

function setUpKeys() {
  const help = $('help');
  const showHelp = () => { if (!help.open) help.showModal(); };
  $('help-open').addEventListener('click', showHelp);
  help.addEventListener('click', (event) => { if (event.target === help) help.close(); });
  $('skip').addEventListener('click', () => $(`panel-${state.tab}`).focus());
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open || event.target.matches('select')) return;
    if (event.key === '?') { event.preventDefault(); showHelp(); }
    else if (event.key === 'Escape') closeReading();
    else if (/^[1-9]$/.test(event.key) && kTabs[event.key - 1]) {
      openTab(kTabs[event.key - 1].id);
      $(`tab-${state.tab}`).focus();
    }
  });
}

// ---------------------------------------------------------------- start

setUpTheme();
drawHeader();
drawTabs();
setUpKeys();
addEventListener('hashchange', apply);
addEventListener('resize', () => {
  closeReading();
  drawnCharts.filter((chart) => chart.plot.isConnected && chart.plot.clientWidth).forEach(drawChart);
});
apply();
markReady();
