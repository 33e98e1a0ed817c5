//! Abilities of the installed curl: asked once for each process and program, and never guessed from its version alone.
//!
//! Input: output of `curl --version` and `curl --help all`. Output: version, TLS library, features, long options.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::CurlError;
use super::run::{Leash, Run};
use crate::process::find;

/// In older versions `--write-out` lacks microseconds and some forms of standard error, and is untested.
const OLDEST: [u32; 3] = [7, 68, 0];
const ASKING_LIMIT: Duration = Duration::from_secs(10);
/// Names that curl uses in its first line.
const TLS_LIBRARIES: [&str; 12] = [
    "OpenSSL",
    "LibreSSL",
    "BoringSSL",
    "quictls",
    "AWS-LC",
    "GnuTLS",
    "wolfSSL",
    "mbedTLS",
    "NSS",
    "rustls-ffi",
    "BearSSL",
    "SecureTransport",
];

/// The abilities that a curl reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CurlCapabilities {
    /// Its version: `[7, 88, 1]`.
    pub version: [u32; 3],
    /// The version as text: "7.88.1", "8.12.0-DEV".
    pub version_text: String,
    /// Its TLS library with version: "OpenSSL/3.0.19".
    pub tls_library: Option<String>,
    /// Whether it asks name servers itself (c-ares) instead of using the system's resolver.
    pub asks_name_servers: bool,
    features: BTreeSet<String>,
    options: BTreeSet<String>,
}

/// Results of earlier calls.
static ASKED: Mutex<BTreeMap<PathBuf, Arc<CurlCapabilities>>> = Mutex::new(BTreeMap::new());

impl CurlCapabilities {
    /// Asks `program`, a name to look up on `PATH` or a path. Remembers the answer for the lifetime of this process.
    ///
    /// # Errors
    /// If the program is missing, too old, not curl, or cannot be run.
    pub fn ask(program: &str) -> Result<Arc<Self>, CurlError> {
        let path = find(program).ok_or_else(|| CurlError::missing(program))?;
        let asked = || ASKED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = asked().get(&path) {
            return Ok(Arc::clone(known));
        }
        let version = lines(&path, &["-q", "--version"])?;
        let mut found = Self::read_version(&version).ok_or_else(|| CurlError::NotCurl {
            program: program.to_owned(),
            said: version.first().cloned().unwrap_or_default(),
        })?;
        if found.version < OLDEST {
            let (program, version) = (program.to_owned(), found.version_text);
            return Err(CurlError::TooOld { program, version });
        }
        // Since 7.73 the help is divided into categories.
        let all: &[&str] =
            if found.version < [7, 73, 0] { &["-q", "--help"] } else { &["-q", "--help", "all"] };
        found.read_options(&lines(&path, all)?);
        let found = Arc::new(found);
        asked().insert(path, Arc::clone(&found));
        Ok(found)
    }

    /// Parses the output of `--version` and `--help all`; `None` if the first line is not curl's.
    pub fn read(version: &str, help: &str) -> Option<Self> {
        let owned = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let mut read = Self::read_version(&owned(version))?;
        read.read_options(&owned(help));
        Some(read)
    }

    fn read_version(lines: &[String]) -> Option<Self> {
        let (mut version_line, mut features) = (None, BTreeSet::new());
        for line in lines {
            if let Some(rest) = line.strip_prefix("curl ") {
                version_line = version_line.or(Some(rest));
            } else if let Some(rest) = line.strip_prefix("Features:") {
                features = rest.split_whitespace().map(str::to_ascii_lowercase).collect();
            }
        }
        let mut words = version_line?.split_whitespace();
        let version_text = words.next()?.to_owned();
        let version = numbers(&version_text)?;
        let libraries: Vec<&str> = words.collect();
        // Libraries in parentheses are built in, but not in use.
        let tls_library = libraries.iter().find(|word| {
            let name = word.split('/').next().unwrap_or_default();
            TLS_LIBRARIES.iter().any(|known| known.eq_ignore_ascii_case(name))
        });
        Some(Self {
            version,
            version_text,
            tls_library: tls_library.map(|&word| word.to_owned()),
            asks_name_servers: libraries.iter().any(|word| word.starts_with("c-ares/")),
            features,
            options: BTreeSet::new(),
        })
    }

