//! Asks name servers as the C library does: in order, each with a timeout, all of them a number of times.
//!
//! Input: a configuration, a name, a type. Output: addresses, with every try recorded. Applications wait for a dead
//! name server; a resolver that asks several at once would not show that. Answers are not cached: that would measure
//! the cache.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};

use firstbyte_core::timeline::{DnsTransport, LookupTry, RecordType};
use hickory_resolver::Hosts;
use hickory_resolver::proto::op::{Edns, Message, MessageType, Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, Record, RecordType as Kind};

use super::super::connect::describe;
use super::configuration::{DnsConfiguration, SearchedNames};
use super::notes::{LookupFailure, LookupNotes};
use super::sockets::NameServerSockets;

/// glibc's `RESOLV_EDNS_BUFFER_SIZE`: maximum datagram size with `options edns0`.
const EDNS_PAYLOAD: u16 = 1_200;

/// How a question reaches a name server.
pub(in crate::probe) trait QuestionTransport {
    /// A socket for datagrams to one server.
    type Socket;

    fn open_socket(&self, server: SocketAddr) -> impl Future<Output = io::Result<Self::Socket>>;

    /// Sends `question` and waits for an answer to it or to an earlier copy of it.
    fn ask_over_udp(
        &self,
        socket: &Self::Socket,
        question: &DnsQuestion,
    ) -> impl Future<Output = io::Result<Message>>;

    fn ask_over_tcp(
        &self,
        server: SocketAddr,
        question: &DnsQuestion,
    ) -> impl Future<Output = io::Result<Message>>;
}

/// A query, the same for all servers.
pub(in crate::probe) struct DnsQuestion {
    id: u16,
    pub(in crate::probe) query: Query,
    pub(super) bytes: Vec<u8>,
}

impl DnsQuestion {
    fn new(name: &Name, kind: Kind, edns: bool) -> Result<Self, LookupFailure> {
        let query = Query::query(name.clone(), kind);
        let mut message = Message::query();
        message.metadata.recursion_desired = true;
        message.add_query(query.clone());
        if edns {
            let mut options = Edns::new();
            options.set_max_payload(EDNS_PAYLOAD);
            message.set_edns(options);
        }
        let bytes = message.to_vec().map_err(|error| LookupFailure::Failed(error.to_string()))?;
        Ok(Self { id: message.metadata.id, query, bytes })
    }

    /// Parses `bytes` if they answer this question; other messages are late or forged.
    pub(super) fn find_answer(&self, bytes: &[u8]) -> Option<Message> {
        let message = Message::from_vec(bytes).ok()?;
        let header = &message.metadata;
        let same = match message.queries.first() {
            Some(query) => *query == self.query,
            // Some servers refuse without repeating the question.
            None => header.response_code != ResponseCode::NoError,
        };
        let answers = header.id == self.id && header.message_type == MessageType::Response;
        (same && answers).then_some(message)
    }
}

/// How one try ended.
enum TryOutcome {
    Addresses(Vec<IpAddr>),
    NoSuchName,
    /// The answer was truncated and needs TCP.
    Truncated,
    Silence,
    /// The server or the kernel refused. `told` describes it for the lookup, `noted` for the try.
    Refused {
        told: String,
        noted: String,
    },
}

pub(in crate::probe) struct StubResolver<T = NameServerSockets> {
    configuration: DnsConfiguration,
    transport: T,
    hosts: Hosts,
    /// Number of lookups so far, for `rotate`.
    turns: Cell<usize>,
}

impl StubResolver {
    pub(super) fn from_system() -> Result<Self, String> {
        let stub = Self::new(DnsConfiguration::from_system()?, NameServerSockets);
        // Programs start at a random server (`nameserver_offset` in `res_send.c`).
        stub.turns.set(usize::from(fastrand::u8(..)));
        Ok(stub)
    }

    pub(super) fn from_server(address: SocketAddr) -> Self {
        Self::new(DnsConfiguration::from_server(address), NameServerSockets)
    }
}

impl<T: QuestionTransport> StubResolver<T> {
    fn new(configuration: DnsConfiguration, transport: T) -> Self {
        let hosts = Hosts::from_system().unwrap_or_default();
        Self { configuration, transport, hosts, turns: Cell::new(0) }
    }

    #[cfg(test)]
    pub(in crate::probe) fn with_transport(configuration: DnsConfiguration, transport: T) -> Self {
        Self { configuration, transport, hosts: Hosts::default(), turns: Cell::new(0) }
    }

