// Charts over time that share one axis: phases as areas, lines, failures, marks of events; strips of negotiated facts.
//
// Each step has its true width, and steps without samples stay empty.

import { failedShare, ms, svg, time } from './base.js';

export const LEFT = 46, RIGHT = 10;
const TOP = 22, BOTTOM = 22, FAILED = 24;
export const PHASES = ['resolve', 'connect', 'tls', 'quic', 'send', 'wait', 'receive'];
export const PHASE_LABELS = ['DNS', 'TCP', 'TLS', 'QUIC', 'send', 'wait', 'receive'];

export function axis(history, width) {
  const { from, until, step_seconds: step } = history;
  const end = Math.max(until, from + step), inner = width - LEFT - RIGHT;
  return {
    from, until: end, step, width,
    x: (at) => LEFT + (at - from) / (end - from) * inner,
    at: (x) => Math.min(end, Math.max(from, from + (x - LEFT) / inner * (end - from))),
  };
}

const LADDER = [60, 300, 600, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000, 7776000];

// Round times of the reader's clock.
function timeTicks(scale) {
  const room = Math.max(2, Math.floor((scale.width - LEFT) / 70));
  const every = LADDER.find((step) => (scale.until - scale.from) / step <= room) || 31536000;
  const offset = -new Date(scale.from * 1000).getTimezoneOffset() * 60;
  const first = Math.ceil((scale.from + offset) / every) * every - offset;
  const ticks = [];
  for (let at = first; at <= scale.until; at += every) ticks.push(at);
  return { ticks, form: (at) => every >= 86400 || ((at + offset) % 86400 === 0 && scale.until - scale.from > 86400) ? 'date' : 'clock' };
}

function valueTicks(most) {
  const raw = most / 4, size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * size).find((n) => n >= raw);
  const ticks = [];
  for (let value = 0; value <= most; value += step) ticks.push(value);
  return ticks;
}

export function timeAxis(scale, y, height) {
  const { ticks, form } = timeTicks(scale);
  return ticks.map((at) => {
    const x = scale.x(at).toFixed(1);
    const anchor = scale.x(at) > scale.width - 40 ? 'end' : scale.x(at) < LEFT + 24 ? 'start' : 'middle';
    return [
      svg('line', { class: 'g', x1: x, x2: x, y1: y - height, y2: y }),
      svg('text', { class: 'n', x, y: y + 15, 'text-anchor': anchor }, time(at, form(at))),
    ];
  });
}

// Skylines: one subpath for each run of neighbouring steps.
function skyline(points, scale, bottom, top) {
  let d = '', before = null;
  const back = [];
  const close = () => {
    while (back.length) { const [x1, x0, y] = back.pop(); d += `V${y}H${x0}`; if (!back.length) d += 'Z'; }
  };
  for (const point of points) {
    const [x0, x1] = [scale.x(point.at), Math.min(scale.x(point.at + scale.step), scale.width - RIGHT)].map((x) => x.toFixed(1));
    const [low, high] = [bottom(point), top(point)].map((y) => y.toFixed(1));
    if (before !== point.at) { close(); d += `M${x0} ${low}V${high}`; } else d += `V${high}`;
    d += `H${x1}`;
    back.push([x1, x0, low]);
    before = point.at + scale.step;
  }
  close();
  return d;
}

function line(points, scale, y) {
  let d = '', before = null;
  for (const point of points) {
    const [x0, x1, level] = [scale.x(point.at), Math.min(scale.x(point.at + scale.step), scale.width - RIGHT), y(point)].map((v) => v.toFixed(1));
    d += before === point.at ? `V${level}H${x1}` : `M${x0} ${level}H${x1}`;
    before = point.at + scale.step;
  }
  return d;
}

// The height of the chart, chosen so that a single peak does not flatten the rest.
function largest(points) {
  const sums = points.map((point) => PHASES.reduce((sum, phase) => sum + (point.phases_ns[phase] || 0), 0));
  const high = points.map((point) => point.p95_ns || 0).sort((a, b) => a - b);
  const usual = high[Math.floor((high.length - 1) * 0.97)] || 0;
  return Math.max(...sums, usual, 1) * 1.12;
}

