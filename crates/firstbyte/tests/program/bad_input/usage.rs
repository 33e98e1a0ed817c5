//! Unusable flags and URLs.

use super::refused::{self, Row};
use crate::support::files::Directory;

const FLAGS: &[Row] = &[
    (
        &[],
        2,
        "Where did the time before the first byte go?\n\n  \
           firstbyte https://example.com/                              one connection\n  \
           firstbyte compare https://example.com/ --vary tls=1.2,1.3   TLS 1.2 and 1.3\n  \
           firstbyte demo                                              without a network\n\n\
         firstbyte -h lists commands and flags.\n",
    ),
    (
        &["--frobnicate", "a.test"],
        2,
        "error: unexpected argument '--frobnicate' found\n\n\
         Usage: firstbyte [OPTIONS] <URL>...\n       firstbyte <COMMAND>\n<see help>\n",
    ),
    (
        &["--sample", "3", "a.test"],
        2,
        "error: unexpected argument '--sample' found\n\n  tip: a similar argument exists: '--samples'\n\n\
         Usage: firstbyte --samples <N> <URL>...\n<see help>\n",
    ),
    (
        &["a.test", "--samples"],
        2,
        "error: a value is required for '--samples <N>' but none was supplied\n<see help>\n",
    ),
    (
        &["-n", "0", "a.test"],
        2,
        "error: invalid value '0' for '--samples <N>': expected a whole number, 1 or more\n<see help>\n",
    ),
    (
        &["-n", "ten", "a.test"],
        2,
        "error: invalid value 'ten' for '--samples <N>': expected a whole number, 1 or more\n<see help>\n",
    ),
    (
        &["-n", "-1", "a.test"],
        2,
        "error: invalid value '-1' for '--samples <N>': expected a whole number, 1 or more\n<see help>\n",
    ),
    (
        &["--warmup", "1.5", "a.test"],
        2,
        "error: invalid value '1.5' for '--warmup <N>': expected a whole number, 0 or more\n<see help>\n",
    ),
    (
        &["--interval", "fast", "a.test"],
        2,
        "error: --interval \"fast\": not a time\n\
         hint: write 5s, 250ms or 1.5min (units: ns, us, ms, s, min, h, d)\n",
    ),
    (
        &["--interval", "-1", "a.test"],
        2,
        "error: --interval \"-1\": not a time\n\
         hint: write 5s, 250ms or 1.5min (units: ns, us, ms, s, min, h, d)\n",
    ),
    (
        &["--interval", "NaN", "a.test"],
        2,
        "error: --interval \"NaN\": not a time\n\
         hint: write 5s, 250ms or 1.5min (units: ns, us, ms, s, min, h, d)\n",
    ),
    (
        &["--connect-timeout", "5 weeks", "a.test"],
        2,
        "error: --connect-timeout \"5 weeks\": not a time: unknown unit \"weeks\"\n\
         hint: write 5s, 250ms or 1.5min (units: ns, us, ms, s, min, h, d)\n",
    ),
    (
        &["--max-time", "-1", "a.test"],
        2,
        "error: --max-time \"-1\": not a time\n\
         hint: write 5s, 250ms or 1.5min (units: ns, us, ms, s, min, h, d)\n",
    ),
    (
        &["-m", "1e12", "a.test"],
        2,
        "error: --max-time \"1e12\": not a time: unknown unit \"e12\"\n\
         hint: write 5s, 250ms or 1.5min (units: ns, us, ms, s, min, h, d)\n",
    ),
    (
        &["--json", "--csv", "a.test"],
        2,
        "error: --json and --csv cannot both go to standard output\n\
         hint: --json=FILE writes to a file\n",
    ),
    (
        &["--json", "-w", "%{http_code}", "a.test"],
        2,
        "error: --json and -w cannot both go to standard output\n\
         hint: --json=FILE writes to a file\n",
    ),
    (
        &["--sequence", "--csv", "a.test"],
        2,
        "error: --csv and --sequence cannot both go to standard output\n\
         hint: --csv=FILE writes to a file\n",
    ),
    (
        &["compare", "a.test", "--aa", "--csv", "x.csv"],
        2,
        "error: unexpected argument 'x.csv' found\n\n  \
         tip: --csv=x.csv writes to that file; --csv alone writes to standard output\n  \
         tip: write URLs and input files before --csv\n<see help>\n",
    ),
    (
        &["a.test", "--json", "-"],
        2,
        "error: unexpected argument '-' found\n\n  \
         tip: --json alone writes to standard output\n  \
         tip: write URLs and input files before --json\n<see help>\n",
    ),
    (
        &["--json", "-o", "-", "a.test"],
        2,
        "error: the body and --json or --csv cannot both go to standard output\nhint: give -o a file\n",
    ),
    (
        &["--color", "pink", "a.test"],
        2,
        "error: invalid value 'pink' for '--color <COLOR>'\n  \
         [possible values: auto, always, never]\n<see help>\n",
    ),
    (
        &["--resolver", "nobody", "a.test"],
        2,
        "error: --resolver \"nobody\": not a resolver\n\
         hint: expected dns, system, or an address such as 192.0.2.1 or [2001:db8::1]:53\n",
    ),
    (
        &["--resolve", "a.test:443", "a.test"],
        2,
        "error: --resolve \"a.test:443\": expected a host, a port and an address\n\
         hint: write HOST:PORT:ADDRESS, such as example.com:443:192.0.2.1\n",
    ),
    (
        &["--resolve", "a.test:https:192.0.2.1", "a.test"],
        2,
        "error: --resolve \"a.test:https:192.0.2.1\": \"https\" is not a port\n\
         hint: write HOST:PORT:ADDRESS, such as example.com:443:192.0.2.1\n",
    ),
    (
        &["--resolve", "a.test:443:b.test", "a.test"],
        2,
        "error: --resolve \"a.test:443:b.test\": \"b.test\" is not an address\n\
         hint: write HOST:PORT:ADDRESS, such as example.com:443:192.0.2.1\n",
    ),
    (
        &["--resolve", ":443:192.0.2.1", "a.test"],
        2,
        "error: --resolve \":443:192.0.2.1\": the host is missing\n\
         hint: write HOST:PORT:ADDRESS, such as example.com:443:192.0.2.1\n",
    ),
    (
        &["--connect-to", "a.test:443", "a.test"],
        2,
        "error: --connect-to \"a.test:443\": expected four parts, got 2\n\
         hint: write HOST1:PORT1:HOST2:PORT2, any of them empty\n",
    ),
    (
        &["--connect-to", "::b.test:65536", "a.test"],
        2,
        "error: --connect-to \"::b.test:65536\": \"65536\" is not a port\n\
         hint: write HOST1:PORT1:HOST2:PORT2, any of them empty\n",
    ),
    (
        &["-4", "-6", "a.test"],
        2,
        "error: the argument '--ipv4' cannot be used with '--ipv6'\n\n\
         Usage: firstbyte --ipv4 <URL>...\n<see help>\n",
    ),
    (
        &["--interface", "a name/with more", "a.test"],
        2,
        "error: --interface \"a name/with more\": neither a device's name nor an address\n",
    ),
    (
        &["--interface", "host!eth0", "a.test"],
        2,
        "error: --interface \"host!eth0\": \"eth0\" is not an address\n",
    ),
    (
        &["--tls-max", "1.1", "a.test"],
        2,
        "error: --tls-max 1.1: TLS 1.1 is not supported any more\n\
         hint: the lowest version is 1.2 (RFC 8996)\n",
    ),
    (
        &["--tls-max", "2", "a.test"],
        2,
        "error: --tls-max \"2\": not a TLS version\nhint: one of 1.2, 1.3, default\n",
    ),
    (
        &["--tls-max", "1.2", "--tlsv1.3", "a.test"],
        2,
        "error: --tlsv1.3 and --tls-max 1.2 leave no version to offer\n",
    ),
    (
        &["--curves", "X25519:brainpool", "a.test"],
        2,
        "error: unknown group \"brainpool\" in --curves; choose from X25519, P-256, P-384, \
         X25519MLKEM768, SecP256r1MLKEM768, MLKEM768\n",
    ),
    (
        &["--http1.1", "--http2", "a.test"],
        2,
        "error: the argument '--http1.1' cannot be used with '--http2'\n\n\
         Usage: firstbyte --http1.1 <URL>...\n<see help>\n",
    ),
    (
        &["-H", "no colon", "a.test"],
        2,
        "error: -H \"no <hidden>\": no colon in it\nhint: write -H 'Name: value'\n",
    ),
    (
        &["-H", "two words: x", "a.test"],
        2,
        "error: -H \"two words: <hidden>\": not a field name\nhint: write -H 'Name: value'\n",
    ),
    (
        &["-H", "X: a\nY: b", "a.test"],
        2,
        "error: -H \"X: <hidden>\": the value has a character that a field cannot hold\n\
         hint: write -H 'Name: value'\n",
    ),
    (&["-X", "GET /", "a.test"], 2, "error: -X \"GET /\": not a method\n"),
    (
        &["-A", "a\nb", "a.test"],
        2,
        "error: -A \"a\\nb\": it has a character that a field cannot hold\n",
    ),
    (
        &["-I", "-d", "x", "a.test"],
        2,
        "error: the argument '--head' cannot be used with '--data <DATA>'\n\n\
         Usage: firstbyte --head <URL>...\n<see help>\n",
    ),
    (
        &["--max-redirs", "-2", "a.test"],
        2,
        "error: invalid value '-2' for '--max-redirs <N>': expected a whole number from -1 to 1000000\n<see help>\n",
    ),
    (
        &["--key", "client.key", "a.test"],
        2,
        "error: the following required arguments were not provided:\n  --cert <FILE>\n\n\
         Usage: firstbyte --cert <FILE> --key <FILE> <URL>...\n<see help>\n",
    ),
];

