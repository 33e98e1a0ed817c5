(function () {
  'use strict';
  var NS = 'http://www.w3.org/2000/svg';
  var NAMES = ['DNS', 'TCP', 'TLS', 'QUIC', 'send', 'wait', 'receive'];

  // Levels of a skyline path: one a column, in steps of the printed figure.
  function levels(d) {
    var out = [], level = 0, part, find = /([hv])(-?\d+)/g;
    while ((part = find.exec(d))) {
      if (part[1] === 'v') level -= +part[2];
      else for (var n = +part[2]; n > 0; n--) out.push(level);
    }
    return out;
  }

  function counts(text) {
    var out = {};
    (text || '').split(' ').forEach(function (item) {
      var pair = item.split(':');
      if (pair[0] !== '') out[pair[0]] = +(pair[1] || 1);
    });
    return out;
  }

  function read(svg) {
    var d = svg.dataset, box = d.plot.split(' ').map(Number);
    var panel = { svg: svg, x: box[0], y: box[1], w: box[2], h: box[3], n: +d.n, kind: d.kind };
    panel.output = svg.parentNode.querySelector('.readout');
    panel.rest = panel.output.textContent;
    var steps = Math.pow(10, +d.dec);
    panel.print = function (value) { return (value / steps).toFixed(+d.dec); };
    panel.unit = d.unit;
    if (panel.kind === 'rounds') {
      panel.per = +d.per;
      panel.rounds = +d.rounds;
      panel.failed = counts(d.failed);
      panel.unproven = counts(d.unproven);
      panel.layers = Array.prototype.map.call(svg.querySelectorAll('.pl path'), function (path) {
        return { name: path.getAttribute('class'), levels: levels(path.getAttribute('d')) };
      }).reverse();
    } else {
      panel.low = +d.low;
      panel.high = +d.high;
      panel.lines = d.q.split(';').map(function (line) {
        var at = 0;
        return line.split(' ').map(function (step) { return (at += +step); });
      });
      panel.labels = Array.prototype.map.call(svg.querySelectorAll('line[class^=s] + text'),
        function (text) { return text.textContent; });
    }
    return panel;
  }

  function roundText(panel, at) {
    var first = at * panel.per + 1, last = Math.min(first + panel.per - 1, panel.rounds);
    var text = first === last ? 'round ' + first : 'rounds ' + first + '–' + last;
    var before = 0, parts = [], band = '';
    panel.layers.forEach(function (layer) {
      var level = layer.levels[at];
      if (layer.name === 'b') band = ', longest ' + panel.print(level);
      else {
        if (level > before) parts.push(NAMES[+layer.name.slice(1)] + ' ' + panel.print(level - before));
        before = level;
      }
    });
    if (before > 0) {
      text += ': ' + panel.print(before) + ' ' + panel.unit + band + ' = ' + parts.join(' + ');
    }
    if (panel.failed[at]) text += '; ✕ ' + panel.failed[at] + ' failed';
    if (panel.unproven[at]) text += '; ◇ ' + panel.unproven[at] + ' unproven';
    return text;
  }

  function shareText(panel, at) {
    var parts = panel.lines.map(function (line, i) {
      return panel.labels[i] + ' ' + panel.print(line[at]);
    });
    return at + ' % within (' + panel.unit + '): ' + parts.join(' · ');
  }

  function show(panel, at) {
    panel.at = at;
    if (at === null) {
      if (panel.hair) panel.hair.remove();
      panel.hair = null;
      panel.output.textContent = panel.rest;
      return;
    }
    if (!panel.hair) {
      panel.hair = document.createElementNS(NS, 'line');
      panel.hair.setAttribute('class', 'xh');
      panel.svg.appendChild(panel.hair);
    }
    var rounds = panel.kind === 'rounds';
    var x = panel.x + panel.w * (at + 0.5) / panel.n;
    var y = panel.y + panel.h * (1 - at / 100);
    var ends = rounds ? [x, panel.y, x, panel.y + panel.h] : [panel.x, y, panel.x + panel.w, y];
    ['x1', 'y1', 'x2', 'y2'].forEach(function (name, i) { panel.hair.setAttribute(name, ends[i]); });
    panel.output.textContent = rounds ? roundText(panel, at) : shareText(panel, at);
  }

  document.querySelectorAll('.figure').forEach(function (figure) {
    var panels = Array.prototype.map.call(figure.querySelectorAll('.panel[data-kind]'), read);
    if (!panels.length) return;
    figure.parentNode.querySelector('.note').textContent +=
      ' For values, point at a panel, or move to it with Tab and within it with the arrow keys.';
    function all(at) {
      panels.forEach(function (panel) {
        show(panel, at === null ? null : Math.max(0, Math.min(panel.n - 1, at)));
      });
    }
    panels.forEach(function (panel, index) {
      var svg = panel.svg;
      svg.setAttribute('tabindex', index ? '-1' : '0');
      svg.setAttribute('aria-keyshortcuts', 'ArrowLeft ArrowRight ArrowUp ArrowDown');
      function pointed(event) {
        var box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
        var x = (event.clientX - box.left) * view.width / box.width;
        var y = (event.clientY - box.top) * view.height / box.height;
        if (panel.kind === 'rounds') all(Math.floor((x - panel.x) / panel.w * panel.n));
        else all(Math.round(100 * (1 - (y - panel.y) / panel.h)));
      }
      svg.addEventListener('pointermove', pointed);
      svg.addEventListener('pointerdown', pointed);
      svg.addEventListener('pointerleave', function () {
        if (!figure.contains(document.activeElement)) all(null);
      });
      svg.addEventListener('focus', function () {
        panels.forEach(function (other) { other.svg.setAttribute('tabindex', '-1'); other.output.setAttribute('aria-live', 'off'); });
        svg.setAttribute('tabindex', '0');
        panel.output.setAttribute('aria-live', 'polite');
        if (panel.at === undefined || panel.at === null) all(panel.kind === 'rounds' ? 0 : 50);
      });
      svg.addEventListener('blur', function (event) {
        if (!figure.contains(event.relatedTarget)) all(null);
      });
      svg.addEventListener('keydown', function (event) {
        var rounds = panel.kind === 'rounds', big = rounds ? Math.ceil(panel.n / 20) : 10;
        var at = panel.at, next = null, key = event.key;
        if (rounds && (key === 'ArrowLeft' || key === 'ArrowRight')) {
          at += (key === 'ArrowLeft' ? -1 : 1) * (event.shiftKey ? big : 1);
        } else if (!rounds && (key === 'ArrowUp' || key === 'ArrowDown')) {
          at += (key === 'ArrowDown' ? -1 : 1) * (event.shiftKey ? big : 1);
        } else if (key === 'Home') at = 0;
        else if (key === 'End') at = panel.n - 1;
        else if (key === 'ArrowUp' || key === 'ArrowLeft') next = panels[index - 1];
        else if (key === 'ArrowDown' || key === 'ArrowRight') next = panels[index + 1];
        else if (key === 'Escape') { svg.blur(); return; }
        else return;
        event.preventDefault();
        if (next) next.svg.focus();
        else all(at);
      });
    });
  });
})();
