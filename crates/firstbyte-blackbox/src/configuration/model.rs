//! The modules of a configuration and their settings.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_probe::probe::options::TlsVersion;

use super::http::HttpModule;
use super::pattern::Pattern;
use super::reader::{Fields, list, text};
use super::yaml::Mistake;

/// A module: how to probe a target.
#[derive(Clone, Debug)]
pub struct Module {
    /// The prober: `http`, `tcp`, `dns`, `icmp`, `grpc`, or an unknown name.
    pub prober: String,
    /// Time limit of a probe, in nanoseconds; 0 means that the module sets no limit.
    pub timeout_ns: i64,
    /// Settings of the `http` prober.
    pub http: HttpModule,
    /// Settings of the `tcp` prober.
    pub tcp: TcpModule,
    /// Settings of the `icmp` prober.
    pub icmp: IcmpModule,
    /// Settings of the `dns` prober.
    pub dns: DnsModule,
    /// Settings of the `grpc` prober, if any.
    pub grpc: Option<GrpcModule>,
    /// Settings of the `unix` prober, which are checked but not used: it is not supported.
    pub unix: Option<TcpModule>,
}

/// Which of a name's addresses to probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressChoice {
    /// `ip4` or `ip6`, as written.
    pub preferred: String,
    /// Whether an address of the other family may be used.
    pub fallback: bool,
}

impl AddressChoice {
    /// The default if nothing is configured.
    pub fn usual() -> Self {
        Self { preferred: String::new(), fallback: true }
    }

    /// Whether IPv6 is preferred.
    pub fn prefers_v6(&self) -> bool {
        matches!(self.preferred.as_str(), "" | "ip6")
    }

    pub(super) fn read(fields: &mut Fields, usual: Self) -> Result<Self, Mistake> {
        let mut choice = usual;
        fields.text_into("preferred_ip_protocol", &mut choice.preferred)?;
        fields.flag_into("ip_protocol_fallback", &mut choice.fallback)?;
        Ok(choice)
    }
}

/// TLS settings, as in `tls_config`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// File of trusted issuers, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// File of the client certificate.
    pub cert_file: Option<PathBuf>,
    /// File of the client certificate's key.
    pub key_file: Option<PathBuf>,
    /// Server name for SNI and verification, instead of the target's.
    pub server_name: String,
    /// Whether to accept invalid certificates.
    pub insecure_skip_verify: bool,
    /// Lowest version, as written.
    pub min_version: Option<String>,
    /// Highest version, as written.
    pub max_version: Option<String>,
}

impl TlsSettings {
    pub(super) fn read(fields: Option<Fields>) -> Result<Self, Mistake> {
        let Some(mut fields) = fields else { return Ok(Self::default()) };
        let line = fields.line;
        for key in ["ca", "cert", "key"] {
            fields.refuse(
                key,
                "put it into a file and give its path with ca_file, cert_file or key_file",
            )?;
        }
        for key in ["ca_ref", "cert_ref", "key_ref"] {
            fields.refuse(
                key,
                "firstbyte has no secret manager; use ca_file, cert_file or key_file",
            )?;
        }
        let mut path =
            |key| Ok::<_, Mistake>(fields.text(key)?.filter(|p| !p.is_empty()).map(PathBuf::from));
        let (ca_file, cert_file, key_file) =
            (path("ca_file")?, path("cert_file")?, path("key_file")?);
        let settings = Self {
            ca_file,
            cert_file,
            key_file,
            server_name: fields.text("server_name")?.unwrap_or_default(),
            insecure_skip_verify: fields.flag("insecure_skip_verify")?.unwrap_or(false),
            min_version: fields.text("min_version")?,
            max_version: fields.text("max_version")?,
        };
        let path = fields.path().to_owned();
        fields.end()?;
        let refuse = |what: String| Err(Mistake::new(line, format!("{path}: {what}")));
        for version in [&settings.min_version, &settings.max_version].into_iter().flatten() {
            if !["TLS10", "TLS11", "TLS12", "TLS13"].contains(&version.as_str()) {
                return refuse(format!("unknown TLS version {version:?}; write TLS12 or TLS13"));
            }
        }
        if matches!(settings.max_version.as_deref(), Some("TLS10" | "TLS11")) {
            let what = "max_version: TLS 1.0 and 1.1 are not supported; write TLS12 or TLS13";
            return Err(Mistake::unsupported(line, format!("{path}: {what}")));
        }
        if settings.versions().0 > settings.versions().1 {
            return refuse("min_version is above max_version".into());
        }
        if settings.cert_file.is_some() != settings.key_file.is_some() {
            return refuse("cert_file and key_file must be given together".into());
        }
        Ok(settings)
    }

