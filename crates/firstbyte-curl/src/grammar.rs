//! The grammar of curl 7.88: words in, a [`CurlLine`] out, with every value as typed. Config files are read where they
//! stand. An error of grammar comes first; options that firstbyte refuses are named together when all words are read.

use std::mem;
use std::time::Duration;

use crate::config_file::parse_lines;
use crate::files::{Files, read_named};
use crate::options::{CurlOption, NEWER_OPTIONS, OPTIONS, OptionKind, OptionVerdict, find_option};
use crate::problem::{LineProblem, exit};
use crate::settings::{
    ContinueAt, CookieText, CurlLine, DataPart, FailChoice, FamilyChoice, FormText, HttpChoice,
    NetrcChoice, Operation, OutputName, RequestKind,
};

/// Names that curl understands besides those of its help, the option each stands for, and whether it switches it off.
const ALIASES: &[(&str, &str, bool)] = &[
    ("eprt", "disable-eprt", true),
    ("epsv", "disable-epsv", true),
    ("ftp-ssl", "ssl", false),
    ("ftp-ssl-reqd", "ssl-reqd", false),
    ("krb4", "krb", false),
];

/// Config files that name each other end here.
const MOST_NESTED_FILES: u8 = 8;

/// Reads the words after `curl`.
///
/// # Errors
/// As curl does, and when an option is refused. Then nothing may be sent.
pub fn read_line(words: &[String], files: &dyn Files) -> Result<CurlLine, LineProblem> {
    let mut reader = LineReader {
        files,
        line: CurlLine::default(),
        operation: Operation::default(),
        refused: Vec::new(),
        nested_files: 0,
    };
    let is_disabled =
        words.first().is_some_and(|word| word.starts_with("-q") || word == "--disable");
    let home_file = if is_disabled { None } else { reader.read_home_file() };
    let refused_by_home_file = !reader.refused.is_empty();

    let mut are_urls = false;
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        if are_urls || !word.starts_with('-') {
            reader.operation.urls.push(word.clone());
        } else if word == "--" {
            are_urls = true;
        } else if reader.read_word(word, words.get(at).map(String::as_str))? {
            at += 1;
        }
    }
    let last = &reader.operation;
    if last.remote_header_name && last.include {
        return Err(LineProblem::option(
            "remote-header-name",
            "not together with --include or --head",
        ));
    }
    if last.remote_header_name && last.continue_at == Some(ContinueAt::EndOfOutput) {
        return Err(LineProblem::option("remote-header-name", "not together with --continue-at -"));
    }
    if last.urls.is_empty() {
        return Err(match reader.line.operations.is_empty() {
            true => LineProblem::new(exit::USAGE, "the curl line has no URL"),
            false => LineProblem::option("next", "no URL follows"),
        });
    }
    reader.end_operation()?;
    match (describe_refusals(&reader.refused), home_file) {
        (Some(problem), Some(file)) if refused_by_home_file => {
            Err(problem.hint(format!("{file} is read too; -q as the first option leaves it out")))
        }
        (Some(problem), _) => Err(problem),
        (None, _) => Ok(reader.line),
    }
}

/// All refused options, those with one reason together.
fn describe_refusals(refused: &[&CurlOption]) -> Option<LineProblem> {
    let mut reasons: Vec<(&str, String)> = Vec::new();
    for option in refused {
        let OptionVerdict::Refused(reason) = option.verdict else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push_str(&format!(", --{}", option.long)),
            None => reasons.push((reason, format!("--{}", option.long))),
        }
    }
    let texts: Vec<String> =
        reasons.iter().map(|(reason, names)| format!("{names}: {reason}")).collect();
    (!texts.is_empty()).then(|| LineProblem::new(exit::USAGE, texts.join(". ")))
}

/// A long name that curl understands.
struct LongName {
    text: &'static str,
    option: &'static CurlOption,
    /// The name is that of the opposite: `--alpn` for the option `--no-alpn`.
    is_opposite: bool,
}

