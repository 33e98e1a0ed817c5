//! Every way to connect, in labs: measured with `firstbyte compare`, predicted with the same sizes.
//!
//! Input: round trips, chains, responses. Output: the median of each measure, and its prediction.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use firstbyte::prediction::hosts::calibrate;
use firstbyte::prediction::setup::Measured;
use firstbyte::runs::Run;
use firstbyte_core::run::{Metric, Metrics};
use firstbyte_lab::ca::{Ca, LeafOptions};
use firstbyte_predict::{
    CongestionControl, Exchange, Http, Reuse, Session, Setup, Tls, Way, certified, predict,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firstbyte");
/// Default chain size of the lab's CA.
const BARE_CHAIN: usize = 950;

/// The varied parameters other than the ways.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    pub(crate) rtts: Vec<Duration>,
    /// 0 is the smallest chain that the lab's CA makes.
    pub(crate) chains: Vec<usize>,
    pub(crate) responses: Vec<u64>,
    pub(crate) ways: Vec<Way>,
    pub(crate) samples: u32,
    pub(crate) congestion_control: CongestionControl,
    pub(crate) initial_window: u32,
}

/// One cell: measurement and prediction.
#[derive(Clone, Debug)]
pub(crate) struct Compared {
    pub(crate) rtt: Duration,
    pub(crate) chain: usize,
    pub(crate) response: u64,
    pub(crate) way: Way,
    pub(crate) metric: Metric,
    /// Median.
    pub(crate) measured: Duration,
    /// The fastest sample: others may have waited for a processor.
    pub(crate) fastest: Duration,
    pub(crate) predicted: Duration,
}

impl Compared {
    /// Predicted minus measured, milliseconds.
    pub(crate) fn error_ms(&self) -> f64 {
        (self.predicted.as_secs_f64() - self.measured.as_secs_f64()) * 1e3
    }

    /// The error in multiples of the tolerance, which is the larger of 3 % and 1 ms.
    pub(crate) fn badness(&self) -> f64 {
        let allowed = (self.measured.as_secs_f64() * 1e3 * 0.03).max(1.0);
        self.error_ms().abs() / allowed
    }
}

impl Grid {
    /// Measures and predicts every cell.
    ///
    /// # Errors
    /// A message that says what went wrong.
    pub(crate) fn compare(&self) -> Result<Vec<Compared>, String> {
        let hosts = self.hosts()?;
        let mut all = Vec::new();
        for rtt in &self.rtts {
            let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
            self.measure(*rtt, directory.path())?;
            for (index, chain) in self.chains.iter().enumerate() {
                for response in &self.responses {
                    let file = |reuse| run_file(directory.path(), index, *response, reuse);
                    all.extend(self.hold_against(*rtt, *chain, *response, &hosts, &file)?);
                }
            }
        }
        Ok(all)
    }

    /// This machine's handshake times: measured as `predict --from RUN` does, over a path, a chain and a response that
    /// are not in the grid.
    fn hosts(&self) -> Result<Measured, String> {
        let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
        let (rtt, response) = (Duration::from_millis(15), 3_000);
        let calibration = Self {
            chains: vec![2_000],
            responses: vec![response],
            ways: self.calibration_ways(),
            samples: self.samples.min(11),
            ..self.clone()
        };
        calibration.measure(rtt, directory.path())?;
        Measured::from_run(&read(&run_file(directory.path(), 0, response, Reuse::New))?)
    }

    /// Ways with new connections that cover all handshakes of the grid's ways.
    fn calibration_ways(&self) -> Vec<Way> {
        let is_needed = |way: &Way| self.ways.iter().any(|asked| asked.tls == way.tls);
        let new = Way::all().into_iter().filter(|way| way.reuse == Reuse::New);
        new.filter(is_needed).collect()
    }

