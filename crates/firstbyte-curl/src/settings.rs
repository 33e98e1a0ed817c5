//! What a command line asks for, option by option: values as typed, nothing derived yet.

use std::time::Duration;

/// A whole command line.
#[derive(Clone, Debug, Default)]
pub struct CurlLine {
    /// What `--next` does not reset.
    pub global: GlobalSettings,
    /// What stands between two `--next`, in order. Each has a URL.
    pub operations: Vec<Operation>,
    /// What the user should know; curl warns of most of it too.
    pub warnings: Vec<String>,
}

/// What holds for all of a line.
#[derive(Clone, Debug, Default)]
pub struct GlobalSettings {
    /// `-s`: no progress bar.
    pub silent: bool,
    /// `-v`.
    pub verbose: bool,
    /// `--fail-early`: the first transfer that fails ends it.
    pub fail_early: bool,
    /// `-Z`.
    pub parallel: bool,
}

/// The kind of request, by the option that asks for a body or for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestKind {
    /// None of them.
    #[default]
    Get,
    /// `-I`.
    Head,
    /// `-d` and its like.
    Post,
    /// `-F`.
    Form,
    /// `-T`.
    Put,
}

/// `--http1.0` and its like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpChoice {
    /// HTTP/2 over TLS where the server agrees, else HTTP/1.1.
    #[default]
    Negotiate,
    /// `--http1.0`
    V10,
    /// `--http1.1`
    V11,
    /// `--http2`: without TLS by an upgrade.
    V2,
    /// `--http2-prior-knowledge`
    V2PriorKnowledge,
    /// `--http3`
    V3,
    /// `--http3-only`
    V3Only,
}

/// `-f` and `--fail-with-body`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailChoice {
    /// Every status is fine.
    #[default]
    Never,
    /// `-f`: without the body.
    WithoutBody,
    /// `--fail-with-body`
    WithBody,
}

/// `-n`, `--netrc-optional`, `--netrc-file`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetrcChoice {
    /// It is not read.
    #[default]
    Off,
    /// Credentials of the URL come first.
    Optional,
    /// Only its credentials count.
    Required,
}

/// Address families.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FamilyChoice {
    /// Both.
    #[default]
    Any,
    /// `-4`
    V4,
    /// `-6`
    V6,
}

/// Which kinds of HTTP authentication may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthChoice {
    /// `--basic`
    pub basic: bool,
    /// `--digest`
    pub digest: bool,
    /// `--anyauth`: what the server offers.
    pub any: bool,
}

/// Where a body goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputName {
    /// `-o FILE`; `-` is standard output, `#1` the first glob's value.
    File(String),
    /// `-O`: the URL's last segment.
    Remote,
}

/// One part of a body in the order typed: `-d` and its like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataPart {
    /// `-d`, `--data-ascii`: `@` names a file, and its line ends are dropped.
    Ascii(String),
    /// `--data-binary`: `@` names a file.
    Binary(String),
    /// `--data-raw`
    Raw(String),
    /// `--data-urlencode`
    UrlEncode(String),
    /// `--json`: no `&` before it.
    Json(String),
}

/// One part of a form in the order typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormText {
    /// `-F`
    Form(String),
    /// `--form-string`: no special letters.
    Literal(String),
}

/// `-b`, which may be text or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CookieText {
    /// It has an equals sign.
    Pairs(String),
    /// A file to read cookies from; an empty name only starts the engine.
    File(String),
}

/// `-C`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContinueAt {
    /// At this byte.
    Offset(u64),
    /// `-`: at the end of the output file.
    EndOfOutput,
}

/// `--retry` and its like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetrySettings {
    /// `--retry`
    pub count: u32,
    /// `--retry-delay`; absent: a second, doubled each time.
    pub delay: Option<Duration>,
    /// `--retry-max-time`
    pub max_time: Option<Duration>,
    /// `--retry-connrefused`
    pub connection_refused: bool,
    /// `--retry-all-errors`
    pub all_errors: bool,
}

/// A proxy as typed: `[scheme://][user:password@]host[:port]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// `-x`, `--socks5` and the like, with a scheme; an empty one switches the environment's off.
    pub url: Option<String>,
    /// `-U`
    pub user: Option<String>,
    /// `-p`: a tunnel for http:// too.
    pub tunnel: bool,
    /// `--proxy1.0`: CONNECT is HTTP/1.0.
    pub http10: bool,
    /// `--proxy-header`
    pub headers: Vec<String>,
    /// `--proxy-insecure`
    pub insecure: bool,
    /// `--proxy-cacert`
    pub cacert: Option<String>,
    /// `--noproxy`
    pub noproxy: Option<String>,
}

/// What stands between two `--next`.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "named as curl's options are")]
pub struct Operation {
    // Where to and whereto.
    pub urls: Vec<String>,
    pub outputs: Vec<OutputName>,
    /// `-T`, the k-th for the k-th URL.
    pub uploads: Vec<String>,
    pub remote_name_all: bool,
    pub remote_header_name: bool,
    pub output_dir: Option<String>,
    pub create_dirs: bool,
    pub no_clobber: bool,
    pub remove_on_error: bool,
    pub globoff: bool,

