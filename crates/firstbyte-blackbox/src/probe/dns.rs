//! `dns`: asks one question and applies rules to the response.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use firstbyte_clock::Monotonic;
use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UdpSocket;

use super::failure::NetworkStep;
use super::tcp::connect;
use super::{Probe, port_number, split_host_port};
use crate::configuration::{DnsModule, RecordRules, source_address};
use crate::log::ProbeLog;

const DURATION: (&str, &str) = ("probe_dns_duration_seconds", "Duration of DNS request by phase");
const COUNTS: [(&str, &str); 3] = [
    ("probe_dns_answer_rrs", "Returns number of entries in the answer resource record list"),
    ("probe_dns_authority_rrs", "Returns number of entries in the authority resource record list"),
    (
        "probe_dns_additional_rrs",
        "Returns number of entries in the additional resource record list",
    ),
];
const SUCCEEDED: (&str, &str) =
    ("probe_dns_query_succeeded", "Displays whether or not the query was executed successfully");

/// Record types whose names the DNS library cannot parse.
const TYPES: [(&str, u16); 14] = [
    ("SPF", 99),
    ("LOC", 29),
    ("RP", 17),
    ("AFSDB", 18),
    ("URI", 256),
    ("KX", 36),
    ("MB", 7),
    ("MG", 8),
    ("MR", 9),
    ("MINFO", 14),
    ("X25", 19),
    ("EUI48", 108),
    ("EUI64", 109),
    ("DLV", 32769),
];

/// Response codes by name.
const CODES: [(&str, u16); 17] = [
    ("NOERROR", 0),
    ("FORMERR", 1),
    ("SERVFAIL", 2),
    ("NXDOMAIN", 3),
    ("NOTIMP", 4),
    ("REFUSED", 5),
    ("YXDOMAIN", 6),
    ("YXRRSET", 7),
    ("NXRRSET", 8),
    ("NOTAUTH", 9),
    ("NOTZONE", 10),
    ("BADSIG", 16),
    ("BADKEY", 17),
    ("BADTIME", 18),
    ("BADMODE", 19),
    ("BADNAME", 20),
    ("BADALG", 21),
];

/// The type of a question; ANY if no name is given.
pub(crate) fn dns_type(name: &str) -> Option<RecordType> {
    if name.is_empty() {
        return Some(RecordType::ANY);
    }
    let known = RecordType::from_str(name).ok();
    known.or_else(|| TYPES.iter().find(|(n, _)| *n == name).map(|(_, number)| (*number).into()))
}

/// The class of a question; IN if no name is given.
pub(crate) fn dns_class(name: &str) -> Option<DNSClass> {
    match name {
        "" | "IN" => Some(DNSClass::IN),
        "CH" => Some(DNSClass::CH),
        "HS" => Some(DNSClass::HS),
        "NONE" => Some(DNSClass::NONE),
        "ANY" => Some(DNSClass::ANY),
        "CS" => Some(DNSClass::Unknown(2)),
        _ => None,
    }
}

