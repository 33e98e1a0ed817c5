//! Stored forms: versioned, self-describing, with units in the names.
//!
//! One JSON object per line. `format` and `version` come first; a reader refuses a version above its own. Within a
//! version fields are only added, and a reader ignores unknown fields. Absent is `null`, never zero. `docs/formats.md`
//! describes every field.

mod connection;
mod interned;
mod navigation;
mod requests;
pub mod run;
mod sample;
mod seal;
pub mod stored;
mod times;

pub use connection::{
    AttemptRecord, CertificateRecord, ChunkRecord, ConnectionRecord, DatagramRecord, DnsRecord,
    DnsTryRecord, EarlyDataRecord, FailureRecord, FlightRecord, HttpRecord, MarkRecord,
    PartsRecord, PhaseRecord, ProcessorRecord, QuicRecord, SplitRecord, TcpRecord, TlsRecord,
};
pub use interned::{Fact, FactTable, Interner, Shared};
pub use navigation::{
    NAVIGATION_FORMAT, NAVIGATION_VERSION, NavigationError, StoredBeginning, StoredInitiator,
    StoredNavigation, StoredPageConnection, StoredRace, StoredResource, navigation,
    navigation_line,
};
pub use requests::{ExchangeRecord, RequestsRecord, StoredExchange, StoredRequests, StoredTime};
pub use sample::{OfRunRecord, SAMPLE_FORMAT, SAMPLE_VERSION, SampleRecord};
pub use seal::{Seal, seal};
pub use times::{nanoseconds, nanoseconds_if_any, nanoseconds_of_each};
