//! From what was typed to what will be done: the one place for defaults, conflicts and formats.
//!
//! Everything is parsed and every file that will be needed is looked at before anything is
//! measured.

mod data;
pub(in crate::cli) mod quantities;
mod values;

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};

use super::args::{ProbeArgs, VisitArgs};
use super::exit::{self, Problem};
use super::files::Files;
use super::{terminal, typed};
use firstbyte_core::shown_url::shown_url;
use firstbyte_probe::net::Bind;
use firstbyte_probe::probe::options::{
    CONNECT_TIMEOUT, Family, HeaderChange, HttpOptions, HttpVersion, Options, Output, SessionUse,
    TlsOptions, TlsVersion,
};
use firstbyte_probe::probe::{BadTarget, Secret, Target};
use firstbyte_report::warning::Warning;
use firstbyte_report::write_out;

/// What a `probe` command will do.
#[derive(Debug)]
pub(super) struct Plan {
    pub targets: Vec<Target>,
    pub options: Options,
    pub samples: u32,
    pub warmup: u32,
    pub interval: Option<Duration>,
    /// What goes to standard output.
    pub view: View,
    /// What goes to files, sample by sample.
    pub rows: Vec<RowFile>,
    pub silent: bool,
}

/// How samples are shown.
#[derive(Debug)]
pub(super) enum View {
    /// Waterfall or table, for people; a sequence diagram where that was asked for.
    Terminal { sequence: bool, verbose: bool },
    /// One JSON object per sample.
    Ndjson,
    /// One CSV row per sample.
    Csv,
    /// curl's format language.
    WriteOut(write_out::Format),
}

/// A file with a row per sample.
#[derive(Debug)]
pub(super) struct RowFile {
    pub path: PathBuf,
    pub form: RowForm,
}

/// How the rows of a file are written.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowForm {
    Ndjson,
    Csv,
}

impl Plan {
    /// Visits to each target, those to warm up included.
    pub(super) const fn rounds(&self) -> u32 {
        self.warmup.saturating_add(self.samples)
    }

    pub(super) fn new(args: &ProbeArgs) -> Result<Self, Problem> {
        let targets: Vec<Target> =
            args.urls.iter().map(|url| target(&url.0)).collect::<Result<_, _>>()?;
        let warmup = args.warmup.unwrap_or(u32::from(args.samples > 1));
        let options = options(&args.visit, output(args)?, None)?;
        let plain = targets.iter().find(|target| !target.tls);
        if let (HttpVersion::Http3, Some(target)) = (options.http.version, plain) {
            let url = shown_url(target.url.as_str());
            let message = format!("{url}: there is no HTTP/3 without TLS");
            return Err(Problem::new(exit::USAGE, message).hint("use https://"));
        }
        let view = view(args)?;
        let rows = row_files(args);
        check_files(args, &view, &rows)?;
        Ok(Self {
            targets,
            options,
            samples: args.samples,
            warmup,
            interval: quantities::limit("--interval", args.interval.as_deref())?,
            view,
            rows,
            silent: args.silent,
        })
    }
}

/// Whether what is written takes the place of what is read.
fn check_files(args: &ProbeArgs, view: &View, rows: &[RowFile]) -> Result<(), Problem> {
    let format = args.write_out.iter().filter_map(|text| text.strip_prefix('@'));
    let format: Vec<PathBuf> = format.map(PathBuf::from).collect();
    let files =
        Files::default().visits(&args.visit).reads(&format).writes(&args.output).writes_rows(rows);
    match view {
        View::WriteOut(format) => files.formats(format).check(),
        _ => files.check(),
    }
}

/// What a URL that was typed leads to.
pub(super) fn target(url: &str) -> Result<Target, Problem> {
    Target::parse(url).map_err(|error| {
        let code = match error {
            BadTarget::Malformed { .. } | BadTarget::Credentials => exit::BAD_URL,
            BadTarget::Scheme { .. } => exit::UNSUPPORTED_SCHEME,
        };
        let problem = Problem::new(code, format!("{:?}: {error}", shown_url(url)));
        match error {
            BadTarget::Credentials => problem.hint("pass -H 'Authorization: …'"),
            _ => problem,
        }
    })
}

