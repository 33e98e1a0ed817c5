//! A DNS server on loopback that answers as the test says (RFC 1035 §4, over UDP and TCP).

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The answer to a question.
#[derive(Clone)]
pub(crate) enum Answer {
    /// The addresses of the requested type among these.
    Addresses(Vec<IpAddr>),
    /// Same as `Addresses`, with the IPv4 ones delayed by `after`.
    LateIpv4 { addresses: Vec<IpAddr>, after: Duration },
    /// A response code: 2 is SERVFAIL, 3 NXDOMAIN, 5 REFUSED.
    Code(u8),
    /// No answer.
    Silence,
    /// An invalid answer.
    Garbage,
}

pub(crate) struct DnsServer {
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl DnsServer {
    pub(crate) fn start(answer: Answer) -> Self {
        let (udp, tcp) = same_port();
        let address = udp.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let over_udp = answer.clone();
        let udp_thread = thread::spawn(move || {
            let mut question = [0; 1500];
            loop {
                let Ok((bytes, from)) = udp.recv_from(&mut question) else { continue };
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let question = &question[..bytes];
                let Some(message) = respond(question, &over_udp) else { continue };
                match over_udp {
                    // Other questions are answered during this delay.
                    Answer::LateIpv4 { after, .. } if record_type(question) == Some(A) => {
                        let udp = udp.try_clone().unwrap();
                        thread::spawn(move || {
                            thread::sleep(after);
                            let _ = udp.send_to(&message, from);
                        });
                    }
                    _ => {
                        udp.send_to(&message, from).unwrap();
                    }
                }
            }
        });
        let stopped = Arc::clone(&stop);
        let tcp_thread = thread::spawn(move || {
            for stream in tcp.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let mut stream = stream.unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                let mut length = [0; 2];
                while stream.read_exact(&mut length).is_ok() {
                    let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
                    if stream.read_exact(&mut question).is_err() {
                        break;
                    }
                    let Some(message) = respond(&question, &answer) else { continue };
                    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
                    let _ = stream.write_all(&[&length, message.as_slice()].concat());
                }
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
        Self { address, stop, threads: vec![udp_thread, tcp_thread] }
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let waker = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let _ = waker.send_to(&[0], self.address);
        let _ = std::net::TcpStream::connect(self.address);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the DNS server of this test panicked");
        }
    }
}

fn same_port() -> (UdpSocket, TcpListener) {
    for _ in 0..50 {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
            return (udp, tcp);
        }
    }
    panic!("no port is free for both UDP and TCP");
}

/// Record types (RFC 1035 §3.2.2, RFC 3596 §2.1).
const A: u16 = 1;
const AAAA: u16 = 28;
/// Length of a message's header (RFC 1035 §4.1.1).
const HEADER: usize = 12;

fn end_of_question(question: &[u8]) -> Option<usize> {
    let name = question.get(HEADER..)?.iter().position(|byte| *byte == 0)?;
    Some(HEADER + name + 5)
}

fn record_type(question: &[u8]) -> Option<u16> {
    let end = end_of_question(question)?;
    Some(u16::from_be_bytes([*question.get(end - 4)?, *question.get(end - 3)?]))
}

fn respond(question: &[u8], answer: &Answer) -> Option<Vec<u8>> {
    let end = end_of_question(question)?;
    let record_type = record_type(question)?;
    let (code, addresses) = match answer {
        Answer::Silence => return None,
        Answer::Garbage => return Some(b"this is not a DNS message".to_vec()),
        Answer::Code(code) => (*code, Vec::new()),
        Answer::Addresses(all) | Answer::LateIpv4 { addresses: all, .. } => {
            let asked = |a: &&IpAddr| {
                matches!((record_type, a), (A, IpAddr::V4(_)) | (AAAA, IpAddr::V6(_)))
            };
            (0, all.iter().filter(asked).copied().collect())
        }
    };
    let mut message = question[..2].to_vec();
    message.extend([
        0x81,
        0x80 | code,
        0,
        1,
        0,
        u8::try_from(addresses.len()).unwrap(),
        0,
        0,
        0,
        0,
    ]);
    message.extend(question.get(HEADER..end)?);
    for address in addresses {
        let data = match address {
            IpAddr::V4(a) => a.octets().to_vec(),
            IpAddr::V6(a) => a.octets().to_vec(),
        };
        message.extend([0xc0, 12]);
        message.extend(record_type.to_be_bytes());
        message.extend([0, 1, 0, 0, 0, 60, 0, u8::try_from(data.len()).unwrap()]);
        message.extend(data);
    }
    Some(message)
}
