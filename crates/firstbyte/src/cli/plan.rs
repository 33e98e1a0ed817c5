//! Turns parsed arguments into a plan: the one place for defaults, conflicts and formats.
//!
//! In: the parsed command line. Out: a plan ([`crate::plans`]), which is all that commands see. Everything is parsed
//! before anything is measured.

pub(in crate::cli) mod comparison;
pub(in crate::cli) mod curl;
pub(in crate::cli) mod data;
mod exporter;
mod lab;
mod monitor;
mod monitor_annotate;
mod monitor_events;
mod monitor_export;
#[cfg(test)]
mod options_tests;
pub(in crate::cli) mod plan_file;
mod prediction;
mod proxy;
pub(in crate::cli) mod quantities;
mod rum;
#[cfg(test)]
mod tests;
mod values;
mod wire;

use std::path::PathBuf;
use std::time::Duration;

use clap::CommandFactory;
use http::{HeaderName, HeaderValue, Method};

use super::args::{
    BodyPart, Cli, Command, HarCommand, MonitorCommand, PageArgs, ProbeArgs, RenderArgs,
    RequestsArgs, VisitArgs, WireCommand,
};
use super::exit::{self, Problem};
use super::typed::Typed;
use super::{generated, terminal, typed};
use crate::plans::{
    CommandPlan, CurlPlan, Destination, GeneratedPlan, HarCleanPlan, MonitorStatusPlan, Outputs,
    PagePlan, ProbePlan, ProbeView, RenderPlan,
};
use firstbyte_core::shown_url::shown_url;
use firstbyte_core::timeline::Parallel;
use firstbyte_probe::net::Bind;
use firstbyte_probe::probe::options::{
    CONNECT_TIMEOUT, Family, HeaderChange, HttpOptions, HttpVersion, Options, Output,
    RequestsOptions, SessionUse, TlsOptions, TlsVersion,
};
use firstbyte_probe::probe::{BadTarget, Secret, Target};
use firstbyte_report::warning::Warning;
use firstbyte_report::write_out::Format;

/// Limit on redirects if the user sets none (`--max-redirs -1`), because each is kept in the sample.
const MOST_REDIRECTS: u32 = 1_000;

/// The plan of the typed command.
pub(super) fn command(cli: &Cli, typed: &Typed) -> Result<CommandPlan, Problem> {
    Ok(match &cli.command {
        None => CommandPlan::Probe(Box::new(probe(&cli.probe)?)),
        Some(Command::Probe(args)) => CommandPlan::Probe(Box::new(probe(args)?)),
        Some(Command::Curl(args)) => CommandPlan::Curl(CurlPlan {
            words: args.words.iter().map(|word| Secret::new(word.0.clone())).collect(),
        }),
        Some(Command::Compare(args)) => {
            CommandPlan::Compare(Box::new(comparison::comparison(args, typed)?))
        }
        Some(Command::Explain(args)) => {
            CommandPlan::Explain(Box::new(comparison::explanation(args, typed)?))
        }
        Some(Command::Page(args)) => CommandPlan::Page(Box::new(page(args, typed)?)),
        Some(Command::Check(args)) => CommandPlan::Check(comparison::check(args)?),
        Some(Command::Monitor(args)) => match &args.command {
            Some(MonitorCommand::Events(args)) => {
                CommandPlan::MonitorEvents(monitor_events::events(args)?)
            }
            Some(MonitorCommand::Export(args)) => {
                CommandPlan::MonitorExport(monitor_export::export(args)?)
            }
            Some(MonitorCommand::Demo(args)) => {
                CommandPlan::Monitor(Box::new(monitor::demo(args)?))
            }
            Some(MonitorCommand::Status(args)) => CommandPlan::MonitorStatus(MonitorStatusPlan {
                store: args.store.clone(),
                json: args.json.clone(),
            }),
            Some(MonitorCommand::Annotate(args)) => {
                CommandPlan::MonitorAnnotate(monitor_annotate::annotate(args)?)
            }
            None => CommandPlan::Monitor(Box::new(monitor::monitor(args)?)),
        },
        Some(Command::Exporter(args)) => CommandPlan::Exporter(exporter::exporter(args)?),
        Some(Command::Predict(args)) => {
            CommandPlan::Predict(Box::new(prediction::prediction(args)?))
        }
        Some(Command::Report(args)) => CommandPlan::Report(Box::new(comparison::report(args)?)),
        Some(Command::Har(args)) => match &args.command {
            HarCommand::Clean(args) => CommandPlan::HarClean(HarCleanPlan {
                file: args.file.clone(),
                output: args.output.clone(),
            }),
        },
        Some(Command::LogFormat(args)) => CommandPlan::LogFormat(args.server.into()),
        Some(Command::Completions(args)) => CommandPlan::Generated(GeneratedPlan {
            directory: None,
            files: vec![generated::completions(args.shell, Cli::command())],
        }),
        Some(Command::Man(args)) => CommandPlan::Generated(GeneratedPlan {
            directory: args.output_dir.clone(),
            files: generated::manual_pages(Cli::command())
                .map_err(|error| Problem::new(exit::WRITE, format!("manual page: {error}")))?,
        }),
        Some(Command::Demo(args)) => CommandPlan::Demo(lab::demo(args)),
        Some(Command::Lab(args)) => CommandPlan::Lab(lab::lab(args)),
        Some(Command::Serve(args)) => CommandPlan::Serve(Box::new(lab::serve(args)?)),
        Some(Command::Rum(args)) => rum::rum(args)?,
        Some(Command::Wire(args)) => match &args.command {
            Some(WireCommand::Diff(args)) => {
                CommandPlan::WireDiff(Box::new(wire::wire_diff(args)?))
            }
            None => CommandPlan::Wire(Box::new(wire::wire(args)?)),
        },
    })
}

