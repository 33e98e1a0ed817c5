//! Answers the exporter's requests.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use firstbyte_clock::Realtime;
use firstbyte_probe::probe::{MOST_TEXT, describe_io, read_text};
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};
use http_body_util::Full;

use crate::Compat;
use crate::configuration::{Configuration, Module};
use crate::history::History;
use crate::log::{ProbeLog, ProbeLogOptions};
use crate::metrics::{self, Metrics};
use crate::pages;
use crate::probe::{Tools, is_known, probe};

/// A response.
pub type Answer = Response<Full<Bytes>>;

/// Settings of an exporter.
#[derive(Clone, Debug)]
pub struct ExporterOptions {
    /// Path of the configuration file.
    pub config_file: PathBuf,
    /// How many seconds before the scrape's timeout a probe ends.
    pub timeout_offset: f64,
    /// How many probes to remember.
    pub history_limit: usize,
    /// Which version of blackbox_exporter to imitate.
    pub compat: Compat,
    /// Version of this program.
    pub version: String,
}

/// State shared by all requests. Clones share it.
#[derive(Clone)]
pub struct Exporter(Rc<Inner>);

struct Inner {
    options: ExporterOptions,
    loaded: RefCell<Loaded>,
    history: RefCell<History>,
    unknown_modules: Cell<u64>,
    probe_log: Cell<ProbeLogOptions>,
}

/// A configuration, and whether it was last read successfully.
struct Loaded {
    configuration: Rc<Configuration>,
    tools: Rc<Tools>,
    succeeded: bool,
    succeeded_at: f64,
}

/// The decoded query of a request. Of repeated parameters, the first wins.
struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn new(query: &str) -> Self {
        Self(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }
}

fn now() -> f64 {
    Realtime::now().unix_nanos() as f64 / 1e9
}

fn read(options: &ExporterOptions) -> Result<Configuration, String> {
    let file = options.config_file.display();
    let text = read_text(&options.config_file, MOST_TEXT)
        .map_err(|error| format!("{file}: {}", describe_io(&error)))?;
    Configuration::parse(&text).map_err(|mistake| format!("{file}: {mistake}"))
}

impl Exporter {
    /// Creates an exporter and reads its configuration.
    ///
    /// # Errors
    /// Describes what is wrong with the configuration, with the file and the line.
    pub fn new(options: ExporterOptions) -> Result<Self, String> {
        let configuration = read(&options)?;
        let tools = Rc::new(Tools::new(&configuration, options.compat));
        let loaded = Loaded {
            configuration: Rc::new(configuration),
            tools,
            succeeded: true,
            succeeded_at: now(),
        };
        let history = RefCell::new(History::new(options.history_limit));
        Ok(Self(Rc::new(Inner {
            options,
            loaded: RefCell::new(loaded),
            history,
            unknown_modules: Cell::new(0),
            probe_log: Cell::default(),
        })))
    }

    /// Starts writing the log lines of probes; before this call nothing is written.
    pub fn write_probe_log(&self, options: ProbeLogOptions) {
        self.0.probe_log.set(options);
    }

    /// Number of modules that can be served.
    pub fn modules(&self) -> usize {
        self.0.loaded.borrow().configuration.modules.len()
    }

    /// Modules that cannot be served, each as `FILE: line N: what is not supported`.
    pub fn refused_modules(&self) -> Vec<String> {
        let file = self.0.options.config_file.display();
        let loaded = self.0.loaded.borrow();
        let refused = loaded.configuration.refused.values();
        refused.map(|mistake| format!("{file}: {mistake}")).collect()
    }

    /// Rereads the configuration. One with mistakes changes only the metric that reports them.
    ///
    /// # Errors
    /// Describes the mistake.
    pub fn reload(&self) -> Result<(), String> {
        let read = read(&self.0.options);
        let mut loaded = self.0.loaded.borrow_mut();
        match read {
            Ok(configuration) => {
                let tools = Tools::new(&configuration, self.0.options.compat);
                *loaded = Loaded {
                    configuration: Rc::new(configuration),
                    tools: Rc::new(tools),
                    succeeded: true,
                    succeeded_at: now(),
                };
                Ok(())
            }
            Err(error) => {
                loaded.succeeded = false;
                Err(error)
            }
        }
    }

