//! Every option of curl 7.88 as data: its names, whether it takes a value, and what firstbyte does with it. Newer
//! options are listed too, each with the reason why it is refused. `docs/from-curl.md` is made of these tables;
//! [`crate::grammar`] reads them.

use OptionKind::{Boolean, Flag, Value};
use OptionVerdict::{NoEffect, Refused, Same, SameRequests};

/// How an option is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// With a value.
    Value,
    /// Without a value; `--no-NAME` switches it off.
    Boolean,
    /// Without a value, and without `--no-`.
    Flag,
}

/// What firstbyte does with an option; the text says why, or what differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionVerdict {
    /// The same as curl.
    Same,
    /// It sends the same, but prints or writes something else.
    SameRequests(&'static str),
    /// Nothing, since over http and https it has no effect on requests or times.
    NoEffect(&'static str),
    /// It sends nothing and names the option.
    Refused(&'static str),
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct CurlOption {
    /// The name without dashes, as in `curl --help all`: some begin with `no-`.
    pub long: &'static str,
    /// The letter.
    pub short: Option<char>,
    /// How it is typed.
    pub kind: OptionKind,
    /// What firstbyte does with it.
    pub verdict: OptionVerdict,
}

/// The option of this name in [`OPTIONS`].
pub(crate) fn find_option(long: &str) -> Option<&'static CurlOption> {
    OPTIONS.iter().find(|option| option.long == long)
}

const fn option(
    long: &'static str,
    short: Option<char>,
    kind: OptionKind,
    verdict: OptionVerdict,
) -> CurlOption {
    CurlOption { long, short, kind, verdict }
}

const fn newer(long: &'static str, kind: OptionKind, reason: &'static str) -> CurlOption {
    option(long, None, kind, Refused(reason))
}

const CA_FOLDERS: &str = "give one file with --cacert";
const DEFAULT: &str = "it is the default";
const DOH: &str = "firstbyte sends no DNS queries over HTTPS";
const FTP: &str = "for FTP; firstbyte measures http and https";
const HEADS: &str = "heads stand above the report; names of fields may be in lower case";
const HELP: &str = "curl describes itself, and firstbyte --help firstbyte";
const KEEPALIVE: &str = "no probe is sent within a measurement";
const KERBEROS: &str = "firstbyte has no Kerberos";
const LOOKS: &str = "firstbyte has its own progress bar and colors";
const LOWEST_TLS: &str = "TLS 1.2 is the lowest version";
const MAIL: &str = "for mail; firstbyte measures http and https";
const NAME_SERVERS: &str = "firstbyte asks the system's resolver; --resolve gives addresses";
const NTLM: &str = "firstbyte has no NTLM";
const OLD_TLS: &str = "TLS 1.2 is firstbyte's lowest version";
const OTHER_TLS_LIBRARIES: &str = "for other TLS libraries and old servers";
const PARALLEL: &str = "firstbyte makes one transfer after the other; its own --requests and \
                        --parallel make requests at once";
const PINNED_KEYS: &str = "firstbyte does not compare keys of certificates";
const PROXY_AUTH: &str = "firstbyte knows only Basic for proxies";
const PROXY_CERTIFICATES: &str = "firstbyte shows a proxy no client certificate";
const PROXY_TLS: &str = "TLS to a proxy has default parameters";
const RANDOMNESS: &str = "curl ignores it too";
const REVOCATION_LISTS: &str = "firstbyte reads no revocation lists";
const SCHEME_DECIDES: &str = "for FTP and mail; https is encrypted anyhow";
const SLOW_TRANSFERS: &str =
    "firstbyte measures slow transfers to their end; --max-time limits them";
const SSH: &str = "for SSH; firstbyte measures http and https";
const TFTP_AND_TELNET: &str = "for TFTP and TELNET; firstbyte measures http and https";
const TLS_SRP: &str = "firstbyte has no TLS-SRP";
const TRACES: &str = "firstbyte writes no traces; -v shows heads and flights";
const UNIX_SOCKETS: &str = "firstbyte measures TCP and QUIC";

/// Every option of `curl --help all`, and `--test-event`, in the order of the alphabet.
pub const OPTIONS: &[CurlOption] = &[
    option("abstract-unix-socket", None, Value, Refused(UNIX_SOCKETS)),
    option("alt-svc", None, Value, Refused("firstbyte does not follow alternative services")),
    option("anyauth", None, Boolean, Same),
    option("append", Some('a'), Boolean, Refused(FTP)),
    option("aws-sigv4", None, Value, Refused("firstbyte does not sign requests for AWS")),
    option("basic", None, Boolean, Same),
    option("cacert", None, Value, Same),
    option("capath", None, Value, Refused(CA_FOLDERS)),
    option("cert", Some('E'), Value, Same),
    option(
        "cert-status",
        None,
        Boolean,
        Refused("firstbyte does not check stapled OCSP responses"),
    ),
    option("cert-type", None, Value, Same),
    option("ciphers", None, Value, Same),
    option("compressed", None, Boolean, Same),
    option("compressed-ssh", None, Boolean, Refused(SSH)),
    option("config", Some('K'), Value, Same),
    option("connect-timeout", None, Value, Same),
    option("connect-to", None, Value, Same),
    option("continue-at", Some('C'), Value, Same),
    option("cookie", Some('b'), Value, Same),
    option("cookie-jar", Some('c'), Value, Same),
    option("create-dirs", None, Boolean, Same),
    option("create-file-mode", None, Value, SameRequests("files get the usual mode")),
    option("crlf", None, Boolean, Refused("it would change the bytes of an upload")),
    option("crlfile", None, Value, Refused(REVOCATION_LISTS)),
    option("curves", None, Value, Same),
    option("data", Some('d'), Value, Same),
    option("data-ascii", None, Value, Same),
    option("data-binary", None, Value, Same),
    option("data-raw", None, Value, Same),
    option("data-urlencode", None, Value, Same),
    option("delegation", None, Value, Refused(KERBEROS)),
    option("digest", None, Boolean, Same),
    option("disable", Some('q'), Boolean, Same),
    option("disable-eprt", None, Boolean, Refused(FTP)),
    option("disable-epsv", None, Boolean, Refused(FTP)),
    option("disallow-username-in-url", None, Boolean, Same),
    option("dns-interface", None, Value, Refused(NAME_SERVERS)),
    option("dns-ipv4-addr", None, Value, Refused(NAME_SERVERS)),
    option("dns-ipv6-addr", None, Value, Refused(NAME_SERVERS)),
    option("dns-servers", None, Value, Refused(NAME_SERVERS)),
    option("doh-cert-status", None, Boolean, Refused(DOH)),
    option("doh-insecure", None, Boolean, Refused(DOH)),
    option("doh-url", None, Value, Refused(DOH)),
    option("dump-header", Some('D'), Value, SameRequests(HEADS)),
    option("egd-file", None, Value, NoEffect(RANDOMNESS)),
    option("engine", None, Value, Refused("firstbyte has no OpenSSL engines")),
    option("etag-compare", None, Value, Same),
    option("etag-save", None, Value, Same),
    option("expect100-timeout", None, Value, SameRequests("the wait is curl's default")),
    option("fail", Some('f'), Boolean, Same),
    option("fail-early", None, Boolean, Same),
    option("fail-with-body", None, Boolean, Same),
    option("false-start", None, Boolean, NoEffect(OTHER_TLS_LIBRARIES)),
    option("form", Some('F'), Value, Same),
    option("form-escape", None, Boolean, Same),
    option("form-string", None, Value, Same),
    option("ftp-account", None, Value, Refused(FTP)),
    option("ftp-alternative-to-user", None, Value, Refused(FTP)),
    option("ftp-create-dirs", None, Boolean, Refused(FTP)),
    option("ftp-method", None, Value, Refused(FTP)),
    option("ftp-pasv", None, Boolean, Refused(FTP)),
    option("ftp-port", Some('P'), Value, Refused(FTP)),
    option("ftp-pret", None, Boolean, Refused(FTP)),
    option("ftp-skip-pasv-ip", None, Boolean, Refused(FTP)),
    option("ftp-ssl-ccc", None, Boolean, Refused(FTP)),
    option("ftp-ssl-ccc-mode", None, Value, Refused(FTP)),
    option("ftp-ssl-control", None, Boolean, Refused(FTP)),
    option("get", Some('G'), Boolean, Same),
    option("globoff", Some('g'), Boolean, Same),
    option("happy-eyeballs-timeout-ms", None, Value, Same),
    option("haproxy-protocol", None, Boolean, Same),
    option("head", Some('I'), Boolean, SameRequests(HEADS)),
    option("header", Some('H'), Value, Same),
    option("help", Some('h'), Boolean, Refused(HELP)),
    option("hostpubmd5", None, Value, Refused(SSH)),
    option("hostpubsha256", None, Value, Refused(SSH)),
    option(
        "hsts",
        None,
        Value,
        Refused("firstbyte keeps no list of hosts; write https:// instead"),
    ),
    option("http0.9", None, Boolean, Refused("firstbyte reads no HTTP/0.9 responses")),
    option("http1.0", Some('0'), Flag, Same),
    option("http1.1", None, Flag, Same),
    option("http2", None, Flag, Same),
    option("http2-prior-knowledge", None, Flag, Same),
    option("http3", None, Flag, Same),
    option("http3-only", None, Flag, Same),
    option("ignore-content-length", None, Boolean, Refused("it would change when a response ends")),
    option("include", Some('i'), Boolean, SameRequests(HEADS)),
    option("insecure", Some('k'), Boolean, Same),
    option("interface", None, Value, Same),
    option("ipv4", Some('4'), Flag, Same),
    option("ipv6", Some('6'), Flag, Same),
    option("json", None, Value, Same),
    option("junk-session-cookies", Some('j'), Boolean, Same),
    option("keepalive-time", None, Value, NoEffect(KEEPALIVE)),
    option("key", None, Value, Same),
    option("key-type", None, Value, Same),
    option("krb", None, Value, Refused(FTP)),
    option("libcurl", None, Value, Refused("firstbyte writes no C programs")),
    option("limit-rate", None, Value, Refused("firstbyte measures at full speed")),
    option("list-only", Some('l'), Boolean, Refused(FTP)),
    option("local-port", None, Value, Same),
    option("location", Some('L'), Boolean, Same),
    option("location-trusted", None, Boolean, Same),
    option("login-options", None, Value, Refused(MAIL)),
    option("mail-auth", None, Value, Refused(MAIL)),
    option("mail-from", None, Value, Refused(MAIL)),
    option("mail-rcpt", None, Value, Refused(MAIL)),
    option("mail-rcpt-allowfails", None, Boolean, Refused(MAIL)),
    option("manual", Some('M'), Boolean, Refused(HELP)),
    option("max-filesize", None, Value, Refused("firstbyte receives responses to their ends")),
    option("max-redirs", None, Value, Same),
    option("max-time", Some('m'), Value, Same),
    option("metalink", None, Boolean, Refused("curl itself no longer has it")),
    option("negotiate", None, Boolean, Refused(KERBEROS)),
    option("netrc", Some('n'), Boolean, Same),
    option("netrc-file", None, Value, Same),
    option("netrc-optional", None, Boolean, Same),
    option("next", Some(':'), Flag, Same),
    option("no-alpn", None, Boolean, Same),
    option("no-buffer", Some('N'), Boolean, NoEffect("output is never held back")),
    option("no-clobber", None, Boolean, Same),
    option("no-keepalive", None, Boolean, NoEffect(KEEPALIVE)),
    option("no-npn", None, Boolean, NoEffect("TLS no longer has it")),
    option("no-progress-meter", None, Boolean, NoEffect(LOOKS)),
    option("no-sessionid", None, Boolean, NoEffect("every handshake is a full one")),
    option("noproxy", None, Value, Same),
    option("ntlm", None, Boolean, Refused(NTLM)),
    option("ntlm-wb", None, Boolean, Refused(NTLM)),
    option("oauth2-bearer", None, Value, Same),
    option("output", Some('o'), Value, Same),
    option("output-dir", None, Value, Same),
    option("parallel", Some('Z'), Boolean, Refused(PARALLEL)),
    option("parallel-immediate", None, Boolean, Refused(PARALLEL)),
    option("parallel-max", None, Value, Refused(PARALLEL)),
    option("pass", None, Value, NoEffect("keys with a passphrase are not read")),
    option("path-as-is", None, Boolean, Same),
    option("pinnedpubkey", None, Value, Refused(PINNED_KEYS)),
    option("post301", None, Boolean, Same),
    option("post302", None, Boolean, Same),
    option("post303", None, Boolean, Same),
    option("preproxy", None, Value, Refused("firstbyte goes through one proxy")),
    option("progress-bar", Some('#'), Boolean, NoEffect(LOOKS)),
    option("proto", None, Value, Same),
    option("proto-default", None, Value, Same),
    option("proto-redir", None, Value, Same),
    option("proxy", Some('x'), Value, Same),
    option("proxy-anyauth", None, Boolean, Refused(PROXY_AUTH)),
    option("proxy-basic", None, Boolean, NoEffect(DEFAULT)),
    option("proxy-cacert", None, Value, Same),
    option("proxy-capath", None, Value, Refused(CA_FOLDERS)),
    option("proxy-cert", None, Value, Refused(PROXY_CERTIFICATES)),
    option("proxy-cert-type", None, Value, Refused(PROXY_CERTIFICATES)),
    option("proxy-ciphers", None, Value, Refused(PROXY_TLS)),
    option("proxy-crlfile", None, Value, Refused(REVOCATION_LISTS)),
    option("proxy-digest", None, Boolean, Refused(PROXY_AUTH)),
    option("proxy-header", None, Value, Same),
    option("proxy-insecure", None, Boolean, Same),
    option("proxy-key", None, Value, Refused(PROXY_CERTIFICATES)),
    option("proxy-key-type", None, Value, Refused(PROXY_CERTIFICATES)),
    option("proxy-negotiate", None, Boolean, Refused(KERBEROS)),
    option("proxy-ntlm", None, Boolean, Refused(NTLM)),
    option("proxy-pass", None, Value, Refused(PROXY_CERTIFICATES)),
    option("proxy-pinnedpubkey", None, Value, Refused(PINNED_KEYS)),
    option("proxy-service-name", None, Value, Refused(KERBEROS)),
    option("proxy-ssl-allow-beast", None, Boolean, NoEffect(OTHER_TLS_LIBRARIES)),
    option("proxy-ssl-auto-client-cert", None, Boolean, Refused(PROXY_CERTIFICATES)),
    option("proxy-tls13-ciphers", None, Value, Refused(PROXY_TLS)),
    option("proxy-tlsauthtype", None, Value, Refused(TLS_SRP)),
    option("proxy-tlspassword", None, Value, Refused(TLS_SRP)),
    option("proxy-tlsuser", None, Value, Refused(TLS_SRP)),
    option("proxy-tlsv1", None, Flag, Refused(PROXY_TLS)),
    option("proxy-user", Some('U'), Value, Same),
    option("proxy1.0", None, Value, Same),
    option("proxytunnel", Some('p'), Boolean, Same),
    option("pubkey", None, Value, Refused(SSH)),
    option("quote", Some('Q'), Value, Refused(FTP)),
    option("random-file", None, Value, NoEffect(RANDOMNESS)),
    option("range", Some('r'), Value, Same),
    option("rate", None, Value, Refused("firstbyte makes no pauses between transfers")),
    option("raw", None, Boolean, Refused("firstbyte always decodes the transfer encoding")),
    option("referer", Some('e'), Value, Same),
    option(
        "remote-header-name",
        Some('J'),
        Boolean,
        SameRequests("the name is known when the transfer ends"),
    ),
    option("remote-name", Some('O'), Boolean, Same),
    option("remote-name-all", None, Boolean, Same),
    option("remote-time", Some('R'), Boolean, SameRequests("the file's time is not set")),
    option("remove-on-error", None, Boolean, Same),
    option("request", Some('X'), Value, Same),
    option("request-target", None, Value, Same),
    option("resolve", None, Value, Same),
    option("retry", None, Value, Same),
    option("retry-all-errors", None, Boolean, Same),
    option("retry-connrefused", None, Boolean, Same),
    option("retry-delay", None, Value, Same),
    option("retry-max-time", None, Value, Same),
    option("sasl-authzid", None, Value, Refused(MAIL)),
    option("sasl-ir", None, Boolean, Refused(MAIL)),
    option("service-name", None, Value, Refused(KERBEROS)),
    option("show-error", Some('S'), Boolean, NoEffect("errors are always shown")),
    option("silent", Some('s'), Boolean, SameRequests("no progress bar; the report is printed")),
    option("socks4", None, Value, Same),
    option("socks4a", None, Value, Same),
    option("socks5", None, Value, Same),
    option("socks5-basic", None, Boolean, NoEffect(DEFAULT)),
    option("socks5-gssapi", None, Boolean, Refused(KERBEROS)),
    option("socks5-gssapi-nec", None, Boolean, Refused(KERBEROS)),
    option("socks5-gssapi-service", None, Value, Refused(KERBEROS)),
    option("socks5-hostname", None, Value, Same),
    option("speed-limit", Some('Y'), Value, Refused(SLOW_TRANSFERS)),
    option("speed-time", Some('y'), Value, Refused(SLOW_TRANSFERS)),
    option("ssl", None, Boolean, NoEffect(SCHEME_DECIDES)),
    option("ssl-allow-beast", None, Boolean, NoEffect(OTHER_TLS_LIBRARIES)),
    option("ssl-auto-client-cert", None, Boolean, NoEffect(OTHER_TLS_LIBRARIES)),
    option("ssl-no-revoke", None, Boolean, NoEffect(OTHER_TLS_LIBRARIES)),
    option("ssl-reqd", None, Boolean, NoEffect(SCHEME_DECIDES)),
    option("ssl-revoke-best-effort", None, Boolean, NoEffect(OTHER_TLS_LIBRARIES)),
    option("sslv2", Some('2'), Flag, Refused(OLD_TLS)),
    option("sslv3", Some('3'), Flag, Refused(OLD_TLS)),
    option("stderr", None, Value, Refused("redirect it with 2>")),
    option("styled-output", None, Boolean, NoEffect(LOOKS)),
    option("suppress-connect-headers", None, Boolean, NoEffect("heads of proxies are not printed")),
    option("tcp-fastopen", None, Boolean, Refused("firstbyte sends no data with the SYN")),
    option("tcp-nodelay", None, Boolean, NoEffect("always on")),
    option("telnet-option", Some('t'), Value, Refused(TFTP_AND_TELNET)),
    option("test-event", None, Boolean, Refused("for tests of curl itself")),
    option("tftp-blksize", None, Value, Refused(TFTP_AND_TELNET)),
    option("tftp-no-options", None, Boolean, Refused(TFTP_AND_TELNET)),
    option("time-cond", Some('z'), Value, Same),
    option("tls-max", None, Value, Same),
    option("tls13-ciphers", None, Value, Same),
    option("tlsauthtype", None, Value, Refused(TLS_SRP)),
    option("tlspassword", None, Value, Refused(TLS_SRP)),
    option("tlsuser", None, Value, Refused(TLS_SRP)),
    option("tlsv1", Some('1'), Flag, SameRequests(LOWEST_TLS)),
    option("tlsv1.0", None, Flag, SameRequests(LOWEST_TLS)),
    option("tlsv1.1", None, Flag, SameRequests(LOWEST_TLS)),
    option("tlsv1.2", None, Flag, Same),
    option("tlsv1.3", None, Flag, Same),
    option("tr-encoding", None, Boolean, Same),
    option("trace", None, Value, Refused(TRACES)),
    option("trace-ascii", None, Value, Refused(TRACES)),
    option("trace-time", None, Boolean, Refused(TRACES)),
    option("unix-socket", None, Value, Refused(UNIX_SOCKETS)),
    option("upload-file", Some('T'), Value, Same),
    option("url", None, Value, Same),
    option("url-query", None, Value, Same),
    option("use-ascii", Some('B'), Boolean, Refused(FTP)),
    option("user", Some('u'), Value, Same),
    option("user-agent", Some('A'), Value, Same),
    option("verbose", Some('v'), Boolean, SameRequests("the report has heads and flights")),
    option("version", Some('V'), Boolean, Refused(HELP)),
    option("write-out", Some('w'), Value, SameRequests("it takes the report's place")),
    option("xattr", None, Boolean, Refused("firstbyte writes no extended attributes")),
];

const NEWER_DATA: &str = "newer than what firstbyte knows: it has no variables";
const NEWER_FILES: &str = "newer than what firstbyte knows: it writes files as curl 7.88 does";
const NEWER_HANDSHAKES: &str = "newer than what firstbyte knows: its handshakes are full ones";
const NEWER_PROXY: &str = "newer than what firstbyte knows: it speaks to proxies as curl 7.88 does";
const NEWER_ROOTS: &str =
    "newer than what firstbyte knows: --cacert names the certificates to trust";
const NEWER_SOCKET: &str = "newer than what firstbyte knows: it sets no such option of a socket";
const NEWER_TRACES: &str = "newer than what firstbyte knows: it writes no traces";

/// Options of curl 8. Only their whole names are understood, so that they make no prefix ambiguous.
pub const NEWER_OPTIONS: &[CurlOption] = &[
    newer("ca-native", Boolean, NEWER_ROOTS),
    newer("dump-ca-embed", Boolean, NEWER_ROOTS),
    newer("ech", Value, "newer than what firstbyte knows: it encrypts no ClientHello"),
    newer("expand-*", Value, NEWER_DATA),
    newer("follow", Boolean, "newer than what firstbyte knows: --location follows redirects"),
    newer("haproxy-clientip", Value, NEWER_PROXY),
    newer("ip-tos", Value, NEWER_SOCKET),
    newer("ipfs-gateway", Value, "newer than what firstbyte knows: it measures http and https"),
    newer("keepalive-cnt", Value, NEWER_SOCKET),
    newer("mptcp", Boolean, NEWER_SOCKET),
    newer("out-null", Boolean, NEWER_FILES),
    newer(
        "parallel-max-host",
        Value,
        "newer than what firstbyte knows: one transfer follows the other",
    ),
    newer("proxy-ca-native", Boolean, NEWER_ROOTS),
    newer("proxy-http2", Boolean, NEWER_PROXY),
    newer(
        "sigalgs",
        Value,
        "newer than what firstbyte knows: it offers its own signature algorithms",
    ),
    newer("skip-existing", Boolean, NEWER_FILES),
    newer("ssl-sessions", Value, NEWER_HANDSHAKES),
    newer("tls-earlydata", Boolean, NEWER_HANDSHAKES),
    newer("trace-config", Value, NEWER_TRACES),
    newer("trace-ids", Boolean, NEWER_TRACES),
    newer("upload-flags", Value, "newer than what firstbyte knows: it is for mail"),
    newer("variable", Value, NEWER_DATA),
    newer("vlan-priority", Value, NEWER_SOCKET),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/from-curl.md");
    const BEGIN: &str = "<!-- options: begin -->\n";
    const END: &str = "<!-- options: end -->\n";
    const OTHER_OUTPUT: &str = "Same requests, other output";
    const IGNORED: &str = "No effect over http and https";
    const REFUSED: &str = "Refused";
    const NEWER: &str = "Newer than curl 7.88, and refused";

    #[test]
    fn every_name_and_letter_stands_once() {
        let names: BTreeSet<_> =
            OPTIONS.iter().chain(NEWER_OPTIONS).map(|option| option.long).collect();
        assert_eq!(names.len(), OPTIONS.len() + NEWER_OPTIONS.len());
        // 250 of the help, and --test-event.
        assert_eq!(OPTIONS.len(), 251);
        let letters: Vec<char> = OPTIONS.iter().filter_map(|option| option.short).collect();
        assert_eq!(letters.iter().collect::<BTreeSet<_>>().len(), letters.len());
        assert_eq!(letters.len(), 59);
        assert!(OPTIONS.is_sorted_by_key(|option| option.long));
    }

    #[test]
    fn the_document_lists_every_option() {
        let text = fs::read_to_string(DOCUMENT).unwrap();
        let (before, rest) = text.split_once(BEGIN).unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        assert!(before.len() + after.len() < 2_600);
        let made = table_for_docs();
        let whole = format!("{before}{BEGIN}{made}{END}{after}");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(DOCUMENT, &whole).unwrap();
        } else {
            assert!(
                text == whole,
                "docs/from-curl.md is not made of the table of options: UPDATE_DOCS=1 cargo test -p firstbyte-curl \
                 writes it\n{made}"
            );
        }
        assert!(whole.len() < 9_000, "{} bytes", whole.len());
        let listed: Vec<&str> =
            made.split('`').skip(1).step_by(2).flat_map(str::split_whitespace).collect();
        assert_eq!(listed.len(), OPTIONS.len() + NEWER_OPTIONS.len());
        for option in OPTIONS.iter().chain(NEWER_OPTIONS) {
            assert!(listed.contains(&format!("--{}", option.long).as_str()), "{}", option.long);
        }
    }

    /// The part of the document between the markers: options that are the same, and a row for each reason.
    fn table_for_docs() -> String {
        let mut same = String::new();
        let mut rows: Vec<(&str, &str, String)> = Vec::new();
        for option in OPTIONS.iter().chain(NEWER_OPTIONS) {
            let name = format!(" --{}", option.long);
            let (title, note) = match option.verdict {
                Same => {
                    same.push_str(&name);
                    continue;
                }
                SameRequests(difference) => (OTHER_OUTPUT, difference),
                NoEffect(reason) => (IGNORED, reason),
                Refused(reason) => match reason.strip_prefix("newer than what firstbyte knows: ") {
                    Some(reason) => (NEWER, reason),
                    None => (REFUSED, reason),
                },
            };
            match rows.iter_mut().find(|row| (row.0, row.1) == (title, note)) {
                Some((_, _, names)) => names.push_str(&name),
                None => rows.push((title, note, name)),
            }
        }
        let mut text = format!("## Same as curl\n\n`{}`\n", same.trim_start());
        for title in [OTHER_OUTPUT, IGNORED, REFUSED, NEWER] {
            text.push_str(&format!("\n## {title}\n\n| option | note |\n|---|---|\n"));
            for (_, note, names) in rows.iter().filter(|row| row.0 == title) {
                text.push_str(&format!("| `{}` | {note} |\n", names.trim_start()));
            }
        }
        text
    }
}