fn view(args: &ProbeArgs) -> Result<View, Problem> {
    let [json, csv, body] = [&args.json, &args.csv, &args.output].map(is_stdout);
    if body && (json || csv) {
        return Err(usage("the body cannot go to standard output beside --json or --csv")
            .hint("give -o a file"));
    }
    let views = [(json, "--json"), (csv, "--csv"), (args.write_out.is_some(), "-w")];
    let views = views.into_iter().chain([(args.sequence, "--sequence")]);
    let views: Vec<&str> = views.filter_map(|(is_asked, flag)| is_asked.then_some(flag)).collect();
    if let [one, other, ..] = views[..] {
        let problem = usage(format!("{one} and {other} cannot both go to standard output"));
        return Err(match one {
            "-w" => problem,
            rows => problem.hint(format!("{rows}=FILE writes to a file")),
        });
    }
    if let Some(format) = &args.write_out {
        let format = data::write_out(format)?;
        for name in format.unknown() {
            terminal::warn(&Warning::UnknownWriteOut { name: name.to_owned() });
        }
        return Ok(View::WriteOut(format));
    }
    Ok(match (json, csv) {
        (true, _) => View::Ndjson,
        (_, true) => View::Csv,
        _ => View::Terminal { sequence: args.sequence, verbose: args.verbose },
    })
}

fn is_stdout(path: &Option<PathBuf>) -> bool {
    path.as_ref().is_some_and(|path| path.as_os_str() == "-")
}

fn row_files(args: &ProbeArgs) -> Vec<RowFile> {
    let asked = [(&args.json, RowForm::Ndjson), (&args.csv, RowForm::Csv)];
    let asked = asked.into_iter().filter(|(path, _)| !is_stdout(path));
    asked.filter_map(|(path, form)| Some(RowFile { path: path.clone()?, form })).collect()
}

/// Time for a sample where there are many: one that hangs is not to hold up the others.
pub(super) const SAMPLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How visits are made that take these flags, and `max_time` each unless they say otherwise.
pub(super) fn options(
    args: &VisitArgs,
    output: Option<Output>,
    max_time: Option<Duration>,
) -> Result<Options, Problem> {
    let connect_timeout = quantities::limit("--connect-timeout", args.connect_timeout.as_deref())?;
    Ok(Options {
        resolver: values::resolver(&args.resolver)?,
        family: match (args.ipv4, args.ipv6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        },
        resolve: args
            .resolve
            .iter()
            .filter_map(|text| values::resolve(text).transpose())
            .collect::<Result<_, _>>()?,
        connect_to: args
            .connect_to
            .iter()
            .map(|text| values::connect_to(text))
            .collect::<Result<_, _>>()?,
        bind: bind(args.interface.as_deref())?,
        tls: tls(args)?,
        http: http(args, output)?,
        connect_timeout: connect_timeout.unwrap_or(CONNECT_TIMEOUT),
        max_time: match &args.max_time {
            Some(text) => quantities::limit("--max-time", Some(text))?,
            None => max_time,
        },
        reuse: false,
        max_redirects: args.location.then(|| u32::try_from(args.max_redirs).unwrap_or(u32::MAX)),
    })
}

fn bind(interface: Option<&str>) -> Result<Bind, Problem> {
    let Some(name) = interface else { return Ok(Bind::Any) };
    // As with curl, "if!NAME" is a device and "host!NAME" an address.
    let address = name.strip_prefix("host!").unwrap_or(name);
    if let Ok(address) = address.parse() {
        return Ok(Bind::Address(address));
    }
    if name.starts_with("host!") {
        return Err(usage(format!("--interface {name:?}: {address:?} is not an address")));
    }
    let device = name.strip_prefix("if!").unwrap_or(name);
    if device.is_empty() || device.len() > 15 || device.contains(['/', ' ']) {
        return Err(usage(format!("--interface {name:?}: neither a device's name nor an address")));
    }
    Ok(Bind::Device(device.to_owned()))
}

fn tls(args: &VisitArgs) -> Result<TlsOptions, Problem> {
    let min = if args.tlsv1_3 { TlsVersion::V1_3 } else { TlsVersion::V1_2 };
    let max = match args.tls_max.as_deref() {
        None | Some("default" | "1.3") => TlsVersion::V1_3,
        Some("1.2") => TlsVersion::V1_2,
        Some(old @ ("1.0" | "1.1")) => {
            return Err(usage(format!("--tls-max {old}: TLS {old} is not supported any more"))
                .hint("the lowest version is 1.2 (RFC 8996)"));
        }
        Some(other) => {
            return Err(usage(format!("--tls-max {other:?}: not a TLS version"))
                .hint("one of 1.2, 1.3, default"));
        }
    };
    if min > max {
        return Err(usage("--tlsv1.3 and --tls-max 1.2 leave no version to offer"));
    }
    Ok(TlsOptions {
        min,
        max,
        groups: args.curves.as_deref().map_or_else(Vec::new, |list| {
            list.split([':', ',']).map(|name| name.trim().to_owned()).collect()
        }),
        insecure: args.insecure,
        ca_file: args.cacert.clone(),
        session: SessionUse::Full,
        client_certificate: args.cert.clone().map(|cert| (cert, args.key.clone())),
    })
}

