use super::*;

/// Exit code, or target and `Host`, as measured from curl 7.88.1.
fn read(text: &str, path_as_is: bool) -> Result<String, u8> {
    let url = CurlUrl::parse(text, None, path_as_is).map_err(|problem| problem.code)?;
    Ok(format!("{} {}", url.target(), url.authority()))
}

#[test]
fn urls_are_read_as_curl_reads_them() {
    for (text, sent) in [
        // Schemes.
        ("h", "/ h"),
        ("h:81/x", "/x h:81"),
        ("http:81/x", "/x http:81"),
        ("http:/h/x", "/x h"),
        ("http:///h/x", "/x h"),
        ("HtTp:/h/x", "/x h"),
        ("ftps.h/x", "/x ftps.h"),
        ("ftp", "/ ftp"),
        // Authorities.
        ("mailto:x@h", "/ h"),
        ("u@h/p@x", "/p@x h"),
        ("http://h?x@y", "/?x@y h"),
        ("http://h#x@y", "/ h"),
        ("http://h:/x", "/x h"),
        ("http://h:0/", "/ h:0"),
        ("http://h:080/", "/ h"),
        ("http://h:443/", "/ h:443"),
        ("http://%68ost/", "/ host"),
        ("http://h_x/", "/ h_x"),
        ("http://h.:81/", "/ h.:81"),
        ("http://HoSt/", "/ HoSt"),
        ("http://a|b/", "/ a|b"),
        // Addresses.
        ("127.1:81", "/ 127.0.0.1:81"),
        ("http://1.2.3/", "/ 1.2.0.3"),
        ("http://1.2.3.4.5/", "/ 1.2.3.4.5"),
        ("http://256.1.1.1/", "/ 256.1.1.1"),
        ("http://4294967295/", "/ 255.255.255.255"),
        ("http://4294967296/", "/ 4294967296"),
        ("http://0300.0.0.1/", "/ 192.0.0.1"),
        ("http://08.1.1.1/", "/ 08.1.1.1"),
        ("http://0x/", "/ 0x"),
        ("http://0X7F.1/", "/ 127.0.0.1"),
        ("http://1.16777215/", "/ 1.255.255.255"),
        ("http://1.2.65536/", "/ 1.2.65536"),
        ("http://127.1./", "/ 127.1."),
        ("http://1e3/", "/ 1e3"),
        ("http://[::1]:81/", "/ [::1]:81"),
        ("http://u:p@[::1]:/", "/ [::1]"),
        ("http://[fe80::1%25eth0]:81/", "/ [fe80::1]:81"),
        ("http://[FE80::ABCD]/", "/ [FE80::ABCD]"),
        ("http://[0:0:0:0:0:0:0:1]/", "/ [::1]"),
        // International names.
        ("http://Ü.EXAMPLE:81/x", "/x xn--tda.example:81"),
        ("http://h%c3%bc.example/", "/ xn--h-eha.example"),
        ("http://straße.example/", "/ xn--strae-oqa.example"),
        ("http://XN--TDA.example/", "/ XN--TDA.example"),
        ("http://例え.テスト/", "/ xn--r8jz45g.xn--zckzah"),
        ("http://a。b/", "/ a.b"),
        ("http://１２７.1/", "/ 127.1"),
        // Paths and queries.
        ("http://h?", "/? h"),
        ("http://h/?#f", "/? h"),
        ("http://h/#f?y", "/ h"),
        ("http://h?a/../b", "/?a/../b h"),
        ("http://h/a%2fb%zz/%41", "/a%2fb%zz/%41 h"),
        ("http://h/$a|b^c\"d<e>\\`{}", "/$a|b^c\"d<e>\\`{} h"),
        ("http://h/ü?ü#ü", "/%c3%bc?ü h"),
        ("http://h/..", "/ h"),
        ("http://h/a/b/..", "/a/ h"),
        ("http://h/a/.", "/a/ h"),
        ("http://h/a/.../b", "/a/.../b h"),
        ("http://h/a/..;x", "/a/..;x h"),
        ("http://h/%2e%2e/x", "/%2e%2e/x h"),
        ("http://h//../x", "/x h"),
        ("http://h/.//x", "//x h"),
        ("http://h/a//../b", "/a/b h"),
        ("http://h/a/b/c/../../../../d", "/d h"),
        ("http://h//double//slash", "//double//slash h"),
    ] {
        assert_eq!(read(text, false).as_deref(), Ok(sent), "{text}");
    }
    for (text, sent) in [("http://h/a/../b/./c", "/a/../b/./c h"), ("h/ü/..", "/%c3%bc/.. h")] {
        assert_eq!(read(text, true).as_deref(), Ok(sent), "{text}");
    }
}

