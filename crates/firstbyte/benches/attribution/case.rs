//! One drawn case: a path, a server, a way to connect, an exchange. The same seed draws the same case.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::zoo::{EarlyData, Server, Tls, Wanted, Zoo};

/// One direction of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Way {
    pub(crate) delay_us: u64,
    pub(crate) jitter_us: u64,
    /// Packets lost per thousand.
    pub(crate) loss_permille: u32,
    pub(crate) kbit: Option<u32>,
}

impl Way {
    /// Nanoseconds per byte of an IP packet.
    pub(crate) fn ns_per_byte(&self) -> f64 {
        self.kbit.map_or(0.0, |kbit| 8e6 / f64::from(kbit))
    }

    fn toml(&self, case: &Case, window: Option<u32>, syns: u32) -> String {
        let mut text = format!("{{ delay = \"{}us\"", self.delay_us);
        if self.jitter_us > 0 {
            let _ = write!(text, ", jitter = \"{}us\"", self.jitter_us);
        }
        if self.loss_permille > 0 {
            let _ = write!(text, ", loss = \"{}%\"", f64::from(self.loss_permille) / 10.0);
        }
        if let Some(kbit) = self.kbit {
            let _ = write!(text, ", rate = \"{kbit}kbit\"");
        }
        if syns > 0 {
            let _ = write!(text, ", drop_syn = {syns}");
        }
        if let Some(window) = window {
            let _ = write!(text, ", initial_window = {window}");
        }
        if case.mtu != 1500 {
            let _ = write!(text, ", mtu = {}", case.mtu);
        }
        if case.names.has_ipv6() {
            text += ", ipv6 = { loss = \"100%\" }";
        }
        text + " }"
    }
}

/// How the server writes the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// Head and body together.
    One,
    /// The head alone, followed immediately by the body.
    HeadThenBody,
    /// The head alone, then the body after a pause.
    FlushThenThink { ms: u32 },
    /// Head and body in `count` writes.
    Many { count: u32 },
    /// `count` writes, each after a pause.
    Paused { count: u32, ms: u32 },
}

impl Writes {
    /// The body's parts in the notation of the zoo's servers.
    fn parts(self, body: u64) -> String {
        match self {
            Self::One => format!("{body}"),
            Self::HeadThenBody => format!("{body}@0"),
            Self::FlushThenThink { ms } => format!("{body}@{ms}"),
            Self::Many { count } => format!("{}x{count}", (body / u64::from(count)).max(1)),
            Self::Paused { count, ms } => {
                format!(
                    "{},{}@{ms}x{count}",
                    body.div_ceil(2),
                    (body / 2 / u64::from(count)).max(1)
                )
            }
        }
    }

    /// Total time the application pauses within the response.
    fn pauses_ms(self) -> u32 {
        match self {
            Self::FlushThenThink { ms } => ms,
            Self::Paused { count, ms } => count * ms,
            _ => 0,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::HeadThenBody => "head, body",
            Self::FlushThenThink { .. } => "head, pause, body",
            Self::Many { .. } => "many",
            Self::Paused { .. } => "with pauses",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) server: Server,
    pub(crate) up: Way,
    pub(crate) down: Way,
    pub(crate) window: u32,
    pub(crate) mtu: u32,
    pub(crate) tls: &'static str,
    pub(crate) http: &'static str,
    pub(crate) session: &'static str,
    pub(crate) reused: bool,
    pub(crate) chain: u32,
    pub(crate) head: u32,
    pub(crate) body: u64,
    pub(crate) writes: Writes,
    pub(crate) think_us: u64,
    pub(crate) handshake_us: u64,
    pub(crate) nagle: bool,
    pub(crate) names: Names,
    /// The server wants a group for which the client sent no key share (HelloRetryRequest).
    pub(crate) other_group: bool,
    /// QUIC begins with a Retry.
    pub(crate) retry: bool,
    /// The server neither resumes nor issues sessions.
    pub(crate) no_sessions: bool,
    pub(crate) first_syn_lost: bool,
    pub(crate) rsa: bool,
    /// File for a trace of the server's writes.
    pub(crate) trace: Option<PathBuf>,
}

/// How the client gets the server's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// From its options, without a lookup.
    Told,
    /// From the name service.
    Asked,
    /// From the name service; the IPv6 address, which is tried first, does not answer.
    DeadIpv6,
    /// From a slow name service.
    Late,
    /// From a name service that is slow, and slower still for the IPv6 address, which does not answer either.
    LateIpv6,
}

