//! Page loads by Chromium in a lab, before and after each change.
//!
//! Input: a drawn page. Output: predictions from the loads before the change, and the loads after it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use firstbyte_clients::browser::BrowserProber;
use firstbyte_clients::browser::RunningBrowser as _;
use firstbyte_clients::chromium::RunningChromium;
use firstbyte_core::document::{navigation, navigation_line};
use firstbyte_core::timeline::Navigation;
use firstbyte_pages::page_savings::{Change, PageModel};
use firstbyte_probe::probe::options::{
    Client, HttpVersion, Options, ResolveOverride, SessionUse, TlsVersion,
};
use serde::{Deserialize, Serialize};

use crate::drawn::DrawnPage;
use crate::table::Held;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firstbyte");

/// The work to do within the lab.
#[derive(Serialize, Deserialize)]
struct Job {
    url: String,
    visits: u64,
    loads: Vec<Loads>,
}

/// Loads of one kind, and the file for their results.
#[derive(Serialize, Deserialize)]
struct Loads {
    options: Options,
    file: std::path::PathBuf,
}

/// A change, and the settings it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Before,
    /// No change: shows how far two sets of loads of the same page differ.
    Again,
    Kept,
    Resumed,
    Early,
    Http3,
    Tls13,
    Edge,
    Coalesced,
}

impl Made {
    const ALL: [Self; 9] = [
        Self::Before,
        Self::Again,
        Self::Kept,
        Self::Resumed,
        Self::Early,
        Self::Http3,
        Self::Tls13,
        Self::Edge,
        Self::Coalesced,
    ];

    fn applies(self, page: &DrawnPage) -> bool {
        match self {
            Self::Tls13 => page.tls12,
            Self::Early => !page.tls12,
            Self::Coalesced => page.origins.len() > 1 && !page.http1,
            _ => true,
        }
    }

    fn change(self, page: &DrawnPage) -> Option<Change> {
        let authority = |origin| format!("{}:443", DrawnPage::host(origin));
        Some(match self {
            Self::Before | Self::Again => return None,
            Self::Kept => Change::Kept,
            Self::Resumed => Change::Resumed,
            Self::Early => Change::EarlyData,
            // A browser uses QUIC only with the host it was configured for.
            Self::Http3 => Change::Http3 { authority: Some(authority(0)) },
            Self::Tls13 => Change::Tls13,
            Self::Edge => {
                Change::NearerEdge { authority: authority(page.edge.0), round_trip: page.edge.1 }
            }
            Self::Coalesced => Change::Coalesced,
        })
    }

    fn options(self, page: &DrawnPage) -> Options {
        let mut options = Options { client: Client::Chromium, ..Options::default() };
        options.max_time = Some(Duration::from_secs(30));
        options.resolve = (0..page.origins.len())
            .map(|origin| ResolveOverride {
                host: Some(DrawnPage::host(origin)),
                port: None,
                addresses: DrawnPage::address(origin, self == Self::Coalesced)
                    .parse()
                    .into_iter()
                    .collect(),
                zone: None,
            })
            .collect();
        options.http.version = match self {
            Self::Http3 => HttpVersion::Http3,
            _ if page.http1 => HttpVersion::Http1,
            _ => HttpVersion::Http2,
        };
        if page.tls12 && self != Self::Tls13 {
            options.tls.max = TlsVersion::V1_2;
        }
        match self {
            Self::Kept => options.reuse = true,
            Self::Resumed => options.tls.session = SessionUse::Resume(None),
            Self::Early => options.tls.session = SessionUse::EarlyData { any_method: false },
            _ => {}
        }
        options
    }
}

