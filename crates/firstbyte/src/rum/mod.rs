//! Field data: the script for pages ([`snippet`]), and the server that stores what it sends.
//!
//! In: requests from anybody. Out: a file of whole lines (`firstbyte_sources::field_data`). All resources are bounded:
//! bytes, connections, requests a second, memory and disk (`limits`, `receiver`, `writer`). Client addresses are not
//! stored; they stay in memory, hashed, for as long as their rate is limited.

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
