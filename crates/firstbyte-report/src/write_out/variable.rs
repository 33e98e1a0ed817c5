//! curl's variables, their names, and their values for a sample.

use std::time::Duration;

use firstbyte_core::run::{redirect_time, visit_time};
use firstbyte_core::timeline::{
    Cause, Certificate, Connection, Mark, Offset, PhaseName, Sample, TlsFacts,
};

use super::super::dates;
use super::Transfer;
use super::url_parts::{Part, part};

/// A variable with a value, which is a key of `%{json}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variable {
    Certs,
    ConnId,
    ContentType,
    ErrorMessage,
    ExitCode,
    FilenameEffective,
    FtpEntryPath,
    HttpCode,
    HttpConnect,
    HttpVersion,
    LocalIp,
    LocalPort,
    Method,
    NumCerts,
    NumConnects,
    NumHeaders,
    NumRedirects,
    NumRetries,
    ProxySslVerifyResult,
    ProxyUsed,
    RedirectUrl,
    Referer,
    RemoteIp,
    RemotePort,
    Scheme,
    SizeDownload,
    SizeHeader,
    SizeRequest,
    SizeUpload,
    SpeedDownload,
    SpeedUpload,
    SslVerifyResult,
    Time(Timer),
    TlsEarlyData,
    Url,
    /// A part of the URL as given.
    UrlPart(Part),
    UrlEffective,
    /// A part of the last fetched URL.
    UrlEffectivePart(Part),
    UrlNumber,
    XferId,
}

/// One of curl's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// Time from the start to this mark.
    Mark(Mark),
    Queue,
    Redirect,
    Total,
}

/// A variable's value, which determines its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(Option<String>),
    Number(i64),
    /// A status: three digits as text.
    Code(i64),
    /// Seconds with six decimals.
    Time(Duration),
}

/// All variables with their names, sorted, which is the order of keys in `%{json}`.
pub(super) const VARIABLES: [(&str, Variable); 67] = [
    ("certs", Variable::Certs),
    ("conn_id", Variable::ConnId),
    ("content_type", Variable::ContentType),
    ("errormsg", Variable::ErrorMessage),
    ("exitcode", Variable::ExitCode),
    ("filename_effective", Variable::FilenameEffective),
    ("ftp_entry_path", Variable::FtpEntryPath),
    ("http_code", Variable::HttpCode),
    ("http_connect", Variable::HttpConnect),
    ("http_version", Variable::HttpVersion),
    ("local_ip", Variable::LocalIp),
    ("local_port", Variable::LocalPort),
    ("method", Variable::Method),
    ("num_certs", Variable::NumCerts),
    ("num_connects", Variable::NumConnects),
    ("num_headers", Variable::NumHeaders),
    ("num_redirects", Variable::NumRedirects),
    ("num_retries", Variable::NumRetries),
    ("proxy_ssl_verify_result", Variable::ProxySslVerifyResult),
    ("proxy_used", Variable::ProxyUsed),
    ("redirect_url", Variable::RedirectUrl),
    ("referer", Variable::Referer),
    ("remote_ip", Variable::RemoteIp),
    ("remote_port", Variable::RemotePort),
    ("response_code", Variable::HttpCode),
    ("scheme", Variable::Scheme),
    ("size_download", Variable::SizeDownload),
    ("size_header", Variable::SizeHeader),
    ("size_request", Variable::SizeRequest),
    ("size_upload", Variable::SizeUpload),
    ("speed_download", Variable::SpeedDownload),
    ("speed_upload", Variable::SpeedUpload),
    ("ssl_verify_result", Variable::SslVerifyResult),
    ("time_appconnect", Variable::Time(Timer::Mark(Mark::HandshakeComplete))),
    ("time_connect", Variable::Time(Timer::Mark(Mark::TcpConnected))),
    ("time_namelookup", Variable::Time(Timer::Mark(Mark::DomainLookupEnd))),
    ("time_posttransfer", Variable::Time(Timer::Mark(Mark::RequestEnd))),
    ("time_pretransfer", Variable::Time(Timer::Mark(Mark::RequestStart))),
    ("time_queue", Variable::Time(Timer::Queue)),
    ("time_redirect", Variable::Time(Timer::Redirect)),
    ("time_starttransfer", Variable::Time(Timer::Mark(Mark::ResponseStart))),
    ("time_total", Variable::Time(Timer::Total)),
    ("tls_earlydata", Variable::TlsEarlyData),
    ("url", Variable::Url),
    ("url.fragment", Variable::UrlPart(Part::Fragment)),
    ("url.host", Variable::UrlPart(Part::Host)),
    ("url.options", Variable::UrlPart(Part::Options)),
    ("url.password", Variable::UrlPart(Part::Password)),
    ("url.path", Variable::UrlPart(Part::Path)),
    ("url.port", Variable::UrlPart(Part::Port)),
    ("url.query", Variable::UrlPart(Part::Query)),
    ("url.scheme", Variable::UrlPart(Part::Scheme)),
    ("url.user", Variable::UrlPart(Part::User)),
    ("url.zoneid", Variable::UrlPart(Part::ZoneId)),
    ("url_effective", Variable::UrlEffective),
    ("urle.fragment", Variable::UrlEffectivePart(Part::Fragment)),
    ("urle.host", Variable::UrlEffectivePart(Part::Host)),
    ("urle.options", Variable::UrlEffectivePart(Part::Options)),
    ("urle.password", Variable::UrlEffectivePart(Part::Password)),
    ("urle.path", Variable::UrlEffectivePart(Part::Path)),
    ("urle.port", Variable::UrlEffectivePart(Part::Port)),
    ("urle.query", Variable::UrlEffectivePart(Part::Query)),
    ("urle.scheme", Variable::UrlEffectivePart(Part::Scheme)),
    ("urle.user", Variable::UrlEffectivePart(Part::User)),
    ("urle.zoneid", Variable::UrlEffectivePart(Part::ZoneId)),
    ("urlnum", Variable::UrlNumber),
    ("xfer_id", Variable::XferId),
];