    /// Lowest and highest TLS version to offer. Versions below 1.2 are not supported.
    pub fn versions(&self) -> (TlsVersion, TlsVersion) {
        let lowest = if self.min_version.as_deref() == Some("TLS13") {
            TlsVersion::V1_3
        } else {
            TlsVersion::V1_2
        };
        let highest = if self.max_version.as_deref() == Some("TLS12") {
            TlsVersion::V1_2
        } else {
            TlsVersion::V1_3
        };
        (lowest, highest)
    }
}

/// One step of a `tcp` dialogue.
#[derive(Clone, Debug, Default)]
pub struct QueryResponse {
    /// Pattern of the line to wait for.
    pub expect: Option<Pattern>,
    /// Bytes that the server must send.
    pub expect_bytes: Vec<u8>,
    /// Labels made from the match: name, template.
    pub labels: Option<Vec<(String, String)>>,
    /// Bytes to send, followed by a line feed.
    pub send: Vec<u8>,
    /// Whether to start TLS.
    pub starttls: bool,
}

/// The `tcp` settings of a module.
#[derive(Clone, Debug)]
pub struct TcpModule {
    /// Which of the target's addresses to probe.
    pub address: AddressChoice,
    /// Source address of connections, as written.
    pub source: String,
    /// The steps of the dialogue.
    pub query_response: Vec<QueryResponse>,
    /// Whether the connection starts with TLS.
    pub tls: bool,
    /// TLS settings.
    pub tls_config: TlsSettings,
}

impl Default for TcpModule {
    fn default() -> Self {
        Self {
            address: AddressChoice::usual(),
            source: String::new(),
            query_response: Vec::new(),
            tls: false,
            tls_config: TlsSettings::default(),
        }
    }
}

/// The `icmp` settings of a module.
#[derive(Clone, Debug)]
pub struct IcmpModule {
    /// Which of the target's addresses to probe.
    pub address: AddressChoice,
    /// Source address of packets, as written.
    pub source: String,
    /// Payload size in bytes; 0 means the default text.
    pub payload_size: u16,
    /// Whether to set Don't Fragment.
    pub dont_fragment: bool,
    /// Time to live of the packet; 0 means the system's default.
    pub ttl: u8,
}

impl Default for IcmpModule {
    fn default() -> Self {
        Self {
            address: AddressChoice::usual(),
            source: String::new(),
            payload_size: 0,
            dont_fragment: false,
            ttl: 64,
        }
    }
}

/// Rules by which records fail a probe.
#[derive(Clone, Debug, Default)]
pub struct RecordRules {
    /// Fails if any record matches.
    pub if_matches: Vec<Pattern>,
    /// Fails if all records match.
    pub if_all_match: Vec<Pattern>,
    /// Fails if any record does not match.
    pub if_not_matches: Vec<Pattern>,
    /// Fails if no record matches.
    pub if_none_matches: Vec<Pattern>,
}

/// The `dns` settings of a module.
#[derive(Clone, Debug)]
pub struct DnsModule {
    /// Which of the server's addresses to ask.
    pub address: AddressChoice,
    /// Whether to use DNS over TLS.
    pub over_tls: bool,
    /// TLS settings.
    pub tls_config: TlsSettings,
    /// Source address of packets, as written.
    pub source: String,
    /// `udp` or `tcp`, as written.
    pub transport: String,
    /// Class of the question; IN if empty.
    pub class: String,
    /// Name in the question.
    pub name: String,
    /// Type of the question; ANY if empty.
    pub record_type: String,
    /// Whether recursion is requested.
    pub recursion: bool,
    /// Accepted response codes; NOERROR if absent.
    pub valid_rcodes: Option<Vec<String>>,
    /// Rules for the answer, authority and additional sections.
    pub rules: [RecordRules; 3],
}

