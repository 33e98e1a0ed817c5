// Small charts: for rows the band from median to p95 and the failures; for events the levels.

import { svg } from './base.js';

// Runs of neighbouring steps.
function runs(steps) {
  const found = [];
  steps.forEach((step, i) => {
    const last = found[found.length - 1];
    if (last && step === steps[last[last.length - 1]] + 1) last.push(i);
    else found.push([i]);
  });
  return found;
}

// A chart of `row` of the overview, over `all` steps.
export function spark(row, all, width, height) {
  const values = row.p95s_ns.concat(row.medians_ns).filter((value) => value !== null);
  const most = Math.max(...values, 1);
  const x = (step) => (step + 0.5) / Math.max(all, 1) * width;
  const y = (ns) => (height - 5) - ns / most * (height - 7);
  const known = row.steps.map((_, i) => i).filter((i) => row.medians_ns[i] !== null);
  const parts = [];
  for (const run of runs(known.map((i) => row.steps[i]))) {
    const at = run.map((i) => known[i]);
    const line = (list, of) => list.map((i) => x(row.steps[i]).toFixed(1) + ' ' + y(of[i]).toFixed(1)).join('L');
    if (at.length === 1) {
      const [i] = at;
      parts.push(svg('circle', { class: 'dot', cx: x(row.steps[i]).toFixed(1), cy: y(row.medians_ns[i]).toFixed(1), r: 1.6 }));
      continue;
    }
    parts.push(svg('path', { class: 'band', d: 'M' + line(at, row.p95s_ns) + 'L' + line([...at].reverse(), row.medians_ns) + 'Z' }));
    parts.push(svg('path', { class: 'middle', d: 'M' + line(at, row.medians_ns) }));
  }
  row.steps.forEach((step, i) => {
    if (row.failures_of_steps[i]) parts.push(svg('rect', { class: 'fx', x: (x(step) - 1).toFixed(1), y: height - 3, width: 2, height: 3 }));
  });
  return svg('svg', { class: 'spark', viewBox: `0 0 ${width} ${height}`, width, height, 'aria-hidden': 'true' }, parts);
}

const PARTS = [
  ['resolve', 0, 'name service'], ['network', 1, 'network'], ['variation', 2, 'variation'], ['server', 3, 'server'],
  ['client', 4, 'client'], ['transfer', 5, 'transfer'], ['pause', 6, 'pause'], ['fallback', 7, 'fallback'], ['unexplained', 8, 'unexplained'],
];

// Medians of the parts, one after another: who took the time.
export function partsBar(parts, scale, width, height) {
  const bars = [], said = [];
  let x = 0;
  for (const [name, place, label] of PARTS) {
    const ns = parts[name];
    if (!ns) continue;
    const wide = ns / scale * width;
    said.push(label + ' ' + (ns / 1e6).toFixed(ns < 1e6 ? 2 : 1));
    if (wide >= 0.3) bars.push(svg('rect', { class: 'q' + place, x: x.toFixed(1), y: 0, width: wide.toFixed(1), height }));
    x += wide;
  }
  const text = said.join(', ') + ' ms';
  return svg('svg', { class: 'bar', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': text, preserveAspectRatio: 'none' }, svg('title', {}, text), bars);
}

export const partKeys = PARTS;

// Shares of failures by step, and the band of an outage. `ended` is null while it lasts.
export function outageChart(began, ended, points, period, width, height) {
  const x = (at) => Math.min(width, Math.max(0, (at - period.from) / (period.until - period.from) * width));
  const from = x(began), until = ended === null ? width : x(ended);
  const drawn = [svg('rect', { class: 'outage', x: from.toFixed(1), y: 0, width: Math.max(1, until - from).toFixed(1), height })];
  for (const point of points) {
    const failed = point.failed_share ?? (point.samples ? point.failures / point.samples : 0);
    const [x0, x1, high] = [x(point.at), x(point.at + period.step), failed * (height - 4)];
    if (failed) drawn.push(svg('rect', { class: 'fx', x: x0.toFixed(1), y: (height - high).toFixed(1), width: Math.max(1, x1 - x0).toFixed(1), height: high.toFixed(1) }));
    else drawn.push(svg('line', { class: 'level', x1: x0.toFixed(1), x2: x1.toFixed(1), y1: height - 1, y2: height - 1 }));
  }
  drawn.push(svg('line', { class: 'change', x1: from.toFixed(1), x2: from.toFixed(1), y1: 0, y2: height }));
  return svg('svg', { class: 'event-chart', viewBox: `0 0 ${width} ${height}`, width, height, 'aria-hidden': 'true' }, drawn);
}

// Points of the changed figure, with the levels before and after.
export function eventChart(event, points, period, width, height) {
  const isShare = event.before_ns === undefined;
  const value = (point) => {
    if (isShare && !point.samples) return null;
    if (isShare) return event.statistic === 'failures' ? point.failed_share ?? point.failures / point.samples : point.unverified / point.samples;
    const ns = event.statistic === 'p90' || event.statistic === 'spread' ? point.p90_ns : point.median_ns;
    return ns === undefined ? null : ns;
  };
  const levels = event.statistic === 'spread' ? [] : isShare ? [event.before, event.after] : [event.before_ns, event.after_ns];
  const known = points.map((point) => [point.at, value(point)]).filter(([, v]) => v !== null);
  const sorted = known.map(([, v]) => v).sort((a, b) => a - b);
  // A single peak would flatten the change.
  const usual = sorted.length ? sorted[Math.floor((sorted.length - 1) * 0.97)] : 0;
  const most = Math.max(usual * 1.15, ...levels.map((level) => level * 1.15), isShare ? 0.05 : 1);
  const x = (at) => (at - period.from) / (period.until - period.from) * width;
  const y = (v) => height - 2 - Math.min(v / most, 1) * (height - 6);
  const changed = x(Date.parse(event.at) / 1000), ended = event.until ? x(Date.parse(event.until) / 1000) : width;
  const drawn = [svg('rect', { class: 'after', x: changed.toFixed(1), y: 0, width: Math.max(0, ended - changed).toFixed(1), height })];
  levels.forEach((level, i) => drawn.push(svg('line', {
    class: 'level', x1: (i ? changed : 0).toFixed(1), x2: (i ? ended : changed).toFixed(1), y1: y(level).toFixed(1), y2: y(level).toFixed(1),
  })));
  known.forEach(([at, v]) => drawn.push(svg('circle', { class: 'dot', cx: x(at + period.step / 2).toFixed(1), cy: y(v).toFixed(1), r: 1.4 })));
  drawn.push(svg('line', { class: 'change', x1: changed.toFixed(1), x2: changed.toFixed(1), y1: 0, y2: height }));
  return svg('svg', { class: 'event-chart', viewBox: `0 0 ${width} ${height}`, width, height, 'aria-hidden': 'true' }, drawn);
}