impl Variable {
    pub(super) fn named(name: &str) -> Option<Self> {
        VARIABLES.iter().find(|(known, _)| *known == name).map(|(_, variable)| *variable)
    }

    /// Its value for `sample`.
    pub(super) fn value(self, sample: &Sample, transfer: &Transfer) -> Value {
        let connection = &sample.connection;
        let connected = connection.marks.at(Mark::TcpConnected).is_some();
        let http = connection.facts.http.as_ref();
        let remote = connection.facts.remote.filter(|_| connected);
        let local = connection.facts.local.filter(|_| connected);
        let tls = connection.facts.tls.as_ref();
        match self {
            Self::Certs => Value::Text(Some(certificates(tls))),
            Self::ConnId | Self::XferId => Value::Number(sample.sequence.into()),
            Self::ContentType => text(http.and_then(|h| h.header("content-type"))),
            Self::ErrorMessage => {
                let message = transfer.error_message.as_deref();
                text(message.filter(|_| transfer.exit_code != 0))
            }
            Self::ExitCode => Value::Number(transfer.exit_code.into()),
            Self::FilenameEffective => text(transfer.filename_effective.as_deref()),
            Self::FtpEntryPath => Value::Text(None),
            Self::HttpCode => Value::Code(http.and_then(|h| h.status).unwrap_or(0).into()),
            Self::HttpConnect => {
                let proxy = connection.facts.proxy.as_ref();
                Value::Code(proxy.and_then(|proxy| proxy.status).unwrap_or(0).into())
            }
            Self::HttpVersion => text(Some(http_version(connection))),
            Self::LocalIp => Value::Text(Some(ip(local))),
            Self::LocalPort => Value::Number(local.map_or(0, |a| a.port().into())),
            Self::Method => text(http.map(|h| h.method.as_str())),
            Self::NumCerts => number(tls.map_or(0, |t| t.certificates.len() as u64)),
            Self::NumConnects => number(connects(sample)),
            Self::NumHeaders => number(http.map_or(0, |h| h.headers.len() as u64)),
            Self::NumRedirects => number(sample.redirects.len() as u64),
            Self::ProxyUsed => Value::Number(connection.facts.proxy.is_some().into()),
            Self::ProxySslVerifyResult => Value::Number(match in_proxy_tls(connection) {
                true => verify_result(connection),
                false => 0,
            }),
            Self::NumRetries => Value::Number(0),
            Self::TlsEarlyData => Value::Number(0),
            Self::RedirectUrl => Value::Text(redirect_url(connection)),
            Self::Referer => text(transfer.referer.as_deref()),
            Self::RemoteIp => Value::Text(Some(ip(remote))),
            Self::RemotePort => Value::Number(remote.map_or(0, |a| a.port().into())),
            Self::Scheme => Value::Text(part(&connection.url, Part::Scheme).filter(|_| connected)),
            Self::SizeDownload => number(downloaded(connection)),
            Self::SizeHeader => number(over_all(sample, |h| h.header_bytes)),
            Self::SizeRequest => number(over_all(sample, |h| h.request_bytes)),
            Self::SizeUpload => number(uploaded(connection)),
            Self::SpeedDownload => speed(downloaded(connection), sample),
            Self::SpeedUpload => speed(uploaded(connection), sample),
            Self::SslVerifyResult => Value::Number(match in_proxy_tls(connection) {
                true => 0,
                false => verify_result(connection),
            }),
            Self::Time(timer) => Value::Time(timer.time_in(sample)),
            Self::Url => text(Some(&sample.requested_url)),
            Self::UrlPart(which) => Value::Text(part(&sample.requested_url, which)),
            Self::UrlEffective => text(Some(&connection.url)),
            Self::UrlEffectivePart(which) => Value::Text(part(&connection.url, which)),
            Self::UrlNumber => Value::Number(transfer.url_number.into()),
        }
    }
}

