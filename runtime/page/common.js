// What the pages have in common: elements, what is remembered from one visit to the next, the theme.
'use strict';

const $ = (id) => document.getElementById(id);

const kSvg = 'http://www.w3.org/2000/svg';

function fill(element, properties, children) {
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? '' : value);
  }
  element.append(
      ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// An HTML element: h('p', {class: 'note'}, 'text', child, …).
const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);

// An SVG element.
const s = (tag, properties, ...children) => fill(document.createElementNS(kSvg, tag), properties, children);

const count = (n, one, many = one + 's') => `${n.toLocaleString('en')} ${n === 1 ? one : many}`;

// Without storage a choice lasts until the page is closed.
const remembered = {
  get(key) { try { return localStorage.getItem(`rewire.${key}`); } catch { return null; } },
  set(key, value) { try { localStorage.setItem(`rewire.${key}`, value); } catch { /* see above */ } },
};

function setUpTheme() {
  const set = (theme) => {
    if (theme === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };
  const theme = ['light', 'dark'].includes(remembered.get('theme')) ? remembered.get('theme') : 'system';
  set(theme);
  for (const input of $('theme').querySelectorAll('input')) {
    input.checked = input.value === theme;
    input.addEventListener('change', () => { set(input.value); remembered.set('theme', input.value); });
  }
}

// The first view is drawn.
function markReady() {
  document.documentElement.dataset.ready = 'true';
  document.documentElement.dataset.readyMs = String(Math.round(performance.now()));
}

