//! Synthetic comparisons: three edges, drifting noise, outliers, failures, unproven samples.

use std::time::Duration;

use firstbyte_core::compare::Role;
use firstbyte_core::run::{Cell, Factor, Metric, Metrics, Row, Shortfall, Standing, VisitAnswer};
use firstbyte_core::split::AttributedConnection;
use firstbyte_core::stats::{Interval, median, quantile};
use firstbyte_core::timeline::{
    Chunk, Connection, Direction, Facts, Flight, Mark, Offset, QuicFacts, Stamp, TcpFacts, TlsFacts,
};

use super::{EffectView, Estimate, FailureView, Sentence, Study, SummaryView, Verdict};

/// Owns the data that a [`Study`] borrows.
pub(crate) struct Made {
    pub cells: Vec<Cell>,
    pub rows: Vec<Row>,
    pub medians: Vec<Option<AttributedConnection>>,
    pub environment: Vec<(String, String)>,
    pub summaries: Vec<SummaryView>,
    pub effects: Vec<EffectView>,
    pub sentences: Vec<Sentence>,
    pub failures: Vec<FailureView>,
}

impl Made {
    pub(crate) fn study(&self) -> Study<'_> {
        Study {
            links: &[],
            title: "TLS 1.2, TLS 1.3 and HTTP/3 on three paths",
            date: "20 November 2026, 14:05 UTC",
            command: "firstbyte compare --vary tls=1.2,1.3 --vary edge=london,vancouver,sydney \
                      --samples 500 --seed 7 --html report.html",
            environment: &self.environment,
            cells: &self.cells,
            rows: &self.rows,
            medians: &self.medians,
            examined: None,
            panels: &[],
            processors: &[],
            percentiles: &[],
            story: None,
            sentences: self.sentences.clone(),
            summaries: self.summaries.clone(),
            effects: self.effects.clone(),
            missing: Vec::new(),
            failures: self.failures.clone(),
        }
    }
}

/// The cost of a way to connect.
#[derive(Clone, Copy)]
struct Way {
    label: &'static str,
    /// Round trips of TCP, TLS and QUIC.
    trips: [f64; 3],
    early: bool,
}

const WAYS: [Way; 6] = [
    Way { label: "TLS 1.2", trips: [1.0, 2.0, 0.0], early: false },
    Way { label: "TLS 1.3", trips: [1.0, 1.0, 0.0], early: false },
    Way { label: "TLS 1.3 resumed", trips: [1.0, 1.0, 0.0], early: false },
    Way { label: "TLS 1.3 0-RTT", trips: [1.0, 0.0, 0.0], early: true },
    Way { label: "HTTP/3", trips: [0.0, 0.0, 1.0], early: false },
    Way { label: "HTTP/3 0-RTT", trips: [0.0, 0.0, 0.0], early: true },
];

const EDGES: [(&str, f64); 3] = [("London", 9.0), ("Vancouver", 140.0), ("Sydney", 280.0)];

fn factor(axis: &str, label: &str) -> Factor {
    Factor { axis: axis.into(), value: label.to_lowercase().replace(' ', "-"), label: label.into() }
}