fn http(args: &VisitArgs, output: Option<Output>) -> Result<HttpOptions, Problem> {
    let body = data::body(args)?;
    let method = match &args.request {
        Some(name) => Method::from_bytes(name.as_bytes())
            .map_err(|_| usage(format!("-X {name:?}: not a method")))?,
        None if args.head => Method::HEAD,
        None if body.is_some() => Method::POST,
        None => Method::GET,
    };
    Ok(HttpOptions {
        version: if args.http1_1 {
            HttpVersion::Http1
        } else if args.http2_prior_knowledge {
            HttpVersion::Http2
        } else if args.http3_only {
            HttpVersion::Http3
        } else {
            HttpVersion::Negotiate
        },
        method,
        method_forced: args.request.is_some(),
        headers: args.header.iter().map(|text| header(&text.0)).collect::<Result<_, _>>()?,
        body,
        user_agent: user_agent(args.user_agent.as_deref())?,
        compressed: args.compressed,
        fail: args.fail,
        output,
    })
}

fn user_agent(given: Option<&str>) -> Result<String, Problem> {
    let Some(text) = given else {
        return Ok(concat!("firstbyte/", env!("CARGO_PKG_VERSION")).to_owned());
    };
    HeaderValue::from_str(text)
        .map_err(|_| usage(format!("-A {text:?}: it has a character that a field cannot hold")))?;
    Ok(text.to_owned())
}

fn header(text: &str) -> Result<HeaderChange, Problem> {
    let bad = |what: &str| {
        usage(format!("-H {:?}: {what}", typed::field(text))).hint("write -H 'Name: value'")
    };
    let name = |name: &str| {
        HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| bad("not a field name"))
    };
    match (text.split_once(':'), text.strip_suffix(';')) {
        (Some((field, value)), _) if value.trim().is_empty() => {
            Ok(HeaderChange::Remove(name(field)?))
        }
        (Some((field, value)), _) => {
            let value = HeaderValue::from_str(value.trim())
                .map_err(|_| bad("the value has a character that a field cannot hold"))?;
            Ok(HeaderChange::Set(name(field)?, Secret::new(value)))
        }
        (None, Some(field)) => {
            let empty = Secret::new(HeaderValue::from_static(""));
            Ok(HeaderChange::Set(name(field)?, empty))
        }
        (None, None) => Err(bad("no colon in it")),
    }
}

fn output(args: &ProbeArgs) -> Result<Option<Output>, Problem> {
    let Some(path) = &args.output else { return Ok(None) };
    if path.as_os_str() == "-" {
        return Ok(Some(Output::Stdout));
    }
    if path.is_dir() {
        return Err(Problem::new(exit::WRITE, format!("-o {}: it is a directory", path.display())));
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    if let Some(parent) = parent
        && !parent.is_dir()
    {
        return Err(Problem::new(
            exit::WRITE,
            format!("-o {}: there is no directory {}", path.display(), parent.display()),
        ));
    }
    Ok(Some(Output::File(path.clone())))
}

fn usage(message: impl Into<String>) -> Problem {
    Problem::new(exit::USAGE, message)
}

/// Time between samples; zero is none at all.
pub(super) fn interval(text: Option<&str>) -> Result<Option<Duration>, Problem> {
    let given = quantities::limit("--interval", text)?;
    Ok(given.or(text.map(|_| Duration::ZERO)))
}

#[cfg(test)]
mod options_tests;
#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::args::Cli;

    #[test]
    fn limits_are_curls_and_a_samples_where_there_are_many() {
        let limits = |flags: &[&str], max_time| {
            let words = [&["firstbyte", "https://a.test"], flags].concat();
            let cli = Cli::try_parse_from(words).unwrap();
            let options = options(&cli.probe.visit, None, max_time).unwrap();
            (options.connect_timeout.as_secs(), options.max_time.map(|limit| limit.as_secs()))
        };
        assert_eq!(limits(&[], None), (300, None));
        assert_eq!(limits(&[], Some(SAMPLE_TIMEOUT)), (300, Some(30)));
        assert_eq!(limits(&["-m", "0"], Some(SAMPLE_TIMEOUT)), (300, None));
        assert_eq!(limits(&["-m", "5", "-m", "7"], Some(SAMPLE_TIMEOUT)), (300, Some(7)));
        assert_eq!(limits(&["--connect-timeout", "0"], None), (300, None));
        assert_eq!(limits(&["--connect-timeout", "2"], None), (2, None));
    }
}
