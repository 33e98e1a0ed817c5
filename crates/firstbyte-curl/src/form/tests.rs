use super::*;
use crate::files::MemoryFiles;

fn files() -> MemoryFiles {
    let files = MemoryFiles::with(&[
        ("file.txt", "first\nsecond\n"),
        ("dir/form.txt", "alpha=1\n"),
        ("config", "silent\n"),
        ("image.png", "PNG"),
        ("headers.txt", "#c\nA: 1\n  x\r\n\n#d\nB: 2 \n # e"),
    ]);
    *files.stdin.borrow_mut() = b"in\n".to_vec();
    files
}

/// Both with `B` instead of the boundary.
fn build(parts: &[FormText], escape: bool, typed: Option<&str>) -> (String, String) {
    let FormBody { content_type, bytes } = build_form(parts, escape, typed, &files()).unwrap();
    let boundary = "------------------------0001020304050607";
    let body = String::from_utf8(bytes).unwrap();
    (content_type.replace(boundary, "B"), body.replace(boundary, "B"))
}

fn forms(texts: &[&str]) -> Vec<FormText> {
    texts.iter().map(|text| FormText::Form((*text).to_owned())).collect()
}

fn problem_of(texts: &[&str]) -> LineProblem {
    build_form(&forms(texts), false, None, &files()).unwrap_err()
}

#[test]
fn a_form_as_curl_sends_it() {
    let parts = forms(&["a=b;type=text/plain", "f=@file.txt"]);
    let (content_type, body) = build(&parts, false, None);
    assert_eq!(content_type, "multipart/form-data; boundary=B");
    assert_eq!(
        body,
        "--B\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Type: text/plain\r\n\r\nb\r\n\
         --B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"file.txt\"\r\n\
         Content-Type: text/plain\r\n\r\nfirst\nsecond\n\r\n--B--\r\n"
    );
}

/// Heads after `Content-Disposition: form-data`, with `|` instead of CR LF, and data.
#[test]
fn single_parts() {
    let cases = [
        ("a=", "; name=\"a\"||"),
        ("=b", "||b"),
        ("a= x y ", "; name=\"a\"||x y"),
        ("a=x;y=z", "; name=\"a\"||x"),
        ("a=\"quoted; value\"", "; name=\"a\"||quoted; value"),
        ("a=\"x\\\"y\\\\z\\q\" end;type=a/b;", "; name=\"a\"|Content-Type: a/b;||x\"y\\z\\q"),
        ("a=\"x", "; name=\"a\"||\"x"),
        ("na\"me=x", "; name=\"na%22me\"||x"),
        ("a\r\n\\=b", "; name=\"a%0D%0A\\\"||b"),
        (
            "a={\"a\":1};type=application/json",
            "; name=\"a\"|Content-Type: application/json||{\"a\":1}",
        ),
        (
            "a=x;type= text/html ; charset=utf-8 ;filename= q r ",
            "; name=\"a\"; filename=\"q r\"|Content-Type: text/html ; charset=utf-8||x",
        ),
        (
            "a=x;type=a/b;filename=x;type=c/d;e=f",
            "; name=\"a\"; filename=\"x\"|Content-Type: c/d;e=f||x",
        ),
        ("a=x;filename=x.png", "; name=\"a\"; filename=\"x.png\"|Content-Type: image/png||x"),
        ("a=x;filename=y.txt", "; name=\"a\"; filename=\"y.txt\"|Content-Type: text/plain||x"),
        ("a=x;filename=q", "; name=\"a\"; filename=\"q\"||x"),
        (
            "f=@config",
            "; name=\"f\"; filename=\"config\"|Content-Type: application/octet-stream||silent\n",
        ),
        ("f=@image.png", "; name=\"f\"; filename=\"image.png\"|Content-Type: image/png||PNG"),
        (
            "f=@dir/form.txt;filename=x.JPG",
            "; name=\"f\"; filename=\"x.JPG\"|Content-Type: image/jpeg||alpha=1\n",
        ),
        (
            "f=@\"dir/form.txt\"",
            "; name=\"f\"; filename=\"form.txt\"|Content-Type: text/plain||alpha=1\n",
        ),
        (
            "f=@config;type=text/plain;filename=",
            "; name=\"f\"; filename=\"\"|Content-Type: text/plain||silent\n",
        ),
        (
            "f=@file.txt;type=a/b;filename=z;headers=\"X-P: 1\"",
            "; name=\"f\"; filename=\"z\"|Content-Type: a/b|X-P: 1||first\nsecond\n",
        ),
        (
            "f=@image.png;headers=@headers.txt",
            "; name=\"f\"; filename=\"image.png\"|Content-Type: image/png|A: 1  x|B: 2  # e||PNG",
        ),
        ("f=@-", "; name=\"f\"; filename=\"-\"||in\n"),
        ("f=@-;type=a/b", "; name=\"f\"; filename=\"-\"|Content-Type: a/b||in\n"),
        ("f=@-;filename=x.png", "; name=\"f\"; filename=\"x.png\"|Content-Type: image/png||in\n"),
        ("f=<-", "; name=\"f\"||in\n"),
        ("f=<file.txt;filename=x", "; name=\"f\"||first\nsecond\n"),
        ("f=<image.png", "; name=\"f\"|Content-Type: image/png||PNG"),
        ("f=<file.txt;type=text/csv", "; name=\"f\"|Content-Type: text/csv||first\nsecond\n"),
        ("a=b;encoder=base64", "; name=\"a\"|Content-Transfer-Encoding: base64||Yg=="),
        ("a=;encoder=base64", "; name=\"a\"|Content-Transfer-Encoding: base64||"),
        (
            "a=b;TYPE=a/b;Encoder=8BIT",
            "; name=\"a\"|Content-Type: a/b|Content-Transfer-Encoding: 8bit||b",
        ),
        ("a=b;type=1/2;headers=\"Content-Type: x/y\"", "; name=\"a\"|Content-Type: 1/2||b"),
    ];
    for (text, sent) in cases {
        let (_, body) = build(&forms(&[text]), false, None);
        let begin = "--B\r\nContent-Disposition: form-data";
        let part = body.strip_prefix(begin).and_then(|rest| rest.strip_suffix("\r\n--B--\r\n"));
        assert_eq!(part, Some(&*sent.replace('|', "\r\n")), "{text}");
    }
}

