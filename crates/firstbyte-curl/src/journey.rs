//! One transfer from its first request to its last: redirects, and rounds of authentication.
//!
//! Input: an operation, one of its transfers, and each response's status and fields. Output: the next request. It
//! sends nothing. The rules are those of `Curl_follow` and `Curl_http_auth_act` in curl 7.88.

mod inputs;
#[cfg(test)]
mod tests;

use inputs::{
    SentRange, TypedInputs, check_settings, choose_range, cut_body, read_netrc,
    read_time_condition, read_upload,
};

use crate::address::CurlUrl;
use crate::auth::{AuthScheme, DigestChallenge, basic, bearer, choose};
use crate::cookies::CookieJar;
use crate::files::LineFiles;
use crate::head::{
    CurlRequest, HeadInput, build_connect, build_request, find_typed, method_of, typed_value,
};
use crate::netrc::find_login;
use crate::noproxy::{ProxyAddress, find_proxy};
use crate::problem::LineProblem;
use crate::settings::{CookieText, NetrcChoice, Operation, RequestKind};
use crate::transfers::{Transfer, check_url};
use firstbyte_core::timeline::ProxyKind;

/// What comes after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Nothing: it was the last.
    Done,
    /// Another request: a redirect, or a round of authentication.
    Again,
    /// There were more of these than `--max-redirs` allows.
    TooManyRedirects,
}

/// How the next request authenticates itself.
enum PickedAuth {
    Basic,
    Bearer,
    /// Digest alone is allowed: without a challenge yet, bodies are held back.
    Digest(Option<Box<DigestChallenge>>),
    /// The server has the choice.
    Undecided,
    /// The server wants none.
    Nothing,
}

/// One transfer: the requests that lead to its last response.
pub struct Journey {
    operation: Operation,
    inputs: TypedInputs,
    first_url: CurlUrl,
    url: CurlUrl,
    kind: RequestKind,
    body: Vec<u8>,
    /// Before `-C` has cut it.
    full_length: usize,
    has_known_length: bool,
    range: Option<SentRange>,
    time_condition: Option<String>,
    warnings: Vec<String>,
    netrc: Option<String>,
    /// Of `-u` or of the URL.
    login: Option<(String, Option<String>)>,
    picked: PickedAuth,
    /// How often the nonce is used.
    digest_count: u32,
    digest_random: [u8; 16],
    referer: Option<String>,
    proxy: Option<ProxyAddress>,
    /// Rounds of authentication count, too.
    redirects: u32,
}

impl Journey {
    /// A transfer at its beginning.
    ///
    /// # Errors
    /// When a file cannot be read, or a setting cannot be sent.
    pub fn new(
        operation: Operation,
        transfer: &Transfer,
        files: &dyn LineFiles,
    ) -> Result<Self, LineProblem> {
        check_settings(&operation)?;
        let inputs = TypedInputs::read(&operation, files)?;
        Self::start(operation, inputs, transfer, files)
    }

    /// Another try, or another transfer of the same operation: only uploads are read again.
    ///
    /// # Errors
    /// As [`Journey::new`].
    pub fn again_for(
        &self,
        transfer: &Transfer,
        files: &dyn LineFiles,
    ) -> Result<Self, LineProblem> {
        Self::start(self.operation.clone(), self.inputs.clone(), transfer, files)
    }

    fn start(
        operation: Operation,
        inputs: TypedInputs,
        transfer: &Transfer,
        files: &dyn LineFiles,
    ) -> Result<Self, LineProblem> {
        let upload = transfer.upload.as_deref();
        let kind = match operation.kind {
            // This URL has no -T; others have.
            RequestKind::Put if upload.is_none() => RequestKind::Get,
            RequestKind::Post if operation.get => RequestKind::Get,
            kind => kind,
        };
        let (mut body, has_known_length) = match upload.filter(|_| kind == RequestKind::Put) {
            Some(name) => read_upload(name, files)?,
            None => (inputs.body.clone(), true),
        };
        let full_length = body.len();
        let range = choose_range(&operation, transfer, kind, files);
        if let Some(SentRange::From(from)) = range {
            body = cut_body(body, from, kind, has_known_length)?;
        }
        let mut warnings = Vec::new();
        let time_condition = operation.time_condition.as_deref().and_then(|text| {
            let line = read_time_condition(text, files);
            if line.is_none() {
                warnings.push(format!("--time-cond: {text:?} is neither a date nor a file"));
            }
            line
        });
        let url = transfer.url.clone();
        Ok(Self {
            login: first_login(&operation, &url),
            netrc: read_netrc(&operation, files),
            picked: first_choice(&operation),
            digest_count: 1,
            digest_random: [0; 16],
            referer: operation.referer.clone().filter(|referer| !referer.is_empty()),
            proxy: find_proxy(&operation.proxy, &url, files)?,
            redirects: 0,
            first_url: url.clone(),
            operation,
            inputs,
            url,
            kind,
            body,
            full_length,
            has_known_length,
            range,
            time_condition,
            warnings,
        })
    }