    /// The addresses of `host` in `/etc/hosts`; if there are any, no server is asked. "localhost" is always this
    /// machine (RFC 6761 §6.3).
    pub(super) fn local_addresses(&self, host: &str, types: &[RecordType]) -> Vec<IpAddr> {
        let Ok(name) = Name::from_ascii(host) else { return Vec::new() };
        let known = |record_type: &RecordType| {
            let found =
                self.hosts.lookup_static_host(&Query::query(name.clone(), dns_type(*record_type)));
            found.map_or_else(Vec::new, |found| addresses(found.answers(), dns_type(*record_type)))
        };
        let found: Vec<IpAddr> = types.iter().flat_map(known).collect();
        if !found.is_empty() || !name.is_localhost() {
            return found;
        }
        let loopback = |record_type: &RecordType| match record_type {
            RecordType::Aaaa => IpAddr::from(std::net::Ipv6Addr::LOCALHOST),
            RecordType::A | RecordType::Any => IpAddr::from(std::net::Ipv4Addr::LOCALHOST),
        };
        types.iter().map(loopback).collect()
    }

    pub(super) fn searched_names(&self, host: &str) -> Result<SearchedNames, String> {
        self.configuration.searched_names(host)
    }

    pub(super) const fn asks_one_at_a_time(&self) -> bool {
        self.configuration.one_at_a_time
    }

    /// Index of the server that the next lookup begins with.
    pub(super) fn take_turn(&self) -> usize {
        if !self.configuration.rotate {
            return 0;
        }
        let turn = self.turns.get();
        self.turns.set(turn.wrapping_add(1));
        turn % self.configuration.servers.len()
    }

    /// Asks for one name, beginning with the server at index `first`.
    pub(super) async fn ask(
        &self,
        name: &Name,
        first: usize,
        notes: &LookupNotes,
    ) -> Result<Vec<IpAddr>, LookupFailure> {
        if self.configuration.without_aaaa && notes.record_type == RecordType::Aaaa {
            return Ok(Vec::new());
        }
        let question =
            DnsQuestion::new(name, dns_type(notes.record_type), self.configuration.edns)?;
        // Sockets are kept, so that an answer after its timeout counts for the next try.
        let mut sockets: Vec<(usize, Option<T::Socket>)> =
            (0..self.configuration.servers.len()).map(|place| (place, None)).collect();
        sockets.rotate_left(first);
        let mut over_tcp = self.configuration.over_tcp;
        let mut outcome = LookupFailure::Silence;
        for _ in 0..self.configuration.attempts {
            for (place, socket) in &mut sockets {
                let mut end = self.try_server(*place, socket, &question, over_tcp, notes).await;
                if matches!(end, TryOutcome::Truncated) {
                    over_tcp = true;
                    end = self.try_server(*place, socket, &question, over_tcp, notes).await;
                }
                match end {
                    TryOutcome::Addresses(addresses) => return Ok(addresses),
                    TryOutcome::NoSuchName => return Err(LookupFailure::NoSuchName),
                    TryOutcome::Refused { told, .. } => outcome = LookupFailure::Failed(told),
                    TryOutcome::Truncated | TryOutcome::Silence => {}
                }
            }
            // Over TCP, ask each server at most once, as in `res_send.c`.
            if over_tcp {
                break;
            }
        }
        Err(outcome)
    }

    async fn try_server(
        &self,
        place: usize,
        socket: &mut Option<T::Socket>,
        question: &DnsQuestion,
        over_tcp: bool,
        notes: &LookupNotes,
    ) -> TryOutcome {
        let server = self.configuration.servers[place];
        let transport = if over_tcp { DnsTransport::Tcp } else { DnsTransport::Udp };
        let number = notes.begin_try(server, transport);
        let put = self.send_question(server, socket, question, transport);
        let answer = tokio::time::timeout(self.configuration.wait_time(place), put).await;
        let end = match answer {
            Err(_) => TryOutcome::Silence,
            Ok(Err(error)) => {
                *socket = None;
                let noted = describe(&error);
                TryOutcome::Refused { told: format!("name server {server}: {noted}"), noted }
            }
            Ok(Ok(message)) => self.read_answer(&message, server, question, over_tcp),
        };
        let error = match &end {
            TryOutcome::Addresses(_) => None,
            // Say which name of the search it was.
            TryOutcome::NoSuchName if !self.configuration.search.is_empty() => {
                Some(format!("NXDOMAIN for {}", question.query.name()))
            }
            TryOutcome::NoSuchName => Some("NXDOMAIN".to_owned()),
            TryOutcome::Truncated => Some("truncated".to_owned()),
            TryOutcome::Silence => Some(LookupTry::NO_ANSWER.to_owned()),
            TryOutcome::Refused { noted, .. } => Some(noted.clone()),
        };
        notes.end_try(number, error);
        end
    }

