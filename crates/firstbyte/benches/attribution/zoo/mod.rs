//! A zoo of HTTPS servers for a scenario's `server = …`: the lab's servers, Debian's, and short programs written for
//! the zoo (README.md lists what each can vary).
//!
//! In: a server, and the behaviour wanted of it. Out: a line for a scenario file, or `None` if this server cannot do
//! that. Programs that need compiling are compiled once.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const PYTHON: &str = include_str!("server.py");
const GO: &str = include_str!("server.go");
const JAVA: &str = include_str!("Server.java");
const APACHE: &str = include_str!("apache.conf");
const HAPROXY: &str = include_str!("haproxy.cfg");

/// Where packages install servers; not always on an ordinary user's PATH.
const USUAL_PLACES: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"];

/// Directory of Apache's modules on Debian.
const APACHE_MODULES: &str = "/usr/lib/apache2/modules";

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Server {
    Nginx,
    Caddy,
    Builtin,
    Apache,
    HaProxy,
    /// `openssl s_server` with a program that reads and answers its requests: HTTP/1.1, one connection at a time, which
    /// the client has to close.
    Openssl,
    /// `openssl s_server -HTTP`: HTTP/1.0, one response from a file, then close.
    OpensslHttp,
    /// `gnutls-serv --http`: like [`Server::OpensslHttp`], but it writes its own response head.
    Gnutls,
    Go,
    Java,
    Python,
}

impl Server {
    pub(crate) const ALL: [Self; 11] = [
        Self::Nginx,
        Self::Caddy,
        Self::Builtin,
        Self::Apache,
        Self::HaProxy,
        Self::Openssl,
        Self::OpensslHttp,
        Self::Gnutls,
        Self::Go,
        Self::Java,
        Self::Python,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Caddy => "caddy",
            Self::Builtin => "builtin",
            Self::Apache => "apache",
            Self::HaProxy => "haproxy",
            Self::Openssl => "openssl",
            Self::OpensslHttp => "openssl-http",
            Self::Gnutls => "gnutls",
            Self::Go => "go",
            Self::Java => "java",
            Self::Python => "python",
        }
    }

    /// The program that must be installed, and its Debian package; `None` for the built-in server. For Go and Java this
    /// is the compiler.
    pub(crate) fn program(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Nginx => Some(("nginx", "nginx-light")),
            Self::Caddy => Some(("caddy", "caddy")),
            Self::Builtin => None,
            Self::Apache => Some(("apache2", "apache2-bin")),
            Self::HaProxy => Some(("haproxy", "haproxy")),
            Self::Openssl | Self::OpensslHttp => Some(("openssl", "openssl")),
            Self::Gnutls => Some(("gnutls-serv", "gnutls-bin")),
            Self::Go => Some(("go", "golang-go")),
            Self::Java => Some(("javac", "default-jdk-headless")),
            Self::Python => Some(("python3", "python3")),
        }
    }

    /// Whether it answers `/w?…` as described in README.md. The others answer every request alike, at [`Server::path`],
    /// with [`Wanted::response`].
    pub(crate) fn writes_patterns(self) -> bool {
        !matches!(self, Self::OpensslHttp | Self::Gnutls)
    }

    /// Whether small writes wait for acknowledgements, if that cannot be chosen.
    pub(crate) fn nagle(self) -> Option<bool> {
        match self {
            Self::Builtin | Self::Go | Self::Java | Self::Python => None,
            Self::Nginx
            | Self::Caddy
            | Self::Apache
            | Self::HaProxy
            | Self::Openssl
            | Self::OpensslHttp => Some(false),
            Self::Gnutls => Some(true),
        }
    }

    /// Whether it can be started under `strace`; the lab itself starts the others.
    pub(crate) fn can_be_traced(self) -> bool {
        !matches!(self, Self::Nginx | Self::Caddy | Self::Builtin)
    }

    /// Whether it supports HTTP/2.
    pub(crate) fn can_http2(self) -> bool {
        use Server::{Apache, Builtin, Caddy, Go, HaProxy, Nginx};
        matches!(self, Nginx | Caddy | Builtin | Apache | HaProxy | Go)
    }

    /// Whether it can delay the ServerHello.
    pub(crate) fn can_delay_handshakes(self) -> bool {
        matches!(self, Self::Builtin | Self::Go | Self::Python)
    }

    /// The path of the response on a server without patterns.
    pub(crate) fn path(self) -> &'static str {
        if self == Self::OpensslHttp { "/response" } else { "/" }
    }
}