/// `ways` of six ways to connect to three edges over both families, with `rounds` rounds after two of warm-up.
pub(crate) fn made(ways: usize, edges: usize, families: usize, rounds: u32) -> Made {
    let mut random = fastrand::Rng::with_seed(7);
    let mut plans = Vec::new();
    for (edge, rtt) in &EDGES[..edges] {
        for family in &["IPv4", "IPv6"][..families] {
            for way in &WAYS[..ways] {
                let rtt = if *family == "IPv6" { rtt * 1.05 + 1.2 } else { *rtt };
                plans.push((edge, rtt, family, *way));
            }
        }
    }
    let cells: Vec<Cell> = plans
        .iter()
        .map(|(edge, _, family, way)| Cell {
            factors: vec![
                factor("variant", way.label),
                factor("edge", edge),
                factor("family", family),
            ],
            url: format!("https://{}.example/", edge.to_lowercase()),
            twin_of: None,
        })
        .collect();
    let mut rows = Vec::with_capacity(plans.len() * rounds as usize);
    let mut drift = vec![0.0; plans.len()];
    for round in 0..rounds + 2 {
        for (cell, (_, rtt, _, way)) in plans.iter().enumerate() {
            drift[cell] = drift[cell] * 0.8 + (random.f64() - 0.5) * rtt * 0.02;
            let cold = if round < 2 { 1.8 } else { 1.0 };
            rows.push(row(cell, round, *rtt, *way, drift[cell], cold, &mut random));
        }
    }
    let median = |rtt: f64, way: Way| Some(AttributedConnection::alone(connection(rtt, way)));
    let medians = plans.iter().map(|(_, rtt, _, way)| median(*rtt, *way)).collect();
    let mut made = Made {
        cells,
        rows,
        medians,
        environment: [
            ("firstbyte", "0.1.0"),
            ("system", "Linux 6.18, 2 processors"),
            ("clock", "kernel stamps"),
            ("TLS", "rustls 0.23, X25519MLKEM768"),
            ("seed", "7"),
        ]
        .map(|(n, v)| (n.to_owned(), v.to_owned()))
        .to_vec(),
        summaries: Vec::new(),
        effects: Vec::new(),
        sentences: Vec::new(),
        failures: Vec::new(),
    };
    summarise(&mut made);
    compare(&mut made, ways);
    made
}

fn row(
    cell: usize,
    round: u32,
    rtt: f64,
    way: Way,
    drift: f64,
    cold: f64,
    random: &mut fastrand::Rng,
) -> Row {
    let mut noise = |share: f64| -random.f64().max(1e-9).ln() * rtt * share;
    let path = rtt + drift;
    let [tcp, tls, quic] = way.trips;
    let mut ms = [
        (Metric::Resolve, (1.4 + noise(0.01)) * cold),
        (Metric::Connect, tcp * (path + noise(0.01))),
        (Metric::Tls, tls * (path + noise(0.015)) + tls.min(1.0) * 2.4),
        (Metric::Quic, quic * (path + noise(0.015) + 2.9)),
        (Metric::Send, 0.08),
        (Metric::Wait, path + 4.0 + noise(0.03)),
        (Metric::Receive, 0.7 + noise(0.01)),
    ];
    if random.f64() < 0.004 {
        ms[1].1 += if tcp > 0.0 { 1_000.0 } else { 0.0 };
        ms[3].1 += if quic > 0.0 { 333.0 } else { 0.0 };
    }
    let mut metrics = Metrics::default();
    let mut set = |metric, ms: f64| metrics.set(metric, Duration::from_nanos((ms * 1e6) as u64));
    let mut total = 0.0;
    for (metric, ms) in ms {
        if ms > 0.0 {
            set(metric, ms);
            total += ms;
        }
    }
    let setup = ms[1].1 + ms[2].1 + ms[3].1;
    set(Metric::Setup, setup);
    set(Metric::Ttfb, total - ms[6].1);
    set(Metric::Total, total);
    let standing = match random.f64() {
        x if x < 0.008 => Standing::Failed,
        x if way.early && x < 0.03 => Standing::Unproven(Shortfall::EarlyDataRejected),
        x if way.early && x < 0.036 => Standing::Unproven(Shortfall::TooEarly),
        _ => Standing::Proven,
    };
    Row {
        cell: u16::try_from(cell).unwrap(),
        round,
        warmup: round < 2,
        standing,
        started_unix_ns: 1_795_183_509_000_000_000 + u64::from(round) * 100_000_000,
        lateness_ns: 0,
        stands_for_ns: None,
        metrics,
        answer: VisitAnswer::default(),
    }
}

/// Builds a connection whose flights match its marks.
struct Walk {
    now: f64,
    connection: Connection,
}

impl Walk {
    fn stamp(&self) -> Stamp {
        Stamp::kernel(Offset::from_nanos((self.now * 1e6) as i64))
    }

    fn after(&mut self, ms: f64) -> &mut Self {
        self.now += ms;
        self
    }

    fn mark(&mut self, mark: Mark) -> &mut Self {
        let stamp = self.stamp();
        self.connection.marks.set(mark, stamp);
        self
    }

