//! The rules of the attribution, and deliberately wrong ones.
//!
//! An oracle is useful only if it notices a wrong rule. Tests attribute the same connections by each of these rules,
//! and expect the truth to contradict all but the first.

use super::Part;

/// Rules for attributing time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// The rules in `docs/measurement.md`.
    #[default]
    Right,
    /// The name service's time counts as the client's.
    LookupIsClientWork,
    /// A congestion window never fills: a sender that waited for an acknowledgement had not written yet.
    WindowNeverFills,
    /// A TCP handshake counts as one round trip, however long it took.
    LateSynIsNetwork,
    /// All phases are attributed along the path to the last byte.
    WaitByLastByte,
    /// The client's work counts as the server's.
    ClientWorkIsServers,
    /// No link is slow.
    LinksAreFast,
    /// Nagle's algorithm never waits.
    NagleNeverWaits,
    /// Attempts at other addresses count as round trips.
    AttemptsAreNetwork,
    /// The server's time for its answer stays unexplained.
    AnswersAreUnexplained,
}

impl Rules {
    /// The wrong rules, each with a part that it gets wrong.
    pub const WRONG: [(Self, Part); 9] = [
        (Self::LookupIsClientWork, Part::Resolver),
        (Self::WindowNeverFills, Part::Network),
        (Self::LateSynIsNetwork, Part::Variation),
        (Self::WaitByLastByte, Part::Server),
        (Self::ClientWorkIsServers, Part::Client),
        (Self::LinksAreFast, Part::Transfer),
        (Self::NagleNeverWaits, Part::Pause),
        (Self::AttemptsAreNetwork, Part::Fallback),
        (Self::AnswersAreUnexplained, Part::Unexplained),
    ];
}