#[test]
fn bad_urls_end_with_curls_codes() {
    for text in [
        "",
        "x y",
        " h",
        "h ",
        "http://h/\u{7f}",
        "http:h/x",
        "http:////h/x",
        "//h/x",
        "/x",
        "?x",
        "#x",
        "://h/",
        "mailto:x",
        "a@b@h/",
        "http://a:b@c:d@h/",
        "http://h\\p",
        "http://h:65536/",
        "http://h:+80/",
        "http://h:8a/",
        "http://h:80:90/",
        "http://h%2fx/",
        "http://h%00x/",
        "http://h%20x/",
        "http://[::1]x/",
        "http://[fe80::1%]/",
        "http://[::1%25abcdefghijklmnop]/",
        "http://[1:2]/",
        "http://[::1/",
        "http://::1/",
        "http://[]/",
        "http://a[b]/",
        "http://a<b/",
        "http://a,b/",
        "http://u@/",
        "http:///",
        "http:",
        "h:",
        "h:?x",
        "http://u%00:p@h/",
        "x@y:/z",
    ] {
        assert_eq!(read(text, false), Err(exit::URL), "{text}");
    }
    for text in [
        "ftp.h/x",
        "u@FTP.h/x",
        "pop3.h",
        "ftp.",
        "foo://h/",
        "1http://h/",
        "file:/etc",
        "h.example:/x",
    ] {
        assert_eq!(read(text, false), Err(exit::SCHEME), "{text}");
    }
}

#[test]
fn default_schemes_stand_before_urls_without_one() {
    let parse = |text, scheme| CurlUrl::parse(text, Some(scheme), false);
    assert!(parse("h:81/", "https").unwrap().is_tls());
    assert_eq!(parse("ftp.h/x", "HTTP").unwrap().without_user(), "http://ftp.h/x");
    assert_eq!(parse("foo:81/x", "http").unwrap().without_user(), "http://foo:81/x");
    assert_eq!(parse("h/x", "ftp").unwrap_err().code, exit::SCHEME);
    assert_eq!(parse("foo:/h/x", "http").unwrap_err().code, exit::SCHEME);
    assert_eq!(parse("//h/x", "http").unwrap_err().code, exit::URL);
}

#[test]
fn users_are_decoded() {
    for (text, name, password) in [
        ("user@h", "user", None),
        ("http://user:@h", "user", Some("")),
        ("http://:pw@h", "", Some("pw")),
        ("http://@h", "", None),
        ("http://user:p%3Aw@h", "user", Some("p:w")),
        ("http://u:p:q@h", "u", Some("p:q")),
        ("http://u:p%zz%@h", "u", Some("p%zz%")),
        ("http://%75:%70%0a@h", "u", Some("p\n")),
        ("http://ü:ä@h", "ü", Some("ä")),
    ] {
        let user = CurlUrl::parse(text, None, false).unwrap().user.unwrap();
        assert_eq!((user.name.as_str(), user.password.as_deref()), (name, password), "{text}");
        assert_eq!(format!("{user:?}"), "UrlUser { .. }");
    }
}

