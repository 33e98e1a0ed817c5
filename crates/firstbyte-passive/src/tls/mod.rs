//! TLS as seen on the path: records, unencrypted handshake messages, and what sizes reveal.

mod certificates;
mod exchanges;
mod handshake;
pub(crate) mod hello;
mod messages;
mod records;
mod session;

pub(crate) use messages::name as message_name;
pub(crate) use records::Reader;
pub(crate) use session::{Place, Session};