    /// Answers a request. Must be called in a `LocalSet` on a single-threaded runtime.
    pub async fn handle(&self, method: &Method, uri: &http::Uri, headers: &HeaderMap) -> Answer {
        let parameters = Parameters::new(uri.query().unwrap_or_default());
        match uri.path() {
            "/probe" => self.probe(&parameters, headers).await,
            "/metrics" => text(
                StatusCode::OK,
                metrics::content_type(self.0.options.compat),
                self.own_metrics().text(),
            ),
            "/config" => {
                let shown = self.0.loaded.borrow().configuration.shown();
                text(StatusCode::OK, "text/plain", shown)
            }
            "/logs" => self.logs(&parameters),
            "/-/healthy" => text(StatusCode::OK, "text/plain; charset=utf-8", "Healthy".into()),
            "/-/reload" if method == Method::POST => match self.reload() {
                Ok(()) => text(StatusCode::OK, "text/plain; charset=utf-8", String::new()),
                Err(error) => {
                    let what = format!("failed to reload config: {error}");
                    refusal(StatusCode::INTERNAL_SERVER_ERROR, &what)
                }
            },
            "/-/reload" => {
                let what = "This endpoint requires a POST request.\n".to_owned();
                let mut answer =
                    text(StatusCode::METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", what);
                answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
                answer
            }
            // As in blackbox_exporter, any other path shows the page.
            _ => pages::page(&self.0.history.borrow()),
        }
    }

    fn own_metrics(&self) -> Metrics {
        let loaded = self.0.loaded.borrow();
        let mut metrics = Metrics::default();
        let version = format!("{}.0", self.0.options.compat.name());
        metrics.labelled(
            "blackbox_exporter_build_info",
            "A metric with a constant '1' value labeled by version, revision, branch, goversion from which \
             blackbox_exporter was built, and the goos and goarch for the build.",
            &[
                ("version", &version),
                ("revision", &format!("firstbyte-{}", self.0.options.version)),
                ("branch", "firstbyte"),
                ("goos", std::env::consts::OS),
                ("goarch", std::env::consts::ARCH),
            ],
            1.0,
        );
        metrics.gauge(
            "blackbox_exporter_config_last_reload_successful",
            "Blackbox exporter config loaded successfully.",
            f64::from(u8::from(loaded.succeeded)),
        );
        metrics.gauge(
            "blackbox_exporter_config_last_reload_success_timestamp_seconds",
            "Timestamp of the last successful configuration reload.",
            loaded.succeeded_at,
        );
        metrics.counter(
            "blackbox_module_unknown_total",
            "Count of unknown modules requested by probes",
            self.0.unknown_modules.get() as f64,
        );
        metrics
    }

    async fn probe(&self, parameters: &Parameters, headers: &HeaderMap) -> Answer {
        let bad = |what: &str| refusal(StatusCode::BAD_REQUEST, what);
        let name = match parameters.get("module") {
            "" => "http_2xx",
            name => name,
        };
        let (configuration, tools) = {
            let loaded = self.0.loaded.borrow();
            (Rc::clone(&loaded.configuration), Rc::clone(&loaded.tools))
        };
        if let Some(mistake) = configuration.refused.get(name) {
            return bad(&format!("Module {name:?} cannot be served: {mistake}"));
        }
        let Some(module) = configuration.modules.get(name) else {
            self.0.unknown_modules.set(self.0.unknown_modules.get() + 1);
            return bad(&format!("Unknown module {name:?}"));
        };
        let timeout = match timeout(headers, module, self.0.options.timeout_offset) {
            Ok(timeout) => timeout,
            Err(error) => {
                let what = format!("Failed to parse timeout from Prometheus header: {error}");
                return refusal(StatusCode::INTERNAL_SERVER_ERROR, &what);
            }
        };
        let target = parameters.get("target");
        if target.is_empty() {
            return bad("Target parameter is missing");
        }
        if !is_known(&module.prober) {
            return bad(&format!("Unknown prober {:?}", module.prober));
        }
        let hostname = parameters.get("hostname");
        let configured =
            module.http.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        if let Some((_, configured)) = configured
            && module.prober == "http"
            && !hostname.is_empty()
            && configured.reveal() != hostname
        {
            let configured = configured.reveal();
            return bad(&format!(
                "host header defined both in module configuration ({configured}) and with URL-parameter \
                 'hostname' ({hostname})"
            ));
        }
        let log = ProbeLog::new(name, target, self.0.probe_log.get());
        let outcome = probe(log, module, target, hostname, timeout, &tools).await;
        let debug = format!(
            "Logs for the probe:\n{}\n\n\nMetrics that would have been returned:\n{}\n\n\n\
             Module configuration:\n{}",
            outcome.log.text(),
            outcome.metrics.text(),
            module.shown()
        );
        let mut history = self.0.history.borrow_mut();
        if parameters.get("debug") == "true" {
            history.add(name, target, debug.clone(), outcome.success);
            return text(StatusCode::OK, "text/plain", debug);
        }
        history.add(name, target, debug, outcome.success);
        text(StatusCode::OK, metrics::content_type(self.0.options.compat), outcome.metrics.text())
    }

    fn logs(&self, parameters: &Parameters) -> Answer {
        let bad = |what: &str| refusal(StatusCode::BAD_REQUEST, what);
        let id = parameters.get("id").parse::<i64>().ok();
        let (target, module) = (parameters.get("target"), parameters.get("module"));
        if id.is_some() && !target.is_empty() {
            return bad("Probe id and target can't be defined at the same time");
        }
        if id.is_none_or(|id| id == -1) && target.is_empty() {
            return bad("Probe id or target must be defined as http query parameters");
        }
        if target.is_empty() && !module.is_empty() {
            return bad("Probe module filter only works in conjunction with target parameter");
        }
        let history = self.0.history.borrow();
        let (found, what) = match id {
            Some(id) => (history.by_id(id), "Probe id not found"),
            None => (history.by_target(target, module), "Probe target not found"),
        };
        match found {
            Some(past) => text(StatusCode::OK, "text/plain", past.debug.clone()),
            None => refusal(StatusCode::NOT_FOUND, what),
        }
    }
}

/// Time limit of a probe: the module's, but shorter than the scrape's timeout.
fn timeout(headers: &HeaderMap, module: &Module, offset: f64) -> Result<Duration, String> {
    let given = headers.get("x-prometheus-scrape-timeout-seconds");
    let mut seconds = 0.0;
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        let text = String::from_utf8_lossy(given.as_bytes()).into_owned();
        seconds = text
            .parse()
            .map_err(|_| format!("strconv.ParseFloat: parsing {text:?}: invalid syntax"))?;
    }
    if seconds == 0.0 {
        seconds = 120.0;
    }
    let most: f64 = seconds - offset;
    let own = module.timeout_ns as f64 / 1e9;
    let seconds = if own < most && own > 0.0 || most < 0.0 { own } else { most };
    // To timers, a year is as good as no limit. A time limit that is already over becomes zero.
    Ok(Duration::try_from_secs_f64(seconds.clamp(0.0, 31_536_000.0)).unwrap_or_default())
}