    /// What curl warns of, too.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The proxy of the next request.
    pub fn proxy(&self) -> Option<&ProxyAddress> {
        self.proxy.as_ref()
    }

    /// Whether an HTTP proxy is asked for a tunnel: for TLS, by `-p`, and by a `--connect-to` that matches.
    pub fn needs_tunnel(&self) -> bool {
        let is_moved = |rule: &String| moves_connection(rule, &self.url);
        self.url.is_tls()
            || self.operation.proxy.tunnel
            || self.operation.connect_to.iter().any(is_moved)
    }

    /// The CONNECT request for a tunnel; empty without a proxy.
    pub fn connect_head(&self, host_and_port: &str) -> Vec<u8> {
        self.proxy
            .as_ref()
            .map_or_else(Vec::new, |proxy| build_connect(&self.operation, proxy, host_and_port))
    }

    /// The next request.
    ///
    /// # Errors
    /// When curl would not send it either, or would wait for ever.
    pub fn request(
        &self,
        jar: &CookieJar,
        files: &dyn LineFiles,
    ) -> Result<CurlRequest, LineProblem> {
        let is_http = |proxy: &&ProxyAddress| {
            matches!(proxy.kind, ProxyKind::Http | ProxyKind::Https) && !self.needs_tunnel()
        };
        build_request(&HeadInput {
            operation: &self.operation,
            headers: &self.inputs.headers,
            url: &self.url,
            kind: self.kind,
            body: &self.body,
            has_known_length: self.has_known_length,
            form_content_type: self.inputs.form_content_type.as_deref(),
            is_probe: self.holds_body_back(),
            keeps_host: self.keeps_host(),
            keeps_secrets: self.keeps_secrets(),
            authorization: self.authorization(),
            range: self.range_line(),
            cookies: self.cookie_line(jar, files),
            time_condition: self.time_condition.as_deref().filter(|line| {
                let name = line.split(':').next().unwrap_or_default();
                self.typed(name).is_none()
            }),
            referer: self.referer.as_deref(),
            proxy: self.proxy.as_ref().filter(is_http),
        })
    }

    /// Takes the response to the request.
    ///
    /// # Errors
    /// When the server redirects to a URL that is malformed or forbidden.
    pub fn next(
        &mut self,
        jar: &mut CookieJar,
        status: u16,
        fields: &[(String, String)],
        files: &dyn LineFiles,
    ) -> Result<NextStep, LineProblem> {
        if self.operation.keeps_cookies() {
            let url = self.cookie_url();
            for cookie in values_of(fields, "set-cookie") {
                jar.receive(&url, cookie, files.now());
            }
        }
        let follows = self.operation.location || self.operation.location_trusted;
        let is_round = self.continue_authentication(status, fields, files);
        let location = values_of(fields, "location")
            .filter(|location| !location.trim().is_empty())
            .last()
            .filter(|_| follows && (300..400).contains(&status) && !is_round);
        if location.is_none() && !is_round {
            return Ok(NextStep::Done);
        }
        // curl counts rounds of authentication, and writes a Referer for them, as for redirects.
        if self.operation.max_redirs.is_some_and(|most| self.redirects >= most) {
            return Ok(NextStep::TooManyRedirects);
        }
        self.redirects += 1;
        if self.operation.auto_referer {
            self.referer = Some(self.url.without_user());
        }
        if let Some(location) = location {
            self.go_to(location, status, files)?;
        }
        Ok(NextStep::Again)
    }

