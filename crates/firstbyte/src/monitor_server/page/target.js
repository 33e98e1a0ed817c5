// One variant of a target over time: phases, failures and events; below them, on the same axis, negotiated facts.

import { api, count, el, failedShare, link, moment, ms, nameOf, say, share, swatch, targetLink, time, utc, withUnit } from './base.js';
import { PHASES, PHASE_LABELS, axis, interact, phasesChart, strip } from './chart.js';
import { allEvents, around_of, at, endOf, eventItem, isOutage } from './events.js';
import { asParameters, local, stepped, words } from './period.js';
import { spark } from './spark.js';

const FACTS = [
  ['address', 'Address'], ['tls.version', 'TLS version'], ['http.version', 'HTTP version'], ['tls.group', 'Key exchange'],
  ['tls.handshake', 'Handshake'], ['tls.early_data', '0-RTT'], ['tls.certificate', 'Certificate'], ['tls.chain_bytes', 'Chain, bytes'],
  ['tls.cipher_suite', 'Cipher suite'], ['http.status', 'Status'], ['round_trips', 'Round trips'], ['stalls', 'Stalls'],
  ['quic.retry', 'QUIC Retry'], ['quic.amplification', 'QUIC amplification limit'],
];
const STRIP = 14, LISTED = 5;

export async function target(view) {
  const { query, period, main, signal } = view;
  const name = query.get('target') || '';
  const about = { from: period.from, until: period.until };
  const [ways, told, notes] = await Promise.all([
    api('overview', { target: name, ...about }, signal), allEvents(period), api('annotations', { since: period.from, until: period.until }, signal),
  ]);
  if (!ways.rows.length) throw new Error(`Unknown target "${name}" in this period.`);
  const wanted = (row) => row.variant === (query.get('variant') ?? row.variant) && row.place === (query.get('place') ?? row.place);
  const row = ways.rows.find(wanted) || ways.rows[0];
  const history = await api('history', { target: name, variant: row.variant, place: row.place, step: query.get('step'), ...about }, signal);
  const events = told.events.filter((event) => event.series.includes(row.series)).sort((a, b) => at(a) - at(b));
  const samples = await samplesOf(view, row);
  if (signal.aborted) return null;
  document.title = `${name} · firstbyte monitor`;
  main.replaceChildren(
    heading(row, period), waysList(ways, row, query, period), charts(view, history, events, notes.annotations), samples || '',
    changes(events, row, notes.annotations), comparisons(row, period, events));
  main.querySelector('.charts').dispatchEvent(new Event('placed'));
  if (samples && query.get('at')) samples.scrollIntoView?.({ block: 'nearest' });
  say(`${name}, ${nameOf(row)}: ${count(history.sum.samples, 'sample')}`);
  return null;
}

function heading(row, period) {
  const tags = Object.entries(row.tags);
  return el('section', { 'aria-labelledby': 'target-h' },
    el('p', { class: 'crumbs' }, el('a', { href: link('/', row.period || asParameters(period)), id: 'back' }, 'All targets')),
    el('h1', { id: 'target-h' }, row.target, ' ', el('span', { class: 'variant' }, nameOf(row))),
    el('p', { class: 'sub' }, row.url, row.place && ` · from ${row.place}`, tags.map(([name, value]) => ` · ${name} ${value}`)));
}

// A small chart for each variant of the target, to choose from.
function waysList(ways, chosen, query, period) {
  if (ways.rows.length < 2) return '';
  const steps = Math.ceil((ways.until - ways.from) / ways.step_seconds);
  const items = ways.rows.map((row) => el('li', {}, el('a', { href: targetLink(row, asParameters(period)), 'aria-current': row.series === chosen.series ? 'true' : null },
    el('span', { class: 'variant-name' }, nameOf(row), row.place && row.place !== chosen.place ? ` · ${row.place}` : ''),
    row.steps.length ? spark(row, steps, 160, 36) : el('span', { class: 'faint' }, 'no samples'),
    el('span', { class: 'figures' }, withUnit(row.median_ns), row.failures ? ` · ${failedShare(row)} failed` : ''))));
  return el('nav', { 'aria-label': 'Variants' }, el('ul', { class: 'ways' }, items));
}

