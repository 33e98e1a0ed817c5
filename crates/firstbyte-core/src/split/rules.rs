//! The rules of the attribution, and wrong ones.
//!
//! An oracle is worth something only where it notices that a rule is wrong. Tests attribute the same connections by each
//! of these rules, and expect that the truth contradicts all but the first.

use super::Part;

/// By which rules time is attributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// Those of `docs/measurement.md`.
    #[default]
    Right,
    /// The name service's time is the client's.
    LookupIsClientWork,
    /// A congestion window never fills: who waited for an acknowledgement had not written yet.
    WindowNeverFills,
    /// A TCP handshake is one round trip, however long it took.
    LateSynIsNetwork,
    /// All phases lie on the path to the last byte.
    WaitByLastByte,
    /// What the client works is the server's.
    ClientWorkIsServers,
    /// No link is slow.
    LinksAreFast,
    /// Nagle's algorithm never waits.
    NagleNeverWaits,
    /// Attempts at other addresses are round trips.
    AttemptsAreNetwork,
    /// What the server takes for its answer is not explained.
    AnswersAreUnexplained,
}

impl Rules {
    /// The wrong ones, each with a part that it gets wrong.
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