    fn go_to(
        &mut self,
        location: &str,
        status: u16,
        files: &dyn LineFiles,
    ) -> Result<(), LineProblem> {
        let operation = &self.operation;
        let url = self.url.follow(location, operation.path_as_is)?;
        check_url(operation, &url, true)?;
        let is_elsewhere = url.port() != self.url.port() || url.is_tls() != self.url.is_tls();
        if is_elsewhere && !operation.location_trusted {
            self.login = None;
        }
        if let (Some(user), None) = (&url.user, &operation.user) {
            self.login = Some((user.name.clone(), user.password.clone()));
        }
        let keeps_post = match status {
            301 => operation.post301,
            302 => operation.post302,
            303 => operation.post303,
            _ => true,
        };
        self.kind = match self.kind {
            RequestKind::Post | RequestKind::Form if !keeps_post => RequestKind::Get,
            RequestKind::Put if status == 303 => RequestKind::Get,
            kind => kind,
        };
        self.proxy = find_proxy(&operation.proxy, &url, files)?;
        self.url = url;
        Ok(())
    }

    /// Takes up a challenge, or releases the body that waited for one. Answers whether the same URL is asked again.
    fn continue_authentication(
        &mut self,
        status: u16,
        fields: &[(String, String)],
        files: &dyn LineFiles,
    ) -> bool {
        let held_back = self.holds_body_back();
        let has_answered = matches!(self.picked, PickedAuth::Digest(Some(_)));
        self.digest_count += u32::from(has_answered);
        if self.login_here().is_none() {
            return false;
        }
        if held_back && status < 300 {
            self.picked = PickedAuth::Nothing;
            return true;
        }
        let is_open = matches!(self.picked, PickedAuth::Undecided | PickedAuth::Digest(None));
        if status != 401 || !(is_open || has_answered) {
            return false;
        }
        let challenges: Vec<&str> = values_of(fields, "www-authenticate").collect();
        match choose(&challenges, self.operation.auth) {
            Some(AuthScheme::Basic) if is_open => self.picked = PickedAuth::Basic,
            Some(AuthScheme::Digest(challenge)) if is_open || challenge.is_stale() => {
                files.random(&mut self.digest_random);
                self.digest_count = 1;
                self.picked = PickedAuth::Digest(Some(challenge));
            }
            _ => return false,
        }
        true
    }

    /// Before Digest knows its nonce, curl sends an empty body.
    fn holds_body_back(&self) -> bool {
        let has_body =
            matches!(self.kind, RequestKind::Post | RequestKind::Form | RequestKind::Put);
        has_body && matches!(self.picked, PickedAuth::Digest(None)) && self.login_here().is_some()
    }

    /// The name and the password for the current host, if it may have them.
    fn login_here(&self) -> Option<(String, String)> {
        let is_required = self.operation.netrc == NetrcChoice::Required;
        let netrc = self.netrc.as_deref().filter(|_| self.operation.user.is_none());
        let found = netrc.and_then(|text| match &self.login {
            Some((_, Some(_))) if !is_required => None,
            Some((name, _)) => find_login(text, &self.url.host, Some(name.as_str()))
                .map(|(_, password)| (name.clone(), password)),
            None => find_login(text, &self.url.host, None),
        });
        // A netrc file names its hosts: what it says may go to them after any redirect.
        found.or_else(|| {
            let (name, password) = self.login.as_ref().filter(|_| self.keeps_secrets())?;
            Some((name.clone(), password.clone().unwrap_or_default()))
        })
    }

    fn authorization(&self) -> Option<String> {
        if self.typed("Authorization").is_some() {
            return None;
        }
        match &self.picked {
            PickedAuth::Basic => self.login_here().map(|(name, password)| basic(&name, &password)),
            PickedAuth::Bearer => {
                let token = self.operation.oauth2_bearer.as_deref();
                token.filter(|_| self.keeps_secrets()).map(bearer)
            }
            PickedAuth::Digest(Some(challenge)) => {
                let (name, password) = self.login_here()?;
                let login = (name.as_str(), password.as_str());
                let method = method_of(&self.operation, self.kind);
                let (random, count) = (&self.digest_random, self.digest_count);
                challenge.answer(login, method, &self.url.target(), random, count)
            }
            PickedAuth::Digest(None) | PickedAuth::Undecided | PickedAuth::Nothing => None,
        }
    }

    /// Whether credentials may go to the current host.
    fn keeps_secrets(&self) -> bool {
        self.operation.location_trusted || self.url.has_same_origin(&self.first_url)
    }

    /// Whether a typed Host is for the current host.
    fn keeps_host(&self) -> bool {
        self.url.host.eq_ignore_ascii_case(&self.first_url.host)
    }

    fn typed(&self, name: &str) -> Option<&str> {
        find_typed(&self.inputs.headers, name)
    }

