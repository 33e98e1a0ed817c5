//! All connections in the log that the browser started during a page load, used or not, successful or not.
//!
//! Input: the record, and the load's origin. Output: connections in the order in which they were started; later, once
//! it is known which were used, also which of them raced for the same purpose. The data sent over them is not examined
//! here.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use firstbyte_core::timeline::{
    Beginning, Connection, Failure, Mark, Marks, Offset, PageConnection, Race,
};

use super::assembly::Leg;
use super::flights::Origin;
use super::{failure, launch, quic, tcp};
use crate::browser::failure::Circumstances;
use crate::netlog::{NetLogEvent, NetLogPhase, NetLogRecord};

/// A connection that the browser started.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    /// The browser's number for it. An attempt whose socket went on to another address has none.
    pub(super) number: Option<u64>,
    pub(super) page: PageConnection,
    /// The source of the job that requested it.
    job: Option<u64>,
    /// That job was started because another one took long.
    backup: bool,
    quic: bool,
}

/// A job that connects to an origin.
struct Job {
    source: u64,
    origin: launch::Origin,
    backup: bool,
}

/// One address that a socket tried.
struct Tried<'a> {
    remote: Option<SocketAddr>,
    begun_us: i64,
    ended: Option<&'a NetLogEvent>,
}

impl Tried<'_> {
    fn error(&self) -> Option<i64> {
        let ended = self.ended?;
        let failed = ended.number("os_error").is_some() || ended.number("net_error").is_some();
        failed.then(|| ended.number("net_error").unwrap_or(failure::CONNECTION_FAILED))
    }
}

/// Every connection that was started from `origin` on, in that order.
pub(super) fn connections(log: &NetLogRecord, origin: Origin) -> Vec<Opened> {
    let jobs = jobs(log);
    let mut opened: Vec<Opened> = Vec::new();
    for (socket, job) in &jobs {
        opened.extend(over_tcp(log, *socket, job, origin));
    }
    let mut sessions: Vec<u64> = Vec::new();
    for event in log.events().filter(|event| event.begins("QUIC_SESSION")) {
        if !sessions.contains(&event.source) {
            sessions.push(event.source);
            opened.extend(over_quic(log, event, origin));
        }
    }
    let begun = |opened: &Opened| opened.page.marks.at(Mark::ConnectStart);
    opened.retain(|opened| begun(opened).is_some_and(|at| at >= Offset::ZERO));
    opened.sort_by_key(begun);
    lookups(log, origin, &mut opened);
    opened
}

/// The job of each socket that tried to connect.
fn jobs(log: &NetLogRecord) -> Vec<(u64, Job)> {
    let mut wanted: HashMap<u64, (launch::Origin, bool)> = HashMap::new();
    let mut of_sockets: Vec<(u64, Job)> = Vec::new();
    for event in log.events() {
        match &*event.name {
            "SOCKET_POOL_CONNECT_JOB_CREATED" => {
                let group = event.text("group_id").and_then(launch::Origin::of_group);
                let backup = event.truth("backup_job") == Some(true);
                wanted.extend(group.map(|origin| (event.source, (origin, backup))));
            }
            "TCP_CONNECT_JOB_CONNECTOR_CONNECT_START" => {
                let socket = event.dependency().and_then(|number| log.numbered(number));
                let job = wanted.get(&event.source);
                let Some((socket, (origin, backup))) = socket.zip(job.cloned()) else { continue };
                if of_sockets.iter().all(|(known, _)| *known != socket) {
                    of_sockets.push((socket, Job { source: event.source, origin, backup }));
                }
            }
            _ => {}
        }
    }
    of_sockets
}

fn tried(log: &NetLogRecord, socket: u64) -> Vec<Tried<'_>> {
    let mut tried: Vec<Tried<'_>> = Vec::new();
    for event in log.of_source(socket).filter(|event| &*event.name == "TCP_CONNECT_ATTEMPT") {
        match event.phase {
            NetLogPhase::Begin => tried.push(Tried {
                remote: event.text("address").and_then(|address| address.parse().ok()),
                begun_us: event.at_us,
                ended: None,
            }),
            NetLogPhase::End => {
                if let Some(last) = tried.last_mut() {
                    last.ended = Some(event);
                }
            }
            NetLogPhase::Point => {}
        }
    }
    tried
}

