//! The lab's DNS server: authoritative for the scenario's names, NXDOMAIN for all others.
//!
//! UDP and TCP (RFC 7766) at port 53 of the resolver host's addresses. Answers can be delayed, those to AAAA
//! queries more than others. Over UDP, a delayed answer does not hold up others.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, RData, Record, RecordType};

use crate::clock::monotonic_ns;
use crate::error::LabError;
use crate::network::Network;
use crate::scenario::{ResolverSettings, Scenario};

const PORT: u16 = 53;
const TTL_SECONDS: u32 = 60;
/// How long a TCP connection may be idle.
const TCP_PATIENCE: Duration = Duration::from_secs(5);

/// Starts the server on the scenario's resolver host, if there is one. It runs as long as the process.
pub(crate) fn start(scenario: &Scenario, network: &Network) -> Result<(), LabError> {
    let Some(host) = scenario.resolver() else { return Ok(()) };
    let Some(place) = network.host(&host.name) else { return Ok(()) };
    let zone = Arc::new(Zone::from_scenario(scenario));
    let settings = host.resolver.unwrap_or_default();
    let addresses: Vec<IpAddr> = host.addresses().collect();
    let failed = |reason: String| LabError::System {
        step: format!("start the DNS server on host {}", host.name),
        reason,
    };
    let sockets = place
        .namespace
        .within(|| {
            let bind = |address: &IpAddr| {
                let at = (*address, PORT);
                Ok::<_, io::Error>((UdpSocket::bind(at)?, TcpListener::bind(at)?))
            };
            addresses.iter().map(bind).collect::<Result<Vec<_>, _>>()
        })
        .map_err(|errno| failed(errno.desc().to_owned()))?
        .map_err(|error| failed(error.to_string()))?;
    for (udp, tcp) in sockets {
        let (udp_zone, tcp_zone) = (Arc::clone(&zone), Arc::clone(&zone));
        let thread = || std::thread::Builder::new().name("dns".to_owned());
        thread()
            .spawn(move || serve_tcp(&tcp, &tcp_zone, settings))
            .and_then(|_| serve_udp(udp, udp_zone, settings))
            .map_err(|error| failed(error.to_string()))?;
    }
    Ok(())
}

fn serve_udp(socket: UdpSocket, zone: Arc<Zone>, settings: ResolverSettings) -> io::Result<()> {
    let thread = || std::thread::Builder::new().name("dns".to_owned());
    let late = |delay: Duration| {
        let (sender, answers) = channel();
        let socket = socket.try_clone()?;
        thread().spawn(move || send_late(&socket, &answers))?;
        Ok::<_, io::Error>((delay, sender))
    };
    let usual = late(settings.answer_delay)?;
    let aaaa = late(settings.answer_delay + settings.aaaa_delay)?;
    thread().spawn(move || {
        let mut query = [0; 4_096];
        loop {
            let Ok((length, from)) = socket.recv_from(&mut query) else { continue };
            let asked_ns = monotonic_ns();
            let Some(answer) = zone.answer(&query[..length], Transport::Udp) else { continue };
            let (delay, late): &(Duration, Sender<Late>) =
                if answer.is_aaaa { &aaaa } else { &usual };
            if delay.is_zero() {
                // A client that is gone needs no answer.
                let _ = socket.send_to(&answer.bytes, from);
                continue;
            }
            let due_ns = asked_ns + delay.as_nanos() as u64;
            // Its receiver ends only with this thread.
            let _ = late.send(Late { due_ns, bytes: answer.bytes, to: from });
        }
    })?;
    Ok(())
}

/// An answer to be sent when it is due.
struct Late {
    due_ns: u64,
    bytes: Vec<u8>,
    to: SocketAddr,
}

/// Sends answers when they are due. They arrive in that order, because each sender delays all answers equally.
fn send_late(socket: &UdpSocket, answers: &Receiver<Late>) {
    for answer in answers {
        let wait_ns = answer.due_ns.saturating_sub(monotonic_ns());
        if wait_ns > 0 {
            std::thread::sleep(Duration::from_nanos(wait_ns));
        }
        // A client that is gone needs no answer.
        let _ = socket.send_to(&answer.bytes, answer.to);
    }
}

fn serve_tcp(listener: &TcpListener, zone: &Zone, settings: ResolverSettings) {
    for stream in listener.incoming().flatten() {
        // A connection that fails or falls silent ends without affecting the server.
        let _ = serve_tcp_connection(stream, zone, settings);
    }
}

fn serve_tcp_connection(
    mut stream: TcpStream,
    zone: &Zone,
    settings: ResolverSettings,
) -> io::Result<()> {
    stream.set_read_timeout(Some(TCP_PATIENCE))?;
    stream.set_nodelay(true)?;
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut query)?;
        let Some(answer) = zone.answer(&query, Transport::Tcp) else { return Ok(()) };
        let more = if answer.is_aaaa { settings.aaaa_delay } else { Duration::ZERO };
        std::thread::sleep(settings.answer_delay + more);
        let mut framed = (answer.bytes.len() as u16).to_be_bytes().to_vec();
        framed.extend_from_slice(&answer.bytes);
        stream.write_all(&framed)?;
    }
}