function figures(history) {
  const { sum } = history;
  const pairs = [
    ['Samples', sum.samples.toLocaleString('en'), 'samples', sum.samples],
    ['Failed', sum.failures ? `${sum.failures} (${failedShare(sum)} of the time)` : 'none', 'failures', sum.failures],
    ['Total, median', withUnit(sum.median_ns), 'median', sum.median_ns],
    ['p90', withUnit(sum.p90_ns), 'p90', sum.p90_ns],
    ['p95', withUnit(sum.p95_ns), 'p95', sum.p95_ns],
    ['p99', withUnit(sum.p99_ns), 'p99', sum.p99_ns],
    ['Server', withUnit(sum.parts_ns.server), 'server', sum.parts_ns.server],
    ['Round trip', withUnit(sum.rtt_ns), 'rtt', sum.rtt_ns],
  ];
  const kinds = Object.entries(sum.failures_by_type).map(([kind, n]) => `${kind} ${n}`).join(', ');
  return [
    el('dl', { class: 'figures', id: 'figures' }, pairs.map(([name, text, id, raw]) => el('div', {}, el('dt', {}, name), el('dd', { id: 'sum-' + id, 'data-value': raw ?? '' }, text)))),
    kinds && el('p', { class: 'note' }, `Failures by type: ${kinds}.`),
  ];
}

function legend(history) {
  const used = PHASES.map((phase, i) => [phase, i]).filter(([phase]) => history.points.some((point) => point.phases_ns[phase]));
  return el('ul', { class: 'legend' },
    used.map(([, i]) => el('li', {}, swatch('p' + i), PHASE_LABELS[i])),
    el('li', {}, el('i', { class: 'swatch line' }), 'p95 of the total'), el('li', {}, swatch('fx'), 'failed'), el('li', {}, swatch('outage'), 'outage'));
}

function charts(view, history, events, notes) {
  const place = el('div', { class: 'charts' });
  const readout = el('p', { class: 'readout', 'aria-live': 'polite' }, 'Point at the chart, or move to it with Tab and in it with the arrow keys. Drag to zoom; click a step to look closer.');
  const box = el('div', { class: 'plot' });
  const marks = events.map((event) => ({ at: at(event), downUntil: isOutage(event) ? endOf(event) ?? Date.now() / 1000 : null, sentence: event.sentence }));
  const draw = () => {
    const width = Math.max(280, Math.floor(box.clientWidth || 800));
    const scale = axis(history, width);
    const main = phasesChart(history, scale, width < 600 ? 260 : 340, marks, notes);
    main.setAttribute('tabindex', '0');
    main.setAttribute('id', 'chart');
    main.setAttribute('role', 'img');
    main.setAttribute('aria-label', `Medians of the phases by ${history.step}, ${words(view.period)}; arrow keys give values`);
    const drawn = [main], rows = [main];
    for (const [fact, label] of FACTS) {
      const values = valuesOf(history, fact);
      if (!values.length) continue;
      const chart = strip(history, fact, values.map(([value]) => value), scale, STRIP);
      drawn.push(chart);
      rows.push(el('div', { class: 'fact', 'data-fact': fact }, el('p', {}, el('b', {}, label), values.slice(0, LISTED).map(([value, n, all], i) =>
        el('span', { class: 'value', title: value }, swatch('f' + Math.min(i, 7)), el('span', { class: 'text' }, value), values.length > 1 && el('span', { class: 'faint' }, ' ' + share(n, all)))),
        values.length > LISTED && el('span', { class: 'faint' }, `and ${values.length - LISTED} more`)), chart));
    }
    const focused = document.activeElement?.id === 'chart';
    box.replaceChildren(...rows);
    if (focused) main.focus({ preventScroll: true });
    interact(main, drawn, history, scale, readout, {
      zoom: (from, until) => view.go({ from, until }),
      finer: (point) => finer(view, history, point),
    });
  };
  let width = 0;
  const watch = new ResizeObserver(() => {
    if (!box.isConnected) return watch.disconnect();
    if (Math.abs(box.clientWidth - width) > 1) { width = box.clientWidth; draw(); }
    return undefined;
  });
  place.addEventListener('placed', () => { width = box.clientWidth; draw(); watch.observe(box); }, { once: true });
  place.append(figures(history)[0], figures(history)[1] || '', legend(history),
    history.points.length ? '' : el('p', { class: 'nothing' }, `No samples: ${words(view.period)}.`), readout, box,
    el('p', { class: 'note' }, `By ${history.step}. Areas are medians of the phases, which do not add up to the median of the total. ${
      history.damaged ? `${count(history.damaged, 'rollup')} of the store cannot be read and ${history.damaged === 1 ? 'is' : 'are'} left out.` : ''}`));
  return place;
}

// Values of a fact, the most frequent first: value, count, total.
function valuesOf(history, fact) {
  const counts = history.sum.facts[fact] || {}, all = Object.values(counts).reduce((sum, n) => sum + n, 0);
  return Object.entries(counts).sort((a, b) => b[1] - a[1]).map(([value, n]) => [value, n, all]);
}

