//! The grammar of curl 7.88: words in, a [`CurlLine`] out, with every value as typed. Config files are read where they
//! stand. An error of grammar comes first; options that firstbyte refuses are named together when all words are read.

use std::mem;
use std::time::Duration;

use crate::config_file::parse_lines;
use crate::files::{LineFiles, read_named};
use crate::options::{CurlOption, NEWER_OPTIONS, OPTIONS, OptionKind, OptionVerdict, find_option};
use crate::problem::{LineProblem, exit};
use crate::settings::{
    ContinueAt, CookieText, CurlLine, DataPart, FailChoice, FamilyChoice, FormText, HttpChoice,
    NetrcChoice, Operation, OutputName, RequestKind,
};

/// Names that the help of curl does not have: each with its option, and whether it means the opposite.
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
pub fn read_line(words: &[String], files: &dyn LineFiles) -> Result<CurlLine, LineProblem> {
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
    // What follows may be a password.
    if let Some((option, _)) = typed.split_once(['=', ':']) {
        return Err(LineProblem::option(option, "curl takes a value as the next word"));
    }
    if found.is_empty() || is_negated || name.is_empty() {
        return Err(LineProblem::option(typed, "curl has no such option"));
    }
    let names: Vec<String> =
        found.iter().take(5).map(|candidate| format!("--{}", candidate.text)).collect();
    Err(LineProblem::option(typed, format!("this may stand for {}", names.join(" or "))))
}