pub(crate) fn text(status: StatusCode, kind: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// Answers as Go's `http.Error` does.
fn refusal(status: StatusCode, what: &str) -> Answer {
    let mut answer = text(status, "text/plain; charset=utf-8", format!("{what}\n"));
    let nosniff = HeaderValue::from_static("nosniff");
    answer.headers_mut().insert("x-content-type-options", nosniff);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_without_an_end_is_refused() {
        let error = read(&ExporterOptions {
            config_file: "/dev/zero".into(),
            timeout_offset: 0.5,
            history_limit: 1,
            compat: Compat::default(),
            version: String::new(),
        });
        assert_eq!(error.unwrap_err(), "/dev/zero: more than 16 MB");
    }

    #[test]
    fn the_timeout_is_the_shorter_of_both() {
        let module = |text: &str| {
            let text = format!("modules: {{m: {{prober: http, timeout: {text}}}}}");
            Configuration::parse(&text).unwrap().modules.remove("m").unwrap()
        };
        for (header, own, offset, seconds) in [
            ("", "0s", 0.5, 119.5),
            ("10", "0s", 0.5, 9.5),
            ("10", "5s", 0.5, 5.0),
            ("3", "5s", 0.5, 2.5),
            ("0", "5s", 0.5, 5.0),
            ("0.2", "5s", 0.5, 5.0),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("X-Prometheus-Scrape-Timeout-Seconds", header.parse().unwrap());
            let timeout = timeout(&headers, &module(own), offset).unwrap();
            assert!((timeout.as_secs_f64() - seconds).abs() < 1e-9, "{header} {own}: {timeout:?}");
        }
        let mut headers = HeaderMap::new();
        headers.insert("X-Prometheus-Scrape-Timeout-Seconds", "soon".parse().unwrap());
        assert!(timeout(&headers, &module("5s"), 0.5).is_err());
    }
}