impl Names {
    /// Whether the host has an IPv6 address.
    fn has_ipv6(self) -> bool {
        matches!(self, Self::DeadIpv6 | Self::LateIpv6)
    }

    /// Whether the name service is slow. A scenario has one name service, so these cases need separate labs.
    pub(crate) fn are_late(self) -> bool {
        matches!(self, Self::Late | Self::LateIpv6)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Told => "told",
            Self::Asked => "asked",
            Self::DeadIpv6 => "dead IPv6",
            Self::Late => "late",
            Self::LateIpv6 => "late IPv6",
        }
    }
}

/// Draws from a seed.
struct Draw(fastrand::Rng);

impl Draw {
    fn chance(&mut self, percent: u32) -> bool {
        self.0.u32(0..100) < percent
    }

    /// Log-uniform from `low` to `high`.
    fn log(&mut self, low: f64, high: f64) -> f64 {
        (low.ln() + self.0.f64() * (high.ln() - low.ln())).exp()
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.usize(0..of.len())]
    }
}

impl Case {
    pub(crate) fn drawn(seed: u64, server: Server) -> Self {
        let mut draw = Draw(fastrand::Rng::with_seed(seed));
        let [up, down] = path(&mut draw);
        let window = if draw.chance(40) { draw.0.u32(1..=20) } else { 10 };
        let mtu = if draw.chance(20) { draw.one(&[1280, 1320, 1400, 1460]) } else { 1500 };
        let http = match server {
            Server::Builtin | Server::Caddy => draw.one(&["1.1", "1.1", "2", "2", "3"]),
            _ if server.can_http2() => draw.one(&["1.1", "2"]),
            _ => "1.1",
        };
        let tls = if http == "3" { "1.3" } else { draw.one(&["1.2", "1.3", "1.3"]) };
        let takes_early_data = matches!(
            server,
            Server::Builtin | Server::Nginx | Server::Caddy | Server::HaProxy | Server::Openssl
        );
        let early = tls == "1.3" && takes_early_data;
        let session = match (early, http, server) {
            (true, "3", _) => draw.one(&["full", "full", "resumed", "0rtt"]),
            (true, _, Server::Caddy) => draw.one(&["full", "full", "resumed"]),
            (true, ..) => draw.one(&["full", "full", "resumed", "0rtt"]),
            (false, ..) => draw.one(&["full", "full", "resumed"]),
        };
        let keeps = server.writes_patterns();
        let closes = matches!(server, Server::OpensslHttp | Server::Gnutls | Server::Openssl);
        let reused = session == "full" && !closes && draw.chance(10);
        let chain = if draw.chance(60) { draw.log(2_000.0, 30_000.0) as u32 } else { 0 };
        let head = if draw.chance(30) { draw.log(200.0, 8_000.0) as u32 } else { 0 };
        let body = draw.log(1.0, 200_000.0) as u64;
        let writes = match (keeps, draw.0.u32(0..100)) {
            (false, _) | (true, 0..40) => Writes::One,
            (true, 40..55) => Writes::HeadThenBody,
            (true, 55..70) => Writes::FlushThenThink { ms: draw.log(2.0, 400.0) as u32 },
            (true, 70..85) => Writes::Many { count: draw.0.u32(2..20) },
            (true, _) => {
                Writes::Paused { count: draw.0.u32(1..4), ms: draw.log(2.0, 400.0) as u32 }
            }
        };
        let time = |draw: &mut Draw, can: bool, chance, low, high| match can && draw.chance(chance)
        {
            true => draw.log(low, high) as u64,
            false => 0,
        };
        let think_us = time(&mut draw, keeps, 50, 500.0, 400_000.0);
        let handshake_us = match server.can_delay_handshakes() && draw.chance(25) {
            true => 1_000 * draw.log(2.0, 200.0) as u64,
            false => 0,
        };
        let nagle = match server.nagle() {
            Some(nagle) => nagle,
            None => http != "3" && draw.chance(30),
        };
        // Over QUIC, addresses are tried one after the other; with early data, only the first is tried.
        let dead = http != "3" && !reused;
        let names = match draw.0.u32(0..100) {
            0..20 => Names::Asked,
            20..30 if dead => Names::DeadIpv6,
            _ => Names::Told,
        };
        // Pages larger than a window, with a think time shorter than a round trip.
        let (body, think_us, writes) = match keeps && draw.chance(15) {
            true => {
                let rtt_us = (up.delay_us + down.delay_us) as f64;
                let think_us = (rtt_us * (0.1 + draw.0.f64() * 0.8)) as u64;
                (draw.log(20_000.0, 200_000.0) as u64, think_us, Writes::One)
            }
            false => (body, think_us, writes),
        };
        Self {
            seed,
            server,
            up,
            down,
            window,
            mtu,
            tls,
            http,
            session,
            reused,
            chain,
            head,
            body,
            writes,
            think_us,
            handshake_us,
            nagle,
            names,
            other_group: false,
            retry: false,
            no_sessions: false,
            first_syn_lost: false,
            rsa: false,
            trace: None,
        }
    }