#[test]
fn headers_that_replace_generated_ones() {
    let text = "a=b;headers=\"Content-Type: x/y\";headers=\"content-disposition: z\";\
                headers=\"Content-Transfer-Encoding: q\";encoder=8bit";
    let (_, body) = build(&forms(&[text]), false, None);
    assert_eq!(
        body,
        "--B\r\nContent-Type: x/y\r\ncontent-disposition: z\r\nContent-Transfer-Encoding: q\r\n\r\n\
         b\r\n--B--\r\n"
    );
}

#[test]
fn long_lines_of_base64() {
    let line = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3";
    let data = "123456789012345678901234567890123456789012345678901234567";
    assert_eq!(encode_base64(data.as_bytes()), line.as_bytes());
    let (data, lines) = (format!("{data}{data}x"), format!("{line}\r\n{line}\r\neA=="));
    assert_eq!(encode_base64(data.as_bytes()), lines.as_bytes());
}

#[test]
fn literal_and_escaped_texts() {
    let head = "--B\r\nContent-Disposition: form-data";
    let literal =
        [FormText::Literal("a=@b;type=c".to_owned()), FormText::Literal("=(x".to_owned())];
    let (_, body) = build(&literal, false, None);
    assert_eq!(
        body,
        format!("{head}; name=\"a\"\r\n\r\n@b;type=c\r\n{head}\r\n\r\n(x\r\n--B--\r\n")
    );
    let (_, body) = build(&forms(&["a\"\\=b;filename=\"q\\\\r\""]), true, None);
    assert_eq!(
        body,
        format!("{head}; name=\"a\\\"\\\\\"; filename=\"q\\\\r\"\r\n\r\nb\r\n--B--\r\n")
    );
}