/// Measures what is missing in `directory`, and compares it with predictions.
pub(crate) fn hold(
    page: &DrawnPage,
    directory: &Path,
    visits: u64,
    only_kept: bool,
    of: fn(Vec<i64>) -> i64,
) -> Result<Vec<Held>, String> {
    std::fs::create_dir_all(directory).map_err(|error| error.to_string())?;
    let file = |made: Made| directory.join(format!("{}-{made:?}.ndjson", page.seed));
    let missing = |made: &Made| made.applies(page) && !file(*made).exists();
    if !only_kept {
        for (nearer, coalesced) in [(false, false), (true, false), (false, true)] {
            let of_lab = |made: &Made| {
                (*made == Made::Edge) == nearer && (*made == Made::Coalesced) == coalesced
            };
            let wanted = Made::ALL.into_iter().filter(|made| of_lab(made) && missing(made));
            let loads = wanted.map(|made| Loads { options: made.options(page), file: file(made) });
            let loads: Vec<Loads> = loads.collect();
            if !loads.is_empty() {
                measure(page, directory, &page.scenario(nearer, coalesced), visits, loads)?;
            }
        }
    }
    let before = read(&file(Made::Before));
    let mut held = Vec::new();
    for made in Made::ALL {
        if made == Made::Before || !made.applies(page) {
            continue;
        }
        let change = made.change(page);
        let after = read(&file(made));
        if before.is_empty() || after.is_empty() {
            continue;
        }
        let predictions = before.iter().filter_map(|load| {
            let model = PageModel::from_navigation(load)?;
            let Some(change) = &change else { return Some(model.load().as_nanos()) };
            model.predict(change).ok().map(|saving| saving.load.as_nanos())
        });
        let loads = |pages: &[Navigation]| -> Vec<i64> {
            pages.iter().filter_map(|page| Some(page.loaded?.at.as_nanos())).collect()
        };
        let predictions: Vec<i64> = predictions.collect();
        if predictions.is_empty() {
            continue;
        }
        held.push(Held {
            seed: page.seed,
            page: page.words(),
            change: change.as_ref().map_or("(none)", Change::name),
            before_ns: of(loads(&before)),
            predicted_ns: of(predictions),
            measured_ns: of(loads(&after)),
        });
    }
    Ok(held)
}

/// The median.
pub(crate) fn middle(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The minimum: other work on the machine only adds time.
pub(crate) fn fastest(values: Vec<i64>) -> i64 {
    values.into_iter().min().unwrap_or_default()
}

fn read(file: &Path) -> Vec<Navigation> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let pages = text.lines().filter_map(|line| navigation(line.as_bytes()).ok());
    pages.filter(|page| page.loaded.is_some() && page.main.failure().is_none()).collect()
}

fn measure(
    page: &DrawnPage,
    directory: &Path,
    scenario: &str,
    visits: u64,
    loads: Vec<Loads>,
) -> Result<(), String> {
    let words = |error: std::io::Error| error.to_string();
    let (file, job) = (directory.join("page.toml"), directory.join("job.json"));
    std::fs::write(&file, scenario).map_err(words)?;
    let to_do = Job { url: page.url(), visits, loads };
    let to_do = serde_json::to_vec(&to_do).map_err(|error| error.to_string())?;
    std::fs::write(&job, to_do).map_err(words)?;
    let own = std::env::current_exe().map_err(words)?;
    let mut command = Command::new(PROGRAM);
    command.args(["lab", "run"]).arg(&file).arg("--").arg(own).arg("--load").arg(&job);
    let output = command.stdin(Stdio::null()).output().map_err(words)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("page {}: {}", page.seed, String::from_utf8_lossy(&output.stderr))),
    }
}

/// Runs within the lab: loads the page as the job says.
pub(crate) fn load(job: &Path) -> Result<(), String> {
    let job = std::fs::read(job).map_err(|error| error.to_string())?;
    let job: Job = serde_json::from_slice(&job).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let mut browsers = Vec::new();
    for loads in &job.loads {
        let browser = BrowserProber::<RunningChromium>::asked(&loads.options);
        browsers.push((browser.map_err(|error| format!("{error:?}"))?, &loads.file, Vec::new()));
    }
    // Interleaved, so that other work on the machine affects all. The first round starts the browsers as warm-up.
    for visit in 0..=job.visits {
        for (browser, _, lines) in &mut browsers {
            let page =
                runtime.block_on(browser.visit(&job.url)).map_err(|error| error.to_string())?;
            if visit > 0 {
                let page = RunningChromium::page(page);
                navigation_line(&page, lines).map_err(|error| error.to_string())?;
            }
        }
    }
    for (_, file, lines) in browsers {
        std::fs::write(file, lines).map_err(|error| error.to_string())?;
    }
    Ok(())
}
