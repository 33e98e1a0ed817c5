// The first view: events, then every target and variant.

import { ago, api, count, el, failedShare, ms, nameOf, say, swatch, targetLink, time } from './base.js';
import { allEvents, at, eventItem, nothingChanged } from './events.js';
import { asParameters, words } from './period.js';
import { partKeys, partsBar, spark } from './spark.js';

const EVENTS_SHOWN = 12;
const ROWS_SHOWN = 100;
const COLUMNS = [
  ['name', 'Target', (row) => row.target + ' ' + nameOf(row)],
  ['trend', 'Median to p95', null],
  ['median', 'Median now', (row) => row.now?.median_ns ?? null],
  ['p95', 'p95 now', (row) => row.now?.p95_ns ?? null],
  ['parts', 'Parts now', null],
  ['failures', 'Failures', (row) => row.samples ? row.failed_share ?? row.failures / row.samples : null],
  ['change', 'Last change', (row) => row.changed ?? null],
];

// Rows that match every word of the filter: `name=value` matches a tag, other words match any text.
function matches(row, filter, tag) {
  const tags = Object.entries(row.tags).map(([name, value]) => `${name}=${value}`);
  if (tag && !tags.includes(tag)) return false;
  const text = [row.target, row.variant, nameOf(row), row.place, row.url, ...tags].join(' ').toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function sorted(rows, name, descending) {
  const column = COLUMNS.find(([known, , key]) => known === name && key) || COLUMNS[0];
  const key = column[2], sign = descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    // Unknown values come last in both orders.
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (typeof x === 'string' ? x.localeCompare(y) : x - y);
  });
}

function failuresText(row) {
  const kinds = Object.entries(row.failures_by_type).sort((a, b) => b[1] - a[1]);
  return kinds.map(([kind, number]) => `${kind} ${number}`).join(', ');
}

// Broken promises, in words.
function overBudget(row) {
  const over = (row.budgets ?? []).filter((budget) => budget.over && budget.sentence);
  return over.map((budget) => el('span', { class: 'over', title: budget.sentence }, `over budget: ${budget.sentence.split(/[:(]/)[0].trim()}`));
}

function cells(row, scale, steps) {
  const now = row.now, failed = row.failures > 0;
  return [
    el('th', { scope: 'row' }, el('a', { href: targetLink(row, row.period), class: 'row-link' }, el('span', { class: 'target' }, row.target)),
      el('span', { class: 'variant' }, nameOf(row), row.place && ` · ${row.place}`, !row.measured && ' · no longer measured'), overBudget(row)),
    el('td', { class: 'trend' }, row.steps.length ? spark(row, steps, 160, 32) : el('span', { class: 'faint' }, 'no samples')),
    el('td', { class: 'median', 'data-label': 'median' }, now ? ms(now.median_ns) : '–'),
    el('td', { class: 'p95', 'data-label': 'p95' }, now ? ms(now.p95_ns) : '–'),
    el('td', { class: 'parts' }, now && Object.keys(now.parts_ns).length ? partsBar(now.parts_ns, scale, 150, 12) : null),
    el('td', { class: 'failures' + (failed ? ' some' : ''), 'data-label': 'failed' }, row.samples ? (failed ? failedShare(row) : 'none') : '–',
      failed && el('span', { class: 'kinds', title: failuresText(row) }, failuresText(row))),
    el('td', { class: row.changed ? 'change' : 'change never', 'data-label': 'changed' }, row.changed ? el('span', { title: time(row.changed) }, ago(row.changed)) : el('span', { class: 'faint' }, '–')),
  ];
}

export async function overview(view) {
  const { query, period, main, go, signal } = view;
  const [answer, { events, more }] = await Promise.all([
    api('overview', { from: period.from, until: period.until }, signal), allEvents(period),
  ]);
  const rows = prepare(answer, events, period);
  const byId = new Map(rows.map((row) => [row.series, row]));
  const samples = rows.reduce((sum, row) => sum + row.samples, 0);
  document.title = 'firstbyte monitor';
  main.replaceChildren(
    changes(events, more, byId, period, samples),
    targets(rows, answer, query, go),
  );
  say(`${count(events.length, 'event')}, ${count(rows.length, 'series').replace('seriess', 'series')}`);
  return async () => refresh(view, main, byId, events);
}

function prepare(answer, events, period) {
  const changed = new Map();
  for (const event of events) {
    for (const id of event.series) changed.set(id, Math.max(changed.get(id) || 0, at(event)));
  }
  for (const row of answer.rows) {
    row.changed = changed.get(row.series);
    row.period = asParameters(period);
  }
  return answer.rows;
}

function changes(events, more, byId, period, samples) {
  const list = el('ol', { class: 'events' });
  const show = (from, until) => list.append(...events.slice(from, until).map((event) => eventItem(event, byId)));
  show(0, EVENTS_SHOWN);
  const rest = events.length - EVENTS_SHOWN;
  const all = rest > 0 && el('button', { class: 'more', click: () => { all.remove(); show(EVENTS_SHOWN); list.children[EVENTS_SHOWN].querySelector('a')?.focus(); } },
    `Show ${count(rest, 'more event')}${more ? ', and there are earlier ones: choose a shorter period' : ''}`);
  return el('section', { 'aria-labelledby': 'changed-h' },
    el('h1', { id: 'changed-h' }, 'What changed'),
    el('p', { class: 'note' }, words(period)),
    events.length ? list : nothingChanged(period, samples, words(period)), all);
}