/// The behaviour wanted of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) tls: Tls,
    /// Whether sessions are resumed.
    pub(crate) sessions: bool,
    pub(crate) early_data: EarlyData,
    /// Whether small writes wait for acknowledgements (TCP_NODELAY is not set); ignored if [`Server::nagle`] returns a
    /// value.
    pub(crate) nagle: bool,
    /// Whether HTTP/2 is spoken if the client offers it.
    pub(crate) http2: bool,
    /// Whether HTTP/3 is spoken in addition.
    pub(crate) http3: bool,
    /// Milliseconds between ClientHello and ServerHello.
    pub(crate) handshake_delay_ms: u32,
    /// Same as the scenario's key of that name.
    pub(crate) chain_bytes: Option<usize>,
    /// The only response of a server without patterns: approximate bytes of its head, and bytes of its body.
    /// [`Server::Gnutls`] writes its own head of 85 bytes.
    pub(crate) response: (usize, usize),
    /// File for a trace of the server's writes (`strace -f -ttt`), if the server is a program.
    pub(crate) trace: Option<PathBuf>,
    /// Further keys of a scenario's `server`, in the file's syntax: `groups = ["p256"], tickets = 0`. For servers that
    /// are programs, only `key` and `page_bytes` have an effect.
    pub(crate) keys: String,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            tls: Tls::Both,
            sessions: true,
            early_data: EarlyData::Off,
            nagle: false,
            http2: true,
            http3: false,
            handshake_delay_ms: 0,
            chain_bytes: None,
            response: (0, 2_000),
            trace: None,
            keys: String::new(),
        }
    }
}

/// How the server handles early data; needs TLS 1.3 and sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EarlyData {
    Off,
    /// Accepted and answered at once.
    AtOnce,
    /// Accepted and answered after the client's Finished.
    AfterFinished,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Tls {
    Both,
    V12,
    V13,
}

impl Tls {
    fn least(self) -> &'static str {
        if self == Self::V13 { "1.3" } else { "1.2" }
    }

    fn most(self) -> &'static str {
        if self == Self::V12 { "1.2" } else { "1.3" }
    }

    fn list(self) -> Vec<&'static str> {
        match self {
            Self::Both => vec!["1.2", "1.3"],
            one => vec![one.least()],
        }
    }
}

/// Why the zoo is not available.
#[derive(Debug)]
pub(crate) enum NoZoo {
    /// A program is not installed.
    Missing {
        program: &'static str,
        package: &'static str,
    },
    /// A program of the zoo did not compile.
    NotBuilt {
        program: &'static str,
        output: String,
    },
    Io(io::Error),
}

impl fmt::Display for NoZoo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { program, package } => write!(
                f,
                "the program {program} is not installed\n  install it: apt-get install {package} \
                 (or all: scripts/setup attribution)"
            ),
            Self::NotBuilt { program, output } => {
                write!(f, "{program} cannot compile a server of the zoo\n{output}")
            }
            Self::Io(error) => write!(f, "cannot make the zoo: {error}"),
        }
    }
}

impl std::error::Error for NoZoo {}

impl From<io::Error> for NoZoo {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The servers, ready to start.
#[derive(Debug)]
pub(crate) struct Zoo {
    directory: PathBuf,
}

impl Zoo {
    /// Where to build the zoo: in cargo's directory for tests or, if that belongs to another user, in the directory for
    /// temporary files.
    pub(crate) fn directory(of_cargo: &str) -> PathBuf {
        let directory = Path::new(of_cargo).join("zoo");
        let mine =
            fs::create_dir_all(&directory).and_then(|()| tempfile::tempfile_in(&directory)).is_ok();
        if mine { directory } else { std::env::temp_dir().join("firstbyte-zoo") }
    }