// The element of the main chart.
export function phasesChart(history, scale, height, marks, notes) {
  const floor = height - BOTTOM - FAILED, room = floor - TOP;
  const timed = history.points.filter((point) => point.count > 0);
  const most = timed.length ? largest(timed) : 1e6;
  const y = (ns) => floor - Math.min(ns / most, 1.02) * room;
  const parts = timeAxis(scale, height - BOTTOM, height - BOTTOM - TOP);
  for (const tick of valueTicks(most / 1e6)) {
    const at = y(tick * 1e6).toFixed(1);
    parts.push(svg('line', { class: 'g', x1: LEFT, x2: scale.width - RIGHT, y1: at, y2: at }),
      svg('text', { class: 'n', x: LEFT - 6, y: Number(at) + 4, 'text-anchor': 'end' }, String(Number(tick.toPrecision(3)))));
  }
  parts.push(svg('text', { class: 'n', x: LEFT - 6, y: 12, 'text-anchor': 'end' }, 'ms'));
  const below = new Map(timed.map((point) => [point, 0]));
  PHASES.forEach((phase, i) => {
    const shown = timed.filter((point) => point.phases_ns[phase]);
    if (!shown.length) return;
    const low = new Map(shown.map((point) => [point, below.get(point)]));
    shown.forEach((point) => below.set(point, below.get(point) + point.phases_ns[phase]));
    parts.push(svg('path', { class: 'p' + i, d: skyline(shown, scale, (p) => y(low.get(p)), (p) => y(below.get(p))) }));
  });
  parts.push(svg('path', { class: 'halo', d: line(timed, scale, (p) => y(p.p95_ns)) }));
  parts.push(svg('path', { class: 'p95', d: line(timed, scale, (p) => y(p.p95_ns)) }));
  // Failures: the share of a step's time, in a row of their own.
  parts.push(svg('text', { class: 'n', x: LEFT - 6, y: floor + FAILED - 1, 'text-anchor': 'end' }, 'failed'));
  for (const point of history.points.filter((p) => p.failures > 0)) {
    const high = Math.max(2, (FAILED - 8) * (point.failed_share ?? point.failures / point.samples));
    const x0 = scale.x(point.at), x1 = Math.min(scale.x(point.at + scale.step), scale.width - RIGHT);
    parts.push(svg('rect', { class: 'fx', x: x0.toFixed(1), y: (floor + FAILED - high).toFixed(1), width: Math.max(1.5, x1 - x0).toFixed(1), height: high.toFixed(1) }));
  }
  // Outages, cut to the period.
  for (const mark of marks) {
    const [x0, x1] = [Math.max(mark.at, scale.from), Math.min(mark.downUntil ?? -Infinity, scale.until)].map((at) => scale.x(at));
    if (x1 > x0) parts.push(svg('rect', { class: 'outage', x: x0.toFixed(1), y: TOP - 4, width: Math.max(1.5, x1 - x0).toFixed(1), height: height - BOTTOM - TOP + 4 }));
  }
  marks.forEach((mark, i) => {
    if (mark.at < scale.from || mark.at > scale.until) return;
    const x = scale.x(mark.at).toFixed(1);
    parts.push(svg('line', { class: 'change', x1: x, x2: x, y1: TOP - 4, y2: height - BOTTOM }),
      svg('circle', { class: 'pin', cx: x, cy: 10, r: 9 }),
      svg('text', { class: 'pin-text', x, y: 14, 'text-anchor': 'middle' }, String(i + 1), svg('title', {}, mark.sentence)));
  });
  for (const note of notes) {
    if (note.at < scale.from || note.at > scale.until) continue;
    const x = scale.x(note.at);
    parts.push(svg('path', { class: 'note-mark', d: `M${x - 4} ${height - BOTTOM}l4 -7l4 7Z` }, svg('title', {}, note.text)));
  }
  return svg('svg', { class: 'over-time', viewBox: `0 0 ${scale.width} ${height}`, width: scale.width, height }, parts);
}

// A strip: shares of values from step to step.
export function strip(history, fact, values, scale, height) {
  const parts = [];
  for (const point of history.points) {
    const counts = point.facts[fact];
    const all = counts ? Object.values(counts).reduce((sum, n) => sum + n, 0) : 0;
    if (!all) continue;
    const x0 = scale.x(point.at), x1 = Math.min(scale.x(point.at + scale.step), scale.width - RIGHT);
    let top = 0;
    for (const [i, value] of values.entries()) {
      const part = (counts[value] || 0) / all * height;
      if (part) parts.push(svg('rect', { class: 'f' + Math.min(i, 7), x: x0.toFixed(1), y: top.toFixed(2), width: (x1 - x0 + 0.3).toFixed(1), height: part.toFixed(2) }));
      top += part;
    }
  }
  return svg('svg', { class: 'strip', viewBox: `0 0 ${scale.width} ${height}`, width: scale.width, height, 'aria-hidden': 'true' }, parts);
}

