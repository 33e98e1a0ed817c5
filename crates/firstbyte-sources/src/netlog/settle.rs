//! Converts a finished request to the model: open state becomes durations, names and findings.

use std::rc::Rc;
use std::time::Duration;

use super::findings::{CostOfRaces, findings};
use super::open::{
    AttemptError, OpenAttempt, OpenConnection, OpenJob, OpenLookup, OpenRequest, Sharing, Stretch,
};
use super::request::{
    AddressAttempt, AttemptEnd, JobOutcome, NameLookup, NetLogConnection, NetLogJob, NetLogRequest,
    NetLogTransport, PoolStall, SocketOrigin,
};
use super::tls_names;

/// Chromium's error name for jobs that it ended itself.
const ABORTED: &str = "ERR_ABORTED";
/// A lack of answers for this long counts as a failure.
const SILENCE: Duration = Duration::from_millis(300);

/// Error names from the log's constants.
pub trait ErrorNames {
    /// Name of a network error: "ERR_CONNECTION_REFUSED".
    fn net_error(&self, number: i64) -> Option<Rc<str>>;
    /// Name of a QUIC error: "QUIC_PACKET_WRITE_ERROR".
    fn quic_error(&self, number: i64) -> Option<Rc<str>>;
}

impl ErrorNames for super::net_export::NetExportReader {
    fn net_error(&self, number: i64) -> Option<Rc<str>> {
        Self::net_error(self, number)
    }

    fn quic_error(&self, number: i64) -> Option<Rc<str>> {
        Self::quic_error(self, number)
    }
}

/// Converts `request` from a log that starts at `first_us`; `None` if its URL is unknown.
pub(super) fn settled(
    request: &OpenRequest,
    first_us: i64,
    names: &dyn ErrorNames,
) -> Option<NetLogRequest> {
    let (url, host) = shown(request.url.as_deref()?);
    let settling = Settling { first_us, names };
    let jobs: Vec<_> = request
        .controllers
        .iter()
        .flat_map(|controller| controller.borrow().jobs.clone())
        .collect();
    let winner = request.winner.as_ref();
    let won = |number: u64| winner.is_some_and(|winner| winner.borrow().number == number);
    let is_bound = winner.is_some_and(|winner| winner.borrow().any_connection().is_some());
    let own = winner.map(|winner| winner.borrow());
    let own = own.as_deref();
    let connection = own.filter(|_| is_bound).and_then(OpenJob::any_connection);
    let connection = connection.as_ref().map(|it| it.borrow());
    let lookups = jobs.iter().filter_map(|job| settling.lookup_of(&job.borrow()));
    let controllers = || request.controllers.iter().map(|it| it.borrow());
    let mut model = NetLogRequest {
        url,
        method: request.method.clone(),
        frame: request.frame.clone(),
        began: settling.at(request.whole.begin),
        total: length(request.whole),
        status: request.status,
        error: request.error.map(|error| settling.net_error(error)),
        stream: request.stream_us.and_then(micros),
        send: length(request.send),
        wait: length(Stretch { begin: request.send.end, end: request.read.end }),
        receive: length(request.body),
        jobs: jobs
            .iter()
            .map(|job| {
                let job = job.borrow();
                settling.job(&job, won(job.number), is_bound)
            })
            .collect(),
        alternative: controllers().find_map(|it| it.alternative.clone()),
        proxy: controllers().find_map(|it| it.proxy.clone()),
        tunnel: None,
        lookup: lookups.max_by_key(|lookup| lookup.took),
        attempts: Vec::new(),
        stall: own.and_then(stall),
        origin: own
            .zip(connection.as_deref())
            .map(|(job, connection)| origin(job, connection, request.stream, &host)),
        connection: connection.as_ref().map(|it| settling.connection(it)),
        restarts: request.restarts.iter().map(|error| settling.net_error(*error)).collect(),
        findings: Vec::new(),
        host,
    };
    if model.origin == Some(SocketOrigin::New) {
        model.tunnel = connection.as_ref().and_then(|it| length(it.tunnel));
    }
    if matches!(model.origin, None | Some(SocketOrigin::New)) {
        let made = own.and_then(|own| own.connect_job.as_ref());
        let made = made.or_else(|| connection.as_ref()?.job.as_ref()).map(|made| made.borrow());
        let attempts = made.iter().flat_map(|made| &made.attempts);
        model.attempts = attempts.map(|attempt| settling.attempt(attempt)).collect();
    }
    let races = CostOfRaces {
        held_for_quic: held_for_quic(&jobs.iter().map(|job| job.borrow()).collect::<Vec<_>>(), own),
        sent_in_vain: length(Stretch { begin: request.first_sent, end: request.restarted }),
    };
    model.findings = findings(&model, races);
    Some(model)
}

