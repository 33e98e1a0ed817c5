// The period of a view. It is in the query, so every view has an address.

import { el, time, link } from './base.js';

const DAY = 86400;
const NAMED = { '1h': DAY / 24, '24h': DAY, '7d': 7 * DAY, '30d': 30 * DAY };
const LABELS = { '1h': 'Last hour', '24h': '24 h', '7d': '7 days', '30d': '30 days' };

// { from, until, name }, in seconds since 1970. A named period moves with the clock.
export function periodOf(query) {
  const now = Math.floor(Date.now() / 1000);
  const from = Number(query.get('from')), until = Number(query.get('until'));
  if (query.get('from') && query.get('until') && from >= 0 && until > from) return { from, until, name: null };
  const name = NAMED[query.get('period')] ? query.get('period') : '24h';
  return { from: now - NAMED[name], until: now, name };
}

// The query parameters of a period.
export function asParameters(period) {
  return period.name ? { period: period.name } : { from: period.from, until: period.until };
}

// The same length before (-1) or after (1), not beyond now.
export function stepped(period, direction) {
  const length = period.until - period.from, now = Math.floor(Date.now() / 1000);
  const until = Math.min(period.until + direction * length, now);
  return { from: until - length, until, name: null };
}

export function words(period) {
  const same = new Date(period.from * 1000).getFullYear() === new Date().getFullYear();
  const form = same ? 'minute' : 'year';
  return time(period.from, form) + ' – ' + time(period.until, form);
}

// The format of `datetime-local`: local time without a zone.
export function local(seconds) {
  const at = new Date(seconds * 1000);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

// The controls. `go` receives the parameters of the chosen period.
export function controls(period, go) {
  const here = new URLSearchParams(location.search);
  const address = (parameters) => {
    const others = Object.fromEntries([...here].filter(([name]) => !['from', 'until', 'period', 'step', 'at'].includes(name)));
    return link(location.pathname, { ...others, ...parameters });
  };
  const choose = (parameters) => (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(parameters);
  };
  const named = Object.keys(NAMED).map((name) => el('a', {
    href: address({ period: name }), id: 'period-' + name, 'aria-current': period.name === name ? 'true' : null, click: choose({ period: name }),
  }, LABELS[name]));
  const before = asParameters(stepped(period, -1)), after = asParameters(stepped(period, 1));
  const from = el('input', { type: 'datetime-local', id: 'period-from', 'aria-label': 'From', value: local(period.from), required: true });
  const until = el('input', { type: 'datetime-local', id: 'period-until', 'aria-label': 'Until', value: local(period.until), required: true });
  const apply = (event) => {
    event.preventDefault();
    const [first, last] = [from, until].map((input) => Math.floor(new Date(input.value).getTime() / 1000));
    until.setCustomValidity(first < last ? '' : 'The end must be after the beginning.');
    if (first < last) go({ from: first, until: last });
    else until.reportValidity();
  };
  return [
    el('nav', { 'aria-label': 'Period', class: 'periods' },
      el('a', { href: address(before), id: 'earlier', title: 'Previous period (←)', 'aria-label': 'Previous period', click: choose(before) }, '←'),
      el('a', { href: address(after), id: 'later', title: 'Next period (→)', 'aria-label': 'Next period', click: choose(after) }, '→'),
      named),
    el('form', { class: 'period', submit: apply, input: () => until.setCustomValidity('') }, from, el('span', {}, '–'), until, el('button', {}, 'Show')),
  ];
}