#[test]
fn messages_hide_what_lets_somebody_in() {
    for (text, message) in [
        ("http://u:pw@h:99999/?k=v", "<hidden>@h:99999"),
        ("http://u:p/w@h:99999/", "<hidden>@h:99999"),
        ("http://u:p?w@h/", "<hidden>@h"),
        ("ftp://u:p#w@h/", "<hidden>@h"),
        ("http:/u:p@w@h", "<hidden>@h"),
        ("http://h:x/?k=v", "http://h:x/?k=<hidden>"),
    ] {
        let problem = CurlUrl::parse(text, None, false).unwrap_err();
        assert!(problem.message.starts_with(&format!("URL {message:?}: ")), "{problem}");
    }
}

/// The next request, as measured.
fn follow(base: &str, location: &str, path_as_is: bool) -> Result<String, u8> {
    let base = CurlUrl::parse(base, None, path_as_is).unwrap();
    let url = base.follow(location, path_as_is).map_err(|problem| problem.code)?;
    Ok(format!("{} {}", url.target(), url.authority()))
}

#[test]
fn locations_are_followed_as_curl_follows_them() {
    for (location, sent) in [
        ("/x", "/x h:81"),
        ("x", "/a/b/x h:81"),
        ("../x", "/a/x h:81"),
        ("../../../x", "/x h:81"),
        ("..", "/a/ h:81"),
        (".", "/a/b/ h:81"),
        ("?q", "/a/b/c?q h:81"),
        ("?", "/a/b/c h:81"),
        ("?q/../r", "/a/b/c?q/../r h:81"),
        ("#f", "/a/b/ h:81"),
        ("/x?", "/x h:81"),
        ("/a?b c#d e", "/a?b+c h:81"),
        ("//k/x", "/x k"),
        ("///x", "/ x"),
        ("//k:82", "/ k:82"),
        ("http:/k/y", "/y k"),
        ("HTTP://K/y", "/y K"),
        ("http://k?x y", "/?x+y k"),
        ("http://k/a b?c d", "/a%20b?c+d k"),
        ("http://ü.example/ü?ü", "/%c3%bc?%c3%bc xn--tda.example"),
        ("/%C3%BC", "/%C3%BC h:81"),
        ("\\x", "/a/b/\\x h:81"),
        (" /x \t", "/x h:81"),
        ("a/b:c", "/a/b/a/b:c h:81"),
        ("./a:b", "/a/b/a:b h:81"),
        ("g;x=1/../y", "/a/b/y h:81"),
        ("x?y/../z", "/a/b/x?y/../z h:81"),
        ("/a|b^`'<>{}%zz", "/a|b^`'<>{}%zz h:81"),
    ] {
        let followed = follow("http://h:81/a/b/c?x=1", location, false);
        assert_eq!(followed.as_deref(), Ok(sent), "{location}");
    }
    for (location, code) in [
        ("http:k/y", exit::URL),
        ("////x", exit::URL),
        ("http:// k/", exit::URL),
        ("http://k:99999/", exit::URL),
        ("/a\u{1}b", exit::URL),
        ("mailto:x", exit::SCHEME),
        ("k:82/x", exit::SCHEME),
    ] {
        assert_eq!(follow("http://h:81/a/b/c?x=1", location, false), Err(code), "{location}");
    }
    for (base, location, sent) in [
        ("http://h?q=/a/b", "x", "/x h"),
        ("http://h/a/?q", "x", "/a/x h"),
        ("http://[fe80::1%25lo]:81/a/", "/x", "/x [fe80::1]:81"),
    ] {
        assert_eq!(follow(base, location, false).as_deref(), Ok(sent), "{location}");
    }
    for (location, sent) in [
        ("../x", "/a/x h"),
        ("./x", "/a/b/x h"),
        (".", "/a/b/. h"),
        ("http://k/a/../b", "/a/../b k"),
    ] {
        assert_eq!(follow("http://h/a/b/c", location, true).as_deref(), Ok(sent), "{location}");
    }
    let base = CurlUrl::parse("http://u:p@h/a/", None, false).unwrap();
    assert!(base.follow("x", false).unwrap().user.is_some());
    assert!(base.follow("//h/x", false).unwrap().user.is_none());
}