const URLS: &[Row] = &[
    (&[""], 3, "error: \"\": not a URL: empty host\n"),
    (&["https://"], 3, "error: \"https://\": not a URL: empty host\n"),
    (&["http://[::1/"], 3, "error: \"http://[::1/\": not a URL: invalid IPv6 address\n"),
    (&["a.test:99999"], 3, "error: \"a.test:99999\": not a URL: invalid port number\n"),
    (&["a.test:0"], 3, "error: \"a.test:0\": not a URL: port 0 is not a valid port\n"),
    (&["300.1.1.1"], 3, "error: \"300.1.1.1\": not a URL: invalid IPv4 address\n"),
    (&["two words"], 3, "error: \"two words\": not a URL: invalid host name\n"),
    (
        &["ftp://a.test/"],
        1,
        "error: \"ftp://a.test/\": scheme ftp:// is not supported, only https:// and http://\n",
    ),
    (
        &["file:///etc/passwd"],
        1,
        "error: \"file:///etc/passwd\": scheme file:// is not supported, only https:// and http://\n",
    ),
    (
        &["https://me:secret@a.test/"],
        3,
        "error: \"https://<hidden>@a.test/\": a user and password in the URL are not supported\n\
         hint: pass -H 'Authorization: …'\n",
    ),
];

#[test]
fn flags() {
    refused::check(&Directory::new(), FLAGS);
}

#[test]
fn urls() {
    refused::check(&Directory::new(), URLS);
}