    /// The URL whose cookies count: a typed Host replaces its host.
    fn cookie_url(&self) -> CurlUrl {
        let mut url = self.url.clone();
        let typed = self.typed("Host").filter(|_| self.keeps_host());
        let host = typed.map_or("", |line| typed_value(line, "Host"));
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next(),
            None => host.split(':').next(),
        };
        if let Some(host) = host.filter(|host| !host.is_empty()) {
            host.clone_into(&mut url.host);
        }
        url
    }

    /// Kept cookies come first. A typed Cookie replaces only the text of `-b`.
    fn cookie_line(&self, jar: &CookieJar, files: &dyn LineFiles) -> Option<String> {
        let kept = self.operation.keeps_cookies();
        let kept = kept.then(|| jar.cookies_for(&self.cookie_url(), files.now())).flatten();
        let typed: Vec<&str> = match self.typed("Cookie") {
            Some(_) => Vec::new(),
            None => self.operation.cookies.iter().filter_map(pairs_of).collect(),
        };
        let typed = (!typed.is_empty()).then(|| typed.join(";"));
        let parts: Vec<String> = kept.into_iter().chain(typed).collect();
        (!parts.is_empty()).then(|| format!("Cookie: {}", parts.join("; ")))
    }

    fn range_line(&self) -> Option<String> {
        let range = self.range.as_ref()?;
        // curl writes -1 for a length that it does not know.
        let known = self.has_known_length.then_some(self.full_length);
        let length = known.map_or_else(|| "-1".to_owned(), |length| length.to_string());
        match self.kind {
            RequestKind::Get | RequestKind::Head if self.typed("Range").is_none() => match range {
                SentRange::Typed(text) => Some(format!("Range: bytes={text}")),
                SentRange::From(from) => Some(format!("Range: bytes={from}-")),
                SentRange::WholeUpload => None,
            },
            RequestKind::Post | RequestKind::Put if self.typed("Content-Range").is_none() => {
                Some(match range {
                    SentRange::Typed(text) => format!("Content-Range: bytes {text}/{length}"),
                    SentRange::From(from) => {
                        let end = known.map_or(from - 1, |length| length as u64);
                        let last = end.saturating_sub(1);
                        format!("Content-Range: bytes {from}-{last}/{end}")
                    }
                    SentRange::WholeUpload => {
                        let last = known.map_or(-2, |length| length as i64 - 1);
                        format!("Content-Range: bytes 0-{last}/{length}")
                    }
                })
            }
            _ => None,
        }
    }
}

/// `-u` beats the URL.
fn first_login(operation: &Operation, url: &CurlUrl) -> Option<(String, Option<String>)> {
    let typed = operation.user.as_deref().and_then(|text| text.split_once(':'));
    let typed = typed.map(|(name, password)| (name.to_owned(), Some(password.to_owned())));
    typed.or_else(|| url.user.as_ref().map(|user| (user.name.clone(), user.password.clone())))
}

/// A kind that is allowed alone is used at once.
fn first_choice(operation: &Operation) -> PickedAuth {
    let auth = operation.auth;
    match (auth.any, auth.basic, auth.digest, operation.oauth2_bearer.is_some()) {
        (false, _, false, false) => PickedAuth::Basic,
        (false, false, false, true) => PickedAuth::Bearer,
        (false, false, true, false) => PickedAuth::Digest(None),
        _ => PickedAuth::Undecided,
    }
}

/// Whether `HOST:PORT:HOST:PORT` of `--connect-to` is about this URL, and names another place.
fn moves_connection(rule: &str, url: &CurlUrl) -> bool {
    let at = if rule.starts_with('[') { rule.find(']').unwrap_or(0) } else { 0 };
    let Some(end) = rule[at..].find(':') else { return false };
    let (host, rest) = rule.split_at(at + end);
    let (port, place) = rest[1..].split_once(':').unwrap_or_default();
    (host.is_empty() || host.eq_ignore_ascii_case(&url.host_in_brackets()))
        && (port.is_empty() || port.parse::<u16>() == Ok(url.port()))
        && !matches!(place, "" | ":")
}

fn values_of<'a>(fields: &'a [(String, String)], name: &'a str) -> impl Iterator<Item = &'a str> {
    let named = fields.iter().filter(move |field| field.0.eq_ignore_ascii_case(name));
    named.map(|field| field.1.as_str())
}

fn pairs_of(text: &CookieText) -> Option<&str> {
    match text {
        CookieText::Pairs(text) => Some(text),
        CookieText::File(_) => None,
    }
}