#[test]
fn whole_urls_are_written_for_proxies_and_referers() {
    for (text, proxied, referer) in [
        ("http://u:p@h:080/a?#f", "http://h/a", "http://h:80/a"),
        ("h:81", "http://h:81/", "http://h:81/"),
        ("http://[fe80::1%25lo]:82/", "http://[fe80::1]:82/", "http://[fe80::1%25lo]:82/"),
        ("http://127.1/a/../b?c", "http://127.0.0.1/b?c", "http://127.0.0.1/b?c"),
    ] {
        let url = CurlUrl::parse(text, None, false).unwrap();
        assert_eq!(
            (url.absolute_target().as_str(), url.without_user().as_str()),
            (proxied, referer)
        );
    }
}

#[test]
fn queries_and_names_are_appended() {
    for (text, query, target) in [
        ("http://h/x?", "b", "/x?b"),
        ("http://h/x?", "", "/x"),
        ("http://h/x", "", "/x"),
        ("http://h/x?y", "", "/x?y&"),
        ("http://h/x?a&", "b", "/x?a&b"),
        ("http://h/x?a", "&b", "/x?a&&b"),
        ("http://h#f", "?b", "/??b"),
        ("http://h/a/../b", "b", "/b?b"),
    ] {
        let mut url = CurlUrl::parse(text, None, true).unwrap();
        url.append_query(query);
        assert_eq!(url.target(), target, "{text}");
    }
    for (text, file, target) in [
        ("h", "f.txt", "/f.txt"),
        ("http://h/dir", "f.txt", "/dir"),
        ("http://h/dir/?q=1", "d/f.txt", "/dir/f.txt?q=1"),
        ("http://h/?", "d\\h.txt", "/h.txt"),
        ("http://h/dir/..", "a b.txt", "/a%20b.txt"),
        ("http://h/a/../b", "f.txt", "/a/../b"),
        ("http://h/ä/", "ü.txt", "/%c3%a4/%c3%bc.txt"),
        ("http://h/", "a%2F.txt", "/a%252F.txt"),
        ("http://h/", "q?.txt", "/q%3f.txt"),
        ("http://h/", "x~y_z-1.txt", "/x~y_z-1.txt"),
        ("http://h/a/", "-", "/a/"),
        ("http://h/a/", ".", "/a/"),
    ] {
        let mut url = CurlUrl::parse(text, None, true).unwrap();
        url.complete_upload_path(file);
        assert_eq!(url.target(), target, "{text}");
    }
}

#[test]
fn remote_names_are_last_segments() {
    for (text, name) in [
        ("http://h/a/b.txt?q/r#f", Some("b.txt")),
        ("http://h/a%20b", Some("a%20b")),
        ("http://h/a\\b", Some("b")),
        ("http://h/a;x=1", Some("a;x=1")),
        ("http://h/a/", None),
        ("http://h", None),
        ("http://h/a/..", None),
    ] {
        let url = CurlUrl::parse(text, None, true).unwrap();
        assert_eq!(url.last_segment().as_deref(), name, "{text}");
    }
}

#[test]
fn origins_are_scheme_host_and_port() {
    let parse = |text| CurlUrl::parse(text, None, false).unwrap();
    let url = parse("http://h/a");
    assert!(url.has_same_origin(&parse("http://u:p@H:80/b")));
    for other in ["https://h:80/a", "http://h.:80/a", "http://h:81/a"] {
        assert!(!url.has_same_origin(&parse(other)), "{other}");
    }
}