impl Probe<'_> {
    pub(super) async fn dns(&mut self) -> bool {
        let module = &self.module.dns;
        for phase in ["resolve", "connect", "request"] {
            self.metrics.add(DURATION.0, DURATION.1, &[("phase", phase)], 0.0);
        }
        for (name, help) in COUNTS.into_iter().chain([SUCCEEDED]) {
            self.metrics.gauge(name, help, 0.0);
        }
        let over_tcp = match module.transport.as_str() {
            "" | "udp" => false,
            "tcp" => true,
            _ => {
                return self
                    .dns_failed("Configuration error: Expected transport protocol udp or tcp");
            }
        };
        let (host, port) = split_host_port(self.target)
            .unwrap_or((self.target, if module.over_tls { "853" } else { "53" }));
        let (address, taken) = self.address(host, &module.address).await;
        let Ok(address) = address else { return false };
        self.metrics.add(DURATION.0, DURATION.1, &[("phase", "resolve")], taken);
        if module.over_tls && !over_tcp {
            return self.dns_failed("Configuration error: Expected transport protocol tcp for DoT");
        }
        let question = match question(module) {
            Ok(question) => question,
            Err(error) => return self.dns_failed(&error),
        };
        let prepared = port_number(port)
            .and_then(|port| Ok((SocketAddr::new(address, port), source_address(&module.source)?)));
        let (remote, source) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return self.dns_failed(&error),
        };
        let begun = Monotonic::now();
        let asked = self.ask_dns(&question, remote, source, over_tcp, host).await;
        let all = Monotonic::now().since(begun);
        let asking = asked.as_ref().map_or(Duration::ZERO, |(_, taken)| *taken);
        let mut phase = |phase, taken: Duration| {
            self.metrics.add(DURATION.0, DURATION.1, &[("phase", phase)], taken.as_secs_f64());
        };
        phase("connect", all.saturating_sub(asking));
        phase("request", asking);
        match asked {
            Ok((response, _)) => self.judge_dns(&response),
            Err(error) => self.dns_failed(&error),
        }
    }

    fn dns_failed(&mut self, why: &str) -> bool {
        self.note_setup_failure();
        self.log.error("Error while sending a DNS query", &[("err", why)]);
        false
    }

    /// The response, and the time that it took since the question could be sent.
    async fn ask_dns(
        &self,
        question: &Message,
        remote: SocketAddr,
        source: Option<IpAddr>,
        over_tcp: bool,
        host: &str,
    ) -> Result<(Message, Duration), String> {
        let module = &self.module.dns;
        let bytes = question.to_vec().map_err(|error| error.to_string())?;
        let id = question.metadata.id;
        if !over_tcp {
            let socket = self.in_time(NetworkStep::AskDns, udp(remote, source)).await?;
            let begun = Monotonic::now();
            let response = self.in_time(NetworkStep::AskDns, ask_udp(&socket, &bytes, id)).await?;
            return Ok((response, Monotonic::now().since(begun)));
        }
        let mut stream = self.in_time(NetworkStep::Connect, connect(remote, source)).await?;
        if !module.over_tls {
            let begun = Monotonic::now();
            let response =
                self.in_time(NetworkStep::AskDns, ask_stream(&mut stream, &bytes, id)).await?;
            return Ok((response, Monotonic::now().since(begun)));
        }
        let mut stream = self.handshake(stream, &module.tls_config, host, &[]).await?;
        let begun = Monotonic::now();
        let response =
            self.in_time(NetworkStep::AskDns, ask_stream(&mut stream, &bytes, id)).await?;
        Ok((response, Monotonic::now().since(begun)))
    }

    fn judge_dns(&mut self, response: &Message) -> bool {
        let module = &self.module.dns;
        let sections = [&response.answers, &response.authorities, &response.additionals];
        let options = [0, 0, usize::from(response.edns.is_some())];
        for (((name, help), records), more) in COUNTS.into_iter().zip(sections).zip(options) {
            self.metrics.gauge(name, help, (records.len() + more) as f64);
        }
        self.metrics.gauge(SUCCEEDED.0, SUCCEEDED.1, 1.0);
        if dns_type(&module.record_type) == Some(RecordType::SOA) {
            let serial = response.answers.iter().rev().find_map(|record| match &record.data {
                RData::SOA(soa) => Some(soa.serial),
                _ => None,
            });
            let help = "Returns the serial number of the zone";
            self.metrics.gauge("probe_dns_serial", help, serial.unwrap_or(0).into());
        }
        let code = u16::from(response.metadata.response_code);
        let valid: Vec<Option<u16>> = match &module.valid_rcodes {
            None => vec![Some(0)],
            Some(names) => names
                .iter()
                .map(|name| CODES.iter().find(|(n, _)| n == name).map(|(_, number)| *number))
                .collect(),
        };
        // As in blackbox_exporter, one unknown code makes the whole list invalid.
        if valid.contains(&None) || !valid.contains(&Some(code)) {
            let name =
                CODES.iter().find(|(_, number)| *number == code).map_or("?", |(name, _)| name);
            self.log.error("Rcode is not one of the valid rcodes", &[("rcode", name)]);
            return false;
        }
        let names = ["Answer", "Authority", "Additional"];
        for ((records, rules), name) in sections.into_iter().zip(&module.rules).zip(names) {
            if !are_valid(records, rules, &mut self.log) {
                self.log.error(&format!("{name} RRs validation failed"), &[]);
                return false;
            }
        }
        true
    }
}

