//! Converts browsers' network errors to failures of the model.
//!
//! Input: an error by the browser's name, with the circumstances. Output: phase and cause. Each browser has its own
//! table of names ([`Meaning`]); errors without a cause in the model keep their name.

use std::net::SocketAddr;
use std::time::Duration;

use firstbyte_core::timeline::{
    Cause, Failure, FailureType, Fault, LastSeen, Mark, Marks, Offset, PhaseName, TimeLimit,
};
use firstbyte_probe::probe::options::Client;

/// Takes the place of a network error in the sample of a page that takes too long.
pub(crate) const TIMED_OUT: &str = "firstbyte:timed-out";
/// Takes the place of a network error if the visit was not started, because the previous visit used up the time.
pub(crate) const NO_TIME_LEFT: &str = "firstbyte:no-time-left";

pub(crate) struct Circumstances<'a> {
    /// The host as in the URL, without port, brackets, or user name.
    pub(crate) host: String,
    /// The address that was, or would have been, connected to.
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) marks: &'a Marks,
    pub(crate) quic: bool,
    pub(crate) time_limit: Duration,
    pub(crate) at: Option<Offset>,
    /// Received bytes of the body.
    pub(crate) received: u64,
}

/// A cause, and the phase that it always belongs to, if any.
pub(crate) struct Meaning(Option<PhaseName>, Cause);

impl Meaning {
    /// A cause that always belongs to `phase`.
    pub(crate) fn in_phase(phase: PhaseName, cause: Cause) -> Option<Self> {
        Some(Self(Some(phase), cause))
    }

    /// A cause that belongs to the phase under way.
    pub(crate) fn reached(cause: Cause) -> Option<Self> {
        Some(Self(None, cause))
    }
}

impl Circumstances<'_> {
    /// The failure that `client` calls `name`, according to its table.
    pub(crate) fn failure(
        &self,
        client: Client,
        name: &str,
        table: fn(&str, &Self) -> Option<Meaning>,
    ) -> Failure {
        let reached = self.phase_reached();
        let meaning = self.time_limit(client, name).or_else(|| table(name, self));
        let (phase, cause) = meaning.map_or_else(
            || (reached, recorded(client, name, unnamed_type(reached))),
            |Meaning(phase, cause)| (phase.unwrap_or(reached), cause),
        );
        Failure { phase, cause, at: self.at }
    }

    /// A failure by a time limit, ours or the browser's.
    fn time_limit(&self, client: Client, name: &str) -> Option<Meaning> {
        match name {
            TIMED_OUT => self.timed_out(TimeLimit::Visit),
            NO_TIME_LEFT => Meaning::reached(Cause::Recorded {
                name: client.name().to_lowercase(),
                failure_type: FailureType::ClientFailed,
                fault: Fault::Local,
                message: format!(
                    "the previous visit used up the whole time limit of {} s",
                    self.time_limit.as_secs_f64()
                ),
                advice: None,
            }),
            _ => None,
        }
    }

    pub(crate) fn timed_out(&self, limit: TimeLimit) -> Option<Meaning> {
        let (after, peer) = (self.time_limit, LastSeen::Nothing);
        Meaning::reached(Cause::TimedOut { after, limit, peer })
    }

    /// A cause in the handshake.
    pub(crate) fn in_handshake(&self, cause: Cause) -> Option<Meaning> {
        let phase = if self.quic { PhaseName::Quic } else { PhaseName::Tls };
        Meaning::in_phase(phase, cause)
    }

    /// The phase that was under way when the failure occurred.
    pub(crate) fn phase_reached(&self) -> PhaseName {
        let reached = |mark| self.marks.at(mark).is_some();
        if reached(Mark::ResponseStart) {
            PhaseName::Receive
        } else if reached(Mark::RequestStart) {
            PhaseName::Wait
        } else if reached(Mark::ConnectStart) && self.quic {
            PhaseName::Quic
        } else if reached(Mark::TcpConnected) {
            PhaseName::Tls
        } else if reached(Mark::ConnectStart) {
            PhaseName::Connect
        } else {
            PhaseName::Resolve
        }
    }
}

/// Failure type of an error without a cause in the model, by its phase.
const fn unnamed_type(phase: PhaseName) -> FailureType {
    match phase {
        PhaseName::Resolve => FailureType::DnsFailed,
        PhaseName::Connect => FailureType::TcpFailed,
        PhaseName::Tunnel => FailureType::ProxyFailed,
        PhaseName::ProxyTls | PhaseName::Tls => FailureType::TlsFailed,
        PhaseName::Quic => FailureType::QuicFailed,
        PhaseName::Send | PhaseName::Wait | PhaseName::Receive => FailureType::HttpFailed,
    }
}

/// A cause that keeps the client's name of the error.
pub(crate) fn recorded(client: Client, name: &str, failure_type: FailureType) -> Cause {
    Cause::Recorded {
        name: client.name().to_lowercase(),
        failure_type,
        fault: Fault::Peer,
        message: format!("{} reports {name}", client.name()),
        advice: None,
    }
}
