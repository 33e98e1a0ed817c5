//! Exit codes. They are curl's where curl has one; the table is in `docs/exit-codes.md`.

use std::fmt;
use std::io;

use firstbyte_core::timeline::{Cause, FailureType};

/// Everything was measured.
pub(crate) const OK: u8 = 0;
/// The URL's scheme is not supported.
pub(crate) const UNSUPPORTED_SCHEME: u8 = 1;
/// Bad flag or value, or something could not be set up.
pub(crate) const USAGE: u8 = 2;
/// The URL cannot be measured.
pub(crate) const BAD_URL: u8 = 3;
/// Writing the output failed.
pub(crate) const WRITE: u8 = 23;
/// An input file cannot be read.
pub(crate) const READ: u8 = 26;
/// A time limit was exceeded.
pub(crate) const TIMED_OUT: u8 = 28;
/// The client certificate cannot be used.
pub(crate) const CLIENT_CERTIFICATE: u8 = 58;
/// The file of trusted issuers cannot be used.
pub(crate) const CA_FILE: u8 = 77;
/// The lab could not be set up.
pub(crate) const LAB: u8 = 100;
/// A condition of `check` is met, or a study's result differs from the expectation.
pub(crate) const CONDITION_MET: u8 = 101;
/// A condition of `check` is undecided: it may be met.
pub(crate) const NOT_DECIDED: u8 = 102;
/// Ended by SIGHUP; results so far were shown.
pub(crate) const HUNG_UP: u8 = 129;
/// Ended by SIGINT (Ctrl-C); results so far were shown.
pub(crate) const INTERRUPTED: u8 = 130;
/// Ended by SIGTERM; results so far were shown.
pub(crate) const TERMINATED: u8 = 143;

/// Why a command could not do its work. A failed *measurement* is recorded in its sample instead.
#[derive(Debug)]
pub(crate) struct Problem {
    code: u8,
    message: String,
    hint: Option<String>,
    broken_pipe: bool,
}

impl Problem {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, broken_pipe: false }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Writing results failed.
    pub(crate) fn output(error: &io::Error) -> Self {
        Self {
            broken_pipe: error.kind() == io::ErrorKind::BrokenPipe,
            ..Self::new(WRITE, format!("could not write the results: {error}"))
        }
    }

    /// The message, without the hint.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) const fn code(&self) -> u8 {
        if self.broken_pipe { OK } else { self.code }
    }

    pub(crate) const fn is_broken_pipe(&self) -> bool {
        self.broken_pipe
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

/// The exit code for a measurement that ended with `cause`.
pub(crate) fn code(cause: &Cause) -> u8 {
    match cause {
        Cause::NameNotFound { .. } | Cause::NoAddresses { .. } | Cause::ResolverFailed { .. } => 6,
        Cause::Refused { .. } | Cause::Unreachable { .. } => 7,
        Cause::NotHttp { .. } | Cause::SpeaksTls { .. } => 8,
        Cause::Http2 { .. } | Cause::ShutDown { .. } => 16,
        Cause::HeadCutShort | Cause::BodyCutShort { .. } => 18,
        Cause::HttpStatus { .. } => 22,
        Cause::WriteOutput { .. } => WRITE,
        Cause::TimedOut { .. }
        | Cause::ConnectTimedOut { .. }
        | Cause::QuicConnectTimedOut { .. }
        | Cause::ResolverTimedOut { .. } => 28,
        Cause::ProtocolVersionRefused { .. }
        | Cause::NoCommonParameters { .. }
        | Cause::RenegotiationRefused
        | Cause::AlpnMismatch { .. }
        | Cause::TlsAlert { .. }
        | Cause::TlsMisbehaved { .. }
        | Cause::NotTls { .. }
        | Cause::TlsSetup { .. }
        | Cause::ClosedInHandshake
        | Cause::ResetInHandshake => 35,
        Cause::SocketSetup { .. } => 45,
        Cause::TooManyRedirects { .. } => 47,
        Cause::Interrupted => INTERRUPTED,
        Cause::ClosedBeforeResponse => 52,
        Cause::ProxyRefused { status: None, .. } => 97,
        Cause::Reset
        | Cause::ProxyRefused { .. }
        | Cause::ProxyMisbehaved { .. }
        | Cause::HeadTooLarge { .. }
        | Cause::BadTransferCoding { .. }
        | Cause::Io { .. } => 56,
        Cause::ClientCertificateRefused { .. } => CLIENT_CERTIFICATE,
        Cause::CertificateExpired { .. }
        | Cause::CertificateNotYetValid { .. }
        | Cause::CertificateWrongName { .. }
        | Cause::CertificateUnknownIssuer { .. }
        | Cause::CertificateSelfSigned { .. }
        | Cause::CertificateInvalid { .. } => 60,
        Cause::BadContentEncoding { .. } => 61,
        Cause::Http2Stream { .. } => 92,
        Cause::Http3 { .. } => 95,
        Cause::Quic { .. } => 96,
        Cause::ClientCertificateRequired => 98,
        Cause::BadRedirect { .. } => UNSUPPORTED_SCHEME,
        Cause::Recorded { failure_type, .. } => code_of_type(*failure_type),
        // It failed when it was captured; showing it succeeds.
        Cause::Captured { .. } => OK,
    }
}

/// curl's code for a failure if only its type is known.
fn code_of_type(failure_type: FailureType) -> u8 {
    const BY_BEGINNING: [(&str, u8); 10] = [
        ("dns.", 6),
        ("tcp.reset", 56),
        ("tcp.closed", 52),
        ("tcp.", 7),
        ("tls.cert.", 60),
        ("tls.", 35),
        ("quic.", 96),
        ("h2.", 16),
        ("h3.", 95),
        ("http.response.redirect_loop", 47),
    ];
    let name = failure_type.as_str();
    if name.ends_with("timed_out") {
        return 28;
    }
    let group = BY_BEGINNING.iter().find(|(beginning, _)| name.starts_with(beginning));
    // curl's code for a failed receive.
    group.map_or(56, |(_, code)| *code)
}