impl Default for DnsModule {
    fn default() -> Self {
        Self {
            address: AddressChoice::usual(),
            over_tls: false,
            tls_config: TlsSettings::default(),
            source: String::new(),
            transport: String::new(),
            class: String::new(),
            name: String::new(),
            record_type: String::new(),
            recursion: true,
            valid_rcodes: None,
            rules: Default::default(),
        }
    }
}

/// The `grpc` settings of a module.
#[derive(Clone, Debug)]
pub struct GrpcModule {
    /// Which of the target's addresses to probe.
    pub address: AddressChoice,
    /// Service whose health to check; the whole server's if empty.
    pub service: String,
    /// Whether to use TLS.
    pub tls: bool,
    /// TLS settings.
    pub tls_config: TlsSettings,
    /// Metadata to send with the request.
    pub metadata: BTreeMap<String, Vec<String>>,
}

impl Default for GrpcModule {
    fn default() -> Self {
        Self {
            address: AddressChoice::usual(),
            service: String::new(),
            tls: false,
            tls_config: TlsSettings::default(),
            metadata: BTreeMap::new(),
        }
    }
}

impl Module {
    /// Time limit of a probe, if the module sets one.
    pub const fn timeout(&self) -> Option<Duration> {
        if self.timeout_ns > 0 { Some(Duration::from_nanos(self.timeout_ns as u64)) } else { None }
    }

    pub(super) fn read(mut fields: Fields) -> Result<Self, Mistake> {
        let module = Self {
            prober: fields.text("prober")?.unwrap_or_default(),
            timeout_ns: fields.duration_ns("timeout")?.unwrap_or(0),
            http: HttpModule::read(fields.inner("http")?)?,
            tcp: fields.inner("tcp")?.map(TcpModule::read).transpose()?.unwrap_or_default(),
            icmp: fields.inner("icmp")?.map(IcmpModule::read).transpose()?.unwrap_or_default(),
            dns: fields.inner("dns")?.map(DnsModule::read).transpose()?.unwrap_or_default(),
            grpc: fields.inner("grpc")?.map(GrpcModule::read).transpose()?,
            unix: fields.inner("unix")?.map(TcpModule::read).transpose()?,
        };
        // Only in blackbox_exporter after 0.28, so accept it without reading it.
        drop(fields.take("websocket"));
        fields.end()?;
        Ok(module)
    }
}

impl TcpModule {
    fn read(mut fields: Fields) -> Result<Self, Mistake> {
        let module = Self {
            address: AddressChoice::read(&mut fields, AddressChoice::usual())?,
            source: fields.text("source_ip_address")?.unwrap_or_default(),
            query_response: fields.each("query_response", QueryResponse::read)?,
            tls: fields.flag("tls")?.unwrap_or(false),
            tls_config: TlsSettings::read(fields.inner("tls_config")?)?,
        };
        fields.end()?;
        Ok(module)
    }
}

impl QueryResponse {
    fn read(mut fields: Fields) -> Result<Self, Mistake> {
        let labels = match fields.take("labels") {
            None => None,
            Some((node, path)) => Some(list(node, &path, |node, path| {
                let mut label = Fields::new(node, path)?;
                let name = label.text("name")?.unwrap_or_default();
                let value = label.text("value")?.unwrap_or_default();
                let line = label.line;
                label.end()?;
                if !is_label(&name) {
                    let what = format!("{path}: {name:?} is not a valid label name");
                    return Err(Mistake::new(line, what));
                }
                Ok((name, value))
            })?),
        };
        let step = Self {
            expect: fields.pattern("expect")?,
            expect_bytes: fields.raw_bytes("expect_bytes")?.unwrap_or_default(),
            labels,
            send: fields.raw_bytes("send")?.unwrap_or_default(),
            starttls: fields.flag("starttls")?.unwrap_or(false),
        };
        let line = fields.line;
        fields.end()?;
        if step.expect.is_some() && !step.expect_bytes.is_empty() {
            return Err(Mistake::new(line, "expect and expect_bytes are mutually exclusive"));
        }
        Ok(step)
    }
}