// The values of a step, in words.
export function stepText(point, scale) {
  const day = scale.step >= 86400;
  const when = day ? time(point.at, 'day') + ' (UTC)' : `${time(point.at)} – ${time(point.at + scale.step, 'clock')}`;
  const said = [`${when}: ${point.samples} samples`];
  if (point.failures) said.push(`${point.failures} failed, ${failedShare(point)} of the time (${Object.entries(point.failures_by_type).map(([kind, n]) => `${kind} ${n}`).join(', ')})`);
  if (point.count) {
    said.push(`total ${ms(point.median_ns)}, p95 ${ms(point.p95_ns)} ms`);
    const phases = PHASES.map((phase, i) => point.phases_ns[phase] !== undefined && `${PHASE_LABELS[i]} ${ms(point.phases_ns[phase])}`).filter((text) => text);
    said.push(phases.join(' + '));
  }
  return said.join(' · ');
}

// Pointer and keys over charts that share an axis: a hairline, dragging to select a period, clicking to zoom in.
export function interact(main, all, history, scale, readout, actions) {
  const { points } = history, rest = readout.textContent;
  let at = null, anchor = null, dragged = null;
  const hairs = all.map((chart) => {
    const high = chart.viewBox.baseVal.height;
    const chosen = svg('rect', { class: 'chosen', y: 0, height: high, width: 0, visibility: 'hidden' });
    const hair = svg('line', { class: 'xh', y1: 0, y2: high, visibility: 'hidden' });
    chart.append(chosen, hair);
    return { hair, chosen };
  });
  const draw = () => {
    const point = at === null ? null : points[at];
    for (const { hair, chosen } of hairs) {
      hair.setAttribute('visibility', point ? 'visible' : 'hidden');
      const range = dragged || (anchor !== null && point && anchor !== at ? ends() : null);
      chosen.setAttribute('visibility', range ? 'visible' : 'hidden');
      if (point) ['x1', 'x2'].forEach((name) => hair.setAttribute(name, scale.x(point.at + scale.step / 2).toFixed(1)));
      if (range) {
        chosen.setAttribute('x', scale.x(range[0]).toFixed(1));
        chosen.setAttribute('width', Math.max(1, scale.x(range[1]) - scale.x(range[0])).toFixed(1));
      }
    }
    readout.textContent = point ? stepText(point, scale) : rest;
  };
  const ends = () => {
    const [a, b] = [points[anchor].at, points[at].at].sort((x, y) => x - y);
    return [a, b + scale.step];
  };
  const nearest = (moment) => {
    let best = null;
    points.forEach((point, i) => {
      const far = Math.abs(point.at + scale.step / 2 - moment);
      if (best === null || far < Math.abs(points[best].at + scale.step / 2 - moment)) best = i;
    });
    return best;
  };
  const moment = (chart, event) => {
    const box = chart.getBoundingClientRect();
    return scale.at((event.clientX - box.left) * scale.width / box.width);
  };
  const leave = () => { at = null; anchor = null; dragged = null; draw(); };
  for (const chart of all) {
    let begun = null;
    chart.addEventListener('pointermove', (event) => {
      const here = moment(chart, event);
      at = nearest(here);
      anchor = null;
      if (begun && Math.abs(event.clientX - begun.x) > 5) dragged = [begun.at, here].sort((a, b) => a - b);
      draw();
    });
    chart.addEventListener('pointerdown', (event) => {
      if (event.button) return;
      begun = { x: event.clientX, at: moment(chart, event) };
      chart.setPointerCapture(event.pointerId);
    });
    chart.addEventListener('pointerup', () => {
      const range = dragged, point = points[at];
      begun = null;
      dragged = null;
      if (range) actions.zoom(Math.floor(range[0] / scale.step) * scale.step, Math.ceil(range[1] / scale.step) * scale.step);
      else if (point) actions.finer(point);
    });
    chart.addEventListener('pointercancel', () => { begun = null; leave(); });
    chart.addEventListener('pointerleave', () => { if (!begun && document.activeElement !== main) leave(); });
  }
  main.addEventListener('keydown', (event) => {
    if (!points.length) return;
    const { key } = event;
    if (key === 'ArrowLeft' || key === 'ArrowRight' || key === 'Home' || key === 'End') {
      const before = at ?? (key === 'ArrowRight' ? -1 : points.length);
      if (event.shiftKey) anchor ??= at;
      else anchor = null;
      at = key === 'Home' ? 0 : key === 'End' ? points.length - 1 : before + (key === 'ArrowLeft' ? -1 : 1);
      at = Math.max(0, Math.min(points.length - 1, at));
      draw();
    } else if (key === 'Enter' && at !== null) {
      if (anchor !== null && anchor !== at) actions.zoom(...ends());
      else actions.finer(points[at]);
    } else if (key === 'Escape') {
      if (at === null) main.blur();
      leave();
    } else return;
    event.preventDefault();
  });
  main.addEventListener('blur', leave);
}
