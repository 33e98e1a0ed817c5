// Routing: the view of each address, navigation between views, and keys common to all views.

import { el, link, say, zone } from './base.js';
import { overview } from './overview.js';
import { asParameters, controls, periodOf, stepped } from './period.js';
import { target } from './target.js';

const REFRESH = 60000;
const main = document.getElementById('main');
let current = null;

// Changes the address of this page: sets parameters of the query, and removes empty ones.
function go(parameters, options) {
  const query = new URLSearchParams(location.search);
  if ('from' in parameters || 'period' in parameters) ['from', 'until', 'period', 'step', 'at'].forEach((name) => query.delete(name));
  for (const [name, value] of Object.entries(parameters)) {
    if (value === '' || value === null || value === undefined) query.delete(name);
    else query.set(name, value);
  }
  const address = link(location.pathname, Object.fromEntries(query));
  if (options?.replace) history.replaceState(null, '', address);
  else if (address !== location.pathname + location.search) history.pushState(null, '', address);
  // A quiet change is shown already.
  if (!options?.quiet) show();
}

async function show() {
  current?.controller.abort();
  clearTimeout(current?.timer);
  const controller = new AbortController(), query = new URLSearchParams(location.search), period = periodOf(query);
  const view = { query, period, main, go, signal: controller.signal, announce };
  const mine = current = { controller, period, view };
  document.getElementById('home').href = link('/', asParameters(period));
  const focused = document.activeElement?.id;
  document.getElementById('period').replaceChildren(...controls(period, go));
  if (focused) document.getElementById(focused)?.focus();
  main.setAttribute('aria-busy', 'true');
  try {
    const make = location.pathname === '/target' ? target : overview;
    const refresh = await make(view);
    if (current !== mine) return;
    if (focused && document.activeElement === document.body) document.getElementById(focused)?.focus();
    if (refresh && period.name) again(mine, refresh);
  } catch (error) {
    if (current !== mine || error.name === 'AbortError') return;
    main.replaceChildren(el('section', { class: 'problem', role: 'alert' }, el('h1', {}, 'This page cannot be shown'), el('p', {}, error.message),
      el('p', {}, el('button', { click: show }, 'Try again'), ' ', el('a', { href: '/' }, 'All targets'))));
  } finally {
    if (current === mine) main.removeAttribute('aria-busy');
  }
}

// Refreshes every minute while the page is visible.
function again(mine, refresh) {
  mine.timer = setTimeout(async () => {
    if (!document.hidden) {
      mine.view.period = periodOf(mine.view.query);
      await refresh().catch((error) => say(error.message));
    }
    if (current === mine) again(mine, refresh);
  }, REFRESH);
}

// Announces news; they are shown on request, so that nothing moves by itself.
function announce(what) {
  const place = document.getElementById('place');
  place.replaceChildren(el('button', { class: 'news', click: () => { place.replaceChildren(); show(); } }, `${what}: show`));
  say(what);
}

function typing(node) {
  return node.closest?.('input, select, textarea') !== null;
}

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const filter = document.getElementById('filter');
  if (event.key === 'Escape' && event.target === filter) {
    if (filter.value) { filter.value = ''; filter.dispatchEvent(new Event('input')); } else filter.blur();
    event.preventDefault();
  } else if (typing(event.target)) {
    return;
  } else if (event.key === '/' && filter) {
    event.preventDefault();
    filter.focus();
    filter.select();
  } else if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
    event.preventDefault();
    go(asParameters(stepped(current.period, event.key === 'ArrowLeft' ? -1 : 1)));
  }
});

// Links between views do not reload the page; other links do.
document.addEventListener('click', (event) => {
  const anchor = event.target.closest?.('a[href]');
  if (!anchor || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const address = new URL(anchor.href);
  if (address.origin !== location.origin || !['/', '/target'].includes(address.pathname) || address.hash) return;
  event.preventDefault();
  history.pushState(null, '', address.pathname + address.search);
  show().then(() => { scrollTo(0, 0); main.focus({ preventScroll: true }); });
});

addEventListener('popstate', show);
document.getElementById('zone').textContent = `Times are in ${zone()}, your time zone, unless they say UTC. Daily and hourly sums use UTC.`;
show();
