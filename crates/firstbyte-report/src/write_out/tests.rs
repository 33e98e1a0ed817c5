use super::super::fixtures;
use super::*;
use firstbyte_core::timeline::Sample;

fn render(format: &str, sample: &Sample, transfer: &Transfer) -> String {
    let pieces = Format::parse(format).render(sample, transfer);
    assert!(pieces.iter().all(|p| p.target == Target::Stdout), "{pieces:?}");
    pieces.into_iter().map(|p| p.text).collect()
}

fn rendered(format: &str, sample: &Sample) -> String {
    render(format, sample, &Transfer::default())
}

/// Each pair was verified with curl 7.88.1.
#[test]
fn what_is_no_variable_is_text() {
    let sample = fixtures::plain_http();
    for (format, expected) in [
        ("a%", "a%"),
        ("a\\", "a\\"),
        ("%%|%x|\\q|\\n|\\t|\\r", "%|%x|\\q|\n|\t|\r"),
        ("%header{content-type", "%header{content-type"),
        ("%{http_code", "%{http_code"),
        ("\\%{http_code}", "\\%{http_code}"),
        ("%{bogus}x", "x"),
        ("", ""),
    ] {
        assert_eq!(rendered(format, &sample), expected, "{format}");
    }
}

#[test]
fn unknown_names_are_told() {
    let format = Format::parse("%{bogus}%{http_code}%{url|%{stderr}%{}");
    assert_eq!(format.unknown().collect::<Vec<_>>(), ["bogus", "url|%{stderr", ""]);
}

#[test]
fn a_format_file_loses_its_line_ends() {
    let format =
        Format::parse(&Format::in_file("a: %{http_code}\\n\n  b: %{size_download}\\n\r\nc"));
    let text = &format.render(&fixtures::plain_http(), &Transfer::default())[0].text;
    assert_eq!(text, "a: 200\n  b: 14\nc");
}

#[test]
fn names_are_known_in_any_case() {
    assert_eq!(rendered("%{HTTP_CODE}", &fixtures::plain_http()), "200");
}

#[test]
fn times_count_from_the_start() {
    let sample = fixtures::tls12_sydney();
    let format = "%{time_namelookup} %{time_connect} %{time_appconnect} %{time_pretransfer} \
                  %{time_posttransfer} %{time_starttransfer} %{time_total} %{time_redirect}";
    assert_eq!(
        rendered(format, &sample),
        "0.002165 0.083290 0.249590 0.249740 0.249740 0.339120 0.347020 0.000000"
    );
}

#[test]
fn through_a_proxy_the_connection_is_its_and_tls_the_servers() {
    let format = "%{proxy_used} %{http_connect} %{time_connect} %{time_appconnect} \
                  %{proxy_ssl_verify_result}";
    assert_eq!(rendered(format, &fixtures::proxied()), "1 200 0.011260 0.063000 0");
    assert_eq!(rendered(format, &fixtures::plain_http()), "0 000 0.020480 0.000000 0");
}

#[test]
fn what_did_not_happen_is_zero() {
    let sample = fixtures::connect_timeout();
    let transfer = Transfer {
        exit_code: 28,
        error_message: Some("connect: no answer".into()),
        ..Transfer::default()
    };
    let format = "%{http_code} %{http_connect} %{http_version} %{time_connect} \
                  %{time_appconnect} %{time_starttransfer} %{time_total} [%{remote_ip}] \
                  [%{scheme}] %{num_connects} %{exitcode} %{onerror}%{errormsg}";
    assert_eq!(
        render(format, &sample, &transfer),
        "000 000 0 0.000000 0.000000 0.000000 2.002170 [] [] 0 28 connect: no answer"
    );
}

#[test]
fn onerror_ends_the_output_of_a_success() {
    let sample = fixtures::plain_http();
    assert_eq!(rendered("a%{onerror}b", &sample), "a");
    let failed = Transfer { exit_code: 7, ..Transfer::default() };
    assert_eq!(render("a%{onerror}b", &sample, &failed), "ab");
}

/// curl sums timers and the sizes of headers and requests over redirects, but reports only the last body.
#[test]
fn redirects_add_up() {
    let sample = fixtures::redirects();
    let format = "%{num_redirects} %{num_connects} %{time_redirect} %{time_connect} %{time_total} \
                  %{size_header} %{size_request} %{size_download} %{url} %{url_effective}";
    assert_eq!(
        rendered(format, &sample),
        "2 3 0.087030 0.115030 0.434050 604 393 15408 http://gov.example/ https://www.gov.example/"
    );
}

#[test]
fn speed_is_in_whole_bytes_per_second() {
    // 15,408 bytes in 347,020 µs.
    assert_eq!(rendered("%{speed_download} %{speed_upload}", &fixtures::tls12_sydney()), "44400 0");
}