/// The connections of a socket: one for each address that it tried.
fn over_tcp(log: &NetLogRecord, socket: u64, job: &Job, origin: Origin) -> Vec<Opened> {
    let tried = tried(log, socket);
    let last = tried.len().saturating_sub(1);
    let each = tried.iter().enumerate().map(|(place, one)| {
        let mut page = PageConnection {
            authority: job.origin.authority(),
            remote: one.remote,
            beginning: Some(Beginning::Opened),
            ..PageConnection::default()
        };
        let mut number = None;
        if place == last {
            number = log.number_of(socket);
            page.client_id = number.map(|number| number.to_string());
            came_about(log, socket, one, origin, &mut page);
        }
        page.marks.set(Mark::ConnectStart, origin.stamp(one.begun_us));
        page.failure = tcp_failure(log, socket, one, &page, &job.origin.host, origin);
        Opened { number, page, job: Some(job.source), backup: job.backup, quic: false }
    });
    each.collect()
}

/// Fills in `page` for the TCP connection that its socket kept, from everything in the log.
fn came_about(
    log: &NetLogRecord,
    socket: u64,
    tried: &Tried<'_>,
    origin: Origin,
    page: &mut PageConnection,
) {
    let mut built = Connection::default();
    tcp::put_down(log, socket, &everything(log), true, origin, &mut built);
    page.local = built.facts.local;
    page.remote = built.facts.remote.or(page.remote);
    page.protocol = built.facts.tls.as_ref().and_then(|tls| tls.alpn.clone());
    set_up_marks(&built, &mut page.marks);
    page.tls = built.facts.tls;
    let encrypted = log.of_source(socket).any(|event| event.begins("SSL_CONNECT"));
    let ready = if encrypted { Mark::HandshakeComplete } else { Mark::TcpConnected };
    let closed = || log.of_source(socket).find(|event| event.ends("SOCKET_ALIVE"));
    let given_up = match page.local {
        None => tried.ended.or_else(closed),
        Some(_) => closed().filter(|_| page.marks.at(ready).is_none()),
    };
    page.given_up = given_up.map(|event| origin.stamp(event.at_us));
}

fn set_up_marks(built: &Connection, into: &mut Marks) {
    for (mark, stamp) in built.marks.iter().filter(|(mark, _)| *mark <= Mark::HandshakeConfirmed) {
        into.set(mark, stamp);
    }
}

/// A leg that covers the whole log, without a particular request.
fn everything(log: &NetLogRecord) -> Leg {
    Leg {
        url: String::new(),
        source: 0,
        from: 0,
        to: log.len(),
        from_us: i64::MIN,
        to_us: i64::MAX,
        job: None,
        quic_session: None,
    }
}

fn tcp_failure(
    log: &NetLogRecord,
    socket: u64,
    tried: &Tried<'_>,
    page: &PageConnection,
    host: &str,
    origin: Origin,
) -> Option<Failure> {
    let in_tls = || {
        let ended = log.of_source(socket).find(|event| event.ends("SSL_CONNECT"))?;
        // A connection that was closed because it was no longer needed did not fail.
        let error = ended.number("net_error").filter(|error| *error != failure::ABORTED)?;
        Some((error, ended.at_us))
    };
    let connecting = tried.error().zip(tried.ended.map(|ended| ended.at_us));
    let of_tls = || page.marks.at(Mark::TcpConnected).and_then(|_| in_tls());
    let (number, at_us) = connecting.or_else(of_tls)?;
    let known = circumstances(host, page, false, origin.offset(at_us));
    Some(failure::numbered(number, &known))
}

fn circumstances<'a>(
    host: &str,
    page: &'a PageConnection,
    quic: bool,
    at: Offset,
) -> Circumstances<'a> {
    Circumstances {
        host: host.to_owned(),
        remote: page.remote,
        marks: &page.marks,
        quic,
        time_limit: Duration::ZERO,
        at: Some(at),
        received: 0,
    }
}

fn over_quic(log: &NetLogRecord, begun: &NetLogEvent, origin: Origin) -> Option<Opened> {
    let session = begun.source;
    let host = begun.text("host")?.trim_matches(['[', ']']).to_owned();
    let port = u16::try_from(begun.number("port")?).ok()?;
    let wanted = launch::Origin { tls: true, host, port };
    let mut built = Connection::default();
    quic::put_down(log, session, &everything(log), true, origin, &mut built);
    let number = log.number_of(session);
    let mut page = PageConnection {
        authority: wanted.authority(),
        client_id: number.map(|number| number.to_string()),
        remote: built.facts.remote,
        local: built.facts.local,
        beginning: Some(Beginning::Opened),
        protocol: Some("h3".to_owned()),
        tls: built.facts.tls.clone(),
        first_answer: quic::first_answer(log, session).map(|at_us| origin.stamp(at_us)),
        ..PageConnection::default()
    };
    set_up_marks(&built, &mut page.marks);
    let closed = log.of_source(session).find(|event| &*event.name == "QUIC_SESSION_CLOSED");
    let ready = page.marks.at(Mark::HandshakeComplete).is_some();
    if let Some(closed) = closed.filter(|_| !ready) {
        page.given_up = Some(origin.stamp(closed.at_us));
        let known = circumstances(&wanted.host, &page, true, origin.offset(closed.at_us));
        page.failure = Some(failure::of_quic(closed, &known));
    }
    Some(Opened { number, page, job: None, backup: false, quic: true })
}

