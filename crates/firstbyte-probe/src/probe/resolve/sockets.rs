//! Sends queries to name servers over the machine's network.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hickory_resolver::proto::op::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::stub::{DnsQuestion, QuestionTransport};

/// Larger than any datagram that is requested.
const LARGEST_DATAGRAM: usize = 4_096;

/// Uses connected sockets, so that a closed port causes an error at once and other senders are ignored.
pub(in crate::probe) struct NameServerSockets;

impl QuestionTransport for NameServerSockets {
    type Socket = UdpSocket;

    async fn open_socket(&self, server: SocketAddr) -> io::Result<UdpSocket> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).await?;
        socket.connect(server).await?;
        Ok(socket)
    }

    async fn ask_over_udp(
        &self,
        socket: &UdpSocket,
        question: &DnsQuestion,
    ) -> io::Result<Message> {
        socket.send(&question.bytes).await?;
        let mut buffer = vec![0; LARGEST_DATAGRAM];
        loop {
            let length = socket.recv(&mut buffer).await?;
            let bytes = buffer.get(..length).unwrap_or_default();
            if let Some(answer) = question.find_answer(bytes) {
                return Ok(answer);
            }
        }
    }

    async fn ask_over_tcp(
        &self,
        server: SocketAddr,
        question: &DnsQuestion,
    ) -> io::Result<Message> {
        let mut stream = TcpStream::connect(server).await?;
        // Over TCP, a length precedes each message (RFC 1035 §4.2.2).
        let length = u16::try_from(question.bytes.len()).map_err(io::Error::other)?;
        let mut framed = length.to_be_bytes().to_vec();
        framed.extend_from_slice(&question.bytes);
        stream.write_all(&framed).await?;
        loop {
            let length = stream.read_u16().await?;
            let mut bytes = vec![0; length.into()];
            stream.read_exact(&mut bytes).await?;
            if let Some(answer) = question.find_answer(&bytes) {
                return Ok(answer);
            }
        }
    }
}