#[test]
fn headers() {
    let sample = fixtures::tls12_sydney();
    assert_eq!(
        rendered("%header{Server}|%header{set-cookie}|%header{nope}|%{num_headers}", &sample),
        "nginx/1.22.1|a=1; Path=/||5"
    );
    assert_eq!(
        rendered("%{header_json}", &sample),
        "{\"server\":[\"nginx/1.22.1\"],\n\
         \"content-type\":[\"text/html; charset=utf-8\"],\n\
         \"set-cookie\":[\"a=1; Path=/\",\"b=\\\"2\\\"\"],\n\
         \"content-length\":[\"15408\"]\n}"
    );
    assert_eq!(rendered("%{header_json}", &fixtures::connect_timeout()), "{\n}");
}

#[test]
fn a_redirect_that_was_not_followed() {
    let sample =
        Sample { connection: fixtures::redirects().redirects[0].clone(), ..Sample::default() };
    assert_eq!(rendered("%{redirect_url}", &sample), "https://gov.example/");
    assert_eq!(rendered("%{redirect_url}", &fixtures::plain_http()), "");
}

#[test]
fn parts_of_both_urls() {
    let sample = fixtures::redirects();
    assert_eq!(
        rendered(
            "%{url.scheme} %{url.port} %{urle.scheme} %{urle.host} %{urle.port} %{urle.path}",
            &sample
        ),
        "http 80 https www.gov.example 443 /"
    );
}

#[test]
fn certificates() {
    let sample = fixtures::tls13_http2();
    assert_eq!(rendered("%{num_certs} %{ssl_verify_result}", &sample), "3 0");
    let certs = rendered("%{certs}", &sample);
    assert!(certs.starts_with("Subject:CN=www.gov.uk"));
    assert!(certs.contains("Expire date:Dec 31 23:59:59 2026 GMT\n"));
    assert_eq!(rendered("%{ssl_verify_result}", &fixtures::expired_certificate()), "10");
    assert_eq!(rendered("[%{certs}] %{num_certs}", &fixtures::plain_http()), "[] 0");
}

#[test]
fn time_is_that_of_the_end() {
    assert_eq!(
        rendered("%time{%Y-%m-%dT%H:%M:%S.%f}", &fixtures::plain_http()),
        "2026-11-20T14:05:09.172586"
    );
}

#[test]
fn pieces_go_where_they_belong() {
    let format = Format::parse("a%{stderr}b%{stdout}c%output{x}d%output{>>y}");
    let pieces = format.render(&fixtures::plain_http(), &Transfer::default());
    let file = |path: &str, append| Target::File { path: path.into(), append };
    let expected = [
        (Target::Stdout, "a"),
        (Target::Stderr, "b"),
        (Target::Stdout, "c"),
        (file("x", false), "d"),
        (file("y", true), ""),
    ];
    let expected: Vec<Piece> =
        expected.map(|(target, text)| Piece { target, text: text.into() }).into();
    assert_eq!(pieces, expected);
}

#[test]
fn files_are_written_and_appended_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let missing = dir.path().join("no/such").to_str().unwrap().to_owned();
    let mut stdout = Vec::new();
    let mut stderr = Vec::new();
    let mut run = |format: &str| {
        let pieces = Format::parse(format).render(&fixtures::plain_http(), &Transfer::default());
        deliver(&pieces, &mut stdout, &mut stderr).unwrap();
    };
    run(&format!("x%output{{{path}}}one"));
    run(&format!("%output{{>>{path}}}two%{{stderr}}y%output{{{missing}}}z"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "onetwo");
    assert_eq!((stdout, stderr), (b"x".to_vec(), b"yz".to_vec()));
}

#[test]
fn json_keys_are_sorted_and_end_with_the_version() {
    let names: Vec<&str> = variable::VARIABLES.iter().map(|(name, _)| *name).collect();
    assert!(names.is_sorted());
    let text = rendered("%{json}", &fixtures::tls13_http2());
    assert!(text.starts_with("{\"certs\":\"Subject:"));
    assert!(text.contains("\"http_code\":200,\"http_connect\":0,\"http_version\":\"2\","));
    assert!(text.contains("\"time_connect\":0.011260,"));
    assert!(text.contains(",\"curl_version\":\"firstbyte/"));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value.as_object().unwrap().len(), names.len() + 1);
    let text = text.split(",\"curl_version\"").next().unwrap().replace(",\"", ",\n\"");
    insta::assert_snapshot!(text);
}

#[test]
fn json_of_a_failure_has_null_for_what_is_absent() {
    let failed = Transfer { exit_code: 28, ..Transfer::default() };
    let text = render("%{json}", &fixtures::connect_timeout(), &failed);
    assert!(text.contains("\"http_code\":0,"));
    assert!(text.contains("\"scheme\":null,"));
    assert!(text.contains("\"local_ip\":\"\","));
    assert!(text.contains("\"certs\":\"\","));
    assert!(text.contains("\"time_appconnect\":0.000000,"));
}