impl Timer {
    /// curl sums each timer over redirects, request by request (CURLINFO_CONNECT_TIME(3)).
    fn time_in(self, sample: &Sample) -> Duration {
        match self {
            Self::Mark(mark) => connections(sample)
                .filter_map(|c| c.marks.at(mark))
                .map(|at| at.since(Offset::ZERO))
                .sum(),
            Self::Queue => Duration::ZERO,
            Self::Redirect => redirect_time(sample),
            Self::Total => visit_time(sample),
        }
    }
}

fn connections(sample: &Sample) -> impl Iterator<Item = &Connection> {
    sample.redirects.iter().chain([&sample.connection])
}

fn text(value: Option<&str>) -> Value {
    Value::Text(value.map(str::to_owned))
}

fn number(value: u64) -> Value {
    Value::Number(i64::try_from(value).unwrap_or(i64::MAX))
}

fn ip(address: Option<std::net::SocketAddr>) -> String {
    address.map(|a| a.ip().to_string()).unwrap_or_default()
}

/// "0" without a response; "1" means HTTP/1.0.
fn http_version(connection: &Connection) -> &str {
    match connection.facts.http.as_ref().and_then(|h| h.version.as_deref()) {
        None => "0",
        Some("1.0") => "1",
        Some(version) => version,
    }
}

fn connects(sample: &Sample) -> u64 {
    connections(sample).filter(|c| c.marks.at(Mark::TcpConnected).is_some()).count() as u64
}

fn downloaded(connection: &Connection) -> u64 {
    connection.facts.http.as_ref().and_then(|h| h.body_bytes).unwrap_or(0)
}

fn uploaded(connection: &Connection) -> u64 {
    connection.facts.http.as_ref().and_then(|h| h.upload_bytes).unwrap_or(0)
}

fn over_all(
    sample: &Sample,
    bytes: fn(&firstbyte_core::timeline::HttpFacts) -> Option<u64>,
) -> u64 {
    connections(sample).filter_map(|c| c.facts.http.as_ref()).filter_map(bytes).sum()
}

/// Bytes per second over the whole transfer, as an integer.
fn speed(bytes: u64, sample: &Sample) -> Value {
    let micros = Timer::Total.time_in(sample).as_micros().max(1);
    Value::Number(i64::try_from(u128::from(bytes) * 1_000_000 / micros).unwrap_or(i64::MAX))
}

/// The URL to which the response would have redirected.
fn redirect_url(connection: &Connection) -> Option<String> {
    let http = connection.facts.http.as_ref()?;
    http.status.filter(|status| (300..400).contains(status))?;
    let base = url::Url::parse(&connection.url).ok()?;
    base.join(http.header("location")?).ok().map(String::from)
}

/// Whether the connection failed in the TLS handshake with the proxy.
fn in_proxy_tls(connection: &Connection) -> bool {
    connection.failure.as_ref().is_some_and(|failure| failure.phase == PhaseName::ProxyTls)
}

/// OpenSSL's X509_V_ERR codes, which curl prints on most systems; 1 is "unspecified", for a certificate that was
/// not verified.
fn verify_result(connection: &Connection) -> i64 {
    match connection.failure.as_ref().map(|f| &f.cause) {
        Some(Cause::CertificateNotYetValid { .. }) => 9,
        Some(Cause::CertificateExpired { .. }) => 10,
        Some(Cause::CertificateUnknownIssuer { .. }) => 20,
        Some(Cause::CertificateWrongName { .. }) => 62,
        Some(Cause::CertificateInvalid { .. }) => 1,
        _ => match connection.facts.tls.as_ref().and_then(|t| t.verified) {
            Some(false) => 1,
            Some(true) | None => 0,
        },
    }
}

/// The known data about the chain in curl's format: subject, issuer, end of validity, key.
fn certificates(tls: Option<&TlsFacts>) -> String {
    tls.map(|t| t.certificates.iter().map(certificate).collect()).unwrap_or_default()
}

fn certificate(certificate: &Certificate) -> String {
    let mut lines = format!("Subject:{}\nIssuer:{}\n", certificate.subject, certificate.issuer);
    lines += &format!("Public Key Algorithm:{}\n", certificate.key);
    if let Some(date) = certificate.not_after_unix.and_then(dates::certificate_date) {
        lines += &format!("Expire date:{date}\n");
    }
    lines
}
