//! How name servers are queried: in which order, for how long, how often; like the C library.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use firstbyte_core::timeline::{
    Cause, Connection, DnsTransport, LastSeen, Lookup, Offset, RecordType, TimeLimit,
};
use hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA};
use hickory_resolver::proto::rr::{RData, Record, RecordType as Kind};
use tokio::time::{Sleep, sleep};

use super::visit::simulated;
use crate::probe::observation::Observation;
use crate::probe::options::Family;
use crate::probe::resolve::configuration::DnsConfiguration;
use crate::probe::resolve::dns;
use crate::probe::resolve::stub::{DnsQuestion, QuestionTransport, StubResolver};

const V4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// The behaviour of a name server.
#[derive(Clone, Copy)]
enum ScriptedServer {
    Dead,
    /// Its port is closed.
    Closed,
    /// Answers after this many milliseconds.
    Answers(u64),
    Says(ResponseCode),
    /// The first datagram is lost.
    Loses,
    /// All answers are too long for a datagram.
    Truncates,
    /// Refers to other servers without an answer.
    Refers,
    /// Other names do not exist.
    Knows(&'static str),
}

/// Name servers at 192.0.2.0, 192.0.2.1, …
struct ScriptedServers(&'static [ScriptedServer]);

struct ScriptedSocket {
    server: ScriptedServer,
    asked: Cell<u32>,
    answer: RefCell<Option<Pin<Box<Sleep>>>>,
}

fn number(server: SocketAddr) -> u8 {
    match server.ip() {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(_) => unreachable!(),
    }
}

fn answer(question: &DnsQuestion, code: ResponseCode) -> Message {
    let mut message = Message::response(0, OpCode::Query);
    message.metadata.response_code = code;
    message.add_query(question.query.clone());
    if code == ResponseCode::NoError {
        let data = match question.query.query_type() {
            Kind::AAAA => RData::AAAA(AAAA(V6)),
            _ => RData::A(A(V4)),
        };
        message.add_answer(Record::from_rdata(question.query.name().clone(), 60, data));
    }
    message
}

impl QuestionTransport for ScriptedServers {
    type Socket = ScriptedSocket;

    async fn open_socket(&self, server: SocketAddr) -> io::Result<ScriptedSocket> {
        let server = self.0[usize::from(number(server))];
        Ok(ScriptedSocket { server, asked: Cell::new(0), answer: RefCell::new(None) })
    }

    async fn ask_over_udp(
        &self,
        socket: &ScriptedSocket,
        question: &DnsQuestion,
    ) -> io::Result<Message> {
        let before = socket.asked.replace(socket.asked.get() + 1);
        match socket.server {
            ScriptedServer::Dead => std::future::pending().await,
            ScriptedServer::Loses if before == 0 => std::future::pending().await,
            ScriptedServer::Closed => Err(io::ErrorKind::ConnectionRefused.into()),
            ScriptedServer::Answers(milliseconds) => {
                if before == 0 {
                    let on_its_way = Box::pin(sleep(Duration::from_millis(milliseconds)));
                    socket.answer.replace(Some(on_its_way));
                }
                poll_fn(|cx| socket.answer.borrow_mut().as_mut().unwrap().as_mut().poll(cx)).await;
                Ok(answer(question, ResponseCode::NoError))
            }
            ScriptedServer::Says(code) => Ok(answer(question, code)),
            ScriptedServer::Loses => Ok(answer(question, ResponseCode::NoError)),
            ScriptedServer::Truncates => {
                let mut message = answer(question, ResponseCode::NoError);
                message.answers.clear();
                message.metadata.truncation = true;
                Ok(message)
            }
            ScriptedServer::Refers => {
                let mut message = answer(question, ResponseCode::NoError);
                message.answers.clear();
                Ok(message)
            }
            ScriptedServer::Knows(name) => {
                let is_known = question.query.name().to_string() == name;
                let code = if is_known { ResponseCode::NoError } else { ResponseCode::NXDomain };
                Ok(answer(question, code))
            }
        }
    }

    async fn ask_over_tcp(
        &self,
        server: SocketAddr,
        question: &DnsQuestion,
    ) -> io::Result<Message> {
        match self.0[usize::from(number(server))] {
            ScriptedServer::Truncates => Ok(answer(question, ResponseCode::NoError)),
            _ => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }
}

fn stub(servers: &'static [ScriptedServer], options: &str) -> Rc<StubResolver<ScriptedServers>> {
    let mut text: String =
        (0..servers.len()).map(|number| format!("nameserver 192.0.2.{number}\n")).collect();
    text += "search .\n";
    text += options;
    Rc::new(StubResolver::with_transport(
        DnsConfiguration::parse(text.as_bytes()),
        ScriptedServers(servers),
    ))
}

async fn look_up(
    stub: &Rc<StubResolver<ScriptedServers>>,
    family: Family,
    host: &str,
) -> (Connection, Result<Vec<IpAddr>, Cause>) {
    let seen = Observation::start("http://server.test/");
    let found = dns(stub, &seen, family, host).await.map(|resolved| resolved.addresses);
    let outcome = found.as_ref().map(|_| ()).map_err(Clone::clone);
    let connection = seen.borrow_mut().finish(outcome);
    (connection, found)
}

/// Looks up the A record of "server.test".
async fn look_up_v4(
    servers: &'static [ScriptedServer],
    options: &str,
) -> (Connection, Result<Vec<IpAddr>, Cause>) {
    look_up(&stub(servers, options), Family::V4, "server.test").await
}

/// The tries of the first lookup: the server, the start and the duration (in milliseconds), and the result.
fn tries(connection: &Connection) -> Vec<(u8, u128, u128, &str)> {
    let tries = connection.lookups[0].tries.iter().map(|one| {
        let start = one.start.since(Offset::ZERO).as_millis();
        let took = one.end.unwrap().since(one.start).as_millis();
        (number(one.server), start, took, one.error.as_deref().unwrap_or("answered"))
    });
    tries.collect()
}

fn took(lookup: &Lookup) -> Duration {
    lookup.end.unwrap().since(lookup.start)
}

#[test]
fn a_dead_server_before_a_live_one_costs_its_time() {
    simulated(async {
        let (connection, found) =
            look_up_v4(&[ScriptedServer::Dead, ScriptedServer::Answers(2)], "").await;
        assert_eq!(found, Ok(vec![IpAddr::from(V4)]));
        assert_eq!(tries(&connection), [(0, 0, 5_000, "no answer"), (1, 5_000, 2, "answered")]);
        assert_eq!(took(&connection.lookups[0]), Duration::from_millis(5_002));
        let (connection, _) =
            look_up_v4(&[ScriptedServer::Answers(2), ScriptedServer::Dead], "").await;
        assert_eq!(tries(&connection), [(0, 0, 2, "answered")]);
    });
}

#[test]
fn three_dead_servers_are_named_with_how_often_they_were_asked() {
    simulated(async {
        let (connection, found) = look_up_v4(&[ScriptedServer::Dead; 3], "").await;
        let starts: Vec<u128> = tries(&connection).iter().map(|one| one.1).collect();
        assert_eq!(starts, [0, 5_000, 8_000, 14_000, 19_000, 22_000]);
        assert_eq!(
            found.unwrap_err().to_string(),
            "no answer for server.test within 28 s: 192.0.2.0:53 was asked twice, \
             192.0.2.1:53 twice, 192.0.2.2:53 twice"
        );
        assert_eq!(connection.lookups[0].error.as_deref(), Some("no answer"));
    });
}

#[test]
fn timeout_and_attempts_are_the_files() {
    simulated(async {
        let (connection, found) =
            look_up_v4(&[ScriptedServer::Dead], "options timeout:1 attempts:3").await;
        assert_eq!(took(&connection.lookups[0]), Duration::from_secs(3));
        let message = found.unwrap_err().to_string();
        assert!(message.ends_with(": 192.0.2.0:53 was asked 3 times"), "{message}");
    });
}

#[test]
fn rotation_begins_with_the_next_server() {
    simulated(async {
        let stub =
            stub(&[ScriptedServer::Answers(1), ScriptedServer::Answers(2)], "options rotate");
        let mut asked = Vec::new();
        for _ in 0..3 {
            let (connection, _) = look_up(&stub, Family::V4, "server.test").await;
            asked.extend(tries(&connection).iter().map(|one| one.0));
        }
        assert_eq!(asked, [0, 1, 0]);
    });
}

#[test]
fn servers_that_refuse_are_followed_at_once() {
    simulated(async {
        let servers = &[
            ScriptedServer::Says(ResponseCode::ServFail),
            ScriptedServer::Closed,
            ScriptedServer::Answers(1),
        ];
        let (connection, found) = look_up_v4(servers, "").await;
        assert!(found.is_ok());
        let expected =
            [(0, 0, 0, "SERVFAIL"), (1, 0, 0, "connection refused"), (2, 0, 1, "answered")];
        assert_eq!(tries(&connection), expected);

        let servers = &[ScriptedServer::Refers, ScriptedServer::Answers(1)];
        let (connection, _) = look_up_v4(servers, "").await;
        assert_eq!(tries(&connection), [(0, 0, 0, "a referral"), (1, 0, 1, "answered")]);

        let (connection, found) =
            look_up_v4(&[ScriptedServer::Says(ResponseCode::Refused)], "").await;
        assert_eq!(connection.lookups[0].tries.len(), 2);
        assert_eq!(
            found.unwrap_err().to_string(),
            "could not resolve server.test: the name server answered REFUSED"
        );
        let (_, found) = look_up_v4(&[ScriptedServer::Closed], "").await;
        assert_eq!(
            found.unwrap_err().to_string(),
            "could not resolve server.test: name server 192.0.2.0:53: connection refused"
        );
    });
}

#[test]
fn a_name_that_does_not_exist_is_asked_for_once() {
    simulated(async {
        let servers = &[ScriptedServer::Says(ResponseCode::NXDomain), ScriptedServer::Answers(1)];
        let (connection, found) = look_up(&stub(servers, ""), Family::V4, "server.test.").await;
        assert_eq!(found, Err(Cause::NameNotFound { name: "server.test".into() }));
        assert_eq!(connection.lookups[0].tries.len(), 1);
        assert_eq!(connection.lookups[0].error.as_deref(), Some("NXDOMAIN"));
    });
}

#[test]
fn a_truncated_answer_is_asked_for_over_tcp() {
    simulated(async {
        let (connection, found) =
            look_up_v4(&[ScriptedServer::Truncates, ScriptedServer::Dead], "").await;
        assert!(found.is_ok());
        assert_eq!(tries(&connection), [(0, 0, 0, "truncated"), (0, 0, 0, "answered")]);
        let transports = connection.lookups[0].tries.iter().map(|one| one.transport);
        assert!(transports.eq([DnsTransport::Udp, DnsTransport::Tcp]));
    });
}

#[test]
fn a_lost_datagram_is_a_try_of_its_own() {
    simulated(async {
        let (connection, _) = look_up_v4(&[ScriptedServer::Loses], "").await;
        assert_eq!(tries(&connection), [(0, 0, 5_000, "no answer"), (0, 5_000, 0, "answered")]);
    });
}

#[test]
fn an_answer_to_the_first_question_is_one_to_the_second() {
    simulated(async {
        let (connection, _) = look_up_v4(&[ScriptedServer::Answers(7_000)], "").await;
        let expected = [(0, 0, 5_000, "no answer"), (0, 5_000, 2_000, "answered")];
        assert_eq!(tries(&connection), expected);
    });
}

#[test]
fn the_search_list_is_gone_through() {
    simulated(async {
        let search = "search corp.test lab.test";
        let known = stub(&[ScriptedServer::Knows("www.lab.test.")], search);
        let (connection, found) = look_up(&known, Family::Any, "www").await;
        assert!(found.is_ok());
        assert_eq!(connection.lookups.len(), 2);
        let expected = [(0, 0, 0, "NXDOMAIN for www.corp.test."), (0, 0, 0, "answered")];
        assert_eq!(tries(&connection), expected);
        assert!(connection.lookups[0].error.is_none());

        let (_, found) = look_up(&known, Family::V4, "www.").await;
        assert_eq!(found, Err(Cause::NameNotFound { name: "www".into() }));
    });
}

/// If the servers are silent for a name typed in full, the search list is still tried.
#[test]
fn silence_ends_the_search() {
    simulated(async {
        let options = "search corp.test lab.test\noptions timeout:1 attempts:1";
        let silent = stub(&[ScriptedServer::Dead], options);
        for (host, seconds) in [("www", 1), ("server.test", 2), ("server.test.", 1)] {
            let (connection, found) = look_up(&silent, Family::V4, host).await;
            assert_eq!(took(&connection.lookups[0]), Duration::from_secs(seconds), "{host}");
            assert!(matches!(found, Err(Cause::ResolverTimedOut { .. })), "{host}");
        }
    });
}

#[test]
fn both_types_are_asked_side_by_side() {
    simulated(async {
        let servers = &[ScriptedServer::Dead, ScriptedServer::Answers(2)];
        let (connection, found) = look_up(&stub(servers, ""), Family::Any, "server.test").await;
        assert_eq!(found, Ok(vec![IpAddr::from(V6)]));
        let types = connection.lookups.iter().map(|lookup| lookup.record_type);
        assert!(types.eq([RecordType::Aaaa, RecordType::A]));
        assert_eq!(connection.lookups[0].start, connection.lookups[1].start);
        let asked: Vec<u32> =
            Lookup::servers_asked(&connection.lookups).iter().map(|(_, times)| *times).collect();
        assert_eq!(asked, [1, 1]);

        let one_by_one = stub(&[ScriptedServer::Answers(10)], "options single-request");
        let (connection, found) = look_up(&one_by_one, Family::Any, "server.test").await;
        assert_eq!(found.unwrap().len(), 2);
        let starts = connection.lookups.iter().map(|one| one.start.since(Offset::ZERO).as_millis());
        assert!(starts.eq([0, 10]));
        assert_eq!(connection.lookups[0].record_type, RecordType::A);
    });
}

#[test]
fn the_visits_limit_is_put_down_to_servers_that_are_silent() {
    simulated(async {
        let stub = stub(&[ScriptedServer::Dead], "");
        let seen = Observation::start("http://server.test/");
        let limit = Duration::from_secs(3);
        let asking = dns(&stub, &seen, Family::Any, "server.test");
        assert!(tokio::time::timeout(limit, asking).await.is_err());
        let peer = LastSeen::Nothing;
        let cause = Cause::TimedOut { after: limit, limit: TimeLimit::Visit, peer };
        let failure = seen.borrow_mut().finish(Err(cause)).failure.unwrap();
        assert_eq!(
            failure.cause.to_string(),
            "no answer for server.test within 3 s: 192.0.2.0:53 was asked once"
        );
    });
}