    /// Looks for all programs and compiles the zoo's own in `directory`, which must be an absolute path. Up-to-date
    /// files are kept.
    ///
    /// # Errors
    /// If a program is not installed or does not compile.
    pub(crate) fn build(directory: &Path) -> Result<Self, NoZoo> {
        for server in Server::ALL {
            if let Some((program, package)) = server.program() {
                find(program).ok_or(NoZoo::Missing { program, package })?;
            }
        }
        let (program, package) = ("strace", "strace");
        find(program).ok_or(NoZoo::Missing { program, package })?;
        fs::create_dir_all(directory)?;
        // Tests run in parallel: one of them compiles while the others wait.
        let lock = fs::File::create(directory.join("lock"))?;
        lock.lock()?;
        fs::write(directory.join("server.py"), PYTHON)?;
        let go = |source: &Path| {
            let mut command = Command::new("go");
            command.arg("build").arg("-o").arg(directory.join("go-server")).arg(source);
            command.env("GOCACHE", directory.join("go-cache")).env("GOTOOLCHAIN", "local");
            command
        };
        let java = |source: &Path| {
            let mut command = Command::new("javac");
            command.arg("-d").arg(directory).arg(source);
            command
        };
        compile(directory, "javac", "Server.java", JAVA, java)?;
        compile(directory, "go", "server.go", GO, go)?;
        Ok(Self::built(directory))
    }

