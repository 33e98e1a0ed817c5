//! A zoo of HTTPS servers as a scenario's `server = …`: what the lab has, what Debian has, and short
//! programs of our own (README.md says what each can vary).
//!
//! In: which server, and what is wanted of it. Out: a line for a scenario file, or that this server
//! cannot do that. Programs that have to be compiled are, once.

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

/// Where packages put servers when that is not on an ordinary user's PATH.
const USUAL_PLACES: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"];

/// Where Debian has Apache's modules.
const APACHE_MODULES: &str = "/usr/lib/apache2/modules";

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Server {
    Nginx,
    Caddy,
    Builtin,
    Apache,
    HaProxy,
    /// `openssl s_server`, its requests read and answered by a program: HTTP/1.1, one connection after
    /// the other, which the client has to close.
    Openssl,
    /// `openssl s_server -HTTP`: HTTP/1.0, one response from a file, and then the end.
    OpensslHttp,
    /// `gnutls-serv --http`: the same, with a head of its own.
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

    /// The program that must be installed, and the Debian package that has it; none for the built-in
    /// server. Of Go and Java it is the compiler.
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

    /// Whether it answers `/w?…` as README.md says. The others answer every request alike, at
    /// [`Server::path`], with [`Wanted::response`].
    pub(crate) fn writes_patterns(self) -> bool {
        !matches!(self, Self::OpensslHttp | Self::Gnutls)
    }

    /// Whether small writes wait for acknowledgements, where that cannot be chosen.
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

    /// Whether `strace` can begin before it: the lab starts the others by itself.
    pub(crate) fn can_be_traced(self) -> bool {
        !matches!(self, Self::Nginx | Self::Caddy | Self::Builtin)
    }

    /// Whether it speaks HTTP/2, where that is wanted.
    pub(crate) fn can_http2(self) -> bool {
        use Server::{Apache, Builtin, Caddy, Go, HaProxy, Nginx};
        matches!(self, Nginx | Caddy | Builtin | Apache | HaProxy | Go)
    }

    /// Whether it can take its time before the ServerHello.
    pub(crate) fn can_delay_handshakes(self) -> bool {
        matches!(self, Self::Builtin | Self::Go | Self::Python)
    }

    /// Where a server without patterns has its response.
    pub(crate) fn path(self) -> &'static str {
        if self == Self::OpensslHttp { "/response" } else { "/" }
    }
}

/// What is wanted of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) tls: Tls,
    /// Whether sessions are resumed.
    pub(crate) sessions: bool,
    pub(crate) early_data: EarlyData,
    /// Whether small writes wait for acknowledgements (TCP_NODELAY is not set); of no meaning where
    /// [`Server::nagle`] knows.
    pub(crate) nagle: bool,
    /// Whether HTTP/2 is spoken where the client offers it.
    pub(crate) http2: bool,
    /// Whether HTTP/3 is spoken, beside the others.
    pub(crate) http3: bool,
    /// Milliseconds between ClientHello and ServerHello.
    pub(crate) handshake_delay_ms: u32,
    /// As the scenario's key of that name.
    pub(crate) chain_bytes: Option<usize>,
    /// The one response of a server without patterns: bytes of its head, about, and of its body.
    /// [`Server::Gnutls`] has a head of its own, of 85 bytes.
    pub(crate) response: (usize, usize),
    /// A file for what the server writes and when (`strace -f -ttt`), where it is a program.
    pub(crate) trace: Option<PathBuf>,
    /// Further keys of a scenario's `server`, as in a file: `groups = ["p256"], tickets = 0`. Of a
    /// server that is a program, `key` and `page_bytes` alone are of use.
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

/// What becomes of early data; needs TLS 1.3 and sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EarlyData {
    Off,
    /// Taken, and answered at once.
    AtOnce,
    /// Taken, and answered after the client's Finished.
    AfterFinished,
}

/// Versions of TLS.
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