/// Finds a long name; `typed` is the name with its `no-`. Without one, a prefix that only one name has is enough.
fn find_long_name(name: &str, typed: &str) -> Result<LongName, LineProblem> {
    let own = OPTIONS.iter().map(|option| match option.long.strip_prefix("no-") {
        Some(text) => LongName { text, option, is_opposite: true },
        None => LongName { text: option.long, option, is_opposite: false },
    });
    let aliases = ALIASES.iter().filter_map(|&(text, long, is_opposite)| {
        Some(LongName { text, option: find_option(long)?, is_opposite })
    });
    let has_start =
        |text: &str| text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    let mut found: Vec<LongName> =
        own.chain(aliases).filter(|candidate| has_start(candidate.text)).collect();
    if let Some(at) = found.iter().position(|candidate| candidate.text.len() == name.len()) {
        return Ok(found.swap_remove(at));
    }
    let newer_name = if name.starts_with("expand-") { "expand-*" } else { name };
    if let Some(option) = NEWER_OPTIONS.iter().find(|option| option.long == newer_name) {
        return Ok(LongName { text: option.long, option, is_opposite: false });
    }
    let is_negated = name.len() != typed.len();
    if found.len() == 1 && !is_negated {
        return Ok(found.swap_remove(0));
    }
    // What follows an equals sign may be a password.
    if let Some((option, _)) = typed.split_once('=') {
        return Err(LineProblem::option(
            option,
            "curl takes a value as the next word, not after =",
        ));
    }
    if found.is_empty() || is_negated || name.is_empty() {
        return Err(LineProblem::option(typed, "curl has no such option"));
    }
    let names: Vec<String> =
        found.iter().take(5).map(|candidate| format!("--{}", candidate.text)).collect();
    Err(LineProblem::option(typed, format!("several options begin so: {}", names.join(", "))))
}

struct LineReader<'a> {
    files: &'a dyn Files,
    /// With the operations that have ended.
    line: CurlLine,
    /// What the next word adds to.
    operation: Operation,
    /// Each once.
    refused: Vec<&'static CurlOption>,
    nested_files: u8,
}

