// Changes and outages: a sentence, a small chart that marks the event, chips for state, cause and scope.

import { api, el, lasting, moment, percent, targetLink, withUnit } from './base.js';
import { eventChart, outageChart } from './spark.js';

const HOUR = 3600, DAY = 86400;
const [WIDTH, HEIGHT] = [220, 56];

// An outage is shown in a period if it began at most this long before it.
const OUTAGE_AGE = 7 * DAY;

export const isOutage = (event) => event.kind === 'outage';
// When an event began and ended; the end is null while it lasts.
export const at = (event) => Date.parse(isOutage(event) ? event.began : event.at) / 1000;
export function endOf(event) {
  const end = isOutage(event) ? event.ended : event.until;
  return end ? Date.parse(end) / 1000 : null;
}

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

function causeChips(event) {
  const causes = event.cause || [];
  if (!causes.length) return [el('span', { class: 'chip' }, 'cause unknown')];
  return causes.slice(0, 4).map((cause) => el('span', { class: 'chip cause', title: 'What explains the change' }, causeText(cause)));
}

// What failed, for how long, and in which share of that time.
function outageChips(event) {
  const kinds = Object.entries(event.failures || {}).sort((a, b) => b[1] - a[1]).map(([kind, number]) => `${kind} ${number}`);
  return [
    el('span', { class: 'chip cause', title: kinds.join(', ') || 'How samples failed' }, event.failure),
    el('span', { class: 'chip' }, `${endOf(event) === null ? 'for' : 'lasted'} ${lasting(endOf(event) === null ? (Date.now() - Date.parse(event.began)) * 1e6 : event.lasted_ns)}`),
    event.failed_share < 1 && el('span', { class: 'chip', title: 'By time' }, `failed ${percent(event.failed_share)} of the time`),
    event.interruptions > 1 && el('span', { class: 'chip' }, `${event.interruptions} interruptions`),
  ];
}

function chips(event) {
  const scope = event.scope, open = isOutage(event) && endOf(event) === null;
  const found = [el('span', { class: 'chip state ' + event.state }, open && event.state === 'began' ? 'down' : event.state),
    isOutage(event) ? outageChips(event) : causeChips(event)];
  for (const [name, value] of Object.entries(scope.tags)) {
    found.push(el('span', { class: 'chip scope', title: 'Where it was seen' }, `${name} ${value}`));
  }
  const all = scope.quorum.series;
  if (all) found.push(el('span', { class: 'chip scope', title: 'Series that show it' }, `${all.seen} of ${all.of} series`));
  return el('p', { class: 'chips' }, found);
}

// The period to show around an event: as long before it as after it, an hour to three days; all of an outage.
function around(event) {
  const now = Date.now() / 1000, end = isOutage(event) ? endOf(event) ?? now : at(event);
  const half = Math.min(3 * DAY, Math.max(HOUR, isOutage(event) ? end - at(event) : now - at(event)));
  const step = half <= 3 * HOUR ? 60 : HOUR;
  const begin = Math.floor((at(event) - half) / step) * step;
  return { from: begin, until: Math.ceil(Math.min(now, end + half) / step) * step, step };
}

export function around_of(event) {
  const { from, until } = around(event);
  return { from, until };
}

// One event; `byId` has the series. Its chart is filled in later, into a place of the same size.
export function eventItem(event, byId, number) {
  const row = event.series.map((id) => byId.get(id)).find((known) => known);
  const place = el('div', { class: 'chart-place' });
  const sentence = el('span', { class: 'sentence' }, event.sentence);
  const item = el('li', { class: `event ${isOutage(event) ? 'outage ' : ''}${event.state}`, 'data-id': event.id },
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
  // A share has no times, so any metric will do: its points count failed samples too.
  const metric = event.before_ns === undefined ? 'total' : event.metric;
  try {
    const series = await api('series', { target: row.target, variant: row.variant, place: row.place, metric,
      step: period.step === 60 ? 'minute' : 'hour', from: period.from, until: period.until });
    place.replaceChildren(isOutage(event)
      ? outageChart(at(event), endOf(event), series.points, period, WIDTH, HEIGHT)
      : eventChart(event, series.points, period, WIDTH, HEIGHT));
  } catch (error) {
    place.replaceChildren(el('span', { class: 'faint' }, 'no chart: ' + error.message));
  }
}

// The text for a period without events.
export function nothingChanged(period, samples, words) {
  const what = samples ? `Nothing changed: ${words}.` : `No samples in this period: ${words}.`;
  return el('p', { class: 'nothing' }, what, ' ', el('span', { class: 'faint' }, samples
    ? 'Large changes are found within minutes, small ones within days.' : 'Whether anything changed is unknown.'));
}

// Events of a period to show, including outages that began before it.
export async function allEvents(period) {
  const answer = await api('events', { since: Math.max(0, period.from - OUTAGE_AGE), until: period.until });
  const isWithin = (event) => at(event) >= period.from || (isOutage(event) && (endOf(event) ?? Infinity) > period.from);
  const isShown = (event) => event.state !== 'withdrawn' && event.sentence && isWithin(event);
  return { more: answer.more, events: answer.events.filter(isShown) };
}