    // The request.
    pub kind: RequestKind,
    /// `-X`
    pub request: Option<String>,
    /// `-G`
    pub get: bool,
    pub data: Vec<DataPart>,
    /// One of `data` is `--json`.
    pub json: bool,
    pub url_query: Vec<String>,
    pub form: Vec<FormText>,
    pub form_escape: bool,
    /// `-H`, as typed; `@FILE` is read where the line is.
    pub headers: Vec<String>,
    pub user_agent: Option<String>,
    pub referer: Option<String>,
    /// `-e 'X;auto'`
    pub auto_referer: bool,
    pub range: Option<String>,
    pub continue_at: Option<ContinueAt>,
    pub time_condition: Option<String>,
    pub compressed: bool,
    pub tr_encoding: bool,
    pub etag_compare: Option<String>,
    pub etag_save: Option<String>,
    pub request_target: Option<String>,
    pub path_as_is: bool,
    pub http: HttpChoice,

    // Cookies and credentials.
    pub cookies: Vec<CookieText>,
    pub cookie_jar: Option<String>,
    pub junk_session_cookies: bool,
    /// `-u NAME:PASSWORD`
    pub user: Option<String>,
    pub oauth2_bearer: Option<String>,
    pub auth: AuthChoice,
    pub netrc: NetrcChoice,
    pub netrc_file: Option<String>,
    pub disallow_username_in_url: bool,

    // Redirects and failures.
    pub location: bool,
    pub location_trusted: bool,
    /// Absent: no limit.
    pub max_redirs: Option<u32>,
    pub post301: bool,
    pub post302: bool,
    pub post303: bool,
    pub fail: FailChoice,
    pub retry: RetrySettings,
    pub proto: Option<String>,
    pub proto_default: Option<String>,
    pub proto_redir: Option<String>,

    // Connections.
    pub family: FamilyChoice,
    pub interface: Option<String>,
    /// `--local-port`: the lowest and the highest.
    pub local_port: Option<(u16, u16)>,
    pub resolve: Vec<String>,
    pub connect_to: Vec<String>,
    pub connect_timeout: Option<Duration>,
    pub max_time: Option<Duration>,
    pub happy_eyeballs_timeout: Option<Duration>,
    pub haproxy_protocol: bool,
    pub proxy: ProxySettings,

    // TLS.
    pub insecure: bool,
    pub cacert: Option<String>,
    pub cert: Option<String>,
    pub key: Option<String>,
    /// `--tlsv1.3`: lowest version.
    pub tlsv1_3: bool,
    /// `--tls-max`: 1.2, 1.3 or default.
    pub tls_max: Option<String>,
    pub ciphers: Option<String>,
    pub tls13_ciphers: Option<String>,
    pub curves: Option<String>,
    pub no_alpn: bool,

    // The report.
    pub include: bool,
    pub dump_header: Option<String>,
    pub write_out: Option<String>,
}

impl Default for Operation {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            outputs: Vec::new(),
            uploads: Vec::new(),
            remote_name_all: false,
            remote_header_name: false,
            output_dir: None,
            create_dirs: false,
            no_clobber: false,
            remove_on_error: false,
            globoff: false,
            kind: RequestKind::Get,
            request: None,
            get: false,
            data: Vec::new(),
            json: false,
            url_query: Vec::new(),
            form: Vec::new(),
            form_escape: false,
            headers: Vec::new(),
            user_agent: None,
            referer: None,
            auto_referer: false,
            range: None,
            continue_at: None,
            time_condition: None,
            compressed: false,
            tr_encoding: false,
            etag_compare: None,
            etag_save: None,
            request_target: None,
            path_as_is: false,
            http: HttpChoice::Negotiate,
            cookies: Vec::new(),
            cookie_jar: None,
            junk_session_cookies: false,
            user: None,
            oauth2_bearer: None,
            auth: AuthChoice::default(),
            netrc: NetrcChoice::Off,
            netrc_file: None,
            disallow_username_in_url: false,
            location: false,
            location_trusted: false,
            max_redirs: Some(50),
            post301: false,
            post302: false,
            post303: false,
            fail: FailChoice::Never,
            retry: RetrySettings::default(),
            proto: None,
            proto_default: None,
            proto_redir: None,
            family: FamilyChoice::Any,
            interface: None,
            local_port: None,
            resolve: Vec::new(),
            connect_to: Vec::new(),
            connect_timeout: None,
            max_time: None,
            happy_eyeballs_timeout: None,
            haproxy_protocol: false,
            proxy: ProxySettings::default(),
            insecure: false,
            cacert: None,
            cert: None,
            key: None,
            tlsv1_3: false,
            tls_max: None,
            ciphers: None,
            tls13_ciphers: None,
            curves: None,
            no_alpn: false,
            include: false,
            dump_header: None,
            write_out: None,
        }
    }
}

impl Operation {
    /// Whether cookies of responses are kept and sent: a file, a jar, or `-b ''` asks for it.
    pub fn keeps_cookies(&self) -> bool {
        self.cookie_jar.is_some()
            || self.cookies.iter().any(|text| matches!(text, CookieText::File(_)))
    }
}
