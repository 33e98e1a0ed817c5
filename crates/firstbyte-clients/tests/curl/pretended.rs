//! Sessions and early data of newer curls than the installed one, imitated by a program that answers according to their
//! documentation, with lines from users' posts.

use firstbyte_clients::curl::{CurlCapabilities, CurlOptions, CurlProber};
use firstbyte_core::timeline::{EarlyData, Handshake, SessionMechanism};
use firstbyte_probe::probe::options::{Options, SessionUse};
use firstbyte_probe::probe::{Prober, Target};

use crate::support::{check, wait, write_program};

/// From documentation: `--ssl-sessions` imports the sessions in the file, and writes its own sessions there at the end.
const SCRIPT: &str = r##"#!/bin/sh
case "$2" in
--version)
    echo 'curl 8.13.0 (x86_64-pc-linux-gnu) libcurl/8.13.0 OpenSSL/3.5.0 zlib/1.3'
    echo 'Features: alt-svc HTTP2 SSL SSLS-EXPORT'
    exit ;;
--help)
    echo '     --ssl-sessions <filename> Load/save SSL session tickets from/to this file'
    echo '     --tls-earlydata      Allow use of TLSv1.3 early data (0RTT)'
    exit ;;
esac
config=$(cat)
value() { printf '%s\n' "$config" | sed -n "s/^$1 = \"\(.*\)\"\$/\1/p"; }
marker=$(value write-out | sed 's/.*\\n\(.*\) report .*/\1/')
sessions=$(value ssl-sessions)
log=$(value stderr)
early=0
{
    if grep -qs '^[^#]' "$sessions"; then
        echo "* SSL reusing session with ALPN 'h2'"
        resumed=1
        case "$config" in *tls-earlydata*) early=127 ;; esac
    fi
    echo '* TLSv1.3 (OUT), TLS handshake, Client hello (1):'
    echo '* TLSv1.3 (IN), TLS handshake, Server hello (2):'
    [ "$resumed" ] || echo '* TLSv1.3 (IN), TLS handshake, Certificate (11):'
    echo '* TLSv1.3 (IN), TLS handshake, Finished (20):'
    echo '* SSL connection using TLSv1.3 / TLS_AES_256_GCM_SHA384 / X25519MLKEM768 / id-ecPublicKey'
    echo '* ALPN: server accepted h2'
    echo '> GET / HTTP/2'
    echo '< HTTP/2 200 '
    echo '< '
} > "$log"
printf '\n%s report ' "$marker"
echo '{"exitcode":0,"http_code":200,"http_version":"2","num_connects":1,"time_namelookup":0.001,"time_connect":0.011,"time_appconnect":0.022,"time_pretransfer":0.0221,"time_posttransfer":0.0222,"time_starttransfer":0.033,"time_total":0.034,"tls_earlydata":'$early'}'
printf '# Your SSL session cache. https://curl.se/docs/ssl-sessions.html\n\nc2Vzcw==:dGlja2V0\n' > "$sessions"
"##;

#[test]
fn sessions_are_obtained_and_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("curl");
    write_program(&program, SCRIPT);
    let program = program.display().to_string();
    let target = Target::parse("https://site.test/").unwrap();
    let able = CurlCapabilities::ask(&program).unwrap();
    for (session, early) in [
        (SessionUse::Resume(None), None),
        (
            SessionUse::EarlyData { any_method: false },
            Some(EarlyData { bytes_before_server_hello: Some(127), accepted: Some(true) }),
        ),
    ] {
        let mut options = Options::default();
        options.tls.session = session;
        let curl = CurlOptions::new(&program, &options, able.clone()).unwrap();
        let prober = CurlProber::new(curl).unwrap();
        let (unprepared, sample, again) = wait(async {
            // Without a session there is a full handshake, and the sample says so.
            let unprepared =
                CurlProber::new(CurlOptions::new(&program, &options, able.clone()).unwrap())
                    .unwrap()
                    .probe(&target)
                    .await;
            prober.prepare(&target).await.unwrap();
            let sample = prober.probe(&target).await;
            prober.prepare(&target).await.unwrap();
            (unprepared, sample, prober.probe(&target).await)
        });
        for sample in [&sample, &again] {
            check(sample);
            assert_eq!(sample.failure(), None);
            let tls = sample.connection.facts.tls.as_ref().unwrap();
            assert_eq!(tls.handshake, Some(Handshake::Resumed));
            assert_eq!(tls.session_offered, Some(SessionMechanism::Psk));
            assert_eq!((tls.early_data, tls.group.as_deref()), (early, Some("X25519MLKEM768")));
        }
        let tls = unprepared.connection.facts.tls.as_ref().unwrap();
        assert_eq!((tls.handshake, tls.session_offered), (Some(Handshake::Full), None));
    }
}