    /// A page on a quiet link, from a server in its default configuration.
    pub(crate) fn quiet(
        seed: u64,
        server: Server,
        http: &'static str,
        rtt_ms: u64,
        think_ms: u64,
        body: u64,
    ) -> Self {
        let way = Way { delay_us: rtt_ms * 500, ..Way::default() };
        let nagle = server.nagle().unwrap_or(false);
        Self {
            up: way,
            down: way,
            window: 10,
            mtu: 1500,
            tls: "1.3",
            http,
            session: "full",
            reused: false,
            chain: 0,
            head: 0,
            body,
            writes: Writes::One,
            think_us: think_ms * 1_000,
            handshake_us: 0,
            nagle,
            names: Names::Told,
            other_group: false,
            retry: false,
            no_sessions: false,
            first_syn_lost: false,
            rsa: false,
            ..Self::drawn(seed, server)
        }
    }

    /// Adds the other faults of the shipped scenarios, drawn at random.
    pub(crate) fn with_faults(self) -> Self {
        let mut draw = Draw(fastrand::Rng::with_seed(!self.seed));
        let names = match (self.names, draw.0.u32(0..100)) {
            (Names::Told, 0..10) => Names::Late,
            (Names::Told, 10..20) if self.http != "3" && !self.reused => Names::LateIpv6,
            (names, _) => names,
        };
        let of_the_lab = matches!(self.server, Server::Builtin | Server::Nginx | Server::Caddy);
        let may_ask_again = of_the_lab && self.tls == "1.3" && self.session != "0rtt";
        let may_retry = self.server == Server::Builtin && self.http == "3";
        Self {
            other_group: draw.chance(25) && may_ask_again,
            retry: draw.chance(50) && may_retry,
            no_sessions: draw.chance(20) && self.session == "full",
            first_syn_lost: draw.chance(8) && self.http != "3" && !names.has_ipv6(),
            rsa: draw.chance(25),
            names,
            ..self
        }
    }

    /// Whether early data is answered only after the client's Finished has arrived.
    pub(crate) fn answers_after_finished(&self) -> bool {
        let by_itself = match self.server {
            Server::HaProxy | Server::Openssl => true,
            // Half of the cases each way.
            Server::Builtin => self.seed.is_multiple_of(2) && self.http != "3",
            _ => false,
        };
        self.session == "0rtt" && by_itself
    }