    fn flight(&mut self, direction: Direction, bytes: u64, messages: &[&str]) -> &mut Self {
        let chunks = vec![Chunk::new(self.stamp(), bytes)];
        let messages = messages.iter().map(ToString::to_string).collect();
        self.connection.flights.push(Flight { direction, chunks, messages });
        self
    }

    /// Adds `trips` handshake exchanges, which take `trips` round trips and 2.4 ms.
    fn handshake(&mut self, trips: f64, rtt: f64, quic: bool) {
        let [asked, hello, done] = match (quic, trips > 1.0) {
            (true, _) => [&["Initial"][..], &["Initial", "Handshake"], &[]],
            (false, true) => [
                &["ClientHello"][..],
                &["ServerHello", "Certificate", "ServerKeyExchange", "ServerHelloDone"],
                &["ChangeCipherSpec", "{Finished}"],
            ],
            (false, false) => [
                &["ClientHello"][..],
                &[
                    "ServerHello",
                    "ChangeCipherSpec",
                    "{EncryptedExtensions}",
                    "{Certificate}",
                    "{CertificateVerify}",
                    "{Finished}",
                ],
                &[],
            ],
        };
        self.after(0.3).flight(Direction::Sent, 1_490, asked);
        self.after(rtt + 1.2).flight(Direction::Received, 3_200, hello);
        if trips > 1.0 {
            let answer = ["ClientKeyExchange", "ChangeCipherSpec", "{Finished}"];
            self.after(0.5).flight(Direction::Sent, 93, &answer);
            self.after(rtt + 0.2).flight(Direction::Received, 120, done).after(0.2);
        } else {
            self.after(0.9);
        }
        self.mark(Mark::HandshakeComplete);
    }
}

const TICKETS: [&str; 4] =
    ["{NewSessionTicket}", "{NewSessionTicket}", "{SETTINGS}", "{WINDOW_UPDATE}"];

fn connection(rtt: f64, way: Way) -> Connection {
    let url = "https://edge.example/".into();
    let mut walk = Walk { now: 0.0, connection: Connection { url, ..Connection::default() } };
    let [tcp, tls, quic] = way.trips;
    let over_quic = tcp == 0.0;
    walk.after(0.05).mark(Mark::DomainLookupStart).after(1.4).mark(Mark::DomainLookupEnd);
    walk.after(0.02).mark(Mark::ConnectStart);
    if !over_quic {
        walk.after(rtt).mark(Mark::TcpConnected).mark(Mark::SecureConnectionStart);
    }
    if !way.early {
        walk.handshake(tls + quic, rtt, over_quic);
    }
    walk.after(0.08).mark(Mark::RequestStart).mark(Mark::RequestEnd);
    let request = match (over_quic, way.early) {
        (true, true) => &["Initial", "0-RTT"][..],
        (true, false) => &["Handshake", "1-RTT"],
        (false, true) => &["ClientHello", "{HEADERS}"],
        (false, false) => &[
            "ChangeCipherSpec",
            "{Finished}",
            "{preface}",
            "{SETTINGS}",
            "{WINDOW_UPDATE}",
            "{HEADERS}",
        ],
    };
    walk.flight(Direction::Sent, 320, request);
    if way.early {
        walk.after(rtt + 1.4).flight(Direction::Received, 260, &["ServerHello", "{Finished}"]);
        walk.after(1.0).mark(Mark::HandshakeComplete).flight(Direction::Sent, 78, &["{Finished}"]);
        walk.after(2.0);
    } else {
        walk.after(rtt + 0.3).flight(Direction::Received, 510, &TICKETS);
        walk.after(3.7);
    }
    walk.mark(Mark::ResponseStart).flight(Direction::Received, 1_448, &["{HEADERS}", "{DATA}"]);
    walk.after(0.8).mark(Mark::ResponseEnd).flight(Direction::Received, 2_410, &["{DATA}"]);
    let rtt = Some(Duration::from_nanos((rtt * 1e6) as u64));
    let mut c = walk.connection;
    c.facts = Facts {
        tcp: (!over_quic).then(|| TcpFacts { syn_rtt: rtt, min_rtt: rtt, ..TcpFacts::default() }),
        quic: over_quic.then(|| QuicFacts { min_rtt: rtt, ..QuicFacts::default() }),
        tls: Some(TlsFacts::default()),
        ..Facts::default()
    };
    c
}

