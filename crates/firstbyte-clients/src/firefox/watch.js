// Runs in the browser's own scope (`--remote-allow-system-access`), once after its start. Keeps each request's channel
// and what the network code says of it while it is under way (`nsIHttpActivityObserver`), as the browser's own network
// panel does; reads them when asked. Times are microseconds since the Unix epoch; what is not known is left out.
(() => {
  let channels = new Map();
  let activities = new Map();
  let begun = [];
  // nsIHttpActivityObserver.ACTIVITY_SUBTYPE_DNSANDSOCKET_CREATED, and the same in advance.
  const SOCKET_CREATED = [0x5009, 0x500a];
  const errors = new Map();
  for (const name of Object.keys(Cr)) {
    if (!errors.has(Cr[name])) errors.set(Cr[name], name);
  }
  const watch = {
    QueryInterface: ChromeUtils.generateQI(["nsIObserver", "nsIHttpActivityObserver"]),
    observe(subject, topic) {
      const channel = subject.QueryInterface(Ci.nsIHttpChannel);
      if (topic == "http-on-stop-request") {
        const kept = channels.get(channel.channelId);
        if (kept) kept.stopped = true;
        return;
      }
      const load = channel.loadInfo;
      const principal = load.loadingPrincipal || load.triggeringPrincipal;
      const beside = !load.browsingContextID && !!principal && principal.isSystemPrincipal;
      channels.set(channel.channelId, { channel, beside, stopped: false });
      // The browser's own affairs would be measured beside, or in the way.
      if (beside) channel.cancel(Cr.NS_BINDING_ABORTED);
    },
    observeActivity(channel, type, subtype, time, size) {
      let id;
      try {
        id = channel.QueryInterface(Ci.nsIHttpChannel).channelId;
      } catch {
        return;
      }
      if (!activities.has(id)) activities.set(id, []);
      const known = activities.get(id);
      // Of bytes that come, the first and the last are of interest.
      if (known.length < 200) known.push([subtype, time, size]);
    },
  };
  // A connection is begun: used in the end or not.
  watch.observeConnectionActivity = (host, port, tls, ech, http3, type, subtype, time) => {
    if (SOCKET_CREATED.includes(subtype)) begun.push({ host, port, http3, time });
  };
  const read = (from, names, into) => {
    for (const name of names) {
      try {
        const value = from[name];
        if (value !== undefined && value !== null) into[name] = value;
      } catch {
        // Not known, or not yet.
      }
    }
    return into;
  };
  const describe = ([id, { channel, beside, stopped }]) => {
    const load = channel.loadInfo;
    const said = { id, url: channel.URI.specIgnoringRef, beside, stopped, policy: load.externalContentPolicyType };
    read(channel, ["requestMethod", "protocolVersion", "responseStatus", "transferSize", "encodedBodySize",
      "decodedBodySize", "isMainDocumentChannel"], said);
    try {
      said.page = load.browsingContext ? load.browsingContext.top.id : load.browsingContextID;
    } catch {
      // Its tab is gone.
    }
    said.result = channel.status == 0 ? "" : errors.get(channel.status) || "0x" + (channel.status >>> 0).toString(16);
    read(channel.QueryInterface(Ci.nsITimedChannel), ["asyncOpenTime", "transactionPendingTime",
      "domainLookupStartTime", "domainLookupEndTime", "connectStartTime", "tcpConnectEndTime",
      "secureConnectionStartTime", "connectEndTime", "requestStartTime", "responseEndTime"], said);
    const own = channel.QueryInterface(Ci.nsIHttpChannelInternal);
    read(own, ["remoteAddress", "remotePort", "localAddress", "localPort"], said);
    if (channel.securityInfo) {
      said.security = read(channel.securityInfo, ["securityState", "errorCode", "errorCodeString", "cipherName",
        "protocolVersion", "keaGroupName", "negotiatedNPN", "resumed"], {});
    }
    said.headers = [];
    try {
      channel.visitResponseHeaders({ visitHeader: (name, value) => said.headers.push([name, value]) });
    } catch {
      // No response.
    }
    said.activities = activities.get(id) || [];
    return said;
  };
  for (const topic of ["http-on-modify-request", "http-on-stop-request"]) {
    Services.obs.addObserver(watch, topic);
  }
  const distributor = Cc["@mozilla.org/network/http-activity-distributor;1"]
    .getService(Ci.nsIHttpActivityDistributor);
  distributor.addObserver(watch);
  // Not there in old ones: then nothing is said of connections that nothing uses.
  if ("observeConnection" in distributor) distributor.observeConnection = true;
  globalThis.firstbyteWatch = {
    // What was seen since the last time.
    take() {
      const said = { channels: [...channels].map(describe), begun };
      channels = new Map();
      activities = new Map();
      begun = [];
      return JSON.stringify(said);
    },
    // Every connection ends, and every address is forgotten; TLS sessions stay.
    closeConnections() {
      Services.obs.notifyObservers(null, "net:cancel-all-connections");
      Services.dns.clearCache(true);
    },
    pin(host, address) {
      Cc["@mozilla.org/network/native-dns-override;1"]
        .getService(Ci.nsINativeDNSResolverOverride).addIPOverride(host, address);
    },
  };
})();