/// An encoded answer.
struct Answer {
    bytes: Vec<u8>,
    /// Whether the query was for an IPv6 address.
    is_aaaa: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Udp,
    Tcp,
}

/// The names of a lab and their addresses.
struct Zone {
    addresses: HashMap<String, Vec<IpAddr>>,
}

impl Zone {
    fn from_scenario(scenario: &Scenario) -> Self {
        let mut addresses: HashMap<String, Vec<IpAddr>> = HashMap::new();
        for host in &scenario.hosts {
            for name in &host.names {
                addresses.entry(name.clone()).or_default().extend(host.addresses());
            }
        }
        Self { addresses }
    }

    /// Answers a message; `None` if the message is not a query.
    fn answer(&self, query: &[u8], transport: Transport) -> Option<Answer> {
        let query = Message::from_vec(query).ok()?;
        if query.metadata.message_type != MessageType::Query {
            return None;
        }
        let mut answer = Message::response(query.metadata.id, query.metadata.op_code);
        answer.metadata.recursion_desired = query.metadata.recursion_desired;
        // Stub resolvers expect a server that can recurse, although there is nowhere to recurse to here.
        answer.metadata.recursion_available = true;
        answer.metadata.authoritative = true;
        answer.metadata.response_code = self.fill(&mut answer, &query);
        answer.queries.clone_from(&query.queries);
        if query.edns.is_some() {
            answer.set_edns(Edns::new());
        }
        let mut bytes = answer.to_vec().ok()?;
        if transport == Transport::Udp && bytes.len() > usize::from(query.max_payload()) {
            bytes = answer.truncate().to_vec().ok()?;
        }
        let is_aaaa = |question: &Query| question.query_type() == RecordType::AAAA;
        Some(Answer { bytes, is_aaaa: query.queries.iter().any(is_aaaa) })
    }

    fn fill(&self, answer: &mut Message, query: &Message) -> ResponseCode {
        if query.metadata.op_code != OpCode::Query {
            return ResponseCode::NotImp;
        }
        let [question] = query.queries.as_slice() else { return ResponseCode::FormErr };
        if question.query_class() != DNSClass::IN {
            return ResponseCode::Refused;
        }
        let name = question.name().to_lowercase().to_ascii();
        let Some(addresses) = self.addresses.get(name.trim_end_matches('.')) else {
            return ResponseCode::NXDomain;
        };
        let wanted = question.query_type();
        for address in addresses {
            let data = match address {
                IpAddr::V4(address) if wanted == RecordType::A => RData::A((*address).into()),
                IpAddr::V6(address) if wanted == RecordType::AAAA => RData::AAAA((*address).into()),
                // A name without a record of this type: an empty answer, not an error (RFC 2308 §2.2).
                _ => continue,
            };
            answer.add_answer(Record::from_rdata(question.name().clone(), TTL_SECONDS, data));
        }
        ResponseCode::NoError
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::Name;

    use super::*;

    fn ask(name: &str, kind: RecordType) -> Message {
        let zone = Zone::from_scenario(&Scenario::load("govuk").unwrap());
        let mut query = Message::query();
        query.metadata.recursion_desired = true;
        query.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
        let answer = zone.answer(&query.to_vec().unwrap(), Transport::Udp).unwrap();
        assert_eq!(answer.is_aaaa, kind == RecordType::AAAA);
        let answer = Message::from_vec(&answer.bytes).unwrap();
        assert_eq!(answer.metadata.id, query.metadata.id);
        assert_eq!(answer.queries, query.queries);
        answer
    }

    fn data(answer: &Message) -> Vec<String> {
        answer.answers.iter().map(|record| record.data.to_string()).collect()
    }

    #[test]
    fn answers_a_and_aaaa_in_any_case() {
        let answer = ask("sydney.govuk.test.", RecordType::A);
        assert_eq!(answer.metadata.response_code, ResponseCode::NoError);
        assert_eq!(data(&answer), ["198.51.100.3"]);
        assert_eq!(data(&ask("SYDNEY.govuk.TEST.", RecordType::AAAA)), ["2001:db8:0:2::3"]);
    }

    #[test]
    fn other_types_of_a_known_name_are_empty_not_missing() {
        let answer = ask("sydney.govuk.test.", RecordType::MX);
        assert_eq!(answer.metadata.response_code, ResponseCode::NoError);
        assert!(answer.answers.is_empty());
    }

    #[test]
    fn other_names_do_not_exist() {
        let answer = ask("paris.govuk.test.", RecordType::A);
        assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
    }

    #[test]
    fn garbage_and_answers_get_no_answer() {
        let zone = Zone::from_scenario(&Scenario::load("govuk").unwrap());
        assert!(zone.answer(b"garbage", Transport::Udp).is_none());
        let response = Message::response(1, OpCode::Query).to_vec().unwrap();
        assert!(zone.answer(&response, Transport::Udp).is_none());
    }
}