function targets(rows, answer, query, go) {
  const state = { filter: query.get('filter') || '', tag: query.get('tag') || '', sort: query.get('sort') || 'name', down: query.get('down') === '1' };
  const steps = Math.ceil((answer.until - answer.from) / answer.step_seconds);
  const longest = Math.max(1, ...rows.map((row) => Object.values(row.now?.parts_ns || {}).reduce((sum, ns) => sum + ns, 0)));
  // Otherwise one very slow target would leave the others without visible bars.
  const totals = rows.map((row) => Object.values(row.now?.parts_ns || {}).reduce((sum, ns) => sum + ns, 0)).filter((ns) => ns).sort((a, b) => a - b);
  const scale = Math.min(longest, 3 * (totals[Math.floor(totals.length / 2)] || longest));
  const body = el('tbody', {}), found = el('p', { class: 'note', id: 'found', role: 'status' });
  const moreRows = el('button', { class: 'more', hidden: true, click: () => show(ROWS_SHOWN) });
  let chosen = [], shown = 0;
  const show = (number) => {
    const next = chosen.slice(shown, shown + number);
    body.append(...next.map((row) => {
      const line = el('tr', { 'data-series': row.series, 'data-median-ns': row.median_ns, 'data-samples': row.samples, 'data-failures': row.failures }, cells(row, scale, steps));
      row.redraw = () => line.replaceChildren(...cells(row, scale, steps));
      return line;
    }));
    shown += next.length;
    moreRows.hidden = shown >= chosen.length;
    moreRows.textContent = `Show ${Math.min(ROWS_SHOWN, chosen.length - shown)} more of ${chosen.length - shown}`;
  };
  const choose = () => {
    chosen = sorted(rows.filter((row) => matches(row, state.filter, state.tag)), state.sort, state.down);
    shown = 0;
    body.replaceChildren();
    show(ROWS_SHOWN);
    found.textContent = chosen.length === rows.length ? `${rows.length} targets and variants` : `${chosen.length} of ${rows.length} targets and variants`;
    heads.forEach((head) => head.setAttribute('aria-sort', head.dataset.name !== state.sort ? 'none' : state.down ? 'descending' : 'ascending'));
  };
  const keep = (replace) => go({ filter: state.filter, tag: state.tag, sort: state.sort === 'name' ? '' : state.sort, down: state.down ? '1' : '' }, { quiet: true, replace });
  const heads = COLUMNS.map(([name, label, key]) => el('th', { scope: 'col', class: name, 'data-name': name },
    key ? el('button', { id: 'sort-' + name, click: () => { state.down = state.sort === name ? !state.down : name !== 'name'; state.sort = name; choose(); keep(); } }, label, el('span', { class: 'arrow', 'aria-hidden': 'true' })) : label));
  const tags = [...new Set(rows.flatMap((row) => Object.entries(row.tags).map(([name, value]) => `${name}=${value}`)))].sort();
  const filter = el('input', { id: 'filter', type: 'search', placeholder: 'Filter ( / )', 'aria-label': 'Filter targets', value: state.filter, autocomplete: 'off',
    input: () => { state.filter = filter.value; choose(); keep(true); } });
  const tag = el('select', { id: 'tag', 'aria-label': 'Tag', change: () => { state.tag = tag.value; choose(); keep(); } },
    el('option', { value: '' }, 'All tags'), tags.map((name) => el('option', { value: name, selected: name === state.tag }, name)));
  choose();
  const used = partKeys.filter(([name]) => rows.some((row) => row.now?.parts_ns[name]));
  return el('section', { 'aria-labelledby': 'targets-h' },
    el('h2', { id: 'targets-h' }, 'Targets'),
    el('div', { class: 'tools' }, filter, tags.length > 0 && tag, found),
    el('ul', { class: 'legend' }, used.map(([, place, label]) => el('li', {}, swatch('q' + place), label))),
    el('table', { class: 'targets' }, el('thead', {}, el('tr', {}, heads)), body), moreRows,
    el('p', { class: 'note' }, `Times in ms. The trend is by ${answer.step}; "now" is the hour under way and the one before it, up to the period's end; a bar is medians of the parts.`));
}

// Updates the figures of existing rows in place, so that nothing moves.
async function refresh(view, main, byId, events) {
  const [answer, news] = await Promise.all([api('overview', { from: view.period.from, until: view.period.until }), allEvents(view.period)]);
  if (view.signal.aborted) return;
  const rows = prepare(answer, news.events, view.period);
  for (const row of rows) {
    const old = byId.get(row.series);
    if (!old) continue;
    Object.assign(old, row);
    if (old.redraw && !main.querySelector(`tr[data-series="${row.series}"]`)?.contains(document.activeElement)) old.redraw();
  }
  const known = new Set(events.map((event) => event.id));
  const fresh = news.events.filter((event) => !known.has(event.id)).length;
  if (fresh) view.announce(`${count(fresh, 'new event')}`);
}