fn question(module: &DnsModule) -> Result<Message, String> {
    let class = dns_class(&module.class).ok_or("Invalid query class")?;
    let record_type = dns_type(&module.record_type).ok_or("Invalid query type")?;
    let mut name = Name::from_ascii(&module.name).map_err(|error| error.to_string())?;
    name.set_fqdn(true);
    let mut query = Query::query(name, record_type);
    query.set_query_class(class);
    let mut message = Message::new(fastrand::u16(..), MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = module.recursion;
    message.add_query(query);
    Ok(message)
}

async fn udp(remote: SocketAddr, source: Option<IpAddr>) -> io::Result<UdpSocket> {
    let any: IpAddr = if remote.is_ipv4() { [0, 0, 0, 0].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind(SocketAddr::new(source.unwrap_or(any), 0)).await?;
    socket.connect(remote).await?;
    Ok(socket)
}

fn parsed(bytes: &[u8]) -> io::Result<Message> {
    Message::from_vec(bytes).map_err(|error| io::Error::other(error.to_string()))
}

async fn ask_udp(socket: &UdpSocket, question: &[u8], id: u16) -> io::Result<Message> {
    socket.send(question).await?;
    let mut buffer = vec![0; 65_536];
    loop {
        let length = socket.recv(&mut buffer).await?;
        let bytes = buffer.get(..length).unwrap_or_default();
        // A response with a different ID is late or forged, so ignore it.
        if bytes.get(..2) == Some(&id.to_be_bytes()) {
            return parsed(bytes);
        }
    }
}

async fn ask_stream<S>(stream: &mut S, question: &[u8], id: u16) -> io::Result<Message>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(question);
    stream.write_all(&framed).await?;
    stream.flush().await?;
    loop {
        let length = stream.read_u16().await?;
        let mut bytes = vec![0; length.into()];
        stream.read_exact(&mut bytes).await?;
        if bytes.get(..2) == Some(&id.to_be_bytes()) {
            return parsed(&bytes);
        }
    }
}

/// A record in the text form of `miekg/dns`, which the rules are matched against.
fn written(record: &Record) -> String {
    let data = match &record.data {
        RData::TXT(text) => {
            let each = text.txt_data.iter().map(|part| {
                let text = String::from_utf8_lossy(part).replace('\\', "\\\\").replace('"', "\\\"");
                format!("\"{text}\"")
            });
            each.collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    };
    let (name, ttl) = (&record.name, record.ttl);
    format!("{name}\t{ttl}\t{}\t{}\t{data}", record.dns_class, record.record_type())
}

fn are_valid(records: &[Record], rules: &RecordRules, log: &mut ProbeLog) -> bool {
    if records.is_empty() && !rules.if_not_matches.is_empty() {
        log.error("fail_if_not_matches_regexp specified but no RRs returned", &[]);
        return false;
    }
    if records.is_empty() && !rules.if_none_matches.is_empty() {
        log.error("fail_if_none_matches_regexp specified but no RRs returned", &[]);
        return false;
    }
    let (mut any, mut all) = (false, true);
    for record in records {
        let text = written(record);
        log.debug("Validating RR", &[("rr", &text)]);
        let bytes = text.as_bytes();
        if let Some(bad) = rules.if_matches.iter().find(|pattern| pattern.matches(bytes)) {
            let values = [("regexp", bad.written()), ("rr", &text)];
            log.error("At least one RR matched regexp", &values);
            return false;
        }
        all &= rules.if_all_match.iter().all(|pattern| pattern.matches(bytes));
        if let Some(bad) = rules.if_not_matches.iter().find(|pattern| !pattern.matches(bytes)) {
            let values = [("regexp", bad.written()), ("rr", &text)];
            log.error("At least one RR did not match regexp", &values);
            return false;
        }
        any |= rules.if_none_matches.iter().any(|pattern| pattern.matches(bytes));
    }
    if !rules.if_all_match.is_empty() && !all {
        log.error("Not all RRs matched regexp", &[]);
        return false;
    }
    if !rules.if_none_matches.is_empty() && !any {
        log.error("None of the RRs did matched any regexp", &[]);
        return false;
    }
    true
}
