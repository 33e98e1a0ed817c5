//! `http`: `firstbyte-probe` makes the hops with the kernel's timestamps; phases are blackbox_exporter's.

mod body;
mod jar;
mod request;

use std::net::IpAddr;

use firstbyte_core::timeline::{Connection, FailureType, HttpFacts, Mark, PhaseName};
use firstbyte_probe::probe::options::ResolveOverride;
use firstbyte_probe::probe::{KeptBody, KeptCertificates, Target};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use url::Url;

use super::Probe;
use super::certificates::{Session, Set};
use crate::configuration::{HeaderRule, HttpModule};
use body::{BODY_LIMIT, Received};
use jar::Jar;
use request::Request;

const DURATION: &str = "probe_http_duration_seconds";
const DURATION_HELP: &str = "Duration of http request by phase, summed over all redirects";
const REGEX: (&str, &str) = ("probe_failed_due_to_regex", "Indicates if probe failed due to regex");
/// Most redirects that are followed.
const MOST_REDIRECTS: u32 = 10;

struct Hop {
    connection: Connection,
    certificates: Vec<Vec<u8>>,
    body: Option<(Vec<u8>, bool)>,
    over_tls: bool,
}

impl Hop {
    /// The response and its status, if its head arrived.
    fn answer(&self) -> Option<(&HttpFacts, u16)> {
        let http = self.connection.facts.http.as_ref()?;
        http.status.map(|status| (http, status))
    }
}

/// Values of metrics that are always present.
struct Summary {
    content_length: f64,
    body_length: f64,
    redirects: u32,
    ssl: bool,
    status: u16,
    version: f64,
}