    /// The zoo that [`Zoo::build`] has made in `directory`.
    pub(crate) fn built(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// A scenario's `server = …` for one host; `None` if that server cannot do this.
    pub(crate) fn server(&self, server: Server, wanted: &Wanted) -> Option<String> {
        if wanted.early_data != EarlyData::Off && (wanted.tls == Tls::V12 || !wanted.sessions) {
            return None;
        }
        if !server.can_delay_handshakes() && wanted.handshake_delay_ms > 0 {
            return None;
        }
        let of_the_lab = matches!(server, Server::Nginx | Server::Caddy | Server::Builtin);
        if wanted.http3 && !of_the_lab {
            return None;
        }
        let lines = match server {
            Server::Nginx | Server::Caddy | Server::Builtin => lab_kind(server, wanted)?,
            Server::Apache => apache(wanted)?,
            Server::HaProxy => haproxy(wanted)?,
            Server::Openssl => self.openssl(wanted)?,
            Server::OpensslHttp => openssl_http(wanted)?,
            Server::Gnutls => gnutls(wanted)?,
            Server::Go => self.go(wanted)?,
            Server::Java => self.java(wanted)?,
            Server::Python => self.python(wanted)?,
        };
        let lines = match &wanted.trace {
            Some(file) => traced(&lines, file)?,
            None => lines,
        };
        let package = server.program().filter(|_| lines.contains(COMMAND));
        let package = package.map(|(_, package)| format!(", package = {package:?}"));
        let chain = wanted.chain_bytes.map(|bytes| format!(", chain_bytes = {bytes}"));
        let keys = (!wanted.keys.is_empty()).then(|| format!(", {}", wanted.keys));
        let more = [package, chain, keys].into_iter().flatten().collect::<String>();
        Some(format!("server = {{ {lines}{more} }}"))
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    fn go(&self, wanted: &Wanted) -> Option<String> {
        if wanted.early_data != EarlyData::Off {
            return None;
        }
        let mut words = vec![self.file("go-server")];
        words.push(format!("-least={}", wanted.tls.least()));
        words.push(format!("-most={}", wanted.tls.most()));
        words.push(format!("-sessions={}", wanted.sessions));
        words.push(format!("-nagle={}", wanted.nagle));
        words.push(format!("-http2={}", wanted.http2));
        words.push(format!("-handshake-delay={}", wanted.handshake_delay_ms));
        words.extend(["{chain}".to_owned(), "{key}".to_owned()]);
        Some(command(&words))
    }

    fn java(&self, wanted: &Wanted) -> Option<String> {
        if wanted.early_data != EarlyData::Off {
            return None;
        }
        let mut words = vec!["java".to_owned()];
        words.push(format!("-Dsun.net.httpserver.nodelay={}", !wanted.nagle));
        // One processor is enough, and these options make it start sooner.
        words.extend(
            ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"].map(str::to_owned),
        );
        words.extend(["-cp".to_owned(), self.directory.display().to_string(), "Server".to_owned()]);
        words.extend(["{chain}".to_owned(), "{key}".to_owned()]);
        words.push(if wanted.sessions { "sessions" } else { "no-sessions" }.to_owned());
        words.extend(wanted.tls.list().iter().map(|version| (*version).to_owned()));
        Some(command(&words))
    }

    /// Accepts early data, and answers it after the client's Finished.
    fn openssl(&self, wanted: &Wanted) -> Option<String> {
        if wanted.early_data == EarlyData::AtOnce {
            return None;
        }
        let mut words = self.python_words(wanted);
        words.push("--s-server".to_owned());
        if wanted.early_data != EarlyData::Off {
            words.push("--early-data".to_owned());
        }
        Some(command(&words))
    }

    fn python(&self, wanted: &Wanted) -> Option<String> {
        if wanted.early_data != EarlyData::Off {
            return None;
        }
        let mut words = self.python_words(wanted);
        words.extend(wanted.nagle.then(|| "--nagle".to_owned()));
        words.push(format!("--handshake-delay={}", wanted.handshake_delay_ms));
        Some(command(&words))
    }

    fn python_words(&self, wanted: &Wanted) -> Vec<String> {
        let mut words = words(&["python3"]);
        words.extend([self.file("server.py"), "{chain}".to_owned(), "{key}".to_owned()]);
        words.push("--tls".to_owned());
        words.extend(wanted.tls.list().iter().map(|version| (*version).to_owned()));
        words.push(format!("--tickets={}", if wanted.sessions { 2 } else { 0 }));
        words
    }
}

/// Servers that the lab has a kind for. nginx and Caddy pass `/w` on to the built-in server behind them.
fn lab_kind(server: Server, wanted: &Wanted) -> Option<String> {
    let cannot = match server {
        Server::Nginx => wanted.early_data == EarlyData::AfterFinished,
        // Caddy never accepts early data over TCP, and always does over QUIC.
        Server::Caddy => wanted.early_data != EarlyData::Off && !wanted.http3,
        _ => false,
    };
    if cannot || !wanted.http2 {
        return None;
    }
    let mut line = format!("kind = {:?}, tls = {:?}", server.name(), wanted.tls.list());
    line += &format!(", backend = true, http3 = {}", wanted.http3);
    if wanted.handshake_delay_ms > 0 {
        line += &format!(", handshake_delay = \"{}ms\"", wanted.handshake_delay_ms);
    }
    if !wanted.sessions {
        line += ", resumption = \"none\"";
    }
    line += match wanted.early_data {
        EarlyData::Off => "",
        EarlyData::AtOnce => ", early_data = \"on\"",
        EarlyData::AfterFinished => ", early_data = \"after-finished\"",
    };
    if wanted.nagle && server.nagle().is_none() {
        line += ", nagle = true";
    }
    Some(line)
}

/// Apache refuses to serve as root, and an ordinary user's namespace has no other users, so it runs as a user in a
/// nested namespace.
fn apache(wanted: &Wanted) -> Option<String> {
    if wanted.early_data != EarlyData::Off {
        return None;
    }
    let versions: Vec<_> =
        wanted.tls.list().iter().map(|version| format!("+TLSv{version}")).collect();
    let cache = if wanted.sessions { "shmcb:{directory}/sessions(512000)" } else { "none" };
    let config = APACHE
        .replace("MODULES", APACHE_MODULES)
        .replace("PROTOCOLS", if wanted.http2 { "h2 http/1.1" } else { "http/1.1" })
        .replace("VERSIONS", &versions.join(" "))
        .replace("TICKETS", if wanted.sessions { "on" } else { "off" })
        .replace("CACHE", cache);
    let words = words(&[
        "unshare",
        "--user",
        "--map-user=33",
        "--map-group=33",
        "apache2",
        "-DFOREGROUND",
        "-f",
        "{directory}/apache.conf",
    ]);
    let file = format!("files = {{ {:?} = {config:?} }}", "apache.conf");
    Some(format!("{}, backend = true, {file}", command(&words)))
}

/// Accepts early data and answers it after the client's Finished.
fn haproxy(wanted: &Wanted) -> Option<String> {
    if wanted.early_data == EarlyData::AtOnce {
        return None;
    }
    let mut bind = format!(
        "alpn {} ssl-min-ver TLSv{} ssl-max-ver TLSv{}",
        if wanted.http2 { "h2,http/1.1" } else { "http/1.1" },
        wanted.tls.least(),
        wanted.tls.most()
    );
    if wanted.early_data != EarlyData::Off {
        bind += " allow-0rtt";
    }
    if !wanted.sessions {
        bind += " no-tls-tickets";
    }
    let global = if wanted.sessions { "" } else { "tune.ssl.cachesize 0" };
    let options = "option http-no-delay";
    let config =
        HAPROXY.replace("GLOBAL", global).replace("OPTIONS", options).replace("BIND", &bind);
    let words = words(&["haproxy", "-db", "-f", "{directory}/haproxy.cfg"]);
    Some(format!(
        "{}, backend = true, files = {{ {:?} = {config:?} }}",
        command(&words),
        "haproxy.cfg"
    ))
}

fn openssl_http(wanted: &Wanted) -> Option<String> {
    // With `-HTTP`, early data is not accepted.
    if wanted.early_data != EarlyData::Off {
        return None;
    }
    let mut words = words(&["openssl", "s_server", "-HTTP", "-quiet", "-accept", "443"]);
    words
        .extend(["-cert", "{chain}", "-cert_chain", "{chain}", "-key", "{key}"].map(str::to_owned));
    words.extend(match wanted.tls {
        Tls::Both => None,
        Tls::V12 => Some("-tls1_2".to_owned()),
        Tls::V13 => Some("-tls1_3".to_owned()),
    });
    if !wanted.sessions {
        words.extend(["-no_ticket", "-no_cache", "-num_tickets", "0"].map(str::to_owned));
    }
    let (bytes, body) = wanted.response;
    Some(format!("{}, {}", command(&words), response(&head(bytes, body), body)))
}

fn gnutls(wanted: &Wanted) -> Option<String> {
    // With `--earlydata` it accepts early data, but never answers a request sent in it.
    if wanted.early_data != EarlyData::Off {
        return None;
    }
    let versions: String =
        wanted.tls.list().iter().map(|version| format!(":+VERS-TLS{version}")).collect();
    let mut words =
        words(&["gnutls-serv", "--http", "--quiet", "--port", "443", "--httpdata", "response"]);
    words.extend(["--x509certfile", "{chain}", "--x509keyfile", "{key}"].map(str::to_owned));
    words.push(format!("--priority=NORMAL:-VERS-ALL{versions}"));
    if !wanted.sessions {
        words.extend(["--noticket", "--nodb"].map(str::to_owned));
    }
    // The server writes its own head of 85 bytes before the file.
    Some(format!("{}, {}", command(&words), response("", wanted.response.1)))
}

/// A file `response` with this head, then the body.
fn response(head: &str, body: usize) -> String {
    let line = "The quick brown fox jumps over the lazy dog.\n";
    let text: String = line.chars().cycle().take(body).collect();
    format!("files = {{ response = {:?} }}", format!("{head}{text}"))
}

/// A head of about `bytes` bytes.
fn head(bytes: usize, body: usize) -> String {
    let lines =
        format!("HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {body}\r\n");
    let missing = bytes.saturating_sub(lines.len() + "x-padding: \r\n\r\n".len());
    let padding = (missing > 0).then(|| format!("x-padding: {}\r\n", "X".repeat(missing)));
    format!("{lines}{}\r\n", padding.unwrap_or_default())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

const COMMAND: &str = "kind = \"command\", command = [";

/// For ASCII, the quotes and escapes of `Debug` are valid TOML.
fn command(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
    format!("{COMMAND}{}]", words.join(", "))
}

/// The same server under `strace`; `None` for servers that the lab itself starts.
fn traced(lines: &str, file: &Path) -> Option<String> {
    let rest = lines.strip_prefix(COMMAND)?;
    // All calls that send, without the sent data, with the addresses of both ends.
    let calls = "trace=write,writev,send,sendto,sendmsg,sendfile";
    let mut words = words(&[
        "strace",
        "-f",
        "-ttt",
        "-T",
        "-yy",
        "-s",
        "0",
        "--seccomp-bpf",
        "-e",
        calls,
        "-o",
    ]);
    words.push(file.display().to_string());
    let words: Vec<_> = words.iter().map(|word| format!("{word:?}, ")).collect();
    Some(format!("{COMMAND}{}{rest}", words.concat()))
}

/// Looks for a program on the PATH and where packages install servers.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(USUAL_PLACES.iter().map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

/// Compiles a source unless the compiled program is up to date; a copy of the source is kept next to it.
fn compile(
    directory: &Path,
    program: &'static str,
    name: &str,
    source: &str,
    command: impl FnOnce(&Path) -> Command,
) -> Result<(), NoZoo> {
    let done = directory.join(format!("{name}.built"));
    if fs::read_to_string(&done).is_ok_and(|built| built == source) {
        return Ok(());
    }
    let path = directory.join(name);
    fs::write(&path, source)?;
    let output = command(&path).output()?;
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(NoZoo::NotBuilt { program, output });
    }
    fs::write(&done, source)?;
    Ok(())
}
