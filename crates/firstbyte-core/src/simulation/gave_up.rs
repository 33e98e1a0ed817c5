//! Failure of a simulated connection.

use super::tcp::Nanos;
use crate::timeline::{Cause, Connection, Failure, FailureType, Fault, Mark, Offset, PhaseName};

/// Losses kept a connection from completing, and a host gave up.
#[derive(Clone, Debug)]
pub struct GaveUp {
    /// Time since the first packet.
    pub at: Nanos,
    /// Name that a measurement would report.
    pub name: &'static str,
    /// Description for people.
    pub message: String,
}

impl GaveUp {
    /// Converts to the failure of `connection`, which has the marks observed before and ended `at`.
    pub fn failure(self, connection: &Connection, at: Offset) -> Failure {
        let has = |mark| connection.marks.at(mark).is_some();
        let quic = connection.facts.quic.is_some();
        let reused = connection.facts.reused;
        let phase = if has(Mark::ResponseStart) {
            PhaseName::Receive
        } else if has(Mark::RequestEnd) {
            PhaseName::Wait
        } else if reused || has(Mark::HandshakeComplete) {
            PhaseName::Send
        } else if quic {
            PhaseName::Quic
        } else if has(Mark::SecureConnectionStart) {
            PhaseName::Tls
        } else if has(Mark::TcpConnected) {
            PhaseName::Send
        } else {
            PhaseName::Connect
        };
        let Self { name, message, .. } = self;
        let cause = Cause::Recorded {
            name: name.into(),
            failure_type: FailureType::timed_out(phase),
            fault: Fault::Network,
            message,
            advice: None,
        };
        Failure { phase, cause, at: Some(at) }
    }
}