impl LineReader<'_> {
    /// Reads the first config file that is in one of curl's places, and gives its name.
    fn read_home_file(&mut self) -> Option<String> {
        let has_config_home = self.files.variable("XDG_CONFIG_HOME").is_some();
        for (variable, name, is_fallback) in [
            ("CURL_HOME", ".curlrc", false),
            ("XDG_CONFIG_HOME", ".curlrc", false),
            ("XDG_CONFIG_HOME", "curlrc", false),
            ("HOME", ".curlrc", false),
            ("CURL_HOME", ".config/curlrc", true),
            ("HOME", ".config/curlrc", true),
        ] {
            let Some(folder) = self.files.variable(variable) else { continue };
            let file = format!("{folder}/{name}");
            if is_fallback && has_config_home {
                continue;
            }
            if let Ok(bytes) = self.files.read(&file) {
                self.line.warnings.push(format!("options of {file} are in force"));
                self.carry_out_lines(&file, &bytes);
                return Some(file);
            }
        }
        None
    }

    fn read_config_file(&mut self, file: &str) -> Result<(), LineProblem> {
        let problem = |what: String| LineProblem::option("config", what).with_code(exit::READ);
        if self.nested_files == MOST_NESTED_FILES {
            return Err(problem(format!("{file}: too many config files name each other")));
        }
        let bytes =
            read_named(self.files, file).map_err(|error| problem(format!("{file}: {error}")))?;
        self.nested_files += 1;
        self.carry_out_lines(file, &bytes);
        self.nested_files -= 1;
        Ok(())
    }

    /// An error in a line of a config file is a warning.
    fn carry_out_lines(&mut self, file: &str, bytes: &[u8]) {
        for line in parse_lines(&String::from_utf8_lossy(bytes)) {
            let problem = match self.read_word(&line.name, line.value.as_deref()) {
                Err(problem) => problem.message,
                Ok(false) if line.value.is_some_and(|value| !value.is_empty()) => {
                    "the word behind the option is ignored".to_owned()
                }
                Ok(_) if line.has_rest => "a value with blanks needs quotes".to_owned(),
                Ok(_) => continue,
            };
            self.line.warnings.push(format!("{file}:{}: {problem}", line.number));
        }
    }

    /// Reads an option, with or without dashes; tells whether it took the next word as its value.
    fn read_word(&mut self, word: &str, next: Option<&str>) -> Result<bool, LineProblem> {
        match word.strip_prefix('-') {
            Some(letters) if !letters.starts_with('-') => self.read_letters(letters, next),
            _ => self.read_long_name(word.strip_prefix("--").unwrap_or(word), next),
        }
    }

    fn read_letters(&mut self, letters: &str, next: Option<&str>) -> Result<bool, LineProblem> {
        if letters.is_empty() {
            return Err(LineProblem::new(exit::USAGE, "-: a dash alone is not an option"));
        }
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            let option =
                OPTIONS.iter().find(|option| option.short == Some(letter)).ok_or_else(|| {
                    LineProblem::new(exit::USAGE, format!("-{letter}: curl has no such option"))
                })?;
            match (option.kind, rest.as_str()) {
                (OptionKind::Value, "") => return self.carry_out_with_value(option, true, next),
                (OptionKind::Value, value) => {
                    self.carry_out(option, true, value)?;
                    return Ok(false);
                }
                _ => self.carry_out(option, true, "")?,
            }
        }
        Ok(false)
    }

    fn read_long_name(&mut self, name: &str, next: Option<&str>) -> Result<bool, LineProblem> {
        let (found, is_on) = match name.strip_prefix("no-") {
            Some(positive) => (find_long_name(positive, name)?, false),
            None => (find_long_name(name, name)?, true),
        };
        if !is_on && found.option.kind != OptionKind::Boolean {
            return Err(LineProblem::option(name, "this option cannot be switched off by no-"));
        }
        let is_on = is_on != found.is_opposite;
        if found.option.kind == OptionKind::Value {
            return self.carry_out_with_value(found.option, is_on, next);
        }
        self.carry_out(found.option, is_on, "")?;
        Ok(false)
    }

    fn carry_out_with_value(
        &mut self,
        option: &'static CurlOption,
        is_on: bool,
        next: Option<&str>,
    ) -> Result<bool, LineProblem> {
        let value = next.ok_or_else(|| LineProblem::option(option.long, "its value is missing"))?;
        self.carry_out(option, is_on, value)?;
        Ok(true)
    }

    /// Notes what an option asks for; one that has no value gets an empty one.
    fn carry_out(
        &mut self,
        option: &'static CurlOption,
        is_on: bool,
        value: &str,
    ) -> Result<(), LineProblem> {
        let long = option.long;
        let problem = |what: &str| LineProblem::option(long, what);
        let text = value.to_owned();
        let operation = &mut self.operation;
        match long {
            // The line.
            "config" => return self.read_config_file(value),
            "disable" => {}
            "next" if operation.urls.is_empty() => {}
            "next" => return self.end_operation(),
            "fail-early" => self.line.global.fail_early = is_on,
            "silent" => self.line.global.silent = is_on,
            "verbose" => self.line.global.verbose = is_on,

            // Where to and whereto.
            "url" => operation.urls.push(text),
            "output" => operation.outputs.push(OutputName::File(text)),
            "remote-name" => operation.outputs.push(match is_on {
                true => OutputName::Remote,
                false => OutputName::File("-".to_owned()),
            }),
            "upload-file" => operation.uploads.push(text),
            "remote-name-all" => operation.remote_name_all = is_on,
            "remote-header-name" => operation.remote_header_name = is_on,
            "output-dir" => operation.output_dir = Some(text),
            "create-dirs" => operation.create_dirs = is_on,
            "create-file-mode" => {
                let mode = u32::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o777);
                mode.ok_or_else(|| problem("expected an octal number up to 777"))?;
            }
            "no-clobber" => operation.no_clobber = is_on,
            "remove-on-error" => operation.remove_on_error = is_on,
            "remote-time" => {}
            "globoff" => operation.globoff = is_on,

            // The request.
            "head" if !is_on && operation.kind == RequestKind::Head => {
                return Err(problem("--no-head cannot take it back"));
            }
            "head" => {
                operation.include = is_on;
                operation.kind = if is_on { RequestKind::Head } else { operation.kind };
            }
            "request" => operation.request = Some(text),
            "get" => operation.get = is_on,
            "data" | "data-ascii" => operation.data.push(DataPart::Ascii(text)),
            "data-binary" => operation.data.push(DataPart::Binary(text)),
            "data-raw" => operation.data.push(DataPart::Raw(text)),
            "data-urlencode" => operation.data.push(DataPart::UrlEncode(text)),
            "json" => {
                operation.data.push(DataPart::Json(text));
                operation.json = true;
            }
            "url-query" => operation.url_query.push(text),
            "form" => operation.form.push(FormText::Form(text)),
            "form-string" => operation.form.push(FormText::Literal(text)),
            "form-escape" => operation.form_escape = is_on,
            "header" => operation.headers.push(text),
            "user-agent" => operation.user_agent = Some(text),
            "referer" => {
                let (referer, rest) = value.split_once(";auto").unzip();
                operation.auto_referer = rest.is_some();
                let referer = referer.unwrap_or(value);
                operation.referer = (!referer.is_empty()).then(|| referer.to_owned());
            }
            "range" => {
                let digits = value.find(|letter: char| !letter.is_ascii_digit());
                let number = &value[..digits.unwrap_or(value.len())];
                operation.range = Some(match number.is_empty() || value.contains('-') {
                    true => text,
                    false => {
                        let warning = "--range: a dash is missing; it is put behind the number";
                        self.line.warnings.push(warning.to_owned());
                        let start = parse_whole_number(long, number)?;
                        format!("{start}-")
                    }
                });
            }
            "continue-at" => {
                operation.continue_at = Some(match value {
                    "-" => ContinueAt::EndOfOutput,
                    _ => ContinueAt::Offset(parse_whole_number(long, value)?),
                });
            }
            "time-cond" => operation.time_condition = Some(text),
            "compressed" => operation.compressed = is_on,
            "tr-encoding" => operation.tr_encoding = is_on,
            "etag-compare" => operation.etag_compare = Some(text),
            "etag-save" => operation.etag_save = Some(text),
            "request-target" => operation.request_target = Some(text),
            "path-as-is" => operation.path_as_is = is_on,
            "http1.0" => operation.http = HttpChoice::V10,
            "http1.1" => operation.http = HttpChoice::V11,
            "http2" => operation.http = HttpChoice::V2,
            "http2-prior-knowledge" => operation.http = HttpChoice::V2PriorKnowledge,
            "http3" => operation.http = HttpChoice::V3,
            "http3-only" => operation.http = HttpChoice::V3Only,
            "expect100-timeout" => {
                parse_seconds(long, value)?;
            }

            // Cookies and credentials.
            "cookie" => operation.cookies.push(match value.strip_prefix('@') {
                Some(file) => CookieText::File(file.to_owned()),
                None if value.contains('=') => CookieText::Pairs(text),
                None => CookieText::File(text),
            }),
            "cookie-jar" => operation.cookie_jar = Some(text),
            "junk-session-cookies" => operation.junk_session_cookies = is_on,
            "user" => operation.user = Some(text),
            "oauth2-bearer" => operation.oauth2_bearer = Some(text),
            "basic" => operation.auth.basic = is_on,
            "digest" => operation.auth.digest = is_on,
            "anyauth" => operation.auth.any |= is_on,
            "netrc" => match (is_on, operation.netrc) {
                (true, NetrcChoice::Off) => operation.netrc = NetrcChoice::Required,
                (false, NetrcChoice::Required) => operation.netrc = NetrcChoice::Off,
                _ => {}
            },
            "netrc-optional" if is_on => operation.netrc = NetrcChoice::Optional,
            "netrc-optional" if operation.netrc == NetrcChoice::Optional => {
                operation.netrc = NetrcChoice::Off;
            }
            "netrc-optional" => {}
            "netrc-file" => {
                operation.netrc_file = Some(text);
                if operation.netrc == NetrcChoice::Off {
                    operation.netrc = NetrcChoice::Required;
                }
            }
            "disallow-username-in-url" => operation.disallow_username_in_url = is_on,

            // Redirects and failures.
            "location" => operation.location = is_on,
            "location-trusted" => {
                operation.location = is_on;
                operation.location_trusted = is_on;
            }
            "max-redirs" => {
                operation.max_redirs = match value {
                    "-1" => None,
                    _ => Some(parse_count(long, value)?),
                };
            }
            "post301" => operation.post301 = is_on,
            "post302" => operation.post302 = is_on,
            "post303" => operation.post303 = is_on,
            "fail" | "fail-with-body" => {
                let own = match long {
                    "fail" => FailChoice::WithoutBody,
                    _ => FailChoice::WithBody,
                };
                match (is_on, operation.fail) {
                    (true, other) if other != own && other != FailChoice::Never => {
                        return Err(problem("not --fail and --fail-with-body together"));
                    }
                    (true, _) => operation.fail = own,
                    (false, same) if same == own => operation.fail = FailChoice::Never,
                    (false, _) => {}
                }
            }
            "retry" => operation.retry.count = parse_count(long, value)?,
            "retry-delay" => operation.retry.delay = parse_whole_seconds(long, value)?,
            "retry-max-time" => operation.retry.max_time = parse_whole_seconds(long, value)?,
            "retry-connrefused" => operation.retry.connection_refused = is_on,
            "retry-all-errors" => operation.retry.all_errors = is_on,
            "max-filesize" => {
                let size = parse_size(value)
                    .ok_or_else(|| problem("expected a number of bytes, with B, K, M or G"))?;
                operation.max_filesize = (size > 0).then_some(size);
            }
            "proto" => operation.proto = Some(text),
            "proto-default" => {
                if !["http", "https"].iter().any(|scheme| value.eq_ignore_ascii_case(scheme)) {
                    return Err(
                        problem("firstbyte measures http and https").with_code(exit::SCHEME)
                    );
                }
                operation.proto_default = Some(text);
            }
            "proto-redir" => operation.proto_redir = Some(text),

            // Connections.
            "ipv4" => operation.family = FamilyChoice::V4,
            "ipv6" => operation.family = FamilyChoice::V6,
            "interface" => operation.interface = Some(text),
            "local-port" => {
                let ports = parse_ports(value)
                    .ok_or_else(|| problem("expected a port, or the lowest and the highest"))?;
                operation.local_port = (ports.0 > 0).then_some(ports);
            }
            "resolve" => operation.resolve.push(text),
            "connect-to" => operation.connect_to.push(text),
            "connect-timeout" => operation.connect_timeout = parse_seconds(long, value)?,
            "max-time" => operation.max_time = parse_seconds(long, value)?,
            "happy-eyeballs-timeout-ms" => {
                let delay = parse_whole_number(long, value)?;
                operation.happy_eyeballs_timeout = Some(Duration::from_millis(delay));
            }
            "haproxy-protocol" => operation.haproxy_protocol = is_on,
            "proxy" | "proxy1.0" | "socks4" | "socks4a" | "socks5" | "socks5-hostname" => {
                let scheme = match long {
                    "socks5-hostname" => "socks5h",
                    "socks4" | "socks4a" | "socks5" => long,
                    _ => "http",
                };
                operation.proxy.url = Some(match value.is_empty() || value.contains("://") {
                    true => text,
                    false => format!("{scheme}://{value}"),
                });
                operation.proxy.http10 = long == "proxy1.0";
            }
            "proxy-user" => operation.proxy.user = Some(text),
            "proxytunnel" => operation.proxy.tunnel = is_on,
            "proxy-header" => operation.proxy.headers.push(text),
            "proxy-insecure" => operation.proxy.insecure = is_on,
            "proxy-cacert" => operation.proxy.cacert = Some(text),
            "noproxy" => operation.proxy.noproxy = Some(text),

            // TLS.
            "insecure" => operation.insecure = is_on,
            "cacert" => operation.cacert = Some(text),
            "cert" => operation.cert = Some(text),
            "key" => operation.key = Some(text),
            "cert-type" | "key-type" if value.eq_ignore_ascii_case("PEM") => {}
            "cert-type" | "key-type" => return Err(problem("firstbyte reads only PEM files")),
            "tlsv1" | "tlsv1.0" | "tlsv1.1" | "tlsv1.2" => operation.tlsv1_3 = false,
            "tlsv1.3" => operation.tlsv1_3 = true,
            "tls-max" if !["default", "1.0", "1.1", "1.2", "1.3"].contains(&value) => {
                return Err(problem("expected default, 1.0, 1.1, 1.2 or 1.3"));
            }
            "tls-max" => operation.tls_max = Some(text),
            "ciphers" => operation.ciphers = Some(text),
            "tls13-ciphers" => operation.tls13_ciphers = Some(text),
            "curves" => operation.curves = Some(text),
            "no-alpn" => operation.no_alpn = is_on,

            // What is shown.
            "include" => operation.include = is_on,
            "dump-header" => operation.dump_header = Some(text),
            "write-out" => operation.write_out = Some(text),

            // What has no effect, or none that firstbyte can give it.
            "tcp-nodelay" if !is_on => return Err(problem("firstbyte never delays small writes")),
            "keepalive-time" => {
                parse_whole_number(long, value)?;
            }
            _ => match option.verdict {
                OptionVerdict::NoEffect(_) => {}
                OptionVerdict::Refused(_) => {
                    // Every refused option is off unless the line asks for it.
                    if is_on && self.refused.iter().all(|other| other.long != long) {
                        self.refused.push(option);
                    }
                }
                OptionVerdict::Same | OptionVerdict::SameRequests(_) => {
                    return Err(problem("firstbyte should know this option, and does not"));
                }
            },
        }
        Ok(())
    }

    /// Ends what stands before `--next` or the line's end: decides the kind of request.
    fn end_operation(&mut self) -> Result<(), LineProblem> {
        let mut operation = mem::take(&mut self.operation);
        if operation.outputs.len().max(operation.uploads.len()) > operation.urls.len() {
            let warning = "there are more --output, --remote-name or --upload-file than URLs";
            self.line.warnings.push(warning.to_owned());
        }
        let data = !operation.data.is_empty();
        let queries = data && operation.get;
        let mut kinds = Vec::new();
        for (long, kind, is_asked) in [
            ("get", RequestKind::Get, queries && operation.kind != RequestKind::Head),
            ("head", RequestKind::Head, operation.kind == RequestKind::Head),
            ("data", RequestKind::Post, data && !queries),
            ("form", RequestKind::Form, !operation.form.is_empty()),
            ("upload-file", RequestKind::Put, operation.uploads.iter().any(|n| !n.is_empty())),
        ] {
            if is_asked {
                kinds.push((long, kind));
            }
        }
        match kinds.as_slice() {
            [] => {}
            [(_, kind)] => operation.kind = *kind,
            [(first, _), (second, _), ..] => {
                let what = format!("--{first} asks for another method; a request has one");
                return Err(LineProblem::option(second, what));
            }
        }
        self.line.operations.push(operation);
        Ok(())
    }
}