/// How long the winner was held back while a QUIC job was connecting.
fn held_for_quic(jobs: &[std::cell::Ref<'_, OpenJob>], own: Option<&OpenJob>) -> Option<Duration> {
    let own = own.filter(|own| !own.quic)?;
    // A winner that was not held back started after QUIC had failed, or did not wait for it.
    let connects = jobs.iter().filter_map(|job| Some(job.quic_tried()?.borrow().connect));
    let held = connects.filter(|connect| connect.begin.is_some()).map(|connect| {
        let end = connect.end.or(own.held.end);
        own.held.overlap(Stretch { end, ..connect }).unwrap_or(0)
    });
    held.max().and_then(micros)
}

/// From when the pool was full until a socket was free or a new connection was started.
fn stall(job: &OpenJob) -> Option<PoolStall> {
    let (limit, since) = job.stalled?;
    let begun = job.connect_job.as_ref().and_then(|made| made.borrow().begin);
    let until = begun.filter(|begun| *begun >= since).or(job.pool.end);
    Some(PoolStall { limit, took: length(Stretch { begin: Some(since), end: until }) })
}

fn origin(job: &OpenJob, connection: &OpenConnection, stream: Stretch, host: &str) -> SocketOrigin {
    if let Some(idle) = job.idle_ms {
        let idle = idle.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
        return SocketOrigin::Idle { idle };
    }
    let group = connection.job.as_ref().and_then(|made| made.borrow().group.clone());
    let authority = connection.authority.as_ref().map(|it| shown(&format!("https://{it}")).1);
    let leads_to = group.as_deref().and_then(origin_of_group).or(authority);
    let other = leads_to.is_some_and(|own| own != host);
    if other || job.shares == Some(Sharing::OtherHost) {
        return SocketOrigin::Coalesced;
    }
    match (job.is_first, connection.handshake.end, stream.begin) {
        (Some(false), ..) => SocketOrigin::Shared,
        (_, Some(ready), Some(asked)) if ready < asked => SocketOrigin::InAdvance,
        _ => SocketOrigin::New,
    }
}

/// "example.com" from "pm/https://example.com <…>".
fn origin_of_group(group: &str) -> Option<String> {
    let group = group.split(' ').next()?;
    let scheme = ["https://", "http://"].iter().find_map(|scheme| group.find(scheme))?;
    Some(shown(&group[scheme..]).1)
}

/// A URL without user, query and fragment, and its host, with the port unless it is the scheme's default. Other than
/// for web URLs, only the scheme.
fn shown(url: &str) -> (String, String) {
    // "data:text/html,…://…" is not a web URL.
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let web = url.split_once("://").filter(|(scheme, _)| scheme.chars().all(is_scheme));
    let Some((scheme, rest)) = web else {
        let scheme = url.split(':').next().unwrap_or_default();
        return (format!("{scheme}:"), format!("{scheme}:"));
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let default = match scheme {
        "https" | "wss" => ":443",
        "http" | "ws" => ":80",
        _ => "",
    };
    let host = match default {
        "" => authority,
        default => authority.strip_suffix(default).unwrap_or(authority),
    };
    (format!("{scheme}://{host}{path}"), host.to_owned())
}

fn micros(us: i64) -> Option<Duration> {
    u64::try_from(us).ok().map(Duration::from_micros)
}

fn length(stretch: Stretch) -> Option<Duration> {
    stretch.length().and_then(micros)
}

struct Settling<'a> {
    first_us: i64,
    names: &'a dyn ErrorNames,
}

impl Settling<'_> {
    fn at(&self, us: Option<i64>) -> Duration {
        let since = us.and_then(|us| us.checked_sub(self.first_us));
        since.and_then(micros).unwrap_or_default()
    }

    fn net_error(&self, number: i64) -> String {
        match self.names.net_error(number) {
            Some(name) => name.to_string(),
            None => format!("net error {number}"),
        }
    }

    fn job(&self, job: &OpenJob, won: bool, is_bound: bool) -> NetLogJob {
        let quic = job.quic_tried();
        let quic = quic.as_ref().map(|quic| quic.borrow());
        let tcp = job.connect_job.as_ref().and_then(|made| made.borrow().error);
        let error = quic.as_ref().and_then(|quic| quic.error).or(job.pool_error).or(tcp);
        let connect = quic.as_ref().map(|quic| quic.connect);
        let answered = job.any_connection().filter(|_| job.quic).map(|it| {
            let it = it.borrow();
            it.answered || it.handshake.end.is_some()
        });
        let tried = connect.and_then(length);
        let silent = answered == Some(false) && tried.is_some_and(|tried| tried >= SILENCE);
        let outcome = match error {
            _ if won && is_bound && job.pool_error.is_none() => JobOutcome::Won,
            // The browser aborted it, because another job won or because the browser was closing.
            Some(error) if self.net_error(error) == ABORTED && !silent => JobOutcome::Lost,
            Some(error) => JobOutcome::Failed(self.net_error(error)),
            None if won && is_bound => JobOutcome::Won,
            None if !job.is_over => JobOutcome::Open,
            None if quic.is_some() && connect.is_some_and(|it| it.begin.is_none()) => {
                JobOutcome::NothingToTry
            }
            None => JobOutcome::Lost,
        };
        NetLogJob {
            name: job.name.clone().unwrap_or_else(|| "job".into()),
            quic: job.quic,
            outcome,
            held: length(job.held).filter(|held| !held.is_zero()),
            connect: tried,
            answered,
        }
    }

    fn lookup_of(&self, job: &OpenJob) -> Option<NameLookup> {
        let first = |attempts: &[OpenAttempt]| attempts.iter().filter_map(|it| it.time.begin).min();
        if let Some(made) = &job.connect_job {
            let made = made.borrow();
            if let Some(lookup) = &made.lookup {
                return Some(self.lookup(lookup, first(&made.attempts)));
            }
        }
        let quic = job.quic_tried()?;
        let quic = quic.borrow();
        Some(self.lookup(quic.lookup.as_ref()?, quic.connect.begin))
    }

    /// A lookup whose result was used from `used` on, perhaps before all answers had arrived.
    fn lookup(&self, lookup: &OpenLookup, used: Option<i64>) -> NameLookup {
        let resolver = lookup.resolver.as_ref().map(|it| it.borrow());
        let ended = lookup.time.end.or_else(|| resolver.as_ref()?.end);
        let end = match (ended, used) {
            (Some(end), Some(used)) => Some(end.min(used)),
            (end, used) => end.or(used),
        };
        let asked = resolver.as_ref().map(|resolver| resolver.sources.clone()).unwrap_or_default();
        let error = lookup.error.or_else(|| resolver.as_ref()?.error);
        NameLookup {
            took: length(Stretch { end, ..lookup.time }),
            sources: lookup.known.into_iter().chain(asked).collect(),
            error: error.map(|error| self.net_error(error)),
        }
    }

    fn connection(&self, connection: &OpenConnection) -> NetLogConnection {
        let job = connection.job.as_ref().map(|job| job.borrow());
        let number = |number: Option<i64>, name: fn(i64) -> Option<&'static str>| {
            number.and_then(name).map(str::to_owned)
        };
        let retry = match connection.client_hellos[..] {
            // From the second ClientHello to the second ServerHello: the round trip that the retry added.
            [_, again] => connection
                .server_hellos
                .get(1)
                .map(|answer| Stretch { begin: Some(again), end: Some(*answer) }),
            _ => None,
        };
        NetLogConnection {
            number: connection.number,
            transport: match connection.quic {
                true => NetLogTransport::Quic,
                false => NetLogTransport::Tcp,
            },
            began: connection.begin.map(|_| self.at(connection.begin)),
            remote: connection.remote.clone(),
            backup: job.is_some_and(|job| job.backup),
            handshake: length(connection.handshake),
            tls_version: connection.tls_version.clone(),
            cipher_suite: number(connection.cipher_suite, tls_names::cipher_suite),
            group: number(connection.group, tls_names::group),
            alpn: connection.alpn.clone(),
            resumed: connection.resumed,
            early_data: connection.early_data,
            hello_retry: retry.and_then(length),
            encrypted_hello: connection.encrypted_hello,
            ticket_held: connection.ticket_held,
            quic_version: connection.quic_version.clone(),
            version_negotiation: connection.version_negotiation,
            lost_packets: connection.lost_packets,
            answered: connection.answered || connection.handshake.end.is_some(),
            closed_by: connection.quic_error.map(|error| match self.names.quic_error(error) {
                Some(name) => name.to_string(),
                None => format!("QUIC error {error}"),
            }),
        }
    }

    fn attempt(&self, attempt: &OpenAttempt) -> AddressAttempt {
        AddressAttempt {
            address: attempt.address.clone(),
            began: self.at(attempt.time.begin),
            took: length(attempt.time),
            end: match attempt.error {
                Some(AttemptError::Net(error)) => AttemptEnd::Failed(self.net_error(error)),
                Some(AttemptError::System(error)) => {
                    AttemptEnd::Failed(format!("system error {error}"))
                }
                None if attempt.is_connected => AttemptEnd::Connected,
                None if attempt.time.end.is_some() => AttemptEnd::GivenUp,
                None => AttemptEnd::Unknown,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_show_no_user_query_or_fragment() {
        for (url, text, host) in [
            ("https://me:x@a.test:443/p?q=1#f", "https://a.test/p", "a.test"),
            ("http://a.test:8080?q@x", "http://a.test:8080/", "a.test:8080"),
            ("https://[::1]:443/", "https://[::1]/", "[::1]"),
            ("wss://a.test/s", "wss://a.test/s", "a.test"),
            ("data:text/html,secret", "data:", "data:"),
            ("data:text/html,secret<img src=https://x.test/>", "data:", "data:"),
            ("blob:https://a.test/secret", "blob:", "blob:"),
            ("", ":", ":"),
        ] {
            assert_eq!(shown(url), (text.to_owned(), host.to_owned()), "{url}");
        }
        let group = "pm/https://a.test:443 <https://b.test same_site>";
        assert_eq!(origin_of_group(group).as_deref(), Some("a.test"));
    }

    #[test]
    fn time_that_goes_back_has_no_length() {
        let stretch = |begin, end| Stretch { begin: Some(begin), end: Some(end) };
        assert_eq!(stretch(2, 1).length(), None);
        assert_eq!(stretch(i64::MIN, i64::MAX).length(), None);
        assert_eq!(stretch(1, 9).overlap(stretch(5, 20)), Some(4));
        assert_eq!(stretch(1, 2).overlap(stretch(5, 20)), Some(0));
    }
}