    async fn send_question(
        &self,
        server: SocketAddr,
        socket: &mut Option<T::Socket>,
        question: &DnsQuestion,
        transport: DnsTransport,
    ) -> io::Result<Message> {
        if transport == DnsTransport::Tcp {
            return self.transport.ask_over_tcp(server, question).await;
        }
        let open = match socket.take() {
            Some(open) => open,
            None => self.transport.open_socket(server).await?,
        };
        self.transport.ask_over_udp(socket.insert(open), question).await
    }

    fn read_answer(
        &self,
        message: &Message,
        server: SocketAddr,
        question: &DnsQuestion,
        over_tcp: bool,
    ) -> TryOutcome {
        match message.metadata.response_code {
            _ if message.metadata.truncation && !over_tcp => TryOutcome::Truncated,
            // The server neither has the answer nor recurses. The C library continues as after a refusal.
            ResponseCode::NoError if is_referral(message) => TryOutcome::Refused {
                told: format!("name server {server} answers no questions of clients"),
                noted: "a referral".to_owned(),
            },
            ResponseCode::NoError => {
                TryOutcome::Addresses(addresses(&message.answers, question.query.query_type()))
            }
            ResponseCode::NXDomain => TryOutcome::NoSuchName,
            code => {
                // The name in RFC 1035 §4.1.1 and RFC 2136 §2.2.
                let noted = format!("{code:?}").to_uppercase();
                let told = match self.configuration.servers.len() {
                    1 => format!("the name server answered {noted}"),
                    _ => format!("name server {server} answered {noted}"),
                };
                TryOutcome::Refused { told, noted }
            }
        }
    }
}

fn is_referral(message: &Message) -> bool {
    let header = &message.metadata;
    let empty = message.answers.is_empty() && message.additionals.is_empty();
    empty && message.edns.is_none() && !header.authoritative && !header.recursion_available
}

const fn dns_type(record_type: RecordType) -> Kind {
    match record_type {
        RecordType::Aaaa => Kind::AAAA,
        RecordType::A | RecordType::Any => Kind::A,
    }
}

fn addresses(records: &[Record], kind: Kind) -> Vec<IpAddr> {
    let records = records.iter().filter(|record| record.record_type() == kind);
    records.filter_map(|record| record.data.ip_addr()).collect()
}

#[cfg(test)]
mod tests {
    use hickory_resolver::proto::op::OpCode;

    use super::*;

    fn question() -> DnsQuestion {
        DnsQuestion::new(&Name::from_ascii("server.test.").unwrap(), Kind::A, true).unwrap()
    }

    #[test]
    fn only_answers_to_the_question_are_heard() {
        let asked = question();
        let mut answer = Message::response(asked.id, OpCode::Query);
        answer.add_query(asked.query.clone());
        assert!(asked.find_answer(&answer.to_vec().unwrap()).is_some());
        assert!(asked.find_answer(&asked.bytes).is_none());
        assert!(asked.find_answer(b"this is not a DNS message").is_none());
        answer.metadata.id = asked.id.wrapping_add(1);
        assert!(asked.find_answer(&answer.to_vec().unwrap()).is_none());
        let mut other = Message::response(asked.id, OpCode::Query);
        other.add_query(Query::query(asked.query.name().clone(), Kind::AAAA));
        assert!(asked.find_answer(&other.to_vec().unwrap()).is_none());
        let bare = Message::error_msg(asked.id, OpCode::Query, ResponseCode::Refused);
        assert!(asked.find_answer(&bare.to_vec().unwrap()).is_some());
    }

    #[test]
    fn localhost_is_this_machine() {
        let server = "192.0.2.53:53".parse().unwrap();
        let stub =
            StubResolver::with_transport(DnsConfiguration::from_server(server), NameServerSockets);
        let both = stub.local_addresses("www.localhost", &[RecordType::Aaaa, RecordType::A]);
        assert_eq!(both, ["::1".parse::<IpAddr>().unwrap(), "127.0.0.1".parse().unwrap()]);
        assert!(stub.local_addresses("server.test", &[RecordType::A]).is_empty());
    }
}