// A day is shown by hours or minutes, an hour by minutes, a minute by samples.
function finer(view, history, point) {
  if (history.step === 'minute') view.go({ at: point.at });
  else view.go({ from: point.at, until: point.at + history.step_seconds });
}

async function samplesOf(view, row) {
  const minute = Number(view.query.get('at'));
  if (!minute) return null;
  const until = minute + 60, title = el('h2', { id: 'samples-h' }, `Samples of ${time(minute)} `, el('span', { class: 'faint' }, utc(minute)));
  let body;
  try {
    const answer = await api('samples', { target: row.target, variant: row.variant, place: row.place, from: minute, until }, view.signal);
    body = answer.samples.length ? samplesTable(answer.samples, row) : el('p', {}, answer.files
      ? 'The raw files have no sample of this minute.' : 'The raw samples of this day were deleted; only their sums are left.');
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    body = el('p', { role: 'alert' }, error.message);
  }
  return el('section', { 'aria-labelledby': 'samples-h', id: 'samples' }, title, body);
}

function samplesTable(samples, row) {
  const line = (sample) => el('tr', {},
    el('th', { scope: 'row' }, el('a', { href: link('/sample', { file: sample.file, offset: sample.offset, target: row.target, variant: row.variant, place: row.place, back: location.search }) },
      time(sample.started_unix_ns / 1e9, 'second'))),
    el('td', {}, ms(sample.metrics_ns.total)), el('td', {}, ms(sample.metrics_ns.ttfb)), el('td', {}, ms(sample.metrics_ns.tls ?? sample.metrics_ns.quic)),
    el('td', { class: 't' + (sample.standing === 'proven' ? '' : ' wrong') }, sample.failure || (sample.standing === 'proven' ? 'counts' : sample.standing)));
  return el('div', { class: 'wide' }, el('table', { class: 'samples' },
    el('thead', {}, el('tr', {}, ['Began', 'Total, ms', 'First byte', 'TLS or QUIC', 'Result'].map((text, i) => el('th', { scope: 'col', class: i === 4 ? 't' : null }, text)))),
    el('tbody', {}, samples.map(line))));
}

function changes(events, row, notes) {
  const byId = new Map([[row.series, row]]);
  const noted = notes.map((note) => el('li', {}, moment(note.at), ': ', note.text, ' ', el('span', { class: 'faint' }, Object.entries(note.tags).map(([name, value]) => `${name} ${value}`).join(', '))));
  return el('section', { 'aria-labelledby': 'events-h' }, el('h2', { id: 'events-h' }, 'What changed here'),
    events.length ? el('ol', { class: 'events' }, events.map((event, i) => eventItem(event, byId, i + 1))) : el('p', { class: 'nothing' }, 'Nothing changed in this period.'),
    noted.length > 0 && el('h3', {}, 'Annotations'), noted.length > 0 && el('ul', { class: 'noted' }, noted));
}

// Two periods, compared by the code of `compare`.
function comparisons(row, period, events) {
  const named = { target: row.target, variant: row.variant, place: row.place };
  const before = stepped(period, -1);
  const address = (base, other) => link('/compare', { ...named, base_from: base.from, base_until: base.until, from: other.from, until: other.until });
  const last = events.findLast((event) => !isOutage(event));
  const links = [el('li', {}, el('a', { id: 'compare-before', href: address(before, period) }, 'This period with the one before it'))];
  if (last) {
    const around = around_of(last), change = Math.round(at(last));
    links.push(el('li', {}, el('a', { id: 'compare-change', href: address({ from: around.from, until: change }, { from: change, until: around.until }) }, 'Before and after the last change')));
  }
  const from = el('input', { type: 'datetime-local', id: 'base-from', value: local(before.from), required: true });
  const until = el('input', { type: 'datetime-local', id: 'base-until', value: local(before.until), required: true });
  const submit = (event) => {
    event.preventDefault();
    const [first, last] = [from, until].map((input) => Math.floor(new Date(input.value).getTime() / 1000));
    location.assign(address({ from: first, until: last }, period));
  };
  return el('section', { 'aria-labelledby': 'compare-h' }, el('h2', { id: 'compare-h' }, 'Compare'), el('ul', {}, links),
    el('form', { class: 'compare', submit }, el('label', { for: 'base-from' }, 'This period with another, from'), from,
      el('label', { for: 'base-until' }, 'until'), until, el('button', {}, 'Compare')));
}

