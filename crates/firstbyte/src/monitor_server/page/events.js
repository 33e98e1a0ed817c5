// What changed: a sentence, a small chart with the change marked, chips for its state, cause and scope.

import { api, el, moment, targetLink, withUnit } from './base.js';
import { eventChart } from './spark.js';

const HOUR = 3600, DAY = 86400;
const [WIDTH, HEIGHT] = [220, 56];

export const at = (event) => Date.parse(event.at) / 1000;

const SHORT = { 'tls.version': 'TLS', 'tls.group': 'group', 'tls.cipher_suite': 'cipher suite', 'tls.certificate': 'certificate',
  'tls.chain_bytes': 'chain', 'tls.handshake': 'handshake', 'tls.early_data': '0-RTT', 'http.version': 'HTTP', 'http.status': 'status' };

function most(shares) {
  return Object.entries(shares).sort((a, b) => b[1] - a[1])[0];
}

function causeText(cause) {
  if (cause.fact === undefined) {
    if (cause.part === 'round trips') return `round trips ${cause.before.toFixed(1)} → ${cause.after.toFixed(1)}`;
    return `${cause.part} ${withUnit(cause.before)} → ${withUnit(cause.after)}`;
  }
  const [old, now] = [most(cause.before), most(cause.after)];
  const name = SHORT[cause.fact] || cause.fact.replace(/[._]/g, ' ');
  if (old && now && old[0] !== now[0]) return `${name} ${old[0]} → ${now[0]}`;
  const [value] = now || old || [''];
  return `${name} ${value} ${Math.round(100 * (cause.before[value] || 0))} → ${Math.round(100 * (cause.after[value] || 0))} %`;
}

function chips(event) {
  const scope = event.scope, found = [el('span', { class: 'chip state ' + event.state }, event.state)];
  for (const cause of event.cause.slice(0, 4)) {
    found.push(el('span', { class: 'chip cause', title: 'What explains the change' }, causeText(cause)));
  }
  if (!event.cause.length) found.push(el('span', { class: 'chip' }, 'cause unknown'));
  for (const [name, value] of Object.entries(scope.tags)) {
    found.push(el('span', { class: 'chip scope', title: 'Where the change was seen' }, `${name} ${value}`));
  }
  const all = scope.quorum.series;
  if (all) found.push(el('span', { class: 'chip scope', title: 'Series that show the change' }, `${all.seen} of ${all.of} series`));
  return el('p', { class: 'chips' }, found);
}

// The period that a change is looked at over: as long before it as after it, an hour to three days.
function around(event) {
  const now = Date.now() / 1000, half = Math.min(3 * DAY, Math.max(HOUR, now - at(event)));
  const step = half <= 3 * HOUR ? 60 : HOUR;
  const begin = Math.floor((at(event) - half) / step) * step;
  return { from: begin, until: Math.ceil(Math.min(now, at(event) + half) / step) * step, step };
}

export function around_of(event) {
  const { from, until } = around(event);
  return { from, until };
}

// One event; `byId` has the series. Its chart comes later, into a place that is as large.
export function eventItem(event, byId, number) {
  const row = event.series.map((id) => byId.get(id)).find((known) => known);
  const place = el('div', { class: 'chart-place' });
  const sentence = el('span', { class: 'sentence' }, event.sentence);
  const item = el('li', { class: 'event ' + event.state, 'data-id': event.id },
    place,
    el('div', { class: 'said' },
      el('p', {}, number && el('b', { class: 'number' }, String(number)), row ? el('a', { href: targetLink(row, around_of(event)) }, sentence) : sentence,
        ' ', el('span', { class: 'faint' }, moment(at(event)))),
      chips(event)));
  if (row) draw(event, row, place);
  return item;
}

async function draw(event, row, place) {
  const period = around(event);
  // A share has no times: any series has how many there were.
  const metric = event.before_ns === undefined ? 'total' : event.metric;
  try {
    const series = await api('series', { target: row.target, variant: row.variant, place: row.place, metric,
      step: period.step === 60 ? 'minute' : 'hour', from: period.from, until: period.until });
    place.replaceChildren(eventChart(event, series.points, period, WIDTH, HEIGHT));
  } catch (error) {
    place.replaceChildren(el('span', { class: 'faint' }, 'no chart: ' + error.message));
  }
}

// What there is to say where nothing changed.
export function nothingChanged(period, samples, words) {
  const what = samples ? `Nothing changed: ${words}.` : `No samples in this period: ${words}.`;
  return el('p', { class: 'nothing' }, what, ' ', el('span', { class: 'faint' }, samples
    ? 'Large changes are found within minutes, small ones within days.' : 'Whether anything changed is unknown.'));
}

export const allEvents = (period) => api('events', { since: period.from, until: period.until }).then((answer) => ({
  more: answer.more, events: answer.events.filter((event) => event.state !== 'withdrawn' && event.sentence),
}));