    /// The initial congestion window of the server's QUIC: 32 datagrams for quic-go, ten for quinn.
    pub(crate) const fn quic_window(&self) -> u64 {
        const DATAGRAM: u64 = 1_200;
        match self.server {
            Server::Caddy => 32 * DATAGRAM,
            _ => 10 * DATAGRAM,
        }
    }

    pub(crate) fn rtt_us(&self) -> u64 {
        self.up.delay_us + self.down.delay_us
    }

    /// Whether the application pauses within the response.
    pub(crate) fn pauses(&self) -> bool {
        self.writes.pauses_ms() > 0
    }

    /// Whether the link has no jitter, loss or rate limit.
    pub(crate) fn is_quiet(&self) -> bool {
        [self.up, self.down]
            .iter()
            .all(|way| way.jitter_us == 0 && way.loss_permille == 0 && way.kbit.is_none())
    }

    /// The host's table in the scenario file.
    pub(crate) fn host(&self, index: usize, zoo: &Zoo) -> Result<String, String> {
        let wanted = Wanted {
            tls: if self.tls == "1.2" { Tls::V12 } else { Tls::V13 },
            sessions: !self.no_sessions,
            early_data: match (self.session, self.answers_after_finished()) {
                // Caddy accepts early data over QUIC without any setting.
                ("0rtt", _) if self.server == Server::Caddy => EarlyData::Off,
                ("0rtt", true) => EarlyData::AfterFinished,
                ("0rtt", false) => EarlyData::AtOnce,
                _ => EarlyData::Off,
            },
            nagle: self.nagle,
            http3: self.http == "3",
            handshake_delay_ms: (self.handshake_us / 1_000) as u32,
            chain_bytes: (self.chain > 0).then_some(self.chain as usize),
            response: (self.head as usize, self.body as usize),
            trace: self.trace.clone().filter(|_| self.server.can_be_traced()),
            ..Wanted::default()
        };
        // For static pages: `/` is as large as the body too.
        let page = format!("page_bytes = {}", self.body);
        let mut keys: Vec<&str> = vec![page.as_str()];
        keys.extend(self.rsa.then_some("key = \"rsa2048\""));
        keys.extend(self.other_group.then_some("groups = [\"p256\"]"));
        keys.extend(self.retry.then_some("retry = true"));
        let wanted = Wanted { keys: keys.join(", "), ..wanted };
        let line = zoo.server(self.server, &wanted);
        let server = line.ok_or_else(|| format!("{} cannot do {self:?}", self.server.name()))?;
        let ipv6 = match self.names {
            names if names.has_ipv6() => format!("ipv6 = \"2001:db8:0:2::{:x}\"\n", index + 1),
            _ => String::new(),
        };
        Ok(format!(
            "[[host]]\nname = \"s{index}\"\nrole = \"server\"\nipv4 = \"198.51.100.{}\"\n{ipv6}\
             names = [\"s{index}.oracle.test\"]\n{server}\nup = {}\ndown = {}\n",
            index + 1,
            self.down.toml(self, Some(self.window), 0),
            self.up.toml(self, None, u32::from(self.first_syn_lost))
        ))
    }

    pub(crate) fn url(&self, index: usize) -> String {
        let path = match self.server.writes_patterns() {
            true => format!(
                "/w?think={}&head={}&writes={}",
                self.think_us as f64 / 1e3,
                self.head,
                self.writes.parts(self.body)
            ),
            false => self.server.path().to_owned(),
        };
        format!("https://s{index}.oracle.test{path}")
    }

    /// The arguments that make `firstbyte compare` measure this case.
    pub(crate) fn command(&self, index: usize, samples: u32) -> Vec<String> {
        let url = self.url(index);
        let connection = if self.reused { "reused" } else { "new" };
        let tls = if self.http == "3" { String::new() } else { format!("tls={} ", self.tls) };
        let way =
            format!("x: {tls}http={} session={} connection={connection}", self.http, self.session);
        let words = format!("compare {url} -s -n {samples} --warmup 1 --interval 0");
        let mut words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        if self.names == Names::Told {
            words.extend(["--resolve".into(), format!("*:*:198.51.100.{}", index + 1)]);
        }
        if !self.names.has_ipv6() {
            words.push("-4".into());
        }
        words.extend(["--variant".into(), way]);
        words
    }

