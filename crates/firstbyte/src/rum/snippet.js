// Sends what this page's connections took, once, when the page is left. docs/field-data.md says what and why.
// Printed without comments and indentation; what is left is to stay under 2,000 bytes.
((to, part) => {
  // The browser's own names, in the order of the beacon's times.
  const marks = ('startTime workerStart fetchStart domainLookupStart domainLookupEnd connectStart ' +
    'secureConnectionStart connectEnd requestStart firstInterimResponseStart ' +
    'finalResponseHeadersStart responseStart responseEnd').split(' ');
  let gone, later, stop;
  if (Math.random() >= part || !navigator.sendBeacon) return;

  // Milliseconds with three decimals; what a browser does not have is zero.
  const ms = time => Math.round((time || 0) * 1e3) / 1e3;

  // An origin is all that leaves the page of a URL; its own is empty.
  const origin = url => {
    try { url = new URL(url).origin } catch { return 'null' }
    return url == location.origin ? '' : url;
  };

  // Not bytes: how many digits they have. 1: asked whether it has changed; 2: out of a cache.
  const size = (bytes, body) =>
    bytes ? body >= bytes || bytes == 300 && body ? 1 : ('' + bytes).length : body ? 2 : 0;

  const body = () => {
    // The document comes first.
    const all = performance.getEntries().filter(e => 'connectEnd' in e), times = [];
    // The clock's step: the least by which any two of its readings differ.
    for (let i = 0; i < 5e3; i++) times.push(ms(performance.now()));
    const entries = all.slice(0, 200).map(e => {
      const own = marks.map(mark => ms(e[mark]));
      times.push(...own);
      return [e.type || '', origin(e.name), e.nextHopProtocol || '',
        e.deliveryType || '', size(e.transferSize, e.encodedBodySize), ...own];
    });
    let step = 1e3, last = 0;
    for (const time of times.sort((a, b) => a - b)) {
      if (time > last) step = Math.min(step, ms(time - last));
      last = time;
    }
    return JSON.stringify({v: 1, page: location.origin, part, step,
      isolated: self.crossOriginIsolated, activation: ms(all[0].activationStart),
      gecko: 'mozInnerScreenX' in self, left: all.length - entries.length, entries});
  };

  const send = () => {
    // What the browser has sent by itself is sent.
    if (gone || document.prerendering || later && later.activated) return;
    gone = 1;
    if (stop) stop.abort();
    navigator.sendBeacon(to, body());
  };

  // For pages that end without a word: the browser sends it, unless the page does.
  if (self.fetchLater) addEventListener('load', () => setTimeout(() => {
    if (gone || document.prerendering) return;
    try {
      stop = new AbortController;
      later = fetchLater(to, {method: 'POST', body: body(), signal: stop.signal});
    } catch {}
  }));
  addEventListener('pagehide', send);
  addEventListener('visibilitychange', () => document.hidden && send());
})('ENDPOINT', PART);
