//! Every constant of the model of a server, once.
//!
//! Names say the unit: `_NS` nanoseconds, `_BYTES`, `_PACKETS`, `_COST`. A cost is a negative natural logarithm of odds:
//! 0.7 is "one server in two", 3.0 "one in twenty". Costs without another source are weighed over connections that are
//! drawn (`split/oracle`), and the table of their errors is in `docs/measurement.md`.

/// Longer than any connection that is judged: eleven days.
pub(crate) const LIMIT_NS: i64 = 1_000_000_000_000_000;
/// Of a connection, at most so many segments are judged.
pub(crate) const MOST_SEGMENTS: usize = 3_000;

/// The initial window of most servers (RFC 6928).
pub const USUAL_WINDOW_PACKETS: u32 = 10;
/// Larger initial windows are not told from one that never fills.
pub const LARGEST_WINDOW_PACKETS: u32 = 20;
/// In a larger window, a packet more or less does not matter.
pub(crate) const SMALL_WINDOW_PACKETS: u32 = 8;
/// Tickets, settings and their acknowledgement: at most two packets more than the one that is seen.
pub const MOST_MERGED_PACKETS: u32 = 2;

/// A segment can come so much sooner than it is expected.
pub(crate) const SOONER_NS: i64 = 150_000;
/// Hosts need so long to notice what has arrived.
pub const NOISE_NS: i64 = 400_000;
/// Beyond that noise, each of these makes a segment less likely by a factor of e.
pub(crate) const LATER_NS: i64 = 300_000;
pub(crate) const READS_LATER_NS: i64 = 1_000_000;
/// A server may need so long for an answer without being slow.
pub const WORK_NS: i64 = 1_500_000;
/// What leaves within this time was written, or read, together.
pub const TOGETHER_NS: i64 = 150_000;
/// A process reads at most so long after the arrival.
pub(crate) const READ_NS: i64 = 1_000_000;

/// Linux delays an acknowledgement by so much (TCP_DELACK_MIN, TCP_ATO_MIN).
pub const DELAYED_ACK_NS: i64 = 40_000_000;
/// Timers count in ticks of 4 ms or less, rounded up: a delayed acknowledgement leaves so much earlier, or later.
pub const TICK_EARLIER_NS: i64 = 4_000_000;
/// See [`TICK_EARLIER_NS`].
pub const TICK_LATER_NS: i64 = 9_000_000;
/// Linux retransmits after this time at least (TCP_RTO_MIN).
pub(crate) const LEAST_TIMEOUT_NS: i64 = 200_000_000;

/// A read ends with a TLS record, at most so many bytes before or behind the end of a packet.
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
/// Each packet more than was counted, in what the kernel merged.
pub const MERGED_COST: f64 = 0.7;
/// A window was fuller than was counted.
pub(crate) const NEARLY_FULL_COST: f64 = 4.0;
/// A segment came before a hypothesis lets it leave: more than a gap without a reason costs.
pub(crate) const EARLY_COST: f64 = 12.0;
/// An acknowledgement that may have been sent or not, was.
pub(crate) const UNCERTAIN_COST: f64 = 0.7;
/// The server's TCP takes only a little at a time, and each time that its application waited for that.
pub(crate) const BUFFER_COST: f64 = 3.0;
pub(crate) const ROOM_COST: f64 = 0.5;
/// After a loss, a window of unknown size is full.
pub(crate) const SHRUNK_COST: f64 = 1.0;
/// The timer of delayed acknowledgements released a segment.
pub(crate) const DELAYED_ACK_COST: f64 = 2.4;
/// How many e-folds of time pauses spread over, up to 400 ms.
pub(crate) const PAUSE_FOLDS: f64 = 5.3;

/// Hypotheses whose odds are below a fiftieth of the best one's are out.
pub const OUT_COST: f64 = 3.9;
/// A connection cannot say more than this against a model: another server may have answered it.
pub(crate) const REFUTED_COST: f64 = 25.0;

/// The cost of a delay of `over` that has no other reason, where times are told apart down to `noise`: such delays are
/// of all orders of magnitude alike.
pub fn delay_cost(over: i64, noise: i64) -> f64 {
    (over as f64 * PAUSE_FOLDS / (2.0 * noise as f64)).ln().max(0.0)
}