/// The plan of a `probe` command.
pub(super) fn probe(args: &ProbeArgs) -> Result<ProbePlan, Problem> {
    for url in &args.urls {
        target(&url.0)?;
    }
    let mut options = options(&args.visit, output(args)?, None)?;
    options.requests = requests(&args.several)?;
    // Assume TLS here: whether it works without TLS depends on each URL.
    options.settle_requests(true).map_err(|why| usage(format!("--requests: {why}")))?;
    let format = args.write_out.iter().filter_map(|text| text.strip_prefix('@'));
    let format = format.map(PathBuf::from);
    Ok(ProbePlan {
        urls: args.urls.iter().map(|url| Secret::new(url.0.clone())).collect(),
        options,
        samples: args.samples,
        warmup: args.warmup.unwrap_or(u32::from(args.samples > 1)),
        interval: quantities::limit("--interval", args.interval.as_deref())?,
        view: view(args)?,
        outputs: Outputs {
            json: args.rows.json(),
            csv: args.rows.csv.clone(),
            qlog: args.qlog.clone().or_else(|| qlog_directory(&args.visit)),
            ..Outputs::default()
        },
        reads: needed_by_visits(&args.visit).into_iter().chain(format).collect(),
        silent: args.silent,
        colors: args.color,
    })
}

/// The directory from `QLOGDIR`, which curl, quiche and quic-go use as well. `None` if unset or without HTTP/3.
fn qlog_directory(visit: &VisitArgs) -> Option<PathBuf> {
    let set = std::env::var_os("QLOGDIR").filter(|path| !path.is_empty() && visit.http3_only);
    set.map(PathBuf::from)
}

fn page(args: &PageArgs, typed: &Typed) -> Result<PagePlan, Problem> {
    target(&args.url.0)?;
    Ok(PagePlan {
        url: Secret::new(args.url.0.clone()),
        options: options(&args.visit, None, None)?,
        savings: args.savings,
        outputs: Outputs {
            json: args.json.clone(),
            har: args.har.clone(),
            html: args.html.clone(),
            svg: args.svg.clone(),
            png: args.png.clone(),
            ..Outputs::default()
        },
        reads: needed_by_visits(&args.visit),
        command: typed.shown(),
        colors: args.color,
    })
}

fn render(args: &RenderArgs) -> RenderPlan {
    RenderPlan {
        by: args.by.clone(),
        compare_unlike: args.compare_unlike,
        outputs: Outputs {
            json: args.rows.json(),
            csv: args.rows.csv.clone(),
            percentiles: args.percentiles.clone(),
            parquet: args.parquet.clone(),
            har: args.har.clone(),
            html: args.html.clone(),
            markdown: args.markdown.clone(),
            svg: args.svg.clone(),
            png: args.png.clone(),
            qlog: args.qlog.clone(),
            ..Outputs::default()
        },
        colors: args.color,
        packets: None,
    }
}

/// The files that visits read: certificates, keys, bodies.
fn needed_by_visits(args: &VisitArgs) -> Vec<PathBuf> {
    let bodies = args.body.parts.iter().filter_map(|part| match part {
        BodyPart::Data(text) | BodyPart::Binary(text) => text.0.strip_prefix('@'),
        BodyPart::Raw(_) => None,
    });
    let bodies = bodies.map(PathBuf::from);
    let issuers = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let certificates = args.cacert.iter().chain(&args.cert).chain(&args.key);
    let certificates = certificates.chain(&args.proxy_cacert).cloned();
    certificates.chain(bodies).chain(issuers).collect()
}

