//! Field data: the script that pages carry ([`snippet`]), and the server that keeps what it sends.
//!
//! In: requests of anybody's browser, or of anybody. Out: a file of lines (`firstbyte_sources::field_data`), each whole. What may be
//! asked of this machine is bounded: bytes, connections, requests a second, memory, disk (`limits`, `receiver`,
//! `writer`). Nothing of who asked is kept: addresses stay in memory, hashed, for as long as their rate is watched.

mod limits;
mod read;
mod receiver;
mod snippet;
mod writer;

pub use limits::ReceiverLimits;
pub use read::{UnreadFieldData, check_field_data, read_field_data};
pub(crate) use receiver::typed_origin;
pub use receiver::{Received, Receiver};
pub use snippet::{SNIPPET_BYTES, snippet};
pub use writer::{FieldFileError, FieldWriter, NotWritten};