#[test]
fn typed_types_of_the_whole_form() {
    let cases = [
        ("multipart/form-data", "multipart/form-data; boundary=B", "form-data"),
        ("Multipart/Form-Data;x=y", "Multipart/Form-Data;x=y; boundary=B", "form-data"),
        ("multipart/mixed", "multipart/mixed; boundary=B", "attachment"),
        ("text/plain", "text/plain; boundary=B", "attachment"),
        ("", "; boundary=B", "attachment"),
    ];
    for (typed, sent, disposition) in cases {
        let (content_type, body) = build(&forms(&["a=b"]), false, Some(typed));
        assert_eq!(content_type, sent);
        let head = format!("--B\r\nContent-Disposition: {disposition}; name=\"a\"\r\n\r\n");
        assert_eq!(body, format!("{head}b\r\n--B--\r\n"));
    }
    let (_, body) = build(&forms(&["=b"]), false, Some("multipart/mixed"));
    assert_eq!(body, "--B\r\n\r\nb\r\n--B--\r\n");
}

#[test]
fn several_files_of_one_name() {
    let (_, body) = build(&forms(&["f=@file.txt;type=a/b , dir/form.txt;filename=q"]), false, None);
    assert_eq!(
        body,
        "--B\r\nContent-Disposition: form-data; name=\"f\"\r\n\
         Content-Type: multipart/mixed; boundary=B\r\n\r\n\
         --B\r\nContent-Disposition: attachment; filename=\"file.txt\"\r\nContent-Type: a/b\r\n\r\n\
         first\nsecond\n\r\n\
         --B\r\nContent-Disposition: attachment; filename=\"q\"\r\nContent-Type: text/plain\r\n\r\n\
         alpha=1\n\r\n--B--\r\n\r\n--B--\r\n"
    );
}

#[test]
fn groups_of_parts() {
    let parts = ["=(;type=multipart/alternative", "=plain", "= <b>h</b>;type=text/html", "=)"];
    let (_, body) = build(&forms(&parts), false, None);
    assert_eq!(
        body,
        "--B\r\nContent-Disposition: form-data\r\n\
         Content-Type: multipart/alternative; boundary=B\r\n\r\n\
         --B\r\n\r\nplain\r\n--B\r\nContent-Type: text/html\r\n\r\n<b>h</b>\r\n--B--\r\n\r\n--B--\r\n"
    );
    let parts = ["a=(;type=multipart/form-data;headers=\"X: y\"", "b=c", "=)", "d=e"];
    let (_, body) = build(&forms(&parts), false, None);
    assert_eq!(
        body,
        "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\
         Content-Type: multipart/form-data; boundary=B\r\nX: y\r\n\r\n\
         --B\r\nContent-Disposition: form-data; name=\"b\"\r\n\r\nc\r\n--B--\r\n\r\n\
         --B\r\nContent-Disposition: form-data; name=\"d\"\r\n\r\ne\r\n--B--\r\n"
    );
    let (_, open) = build(&forms(&["a=(hello", "b=c"]), false, None);
    assert_eq!(
        open,
        "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\
         Content-Type: multipart/mixed; boundary=B\r\n\r\n\
         --B\r\nContent-Disposition: attachment; name=\"b\"\r\n\r\nc\r\n--B--\r\n\r\n--B--\r\n"
    );
}

#[test]
fn refused_texts() {
    let cases = [
        ("noequals", exit::USAGE),
        ("=)", exit::USAGE),
        ("a=b;type=html", exit::USAGE),
        ("b=x;type=a/ b", exit::USAGE),
        ("a=(;type=html", exit::USAGE),
        ("a=b;encoder=quoted-printable", exit::USAGE),
        ("a=b;encoder=nope", 43),
        ("a=ü;encoder=7bit", exit::READ),
        ("f=@nofile", exit::READ),
        ("f=@", exit::READ),
        ("f=@file.txt,nofile", exit::READ),
        ("f=@file.txt,", exit::READ),
        ("f=<file.txt,form.txt", exit::READ),
        ("f=@file.txt;headers=@nofile", exit::READ),
        ("f=@file.txt;headers=@-", exit::READ),
    ];
    for (text, code) in cases {
        let problem = problem_of(&[text]);
        assert_eq!(problem.code, code, "{text}");
        assert!(problem.message.starts_with("--form: "), "{problem}");
    }
    let missing = problem_of(&["a=b", "f=@nofile"]);
    assert!(missing.message.starts_with("--form: cannot read \"nofile\": "), "{missing}");
    let literal = build_form(&[FormText::Literal("a".to_owned())], false, None, &files());
    assert!(literal.unwrap_err().message.starts_with("--form-string: "));
}
