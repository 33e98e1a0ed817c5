//! The ways in which each client connects, and the servers it connects to.

use std::time::Duration;

use firstbyte_probe::probe::options::{Client, HttpVersion, Options, SessionUse, TlsVersion};

pub(crate) const CLIENTS: [Client; 4] =
    [Client::Firstbyte, Client::Curl, Client::Chromium, Client::Firefox];

/// Servers by host, each with its settings in a scenario. The last two grant less than clients ask for.
pub(crate) const SERVERS: [(&str, &str); 5] = [
    ("nginx", r#"kind = "nginx", early_data = "on""#),
    ("caddy", r#"kind = "caddy""#),
    ("late", r#"kind = "builtin", early_data = "after-finished", http3 = true"#),
    ("refuses", r#"kind = "builtin", early_data = "reject", http3 = true"#),
    ("forgets", r#"kind = "builtin", resumption = "none", http3 = true"#),
];

/// One named way to connect.
pub(crate) struct Way {
    pub(crate) name: String,
    pub(crate) server: &'static str,
    http: HttpVersion,
    tls12: bool,
    session: SessionUse,
    kept: bool,
}

const EARLY: SessionUse = SessionUse::EarlyData { any_method: false };

impl Way {
    pub(crate) fn all() -> Vec<Self> {
        let versions = [
            ("http1", HttpVersion::Http1, false),
            ("http2", HttpVersion::Negotiate, false),
            ("http2-tls12", HttpVersion::Negotiate, true),
            ("http3", HttpVersion::Http3, false),
        ];
        let mut ways = Vec::new();
        for (version, http, tls12) in versions {
            let mut add = |name: &str, server, session, kept| {
                // Early data needs TLS 1.3.
                if !(tls12 && session == EARLY) {
                    let name = format!("{version}-{name}");
                    ways.push(Self { name, server, http, tls12, session, kept });
                }
            };
            let server = if http == HttpVersion::Http3 { "caddy" } else { "nginx" };
            add("full", server, SessionUse::Full, false);
            add("resumed", server, SessionUse::Resume(None), false);
            add("early", server, EARLY, false);
            add("kept", server, SessionUse::Full, true);
            add("early-late", "late", EARLY, false);
            add("early-refused", "refuses", EARLY, false);
            add("resumed-refused", "forgets", SessionUse::Resume(None), false);
        }
        ways
    }

    pub(crate) fn options(&self, client: Client) -> Options {
        let mut options = Options { client, reuse: self.kept, ..Options::default() };
        options.max_time = Some(Duration::from_secs(30));
        options.http.version = self.http;
        options.tls.session = self.session;
        if self.tls12 {
            options.tls.max = TlsVersion::V1_2;
        }
        options
    }
}