/// Parses a typed URL.
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

fn view(args: &ProbeArgs) -> Result<ProbeView, Problem> {
    let is_stdout =
        |output: &Option<Destination>| output.as_ref().is_some_and(Destination::is_stdout);
    let [json, csv] = [&args.rows.json(), &args.rows.csv].map(is_stdout);
    let body = args.output.as_ref().is_some_and(|path| path.as_os_str() == Destination::STREAM);
    if body && (json || csv) {
        return Err(usage("the body and --json or --csv cannot both go to standard output")
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
    let Some(text) = &args.write_out else {
        return Ok(ProbeView::Terminal {
            sequence: args.sequence,
            verbose: args.verbose,
            headers: args.include || args.verbose || args.visit.head,
        });
    };
    let format = data::write_out(text)?;
    for name in Format::parse(&format).unknown() {
        terminal::warn(&Warning::UnknownWriteOut { name: name.to_owned() });
    }
    Ok(ProbeView::WriteOut { format })
}

/// Time limit of each sample if there are many, so that one that hangs does not hold up the others.
pub(super) const SAMPLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Options of visits from these flags, with `max_time` as the limit unless a flag sets another.
pub(super) fn options(
    args: &VisitArgs,
    output: Option<Output>,
    max_time: Option<Duration>,
) -> Result<Options, Problem> {
    let connect_timeout = quantities::limit("--connect-timeout", args.connect_timeout.as_deref())?;
    Ok(Options {
        client: values::client(&args.client)?,
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
        max_redirects: args
            .location
            .then(|| u32::try_from(args.max_redirs).unwrap_or(MOST_REDIRECTS)),
        proxy: proxy::proxies(args)?,
        ..Options::default()
    })
}

/// The requests of a sample, or `None` if it has only one.
pub(super) fn requests(args: &RequestsArgs) -> Result<Option<RequestsOptions>, Problem> {
    let parallel = match args.parallel.as_deref() {
        None => Parallel::Connections(1),
        Some(text) => Parallel::named(text).ok_or_else(|| {
            let most = Parallel::MOST_CONNECTIONS;
            usage(format!("--parallel {text:?}: no way to make requests"))
                .hint(format!("a number of HTTP/1.1 connections from 1 to {most}, h2, or h3"))
        })?,
    };
    let count = args.requests.unwrap_or(1);
    if count > RequestsOptions::MOST {
        let most = RequestsOptions::MOST;
        return Err(usage(format!("--requests {count}: the maximum is {most}")));
    }
    if count == 1 && args.parallel.is_some() {
        return Err(usage("--parallel is for several requests, and there is one")
            .hint("--requests 12, for example"));
    }
    Ok((count > 1).then_some(RequestsOptions { count, parallel }))
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
    let max = tls_max(args.tls_max.as_deref(), min)?;
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
        ..TlsOptions::default()
    })
}

/// The highest version to offer, by `--tls-max`.
fn tls_max(given: Option<&str>, min: TlsVersion) -> Result<TlsVersion, Problem> {
    let max = match given {
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
    Ok(max)
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
        headers: headers(args)?,
        body,
        user_agent: user_agent(args.user_agent.as_deref())?,
        compressed: args.compressed,
        fail: args.fail,
        output,
        keep: None,
        exact: None,
    })
}

/// Header fields from `-H`; a Cookie field replaces `-b`, as with curl.
fn headers(args: &VisitArgs) -> Result<Vec<HeaderChange>, Problem> {
    let mut headers: Vec<HeaderChange> =
        args.header.iter().map(|text| header(&text.0)).collect::<Result<_, _>>()?;
    if args.cookie.iter().any(|text| !text.0.contains('=')) {
        return Err(usage("-b: expected NAME=VALUE").hint("firstbyte curl -b FILE reads a file"));
    }
    let cookies: Vec<&str> = args.cookie.iter().map(|text| text.0.as_str()).collect();
    let is_cookie = |change: &HeaderChange| matches!(change, HeaderChange::Set(name, _) if *name == http::header::COOKIE);
    if !cookies.is_empty() && !headers.iter().any(is_cookie) {
        let value = HeaderValue::from_str(&cookies.join(";"))
            .map_err(|_| usage("-b: it has a character that a field cannot hold"))?;
        headers.insert(0, HeaderChange::Set(http::header::COOKIE, Secret::new(value)));
    }
    Ok(headers)
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
    if path.as_os_str() == Destination::STREAM {
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

/// Time between samples; zero means no pause.
pub(super) fn interval(text: Option<&str>) -> Result<Option<Duration>, Problem> {
    let given = quantities::limit("--interval", text)?;
    Ok(given.or(text.map(|_| Duration::ZERO)))
}