    /// Every axis with its drawn value, for counting.
    pub(crate) fn axes(&self) -> Vec<(&'static str, String)> {
        let some = |name: &str, on: bool| if on { name.to_owned() } else { "none".to_owned() };
        let [up, down] = [self.up, self.down];
        let steps = |value: u64, of: &[(u64, &str)]| {
            let step = of.iter().find(|(below, _)| value < *below);
            step.map_or_else(|| "more".to_owned(), |(_, name)| (*name).to_owned())
        };
        let time = [(1, "none"), (2_000, "< 2 ms"), (20_000, "2–20 ms"), (100_000, "20–100 ms")];
        let size = [(1_000, "< 1 kB"), (10_000, "1–10 kB"), (50_000, "10–50 kB")];
        let rtt = [(2_000, "0.5–2 ms"), (20_000, "2–20 ms"), (80_000, "20–80 ms")];
        vec![
            ("server", self.server.name().to_owned()),
            ("RTT", steps(self.rtt_us(), &rtt)),
            ("jitter", some("yes", up.jitter_us + down.jitter_us > 0)),
            ("loss up", some("yes", up.loss_permille > 0)),
            ("loss down", some("yes", down.loss_permille > 0)),
            ("rate up", some("yes", up.kbit.is_some())),
            ("rate down", some("yes", down.kbit.is_some())),
            ("initial window", self.window.to_string()),
            ("MTU", self.mtu.to_string()),
            ("TLS", self.tls.to_owned()),
            ("HTTP", self.http.to_owned()),
            (
                "session",
                match self.answers_after_finished() {
                    true => "0rtt, after the Finished".to_owned(),
                    false => self.session.to_owned(),
                },
            ),
            ("connection", if self.reused { "reused" } else { "new" }.to_owned()),
            (
                "chain",
                steps(self.chain.into(), &[(1, "0.9 kB"), (6_000, "2–6 kB"), (15_000, "6–15 kB")]),
            ),
            ("head", steps(self.head.into(), &[(1, "small"), (1_400, "0.2–1.4 kB")])),
            ("body", steps(self.body, &size)),
            ("writes", self.writes.name().to_owned()),
            ("think time", steps(self.think_us, &time)),
            ("handshake delay", steps(self.handshake_us, &time)),
            ("Nagle", some("on", self.nagle)),
            ("name", self.names.name().to_owned()),
            ("group", if self.other_group { "asked for again" } else { "usual" }.to_owned()),
            ("Retry", some("yes", self.retry)),
            ("sessions", if self.no_sessions { "not issued" } else { "usual" }.to_owned()),
            ("first SYN", if self.first_syn_lost { "lost" } else { "usual" }.to_owned()),
            ("key", if self.rsa { "RSA 2048" } else { "usual" }.to_owned()),
        ]
    }
}

fn path(draw: &mut Draw) -> [Way; 2] {
    let rtt = draw.log(500.0, 250_000.0);
    let share = if draw.chance(25) { 0.1 + draw.0.f64() * 0.8 } else { 0.5 };
    let mut way = |share: f64| {
        let delay_us = (rtt * share) as u64;
        let jitter_us = match draw.chance(15) {
            true => draw.log(100.0, 20_000.0) as u64,
            false => 0,
        };
        let loss_permille = if draw.chance(10) { draw.0.u32(5..60) } else { 0 };
        let kbit = draw.chance(15).then(|| draw.log(2_000.0, 100_000.0) as u32);
        Way { delay_us, jitter_us, loss_permille, kbit }
    };
    [way(share), way(1.0 - share)]
}

impl Case {
    /// Total time the application was configured to take.
    pub(crate) fn application(&self) -> std::time::Duration {
        let pauses = u64::from(self.writes.pauses_ms()) * 1_000;
        std::time::Duration::from_micros(self.think_us + self.handshake_us + pauses)
    }
}