    /// Measures everything with this round trip with `firstbyte compare`.
    fn measure(&self, rtt: Duration, directory: &Path) -> Result<(), String> {
        let (file, script) = (directory.join("grid.toml"), directory.join("measure.sh"));
        std::fs::write(&file, self.scenario(rtt)).map_err(|e| e.to_string())?;
        std::fs::write(&script, self.script(rtt, directory)).map_err(|e| e.to_string())?;
        let mut command = Command::new(PROGRAM);
        command.args(["lab", "run"]).arg(&file).args(["--", "sh"]).arg(&script);
        let output = command.stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("in the lab: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }

    /// The shell commands that measure: sequential for one server, in parallel across servers, with enough time between
    /// samples that they rarely overlap.
    fn script(&self, rtt: Duration, directory: &Path) -> String {
        let mut script = "set -e\n".to_owned();
        for index in 0..self.chains.len() {
            let commands: Vec<String> = self
                .responses
                .iter()
                .flat_map(|response| [(Reuse::New, response), (Reuse::Reused, response)])
                .filter(|(reuse, _)| self.ways_of(*reuse).next().is_some())
                .map(|(reuse, response)| self.command(rtt, index, *response, reuse, directory))
                .collect();
            script += &format!("({}) & lanes=\"$lanes $!\"\n", commands.join(" && "));
        }
        // Wait for each lane separately to get its exit code.
        script += "for lane in $lanes; do wait $lane; done\n";
        script
    }

    /// The ways with this reuse, with their numbers.
    fn ways_of(&self, reuse: Reuse) -> impl Iterator<Item = (usize, &Way)> {
        self.ways.iter().enumerate().filter(move |(_, way)| way.reuse == reuse)
    }

    fn command(
        &self,
        rtt: Duration,
        index: usize,
        response: u64,
        reuse: Reuse,
        directory: &Path,
    ) -> String {
        let mut words = vec![
            PROGRAM.to_owned(),
            "compare".into(),
            format!("https://server{index}.test/bytes/{response}"),
        ];
        // Rounds of keep-alive connections take long enough for them to come to rest between most visits, but not long
        // enough for the server to close them: a connection that is opened again was used just before.
        let interval = match (reuse, rtt.as_millis()) {
            (Reuse::New, 0..20) => 0.4,
            (Reuse::New, _) => 0.25,
            (Reuse::Reused, 0..150) => 1.0,
            (Reuse::Reused, _) => 1.5,
        };
        let flags = format!("-s -4 -n {} --warmup 1 --interval {interval}", self.samples);
        words.extend(flags.split(' ').map(str::to_owned));
        words.extend(["--resolve".into(), format!("'*:*:198.51.100.{}'", index + 1)]);
        for (number, way) in self.ways_of(reuse) {
            words.extend(["--variant".into(), format!("'w{number}: {}'", asked_for(way))]);
        }
        words.extend([
            "--run".into(),
            format!("'{}'", run_file(directory, index, response, reuse).display()),
        ]);
        words.join(" ") + " > /dev/null"
    }

    fn scenario(&self, rtt: Duration) -> String {
        let half = format!("{}us", rtt.as_micros() / 2);
        let mut text = String::from(
            "description = \"a path, and servers with chains of several sizes\"\n\
             [[host]]\nname = \"client\"\nrole = \"client\"\nipv4 = \"192.0.2.10\"\n",
        );
        for (index, chain) in self.chains.iter().enumerate() {
            let number = index + 1;
            let chain =
                if *chain == 0 { String::new() } else { format!(", chain_bytes = {chain}") };
            let control = self.congestion_control.name();
            let window = self.initial_window;
            text += &format!(
                "[[host]]\nname = \"server{index}\"\nrole = \"server\"\n\
                 ipv4 = \"198.51.100.{number}\"\nnames = [\"server{index}.test\"]\n\
                 congestion_control = \"{control}\"\n\
                 server = {{ kind = \"builtin\", early_data = \"on\", http3 = true{chain} }}\n\
                 up = {{ delay = \"{half}\", initial_window = {window} }}\n\
                 down = {{ delay = \"{half}\" }}\n"
            );
        }
        text
    }

    fn hold_against(
        &self,
        rtt: Duration,
        chain: usize,
        response: u64,
        hosts: &Measured,
        file: &dyn Fn(Reuse) -> PathBuf,
    ) -> Result<Vec<Compared>, String> {
        let mut compared = Vec::new();
        for reuse in [Reuse::New, Reuse::Reused] {
            if self.ways_of(reuse).next().is_some() {
                let run = read(&file(reuse))?;
                compared.extend(self.hold_run_against(rtt, chain, response, hosts, reuse, &run)?);
            }
        }
        Ok(compared)
    }

    fn hold_run_against(
        &self,
        rtt: Duration,
        chain: usize,
        response: u64,
        hosts: &Measured,
        reuse: Reuse,
        run: &Run,
    ) -> Result<Vec<Compared>, String> {
        let none = || "no round trip was measured".to_owned();
        // Same as `predict --from RUN`: extra delay of the lab's links and kernels belongs to the path.
        let over = Measured::from_run(run)?.rtt.ok_or_else(none)?;
        let mut setup = Setup::new(over, chain_of(chain)?);
        setup.server.congestion_control = self.congestion_control;
        setup.server.initial_window = self.initial_window;
        setup.exchange = Exchange { response_bytes: response, ..Exchange::default() };
        calibrate(&mut setup, &hosts.handshakes, hosts.rtt.ok_or_else(none)?);
        let mut compared = Vec::new();
        for (number, way) in self.ways_of(reuse) {
            let samples = samples_of(run, number, rest(way, rtt));
            let base = firstbyte_clock::timer_now().into_std();
            let connection = predict(&setup, way, base).map_err(|e| e.to_string())?;
            let predicted = Metrics::from_connection(&connection);
            for metric in [Metric::Setup, Metric::Ttfb, Metric::Total] {
                // Over QUIC the window survives idle time: each exchange finds a larger one than the exchange before.
                if metric == Metric::Total && way.http == Http::V3 && way.reuse == Reuse::Reused {
                    continue;
                }
                let mut values: Vec<u64> =
                    samples.iter().filter_map(|m| without_name(m, metric)).collect();
                values.sort_unstable();
                let Some(predicted) = predicted.get(metric) else { continue };
                let Some(median) = values.get(values.len() / 2) else {
                    return Err(format!("nothing was measured of: {}", way.label()));
                };
                compared.push(Compared {
                    rtt,
                    chain: if chain == 0 { BARE_CHAIN } else { chain },
                    response,
                    way: *way,
                    metric,
                    measured: Duration::from_nanos(*median),
                    fastest: Duration::from_nanos(values.first().copied().unwrap_or(*median)),
                    predicted: Duration::from_nanos(predicted),
                });
            }
        }
        Ok(compared)
    }
}

fn run_file(directory: &Path, index: usize, response: u64, reuse: Reuse) -> PathBuf {
    let kept = if reuse == Reuse::Reused { "-kept" } else { "" };
    directory.join(format!("{index}-{response}{kept}.run"))
}

fn read(file: &Path) -> Result<Run, String> {
    Run::read(file).map_err(|e| e.to_string())
}

/// How long a connection must have been idle before an exchange. The kernel halves its window for every timeout that
/// passes, and the window that 1 MB leaves takes seven halvings.
fn rest(way: &Way, rtt: Duration) -> Duration {
    if way.reuse == Reuse::New { Duration::ZERO } else { 7 * (rtt + Duration::from_millis(200)) }
}

/// The proven samples of the way with this number that began at least `rest` after the previous one ended.
fn samples_of(run: &Run, number: usize, rest: Duration) -> Vec<Metrics> {
    let value = format!("w{number}");
    let named = |cell: u16| {
        let cell = run.header.cells.get(usize::from(cell));
        cell.is_some_and(|cell| cell.factors.iter().any(|f| f.value == value || f.label == value))
    };
    let mut idle_since = None;
    let mut samples = Vec::new();
    for row in run.rows.iter().filter(|row| named(row.cell)) {
        let rested = idle_since.is_none_or(|since| row.started_unix_ns >= since + nanos(rest));
        if row.counts() && rested {
            samples.push(row.metrics);
        }
        idle_since = Some(row.started_unix_ns + row.metric(Metric::Total).unwrap_or(0));
    }
    samples
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A metric without the name lookup, which is not part of the path.
fn without_name(metrics: &Metrics, metric: Metric) -> Option<u64> {
    let name = match metric {
        Metric::Ttfb | Metric::Total => metrics.get(Metric::Resolve).unwrap_or(0),
        _ => 0,
    };
    metrics.get(metric).map(|value| value.saturating_sub(name))
}

/// The arguments that ask `firstbyte compare` for this way.
fn asked_for(way: &Way) -> String {
    let http = match way.http {
        Http::V1_1 => "http=1.1",
        Http::V2 => "http=2",
        Http::V3 => "http=3",
    };
    let tls = match way.tls {
        Tls::None => return with_reuse(format!("scheme=http {http}"), way),
        Tls::V1_2 => "tls=1.2",
        Tls::V1_3 => "tls=1.3",
    };
    let session = match way.session {
        Session::Full => "session=full",
        Session::Resumed => "session=resumed",
        Session::ZeroRtt => "session=0rtt",
    };
    let kex = way
        .group
        .map(|group| format!(" kex={}", group.name().to_ascii_lowercase().replace("p-", "p")));
    with_reuse(format!("{tls} {session} {http}{}", kex.unwrap_or_default()), way)
}

fn with_reuse(words: String, way: &Way) -> String {
    let reuse = if way.reuse == Reuse::Reused { "reused" } else { "new" };
    format!("{words} connection={reuse}")
}

/// A chain like those of the lab's own servers, made once per size.
fn chain_of(bytes: usize) -> Result<Arc<CertifiedKey>, String> {
    thread_local! {
        static MADE: std::cell::RefCell<HashMap<usize, Arc<CertifiedKey>>> = Default::default();
    }
    if let Some(made) = MADE.with_borrow(|made| made.get(&bytes).cloned()) {
        return Ok(made);
    }
    let options =
        LeafOptions { chain_bytes: (bytes > 0).then_some(bytes), ..LeafOptions::default() };
    let ca = Ca::new().map_err(|e| e.to_string())?;
    let names = ["server0.test".to_owned()];
    let certificate = ca.issue_with(&names, &options).map_err(|e| e.to_string())?;
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(certificate.chain_pem.as_bytes()).collect();
    let chain = chain.map_err(|e| e.to_string())?;
    let key = PrivateKeyDer::from_pem_slice(certificate.key_pem.as_bytes());
    let key = key.map_err(|e| e.to_string())?;
    let certified = certified(chain, key).map_err(|e| e.to_string())?;
    MADE.with_borrow_mut(|made| made.insert(bytes, Arc::clone(&certified)));
    Ok(certified)
}