    fn read_options(&mut self, help: &[String]) {
        let names = help.iter().map(|line| line.trim_start()).filter(|line| line.starts_with('-'));
        let names = names
            .filter_map(|line| line.split_whitespace().find_map(|word| word.strip_prefix("--")));
        self.options = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    }

    /// Whether `Features:` contains this one, ignoring case.
    pub fn has_feature(&self, name: &str) -> bool {
        self.features.contains(&name.to_ascii_lowercase())
    }

    /// Whether it knows the long option `name`, given without dashes.
    pub fn has_option(&self, name: &str) -> bool {
        self.options.contains(name)
    }

    /// Name of its TLS library, without the version.
    pub fn tls_name(&self) -> &str {
        self.tls_library
            .as_deref()
            .and_then(|library| library.split('/').next())
            .unwrap_or("no TLS")
    }

    /// Numeric part of its TLS library's version.
    pub fn tls_version(&self) -> Option<[u32; 3]> {
        numbers(self.tls_library.as_deref()?.split('/').nth(1)?)
    }
}

fn lines(program: &Path, arguments: &[&str]) -> Result<Vec<String>, CurlError> {
    let run = Run {
        program,
        arguments,
        input: &|_, _| Vec::new(),
        files: BTreeMap::new(),
        limit: Some(ASKING_LIMIT),
    };
    Ok(run.to_end(&Leash::default())?.log)
}

/// Parses "7.88.1", "8.12.0-DEV" and "3.0".
fn numbers(text: &str) -> Option<[u32; 3]> {
    let mut numbers = [0; 3];
    let mut parts = text.split('.');
    for (place, number) in numbers.iter_mut().enumerate() {
        let Some(part) = parts.next() else { if place == 0 { return None } else { break } };
        let digits = part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        *number = digits.parse().ok().or_else(|| (place > 0).then_some(0))?;
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let curl = CurlCapabilities::read(
            "curl 7.88.1 (x86_64-pc-linux-gnu) libcurl/7.88.1 OpenSSL/3.0.19 zlib/1.2.13\n\
             Release-Date: 2023-02-20\nProtocols: http https\nFeatures: alt-svc HTTP2 HTTPS-proxy\n",
            "Usage: curl [options...] <url>\n     --http3-only         Use HTTP v3 only\n -k, --insecure  x\n",
        )
        .unwrap();
        assert_eq!(
            (curl.version, curl.tls_library.as_deref()),
            ([7, 88, 1], Some("OpenSSL/3.0.19"))
        );
        assert_eq!((curl.tls_name(), curl.tls_version()), ("OpenSSL", Some([3, 0, 19])));
        assert!(curl.has_feature("http2") && !curl.has_feature("HTTP3") && !curl.asks_name_servers);
        assert!(curl.has_option("http3-only") && curl.has_option("insecure"));
        assert!(!curl.has_option("ssl-sessions"));
    }

    /// From documentation: builds with several libraries, only one in use; GnuTLS; c-ares.
    #[test]
    fn the_library_in_use_is_named() {
        let library = |line: &str| CurlCapabilities::read(line, "").unwrap();
        let multi =
            "curl 8.5.0 (x) libcurl/8.5.0 (OpenSSL/3.0.13) GnuTLS/3.8.3 zlib/1.3 c-ares/1.27.0";
        let multi = library(multi);
        assert_eq!(multi.tls_library.as_deref(), Some("GnuTLS/3.8.3"));
        assert!(multi.asks_name_servers);
        let dev = library("curl 8.12.0-DEV (x) libcurl/8.12.0-DEV wolfSSL/5.7.4");
        assert_eq!((dev.version, dev.tls_name()), ([8, 12, 0], "wolfSSL"));
        assert_eq!(library("curl 7.70.0 (x) libcurl/7.70.0").tls_library, None);
        assert_eq!(CurlCapabilities::read("wget 1.2", ""), None);
        assert_eq!(CurlCapabilities::read("curl: not found", ""), None);
    }
}