/// Assigns each lookup to the first connection to its host that was started after it.
fn lookups(log: &NetLogRecord, origin: Origin, opened: &mut [Opened]) {
    let asked = log.events().filter(|event| event.begins("HOST_RESOLVER_MANAGER_JOB"));
    for asked in asked {
        let Some(host) = asked.text("host") else { continue };
        let host = launch::Origin::of_url(host).map_or_else(|| host.to_owned(), |o| o.host);
        let mut after = log.of_source(asked.source).filter(|event| event.at_us >= asked.at_us);
        let answered = after.find(|event| event.ends("HOST_RESOLVER_MANAGER_JOB"));
        let answered = answered.filter(|event| event.number("net_error").is_none());
        let Some(answered) = answered.filter(|_| asked.at_us >= origin.at_us) else { continue };
        let answered = origin.stamp(answered.at_us);
        let first = opened.iter_mut().find(|opened| {
            let authority = &opened.page.authority;
            let own = authority.rsplit_once(':').map_or(&**authority, |(host, _)| host);
            let begun = opened.page.marks.at(Mark::ConnectStart);
            own.trim_matches(['[', ']']) == host && begun.is_some_and(|at| at >= answered.at)
        });
        let Some(first) = first else { continue };
        if first.page.marks.at(Mark::DomainLookupStart).is_none() {
            first.page.marks.set(Mark::DomainLookupStart, origin.stamp(asked.at_us));
            first.page.marks.set(Mark::DomainLookupEnd, answered);
        }
    }
}

/// Marks which of the page's connections raced for the same purpose. The first `connections` correspond to `opened`, by
/// index. `used` tells which connections have carried requests.
pub(super) fn name_races(
    connections: &mut [PageConnection],
    opened: &[Opened],
    used: &dyn Fn(usize) -> bool,
) {
    for loser in 0..opened.len() {
        if used(loser) {
            continue;
        }
        let Some(winner) = winner(opened, loser, used) else { continue };
        connections[loser].race = Some(Race { against: winner, won: false });
        let back = &mut connections[winner].race;
        *back = back.or(Some(Race { against: loser, won: true }));
    }
}

/// The connection that was used in place of the one at `loser`: one of the same job, one of the job that it was a
/// backup of, or one over the other transport (TCP or QUIC).
fn winner(opened: &[Opened], loser: usize, used: &dyn Fn(usize) -> bool) -> Option<usize> {
    let lost = &opened[loser];
    let begun = |place: usize| opened[place].page.marks.at(Mark::ConnectStart);
    let same = |place: &usize| {
        let other = &opened[*place];
        *place != loser && other.page.authority == lost.page.authority && used(*place)
    };
    let of_job = |place: &usize| opened[*place].job.is_some() && opened[*place].job == lost.job;
    let all = || (0..opened.len()).filter(same);
    if let Some(winner) = all().find(of_job) {
        return Some(winner);
    }
    let of_backup = |place: &usize| {
        let other = &opened[*place];
        other.quic == lost.quic && (other.backup || lost.backup)
    };
    let across = |place: &usize| opened[*place].quic != lost.quic;
    let nearest = |place: &usize| {
        let apart = begun(*place).zip(begun(loser));
        apart.map(|(one, other)| (one.as_nanos() - other.as_nanos()).unsigned_abs())
    };
    let given_up = lost.page.given_up.map(|stamp| stamp.at);
    let in_time = |place: &usize| {
        // One that was started long after the loser was given up belongs to another request.
        given_up.zip(begun(*place)).is_none_or(|(given_up, begun)| begun <= given_up + SLACK)
    };
    all().filter(|place| (of_backup(place) || across(place)) && in_time(place)).min_by_key(nearest)
}

/// A fallback starts within this time of the failure.
const SLACK: Duration = Duration::from_millis(50);