/// Why there is no zoo.
#[derive(Debug)]
pub(crate) enum NoZoo {
    /// A program is not installed.
    Missing {
        program: &'static str,
        package: &'static str,
    },
    /// A program of ours did not compile.
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

/// The servers, ready to be started.
#[derive(Debug)]
pub(crate) struct Zoo {
    directory: PathBuf,
}

impl Zoo {
    /// Where to build it: in cargo's directory for tests, or where that is another user's, among
    /// temporary files.
    pub(crate) fn directory(of_cargo: &str) -> PathBuf {
        let directory = Path::new(of_cargo).join("zoo");
        let mine =
            fs::create_dir_all(&directory).and_then(|()| tempfile::tempfile_in(&directory)).is_ok();
        if mine { directory } else { std::env::temp_dir().join("firstbyte-zoo") }
    }

    /// Looks for all programs and makes those of our own in `directory`, whose path is absolute. What is
    /// there already and up to date stays.
    ///
    /// # Errors
    /// A program is not installed or does not compile.
    pub(crate) fn build(directory: &Path) -> Result<Self, NoZoo> {
        for server in Server::ALL {
            if let Some((program, package)) = server.program() {
                find(program).ok_or(NoZoo::Missing { program, package })?;
            }
        }
        let (program, package) = ("strace", "strace");
        find(program).ok_or(NoZoo::Missing { program, package })?;
        fs::create_dir_all(directory)?;
        // Tests run side by side: one of them compiles, the others wait for it.
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

    /// What [`Zoo::build`] has made in `directory`.
    pub(crate) fn built(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// A scenario's `server = …` for one host; `None` if that server cannot do what is wanted.
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
        // One processor is enough, and starts sooner.
        words.extend(
            ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"].map(str::to_owned),
        );
        words.extend(["-cp".to_owned(), self.directory.display().to_string(), "Server".to_owned()]);
        words.extend(["{chain}".to_owned(), "{key}".to_owned()]);
        words.push(if wanted.sessions { "sessions" } else { "no-sessions" }.to_owned());
        words.extend(wanted.tls.list().iter().map(|version| (*version).to_owned()));
        Some(command(&words))
    }

    /// Takes early data, and answers it after the client's Finished.
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

/// What the lab has a kind for. nginx and Caddy pass `/w` on to the built-in server behind them.
fn lab_kind(server: Server, wanted: &Wanted) -> Option<String> {
    let cannot = match server {
        Server::Nginx => wanted.early_data == EarlyData::AfterFinished,
        // Over TCP it takes none; over QUIC it does in any case.
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

/// Apache refuses to be root, and there are no other users in an ordinary user's namespace: it is one of
/// a namespace of its own.
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

/// Takes early data and answers it after the client's Finished.
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
    // With -HTTP it takes none.
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
    // With --earlydata it takes some, but never answers a request that came in it.
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
    // Its own head, of 85 bytes, is before the file.
    Some(format!("{}, {}", command(&words), response("", wanted.response.1)))
}

/// A file `response` with this head before the body.
fn response(head: &str, body: usize) -> String {
    let line = "The quick brown fox jumps over the lazy dog.\n";
    let text: String = line.chars().cycle().take(body).collect();
    format!("files = {{ response = {:?} }}", format!("{head}{text}"))
}

/// A head of about so many bytes.
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

/// Debug's quotes and escapes are TOML's, for ASCII.
fn command(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
    format!("{COMMAND}{}]", words.join(", "))
}

/// The same server, its writes written down; `None` for those that the lab starts by itself.
fn traced(lines: &str, file: &Path) -> Option<String> {
    let rest = lines.strip_prefix(COMMAND)?;
    // All of what is sent, none of its text, with the addresses of both ends.
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

/// A program of this name, on the PATH or where packages put it.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(USUAL_PLACES.iter().map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

/// Compiles a source, unless it has been: what was compiled is beside the result.
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