/// Whether Prometheus accepts `name` as a label name.
fn is_label(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl IcmpModule {
    fn read(mut fields: Fields) -> Result<Self, Mistake> {
        let line = fields.line;
        let payload = fields.number("payload_size")?.unwrap_or(0);
        let ttl = fields.number("ttl")?.unwrap_or(64);
        let payload_size = u16::try_from(payload).ok().filter(|size| *size <= 65_507);
        let module = Self {
            address: AddressChoice::read(&mut fields, AddressChoice::usual())?,
            source: fields.text("source_ip_address")?.unwrap_or_default(),
            payload_size: payload_size
                .ok_or_else(|| Mistake::new(line, "payload_size must be from 0 to 65507"))?,
            dont_fragment: fields.flag("dont_fragment")?.unwrap_or(false),
            ttl: match ttl {
                ..0 => return Err(Mistake::new(line, "\"ttl\" cannot be negative")),
                _ => u8::try_from(ttl)
                    .map_err(|_| Mistake::new(line, "\"ttl\" cannot exceed 255"))?,
            },
        };
        fields.end()?;
        Ok(module)
    }
}

impl DnsModule {
    fn read(mut fields: Fields) -> Result<Self, Mistake> {
        let line = fields.line;
        let mut rules = |key| RecordRules::read(fields.inner(key)?);
        let rules = [
            rules("validate_answer_rrs")?,
            rules("validate_authority_rrs")?,
            rules("validate_additional_rrs")?,
        ];
        let module = Self {
            address: AddressChoice::read(&mut fields, AddressChoice::usual())?,
            over_tls: fields.flag("dns_over_tls")?.unwrap_or(false),
            tls_config: TlsSettings::read(fields.inner("tls_config")?)?,
            source: fields.text("source_ip_address")?.unwrap_or_default(),
            transport: fields.text("transport_protocol")?.unwrap_or_default(),
            class: fields.text("query_class")?.unwrap_or_default(),
            name: fields.text("query_name")?.unwrap_or_default(),
            record_type: fields.text("query_type")?.unwrap_or_default(),
            recursion: fields.flag("recursion_desired")?.unwrap_or(true),
            valid_rcodes: fields.texts("valid_rcodes")?,
            rules,
        };
        fields.end()?;
        if module.name.is_empty() {
            return Err(Mistake::new(line, "query name must be set for DNS module"));
        }
        if crate::probe::dns_class(&module.class).is_none() {
            let what = format!("query class '{}' is not valid", module.class);
            return Err(Mistake::new(line, what));
        }
        if crate::probe::dns_type(&module.record_type).is_none() {
            let what = format!("query type '{}' is not valid", module.record_type);
            return Err(Mistake::new(line, what));
        }
        Ok(module)
    }
}

impl RecordRules {
    fn read(fields: Option<Fields>) -> Result<Self, Mistake> {
        let Some(mut fields) = fields else { return Ok(Self::default()) };
        let rules = Self {
            if_matches: fields.patterns("fail_if_matches_regexp")?,
            if_all_match: fields.patterns("fail_if_all_match_regexp")?,
            if_not_matches: fields.patterns("fail_if_not_matches_regexp")?,
            if_none_matches: fields.patterns("fail_if_none_matches_regexp")?,
        };
        fields.end()?;
        Ok(rules)
    }
}

impl GrpcModule {
    fn read(mut fields: Fields) -> Result<Self, Mistake> {
        let mut metadata = BTreeMap::new();
        if let Some(inner) = fields.inner("metadata")? {
            for entry in inner.rest().1 {
                let values = list(entry.value, &entry.key, text)?;
                metadata.insert(entry.key, values);
            }
        }
        let module = Self {
            address: AddressChoice::read(&mut fields, AddressChoice::usual())?,
            service: fields.text("service")?.unwrap_or_default(),
            tls: fields.flag("tls")?.unwrap_or(false),
            tls_config: TlsSettings::read(fields.inner("tls_config")?)?,
            metadata,
        };
        fields.end()?;
        Ok(module)
    }
}

/// Parses `source` as an address; `None` if it is empty.
pub(crate) fn source_address(source: &str) -> Result<Option<IpAddr>, String> {
    if source.is_empty() {
        return Ok(None);
    }
    source.parse().map(Some).map_err(|_| format!("error parsing source ip address: {source}"))
}
