//! All constants of the server model.
//!
//! Names give the unit: `_NS` nanoseconds, `_BYTES`, `_PACKETS`, `_COST`. A cost is a negative natural logarithm of
//! odds: 0.7 is "one server in two", 3.0 "one in twenty". Costs without another source were tuned on simulated
//! connections (`split/oracle`); `docs/measurement.md` has the table of their errors.

/// Longer than any examined connection: eleven days.
pub(crate) const LIMIT_NS: i64 = 1_000_000_000_000_000;
/// Maximum number of a connection's segments to examine.
pub(crate) const MOST_SEGMENTS: usize = 3_000;

/// The initial window of most servers (RFC 6928).
pub const USUAL_WINDOW_PACKETS: u32 = 10;
/// Larger initial windows cannot be told from one that never fills.
pub const LARGEST_WINDOW_PACKETS: u32 = 20;
/// Above this window, one packet more or less does not matter.
pub(crate) const SMALL_WINDOW_PACKETS: u32 = 8;
/// Tickets, settings and their acknowledgement: at most two packets more than the observed one.
pub const MOST_MERGED_PACKETS: u32 = 2;

/// A segment may arrive this much earlier than expected.
pub(crate) const SOONER_NS: i64 = 150_000;
/// Hosts need this long to notice an arrival.
pub const NOISE_NS: i64 = 400_000;
/// Beyond that noise, each of these periods makes a segment less likely by a factor of e.
pub(crate) const LATER_NS: i64 = 300_000;
pub(crate) const READS_LATER_NS: i64 = 1_000_000;
/// A server may take this long for an answer without being slow.
pub const WORK_NS: i64 = 1_500_000;
/// Packets that leave within this time were written, or read, together.
pub const TOGETHER_NS: i64 = 150_000;
/// A process reads at most this long after the arrival.
pub(crate) const READ_NS: i64 = 1_000_000;

/// Linux delays an acknowledgement by this much (`TCP_DELACK_MIN`, `TCP_ATO_MIN`).
pub const DELAYED_ACK_NS: i64 = 40_000_000;
/// Timers count in ticks of 4 ms or less, rounded up: a delayed acknowledgement leaves up to this much earlier, or
/// later.
pub const TICK_EARLIER_NS: i64 = 4_000_000;
/// See [`TICK_EARLIER_NS`].
pub const TICK_LATER_NS: i64 = 9_000_000;
/// Linux's minimum retransmission timeout (`TCP_RTO_MIN`).
pub(crate) const LEAST_TIMEOUT_NS: i64 = 200_000_000;

/// A read ends with a TLS record, at most this far before or after the end of a packet.
pub const RECORD_BYTES: u64 = 32;

/// The server needed time before its answer.
pub const THINK_COST: f64 = 0.7;
/// The server paused within an answer.
pub const PAUSE_COST: f64 = 1.9;
/// The initial window is not the usual one.
pub(crate) const WINDOW_COST: f64 = 3.0;
/// The server has Nagle's algorithm enabled.
pub(crate) const NAGLE_COST: f64 = 2.0;
/// The same, although tickets and settings came in one segment.
pub(crate) const TICKETS_AND_SETTINGS_COST: f64 = 3.0;
/// Each uncounted packet among those that the kernel merged.
pub const MERGED_COST: f64 = 0.7;
/// A window was fuller than counted.
pub(crate) const NEARLY_FULL_COST: f64 = 4.0;
/// A segment came before a hypothesis allows it: costs more than an unexplained gap.
pub(crate) const EARLY_COST: f64 = 12.0;
/// An uncertain acknowledgement was sent.
pub(crate) const UNCERTAIN_COST: f64 = 0.7;
/// The server's TCP has a small send buffer; `ROOM_COST` is for each time that its application waited for room.
pub(crate) const BUFFER_COST: f64 = 3.0;
pub(crate) const ROOM_COST: f64 = 0.5;
/// After a loss, a window of unknown size is full.
pub(crate) const SHRUNK_COST: f64 = 1.0;
/// The timer of delayed acknowledgements released a segment.
pub(crate) const DELAYED_ACK_COST: f64 = 2.4;
/// Range of pauses in e-folds of time, up to 400 ms.
pub(crate) const PAUSE_FOLDS: f64 = 5.3;

/// Hypotheses with less than a fiftieth of the best one's odds are ruled out.
pub const OUT_COST: f64 = 3.9;
/// Maximum cost that one connection can add to a model: another server may have answered it.
pub(crate) const REFUTED_COST: f64 = 25.0;

/// The cost of a delay of `over` without another reason, with a time resolution of `noise`: such delays are spread
/// evenly over the orders of magnitude.
pub fn delay_cost(over: i64, noise: i64) -> f64 {
    (over as f64 * PAUSE_FOLDS / (2.0 * noise as f64)).ln().max(0.0)
}