struct LineReader<'a> {
    files: &'a dyn LineFiles,
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
            if is_fallback && has_config_home {
                continue;
            }
            let Some(folder) = self.files.variable(variable) else { continue };
            let file = format!("{folder}/{name}");
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
                Ok(false) if line.value.as_deref().is_some_and(|value| !value.is_empty()) => {
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
            return Err(LineProblem::option(name, "this option cannot be switched off"));
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

    /// Notes what an option asks for; `is_on` is about its name in the table. One that has no value gets an empty one.
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

            // URLs and files.
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
            "head" if is_on => {
                operation.kind = RequestKind::Head;
                operation.include = true;
            }
            "head" if operation.kind == RequestKind::Head => {
                return Err(problem("--no-head cannot take it back"));
            }
            "head" => operation.include = false,
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
                let (referer, is_auto) = match value.split_once(";auto") {
                    Some((referer, _)) => (referer, true),
                    None => (value, false),
                };
                operation.auto_referer = is_auto;
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
                        return Err(problem("--fail and --fail-with-body exclude each other"));
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

            // Output.
            "include" => operation.include = is_on,
            "dump-header" => operation.dump_header = Some(text),
            "write-out" => operation.write_out = Some(text),

            // What firstbyte does anyway or does not do.
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

/// Absent for 0: there is no limit.
fn parse_seconds(long: &str, value: &str) -> Result<Option<Duration>, LineProblem> {
    let seconds = value.trim_start().parse::<f64>().ok();
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match duration {
        Some(duration) => Ok((!duration.is_zero()).then_some(duration)),
        None => Err(LineProblem::option(long, "expected seconds, without a unit and not below 0")),
    }
}

/// `4000` or `4000-4010`. As in curl, other text behind the first number is ignored.
fn parse_ports(value: &str) -> Option<(u16, u16)> {
    let end = value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len());
    let (lowest, rest) = value.split_at(end);
    let lowest = lowest.parse::<u16>().ok()?;
    let highest = match rest.trim_start().strip_prefix('-') {
        Some(highest) => highest.trim().parse().ok()?,
        None => lowest,
    };
    (lowest <= highest).then_some((lowest, highest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::MemoryFiles;

    fn read_with(words: &str, files: &MemoryFiles) -> Result<CurlLine, LineProblem> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        read_line(&words, files)
    }

    fn read(words: &str) -> Result<CurlLine, LineProblem> {
        read_with(words, &MemoryFiles::default())
    }

    type Check = fn(&Operation) -> bool;

    /// Measured with curl 7.88. The words `h` are URLs.
    #[test]
    fn words_and_what_they_ask_for() {
        let cases: &[(&str, Check)] = &[
            ("-sXPOST -da=1 -d=a h", |o| {
                o.request.as_deref() == Some("POST")
                    && o.data == ["a=1", "=a"].map(|text| DataPart::Ascii(text.to_owned()))
            }),
            ("-d -x h", |o| o.data == [DataPart::Ascii("-x".to_owned())]),
            ("h -- -I --x", |o| o.urls == ["h", "-I", "--x"] && o.kind == RequestKind::Get),
            ("--no-SILENT --SILEN --alp --buf h", |o| !o.no_alpn),
            ("--no-alpn h", |o| o.no_alpn),
            ("--clob h", |o| !o.no_clobber),
            ("-o a -O --no-remote-name h h h", |o| {
                let file = |name: &str| OutputName::File(name.to_owned());
                o.outputs == [file("a"), OutputName::Remote, file("-")]
            }),
            ("-I h", |o| o.kind == RequestKind::Head && o.include),
            ("-d a -G -I h", |o| o.kind == RequestKind::Head),
            ("--json 1 --no-get -G h", |o| o.kind == RequestKind::Get && o.json && o.get),
            ("-G -F a=b h", |o| o.kind == RequestKind::Form),
            ("-T f h", |o| o.kind == RequestKind::Put),
            ("-T  -d a h", |o| o.kind == RequestKind::Post && o.uploads == [""]),
            ("-0 --http1.1 --http2 h", |o| o.http == HttpChoice::V2),
            ("-4 -6 h", |o| o.family == FamilyChoice::V6),
            ("-b a=b -b f -b @c=d h", |o| {
                o.cookies
                    == [
                        CookieText::Pairs("a=b".to_owned()),
                        CookieText::File("f".to_owned()),
                        CookieText::File("c=d".to_owned()),
                    ]
            }),
            ("-e x;autofoo h", |o| o.referer.as_deref() == Some("x") && o.auto_referer),
            ("-r 5x h", |o| o.range.as_deref() == Some("5-")),
            ("-r -5 h", |o| o.range.as_deref() == Some("-5")),
            ("-C - h", |o| o.continue_at == Some(ContinueAt::EndOfOutput)),
            ("-m 1e1 --connect-timeout .5 h", |o| {
                o.max_time == Some(Duration::from_secs(10))
                    && o.connect_timeout == Some(Duration::from_millis(500))
            }),
            ("--retry +1 --retry-c h", |o| o.retry.count == 1 && o.retry.connection_refused),
            ("--max-redirs -1 h", |o| o.max_redirs.is_none()),
            ("--local-port 4000x h", |o| o.local_port == Some((4000, 4000))),
            ("--local-port 4000-4010 h", |o| o.local_port == Some((4000, 4010))),
            ("--local-port 0 h", |o| o.local_port.is_none()),
            ("-f --no-fail --fail-with-body h", |o| o.fail == FailChoice::WithBody),
            ("--netrc-file f h", |o| o.netrc == NetrcChoice::Required),
            ("--netrc-optional -n h", |o| o.netrc == NetrcChoice::Optional),
            ("--socks5-hostname p:1 h", |o| o.proxy.url.as_deref() == Some("socks5h://p:1")),
            ("-x  h", |o| o.proxy.url.as_deref() == Some("")),
            ("--tlsv1.3 -1 h", |o| !o.tlsv1_3),
            ("--no-parallel --no-negotiate --eprt h", |o| o.urls == ["h"]),
        ];
        for (words, check) in cases {
            let line = read(words).unwrap();
            assert!(check(&line.operations[0]), "{words}: {line:?}");
        }
    }

    #[test]
    fn errors_as_curl_has_them() {
        for (words, code, name) in [
            ("-s", 2, "no URL"),
            ("h --next", 2, "--next"),
            ("- h", 2, "-:"),
            ("-sk@ h", 2, "-@"),
            ("--NO-silent h", 2, "--NO-silent"),
            ("--no-sil h", 2, "--no-sil"),
            ("--no- h", 2, "--no-"),
            ("--no-data a h", 2, "--no-data"),
            ("--no-tlsv1.2 h", 2, "--no-tlsv1.2"),
            ("--loc h", 2, "--location or --location-trusted"),
            ("--ke 1 h", 2, "--ke:"),
            ("-sH", 2, "--header"),
            ("-m 1s h", 2, "--max-time"),
            ("-m -1 h", 2, "--max-time"),
            ("-m inf h", 2, "--max-time"),
            ("--retry-delay 1.5 h", 2, "--retry-delay"),
            ("--max-redirs -2 h", 2, "--max-redirs"),
            ("--local-port 5-3 h", 2, "--local-port"),
            ("--local-port 4000- h", 2, "--local-port"),
            ("--create-file-mode 1777 h", 2, "--create-file-mode"),
            ("--tls-max 1.4 h", 2, "--tls-max"),
            ("-C -5 h", 2, "--continue-at"),
            ("-I -d a h", 2, "--head"),
            ("-F a=b -d a h", 2, "--form"),
            ("-T f -d a h", 2, "--upload-file"),
            ("-G -d a -F a=b h", 2, "--get"),
            ("-I --no-head h", 2, "--no-head"),
            ("-f --fail-with-body h", 2, "--fail-with-body"),
            ("-J -I h", 2, "--remote-header-name"),
            ("-J -C - h", 2, "--remote-header-name"),
            ("-K missing h", 26, "--config"),
            ("--proto-default foo h", 1, "--proto-default"),
        ] {
            let problem = read(words).unwrap_err();
            assert_eq!(problem.code, code, "{words}: {problem}");
            assert!(problem.message.contains(name), "{words}: {problem}");
        }
    }

    #[test]
    fn a_value_behind_an_unknown_name_is_not_shown() {
        let problem = read("--user=name:secret h").unwrap_err();
        assert!(problem.message.starts_with("--user: "), "{problem}");
        assert!(!problem.message.contains("secret"), "{problem}");
    }

    #[test]
    fn refusals_come_after_errors_and_name_every_option() {
        let problem = read("-Z --krb x --ftp-pasv h").unwrap_err();
        assert_eq!(problem.code, exit::USAGE);
        assert!(problem.message.starts_with("--parallel: firstbyte makes"), "{problem}");
        assert!(problem.message.contains(". --krb, --ftp-pasv: for FTP;"), "{problem}");
        assert!(read("-Z --bogus h").unwrap_err().message.starts_with("--bogus: "));
        let newer = read("--expand-data x h").unwrap_err();
        assert!(newer.message.starts_with("--expand-*: newer than"), "{newer}");
    }

    #[test]
    fn every_option_of_the_table_is_carried_out_or_refused() {
        let files = MemoryFiles::with(&[("1", "")]);
        for option in OPTIONS.iter().chain(NEWER_OPTIONS) {
            let value = match option.long {
                "cert-type" | "key-type" => "PEM",
                "proto-default" => "https",
                "tls-max" => "1.2",
                _ => "1",
            };
            let words = match option.kind {
                OptionKind::Value => format!("--{} {value} h", option.long),
                OptionKind::Boolean | OptionKind::Flag => format!("--{} h", option.long),
            };
            match (option.verdict, read_with(&words, &files)) {
                (OptionVerdict::Refused(reason), Err(problem)) => {
                    assert_eq!(problem.message, format!("--{}: {reason}", option.long));
                }
                (OptionVerdict::Refused(_), Ok(_)) => panic!("{words}: carried out"),
                (_, Ok(line)) => assert!(line.operations.len() == 1, "{words}"),
                (_, Err(problem)) => panic!("{words}: {problem}"),
            }
        }
    }

    #[test]
    fn next_starts_a_new_operation_where_there_is_a_url() {
        let line = read("-v --next -H X:1 --next a -: -s b").unwrap();
        let [first, second] = line.operations.as_slice() else { panic!("{line:?}") };
        assert_eq!(first.urls, ["a"]);
        assert_eq!(second.urls, ["b"]);
        assert_eq!((first.headers.len(), second.headers.len()), (1, 0));
        assert!(line.global.verbose && line.global.silent);
    }

    #[test]
    fn config_files_are_read_where_they_stand() {
        let text = "silent\nurl = b\nheader = X: with\nbogus\n--data=a\n-H\nmax-time = 1s\n-s x\n";
        let line = read_with("a -K f c", &MemoryFiles::with(&[("f", text)])).unwrap();
        assert_eq!(line.operations[0].urls, ["a", "b", "c"]);
        let numbers: Vec<&str> =
            line.warnings.iter().filter_map(|warning| warning.split(':').nth(1)).collect();
        assert_eq!(numbers, ["3", "4", "5", "6", "7", "8"]);

        let spaced = MemoryFiles::with(&[("f", "header = X: with blanks\nconfig = missing\n")]);
        let line = read_with("-K f c", &spaced).unwrap();
        assert_eq!(line.operations[0].headers, ["X:"]);
        assert_eq!(line.warnings.len(), 2, "{:?}", line.warnings);

        let own = MemoryFiles::with(&[("f", "config = f\nurl = u\n")]);
        let line = read_with("-K f", &own).unwrap();
        assert_eq!(line.operations[0].urls.len(), usize::from(MOST_NESTED_FILES));
    }

    #[test]
    fn the_file_of_the_home_folder_is_read_unless_q_is_first() {
        let mut files = MemoryFiles::with(&[("/h/.curlrc", "limit-rate = 1k\nuser-agent = x\n")]);
        files.variables.insert("HOME".to_owned(), "/h".to_owned());
        let problem = read_with("h", &files).unwrap_err();
        assert!(problem.message.starts_with("--limit-rate: "), "{problem}");
        assert!(problem.hint.unwrap().starts_with("/h/.curlrc "));
        for words in ["-q h", "-qs h", "--disable h"] {
            assert!(read_with(words, &files).unwrap().operations[0].user_agent.is_none());
        }
        assert!(read_with("-sq h", &files).is_err());
        files.files.insert("/h/.curlrc".to_owned(), b"user-agent = x".to_vec());
        let line = read_with("h", &files).unwrap();
        assert_eq!(line.operations[0].user_agent.as_deref(), Some("x"));
        assert_eq!(line.warnings, ["options of /h/.curlrc are in force"]);
    }
}
