// Elements, calls of the API, and formats of figures and times. Text from outside becomes text nodes, never markup.

const NS = 'http://www.w3.org/2000/svg';

// Characters that reorder the text around them are shown as their code points.
function visible(text) {
  return text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, c => `\\u{${c.codePointAt(0).toString(16)}}`);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === 'function') node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) node.append(typeof child === 'string' ? visible(child) : child);
  }
  return node;
}

export function el(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes, ...children) {
  return fill(document.createElementNS(NS, name), attributes, children);
}

// A key to a colour of a chart.
export function swatch(name) {
  return svg('svg', { class: 'swatch', viewBox: '0 0 12 12', 'aria-hidden': 'true' }, svg('rect', { class: name, width: 12, height: 12, rx: 2 }));
}

// A path of this server with parameters. Absent ones are left out.
export function link(path, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters || {})) {
    if (value !== undefined && value !== null && value !== '') query.set(name, value);
  }
  const text = query.toString();
  return text ? path + '?' + text : path;
}

export async function api(path, parameters, signal) {
  const answer = await fetch(link('/api/v1/' + path, parameters), { signal });
  // The session has ended: reloading asks for the token.
  if (answer.status === 401) location.reload();
  if (!answer.ok) throw new Error((await answer.text()).trim() || 'HTTP ' + answer.status);
  return answer.json();
}

// Milliseconds with one decimal, or two below 1 ms, as in the text of events.
export function ms(ns) {
  if (ns === undefined || ns === null) return '–';
  const value = ns / 1e6;
  return value.toFixed(Math.abs(value) < 1 ? 2 : 1);
}

export function withUnit(ns) {
  return ns === undefined || ns === null ? '–' : ms(ns) + ' ms';
}

export function share(part, whole) {
  if (!whole) return '–';
  const percent = 100 * part / whole;
  if (part && percent < 0.1) return '< 0.1 %';
  return (percent && percent < 10 ? percent.toFixed(1) : percent.toFixed(0)) + ' %';
}

export function percent(part) {
  return share(part, 1);
}

// The share of failures: by time if known, otherwise by samples.
export function failedShare(sum) {
  return sum.failed_share === undefined ? share(sum.failures, sum.samples) : percent(sum.failed_share);
}

// A duration, in at most two units.
export function lasting(ns) {
  const seconds = Math.round(ns / 1e9), minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60);
  if (minutes < 1) return `${seconds} s`;
  if (hours < 1) return seconds % 60 ? `${minutes} min ${seconds % 60} s` : `${minutes} min`;
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function count(number, noun) {
  return number.toLocaleString('en') + ' ' + noun + (number === 1 ? '' : 's');
}

const FORMS = {
  minute: { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' },
  second: { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' },
  day: { weekday: 'short', day: 'numeric', month: 'short' },
  date: { day: 'numeric', month: 'short' },
  year: { day: 'numeric', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' },
  clock: { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' },
};
const FORMATS = Object.fromEntries(Object.entries(FORMS).map(([name, form]) => [name, new Intl.DateTimeFormat('en-GB', form)]));

// A moment, seconds since 1970, in the reader's time zone.
export function time(seconds, form) {
  return FORMATS[form || 'minute'].format(new Date(seconds * 1000));
}

export function utc(seconds) {
  return new Date(seconds * 1000).toISOString().replace('T', ' ').slice(0, 16) + ' UTC';
}

export function moment(seconds, form) {
  const iso = new Date(seconds * 1000).toISOString();
  return el('time', { datetime: iso, title: utc(seconds) }, time(seconds, form));
}

export function ago(seconds) {
  const past = Math.max(0, Date.now() / 1000 - seconds);
  if (past < 90) return 'just now';
  if (past < 5400) return Math.round(past / 60) + ' min ago';
  if (past < 129600) return Math.round(past / 3600) + ' h ago';
  return Math.round(past / 86400) + ' d ago';
}

export function zone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || 'local time';
}

export function say(text) {
  document.getElementById('status').textContent = text;
}

export function nameOf(row) {
  return row.variant_label && row.variant_label !== row.target ? row.variant_label : row.variant || 'as negotiated';
}

export function targetLink(row, more) {
  return link('/target', { target: row.target, variant: row.variant, place: row.place, ...more });
}