fn parse_whole_number(long: &str, value: &str) -> Result<u64, LineProblem> {
    let number = value.trim_start().parse::<i64>().ok();
    number
        .and_then(|number| u64::try_from(number).ok())
        .ok_or_else(|| LineProblem::option(long, "expected a whole number, not below 0"))
}

fn parse_count(long: &str, value: &str) -> Result<u32, LineProblem> {
    Ok(u32::try_from(parse_whole_number(long, value)?).unwrap_or(u32::MAX))
}

/// Absent for 0, which stands for the default.
fn parse_whole_seconds(long: &str, value: &str) -> Result<Option<Duration>, LineProblem> {
    let seconds = parse_whole_number(long, value)?;
    Ok((seconds > 0).then(|| Duration::from_secs(seconds)))
}

/// Absent for 0, which is no limit.
fn parse_seconds(long: &str, value: &str) -> Result<Option<Duration>, LineProblem> {
    let seconds = value.trim_start().parse::<f64>().ok();
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match duration {
        Some(duration) => Ok((!duration.is_zero()).then_some(duration)),
        None => Err(LineProblem::option(long, "expected seconds, without a unit and not below 0")),
    }
}

fn parse_size(value: &str) -> Option<u64> {
    let end = value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len());
    let (digits, unit) = value.split_at(end);
    let factor: u64 = match unit {
        "" | "b" | "B" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// `4000`, `4000-4010`. As curl does, it ignores what follows the number and does not begin with a dash.
fn parse_ports(value: &str) -> Option<(u16, u16)> {
    let end = value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len());
    let (lowest, rest) = value.split_at(end);
    let lowest = lowest.parse().ok()?;
    let highest = match rest.trim_start().strip_prefix('-') {
        Some(highest) => highest.trim().parse().ok()?,
        None => lowest,
    };
    (lowest <= highest).then_some((lowest, highest))
}
