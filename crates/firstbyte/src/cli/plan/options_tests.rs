//! How flags set [`Options`], and whether these survive being stored.

use bytes::Bytes;
use firstbyte_probe::probe::Secret;
use firstbyte_probe::probe::options::Options;

use crate::cli::options_for;

#[test]
fn without_flags_options_are_the_defaults() {
    let made = options_for(&["https://a.test/"]).unwrap();
    assert_eq!(format!("{made:?}"), format!("{:?}", Options::default()));
}

#[test]
fn options_come_back_as_they_were_stored_and_do_not_print_what_lets_somebody_in() {
    let words = [
        "--resolve",
        "a.test:443:192.0.2.1",
        "--connect-to",
        "::b.test:",
        "--interface",
        "lo",
        "-6",
        "--tls-max",
        "1.2",
        "--curves",
        "X25519",
        "-k",
        "--cert",
        "a.pem",
        "--key",
        "b.pem",
        "--http1.1",
        "-X",
        "PUT",
        "-H",
        "Authorization: s3cret",
        "-H",
        "Accept:",
        "-H",
        "X-U: ü",
        "-d",
        "s3cret=1",
        "-A",
        "me",
        "-m",
        "2.5",
        "--resolver",
        "192.0.2.1",
        "https://a.test/",
    ];
    let mut options = options_for(&words).unwrap();
    for body in [
        None,
        Some(Bytes::from_static(b"\x00\xff")),
        options.http.body.as_ref().map(|b| b.reveal().clone()),
    ] {
        options.http.body = body.map(Secret::new);
        let stored = serde_json::to_string(&options).unwrap();
        let back: Options = serde_json::from_str(&stored).unwrap();
        assert_eq!(format!("{options:?}"), format!("{back:?}"));
        assert_eq!(serde_json::to_string(&back).unwrap(), stored);
        assert!(stored.contains("s3cret") && !format!("{back:?}").contains("s3cret"));
    }
}