impl Probe<'_> {
    pub(super) async fn http(&mut self) -> bool {
        self.metrics.gauge(REGEX.0, REGEX.1, 0.0);
        let mut summary = Summary {
            content_length: 0.0,
            body_length: 0.0,
            redirects: 0,
            ssl: false,
            status: 0,
            version: 0.0,
        };
        let success = self.http_probe(&mut summary).await;
        let mut gauge = |name, help, value| self.metrics.gauge(name, help, value);
        gauge(
            "probe_http_content_length",
            "Length of http content response",
            summary.content_length,
        );
        gauge(
            "probe_http_uncompressed_body_length",
            "Length of uncompressed response body",
            summary.body_length,
        );
        gauge("probe_http_redirects", "The number of redirects", summary.redirects.into());
        let ssl = f64::from(u8::from(summary.ssl));
        gauge("probe_http_ssl", "Indicates if SSL was used for the final redirect", ssl);
        gauge("probe_http_status_code", "Response HTTP status code", summary.status.into());
        let help = "Returns the version of HTTP of the probe response";
        gauge("probe_http_version", help, summary.version);
        success
    }

    async fn http_probe(&mut self, summary: &mut Summary) -> bool {
        let module = &self.module.http;
        let has_scheme = self.target.starts_with("http://") || self.target.starts_with("https://");
        let mut text =
            if has_scheme { self.target.to_owned() } else { format!("http://{}", self.target) };
        if module.enable_http3 && text.starts_with("http://") {
            text = text.replacen("http://", "https://", 1);
        }
        let target = Url::parse(&text).map_err(|error| error.to_string());
        let target = target.and_then(|url| {
            let credentials = request::credentials_of(&url);
            Target::from_url(url).map(|t| (t, credentials)).map_err(|error| error.to_string())
        });
        let (target, credentials) = match target {
            Ok(target) => target,
            Err(error) => {
                self.note_setup_failure();
                self.log.error("Could not parse target URL", &[("err", &error)]);
                return false;
            }
        };
        let (address, taken) = self.address(&target.host.clone(), &module.address).await;
        self.phase("resolve", taken);
        let Ok(address) = address else { return false };
        let request = match Request::new(module, self.hostname, credentials, self.tools.compat) {
            Ok(request) => request,
            Err(error) => {
                self.note_setup_failure();
                self.log.error("Error creating request", &[("err", &error)]);
                return false;
            }
        };
        for phase in ["connect", "tls", "processing", "transfer"] {
            self.phase(phase, 0.0);
        }
        let (hop, unread) = self.follow(target, address, request, summary).await;
        let Some(hop) = hop else { return false };
        self.judge(&hop, unread, summary)
    }

    fn phase(&mut self, phase: &str, seconds: f64) {
        self.metrics.add(DURATION, DURATION_HELP, &[("phase", phase)], seconds);
    }

    /// Follows redirects. Returns the last hop, and whether its body counts as unread.
    ///
    /// There is no hop if the client cannot be created.
    async fn follow(
        &mut self,
        first: Target,
        address: IpAddr,
        mut request: Request,
        summary: &mut Summary,
    ) -> (Option<Hop>, bool) {
        let (mut target, mut pinned) = (first, Some(address));
        let mut jar = Jar::default();
        loop {
            request.set_cookies(jar.for_url(&target.url));
            let hop = match self.hop(&target, pinned, &request).await {
                Ok(hop) => hop,
                Err(error) => {
                    self.note_setup_failure();
                    self.log.error("Error generating HTTP client", &[("err", &error)]);
                    return (None, false);
                }
            };
            let next = hop.answer().and_then(|(http, status)| {
                jar.take(&target.url, http);
                let location = http.header("location").filter(|_| is_redirect(status))?;
                // As in Go's client, an empty `Location` is ignored.
                let location = Some(location).filter(|location| !location.is_empty())?;
                Some((location.to_owned(), status))
            });
            let Some((location, status)) = next else {
                self.add_phases(&hop, summary.redirects, true);
                return (Some(hop), false);
            };
            let shown = firstbyte_core::shown_url::shown_url(&location);
            self.log.debug("Received redirect", &[("location", &shown)]);
            let hops = summary.redirects;
            summary.redirects += 1;
            if summary.redirects > MOST_REDIRECTS || !self.module.http.follow_redirects {
                if self.module.http.follow_redirects {
                    self.note_bad_answer(FailureType::HttpResponseRedirectLoop);
                }
                self.log.error("Not following redirect", &[]);
                self.add_phases(&hop, hops, true);
                return (Some(hop), true);
            }
            self.add_phases(&hop, hops, false);
            let url = target.url.join(&location).map_err(|error| error.to_string());
            let next = url.and_then(|url| Target::from_url(url).map_err(|error| error.to_string()));
            let next = match next {
                Ok(next) => next,
                Err(error) => {
                    self.note_bad_answer(FailureType::HttpResponseInvalid);
                    self.log.error("Error for HTTP request", &[("err", &error)]);
                    return (Some(Hop { connection: Connection::default(), ..hop }), false);
                }
            };
            let is_relative = Url::parse(&location).is_err();
            request.redirected(status, &target, &next, is_relative);
            if !is_relative {
                pinned = None;
            }
            target = next;
        }
    }

    /// Makes one exchange on a connection of its own.
    async fn hop(
        &mut self,
        target: &Target,
        pinned: Option<IpAddr>,
        request: &Request,
    ) -> Result<Hop, String> {
        let module = &self.module.http;
        let certificates = KeptCertificates::default();
        let body = needs_body(module).then(|| {
            let limit = match module.body_size_limit {
                limit @ 1..BODY_LIMIT if module.compression.is_empty() => limit,
                _ => BODY_LIMIT,
            };
            KeptBody::new(limit)
        });
        let mut options = request.options(module, target, self.left());
        options.tls.keep = Some(certificates.clone());
        options.http.keep = body.clone();
        let mut target = target.clone();
        if let Some(address) = pinned {
            let name = request.server_name(module, &target.host);
            let addresses = vec![address];
            options.resolve =
                vec![ResolveOverride { host: None, port: None, addresses, zone: None }];
            target.host = name;
        }
        let shown = firstbyte_core::shown_url::shown_url(target.url.as_str());
        self.log.debug("Making HTTP request", &[("url", &shown)]);
        let prober = self.tools.equipment.prober(&options.into()).map_err(|error| match error {
            firstbyte_probe::probe::SetupError::Tls(error) => error.to_string(),
            firstbyte_probe::probe::SetupError::Resolver(text)
            | firstbyte_probe::probe::SetupError::Client(text) => text,
        })?;
        let connection = prober.probe(&target).await.connection;
        self.tools.last_prober.replace(Some(prober));
        if let Some(failure) = &connection.failure {
            let (kind, cause) = (failure.failure_type(), failure.cause.to_string());
            self.note_failure(failure.phase, kind);
            let phase = failure.phase.name();
            let values = [("phase", phase), ("type", kind.as_str()), ("err", &cause)];
            self.log.error("Error for HTTP request", &values);
        }
        Ok(Hop {
            connection,
            certificates: certificates.take(),
            body: body.map(|kept| kept.take()),
            over_tls: target.tls,
        })
    }

    /// Adds a hop to the phases: nothing if the connection failed; `transfer` only for the last hop.
    fn add_phases(&mut self, hop: &Hop, number: u32, is_last: bool) {
        let marks = &hop.connection.marks;
        let between = |from: Mark, to: Mark| {
            marks.at(from).zip(marks.at(to)).map_or(0.0, |(a, b)| b.since(a).as_secs_f64())
        };
        if number > 0 {
            self.phase("resolve", between(Mark::DomainLookupStart, Mark::DomainLookupEnd));
        }
        let ready = if hop.over_tls { Mark::HandshakeComplete } else { Mark::TcpConnected };
        if marks.at(ready).is_none() {
            return;
        }
        let looked_up = if number > 0 { Mark::DomainLookupEnd } else { Mark::ConnectStart };
        self.phase("connect", between(looked_up, Mark::TcpConnected));
        if hop.over_tls {
            // QUIC's only handshake is this one, so `connect` above has counted nothing.
            let begun = if marks.at(Mark::TcpConnected).is_some() {
                Mark::SecureConnectionStart
            } else {
                Mark::ConnectStart
            };
            self.phase("tls", between(begun, ready));
        }
        self.phase("processing", between(ready, Mark::ResponseStart));
        if is_last {
            self.phase("transfer", between(Mark::ResponseStart, Mark::ResponseEnd));
        }
    }

    /// Whether the response satisfies the module's rules.
    fn judge(&mut self, hop: &Hop, unread: bool, summary: &mut Summary) -> bool {
        let module = &self.module.http;
        let Some((http, status)) = hop.answer() else { return false };
        let status_text = status.to_string();
        self.log.debug("Received HTTP response", &[("status_code", &status_text)]);
        summary.status = status;
        summary.content_length = body::content_length(http, status);
        let version = http.version.as_deref().unwrap_or_default();
        summary.version = version.parse().unwrap_or(0.0);
        let mut success = match module.valid_status_codes.as_slice() {
            [] => (200..300).contains(&status),
            codes => codes.contains(&i64::from(status)),
        };
        if !success {
            self.note_bad_answer(FailureType::HttpError);
            self.log.error("Invalid HTTP response status code", &[("status_code", &status_text)]);
        }
        if success && !(module.header_matches.is_empty() && module.header_not_matches.is_empty()) {
            success = self.fields_are_good(http);
            self.metrics.gauge(REGEX.0, REGEX.1, f64::from(u8::from(!success)));
        }
        let received = Received::new(hop, http, module, unread);
        if let Some(error) = &received.no_decoder {
            let values = [("err", error.as_str())];
            self.note_bad_answer(FailureType::HttpResponseInvalid);
            self.log.error("Failed to get decompressor for HTTP response body", &values);
            success = false;
        }
        if success && !(module.body_matches.is_empty() && module.body_not_matches.is_empty()) {
            success = self.body_is_good(&received);
            self.metrics.gauge(REGEX.0, REGEX.1, f64::from(u8::from(!success)));
        }
        if !unread {
            summary.body_length = received.length as f64;
            if let Some(error) = &received.error {
                self.note_failure(PhaseName::Receive, FailureType::HttpResponseInvalid);
                self.log.error("Failed to read HTTP response body", &[("err", error)]);
                success = false;
            }
        }
        let modified = http.header("last-modified").and_then(http_date);
        if let Some(modified) = modified {
            let help = "Returns the Last-Modified HTTP response header in unixtime";
            self.metrics.gauge("probe_http_last_modified_timestamp_seconds", help, modified);
        }
        let version =
            if version.contains('.') { version.to_owned() } else { format!("{version}.0") };
        let version = format!("HTTP/{version}");
        if !module.valid_http_versions.is_empty() && !module.valid_http_versions.contains(&version)
        {
            self.log.error("Invalid HTTP version number", &[("version", &version)]);
            success = false;
        }
        if hop.over_tls {
            summary.ssl = true;
            let tls = hop.connection.facts.tls.clone().unwrap_or_default();
            let session = Session {
                version: tls.version.as_deref().unwrap_or_default(),
                cipher: tls.cipher_suite.as_deref(),
                chain: &hop.certificates,
            };
            self.tls_metrics(&session, &module.tls_config, Set::All);
            if module.fail_if_ssl {
                self.log.error("Final request was over SSL", &[]);
                success = false;
            }
        } else if module.fail_if_not_ssl && success {
            self.log.error("Final request was not over SSL", &[]);
            success = false;
        }
        success
    }

    fn fields_are_good(&mut self, http: &HttpFacts) -> bool {
        let module = &self.module.http;
        let values = |rule: &HeaderRule| -> Vec<&str> {
            let same = http.headers.iter().filter(|h| h.name.eq_ignore_ascii_case(&rule.header));
            same.map(|h| h.value.as_str()).collect()
        };
        let with_verdict = [(&module.header_matches, true), (&module.header_not_matches, false)];
        for (rules, matching_is_bad) in with_verdict {
            for rule in rules {
                let values = values(rule);
                if values.is_empty() {
                    if rule.allow_missing {
                        continue;
                    }
                    self.log.error("Missing required header", &[("header", &rule.header)]);
                    return false;
                }
                let any = values.iter().any(|value| rule.pattern.matches(value.as_bytes()));
                if any == matching_is_bad {
                    let message = if any {
                        "Header matched regular expression"
                    } else {
                        "Header did not match regular expression"
                    };
                    let about =
                        [("header", rule.header.as_str()), ("regexp", rule.pattern.written())];
                    self.log.error(message, &about);
                    return false;
                }
            }
        }
        true
    }

    fn body_is_good(&mut self, received: &Received) -> bool {
        if let Some(error) = &received.error {
            self.note_failure(PhaseName::Receive, FailureType::HttpResponseInvalid);
            self.log.error("Error reading HTTP body", &[("err", error)]);
            return false;
        }
        let module = &self.module.http;
        let body = &received.body;
        if let Some(bad) = module.body_matches.iter().find(|pattern| pattern.matches(body)) {
            let about = [("regexp", bad.written())];
            self.log.error("Body matched regular expression", &about);
            return false;
        }
        if let Some(bad) = module.body_not_matches.iter().find(|pattern| !pattern.matches(body)) {
            let about = [("regexp", bad.written())];
            self.log.error("Body did not match regular expression", &about);
            return false;
        }
        true
    }
}

const fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Whether the body must be kept, because it is examined, decoded or limited.
fn needs_body(module: &HttpModule) -> bool {
    let looked_into =
        [&module.body_matches, &module.body_not_matches].iter().any(|p| !p.is_empty());
    looked_into
        || !module.compression.is_empty()
        || (1..BODY_LIMIT).contains(&module.body_size_limit)
}

/// Parses an HTTP date (RFC 9110 §5.6.7) as Unix time.
fn http_date(text: &str) -> Option<f64> {
    let text = text.strip_suffix("GMT")?;
    let parsed = OffsetDateTime::parse(&format!("{text}+0000"), &Rfc2822).ok()?;
    Some(parsed.unix_timestamp() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_http() {
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777.0));
        assert_eq!(http_date("yesterday"), None);
    }
}