fn values(rows: &[Row], cell: usize, metric: Metric) -> Vec<f64> {
    let of = rows.iter().filter(|r| usize::from(r.cell) == cell && r.counts());
    let mut values: Vec<f64> = of.filter_map(|r| r.metric(metric)).map(|ns| ns as f64).collect();
    values.sort_by(f64::total_cmp);
    values
}

const QUANTILES: [f64; 5] = [0.5, 0.75, 0.9, 0.95, 0.99];

/// An estimate with a plausible interval.
fn estimate(value: f64, spread: f64, n: usize) -> Estimate {
    let half = spread * 2.0 / (n as f64).sqrt();
    let interval = (n >= 6).then_some(Interval { low: value - half, high: value + half });
    Estimate { value, interval }
}

fn summarise(made: &mut Made) {
    // Enough rows for quantiles that only have to look right.
    let rows = &made.rows[..made.rows.len().min(40_000)];
    for cell in 0..made.cells.len() {
        for metric in Metric::ALL {
            let sorted = values(rows, cell, metric);
            let (Some(q1), Some(q3)) = (quantile(&sorted, 0.25), quantile(&sorted, 0.75)) else {
                continue;
            };
            let at = |q: f64| {
                let value = quantile(&sorted, q).unwrap_or(0.0);
                (q, estimate(value, (q3 - q1) / (1.05 - q), sorted.len()))
            };
            let quantiles = QUANTILES.into_iter().map(at).collect();
            made.summaries.push(SummaryView {
                cell,
                metric,
                samples: sorted.len(),
                quantiles,
                outliers: sorted.len() / 50,
                autocorrelation: Some(0.31),
                notable: true,
            });
        }
        let failed = made.rows.iter().filter(|r| usize::from(r.cell) == cell);
        let count = failed.filter(|r| r.standing == Standing::Failed).count() as u64;
        if count > 0 {
            let cause = "connect: no address answered within 5 s".to_owned();
            made.failures.push(FailureView { cell, cause, count });
        }
    }
}

fn compare(made: &mut Made, ways: usize) {
    for variant in (0..made.cells.len()).filter(|c| c % ways != 0) {
        let base = variant - variant % ways;
        for metric in [Metric::Setup, Metric::Wait, Metric::Ttfb, Metric::Total] {
            let of = |cell: usize| {
                made.summaries.iter().find(|s| s.cell == cell && s.metric == metric).cloned()
            };
            let (Some(a), Some(b)) = (of(base), of(variant)) else { continue };
            let n = a.samples.min(b.samples);
            let quantiles: Vec<(f64, Estimate)> = QUANTILES
                .into_iter()
                .filter_map(|q| {
                    let (a, b) = (a.quantile(q)?.value, b.quantile(q)?.value);
                    Some((q, estimate(b - a, a * 0.02 / (1.05 - q), n)))
                })
                .collect();
            let difference = quantiles.first().map_or(estimate(0.0, 0.0, 0), |(_, e)| *e);
            let verdict = match difference.interval {
                Some(i) if i.high < 0.0 => Verdict::Faster,
                Some(i) if i.low > 0.0 => Verdict::Slower,
                _ => Verdict::Open,
            };
            let relative = a.quantile(0.5).map(|e| difference.value / e.value);
            made.effects.push(EffectView {
                role: Role::Primary,
                base,
                variant,
                metric,
                pairs: n,
                unpaired: 3,
                difference,
                relative,
                hodges_lehmann: difference.value * 1.01,
                p_values: Some([0.001, 0.004]),
                quantiles,
                verdict,
            });
        }
    }
    let shares: Vec<f64> = made
        .effects
        .iter()
        .filter(|e| e.metric == Metric::Total)
        .filter_map(|e| e.relative)
        .collect();
    let text = format!(
        "TLS 1.3 cut the median total time by {:.0} % compared with TLS 1.2, in all comparisons.",
        median(&shares).unwrap_or(0.0) * -100.0
    );
    made.sentences = vec![
        Sentence { text, verdict: Verdict::Faster },
        Sentence {
            text: "The wait for the first byte does not differ: on every path the interval holds \
                   zero."
                .into(),
            verdict: Verdict::Open,
        },
    ];
}
