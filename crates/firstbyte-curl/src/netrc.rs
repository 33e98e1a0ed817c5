//! Logins of a `.netrc` file.
//!
//! Input: the file's text, a host, and the login if the URL names one. Output: the login and the password that curl
//! takes. It does not look for the file, and does not choose between it and other credentials.

/// What the next word of the file is.
#[derive(Clone, Copy)]
enum NetrcWord {
    /// A keyword outside the host's entries.
    Elsewhere,
    /// The name of a host.
    Host,
    /// A keyword of an entry for the host.
    Keyword,
    Login,
    Password,
}

/// The login and password for a host, of the first complete entry.
///
/// With a `login`, the entry of that login; if there is none, the password of the host's last entry, as curl does.
pub fn find_login(text: &str, host: &str, login: Option<&str>) -> Option<(String, String)> {
    let mut next = NetrcWord::Elsewhere;
    let mut in_macro = false;
    let mut is_wanted = false;
    let mut name = None;
    let mut password = None;
    'file: for line in text.lines() {
        if in_macro {
            in_macro = !line.is_empty();
            continue;
        }
        for word in read_words(line)? {
            let keyword = word.to_ascii_lowercase();
            next = match next {
                NetrcWord::Elsewhere => match keyword.as_str() {
                    "machine" => NetrcWord::Host,
                    "default" => NetrcWord::Keyword,
                    "macdef" => {
                        in_macro = true;
                        break;
                    }
                    _ => NetrcWord::Elsewhere,
                },
                NetrcWord::Host if word.eq_ignore_ascii_case(host) => NetrcWord::Keyword,
                NetrcWord::Host => NetrcWord::Elsewhere,
                NetrcWord::Keyword => match keyword.as_str() {
                    "login" => NetrcWord::Login,
                    "password" => NetrcWord::Password,
                    "machine" | "default" => {
                        (name, password) = (None, None);
                        if keyword == "machine" { NetrcWord::Host } else { NetrcWord::Keyword }
                    }
                    _ => NetrcWord::Keyword,
                },
                NetrcWord::Login => {
                    is_wanted = login.is_none_or(|login| login == word);
                    name = Some(word);
                    NetrcWord::Keyword
                }
                NetrcWord::Password => {
                    password = Some(word);
                    NetrcWord::Keyword
                }
            };
            if is_wanted && password.is_some() {
                break 'file;
            }
        }
    }
    let password = password.or_else(|| is_wanted.then(String::new))?;
    Some((login.map(str::to_owned).or(name).unwrap_or_default(), password))
}

/// The words of a line, without comments; absent if a quotation has no end.
fn read_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start_matches([' ', '\t']);
    while !rest.is_empty() && !rest.starts_with('#') {
        let mut word = String::new();
        let mut letters = rest.chars();
        if rest.starts_with('"') {
            letters.next();
            loop {
                match letters.next()? {
                    '"' => break,
                    '\\' => word.push(match letters.next()? {
                        'n' => '\n',
                        'r' => '\r',
                        't' => '\t',
                        letter => letter,
                    }),
                    letter => word.push(letter),
                }
            }
            // curl drops the letter after a quotation, whatever it is.
            letters.next();
        } else {
            word.extend(letters.by_ref().take_while(|letter| !letter.is_ascii_whitespace()));
        }
        rest = letters.as_str().trim_start_matches([' ', '\t']);
        words.push(word);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The credentials as curl sends them before base64.
    fn find_credentials(text: &str, login: Option<&str>) -> Option<String> {
        find_login(text, "localhost", login).map(|(name, password)| format!("{name}:{password}"))
    }

    #[test]
    fn files_as_curl_reads_them() {
        for (text, credentials) in [
            ("machine localhost login a password b\n", Some("a:b")),
            ("machine localhost\nlogin a\n\tpassword b", Some("a:b")),
            ("machine localhost\r\nlogin a\r\npassword b\r\n", Some("a:b")),
            ("machine\nlocalhost\nlogin\na\npassword\nb", Some("a:b")),
            ("MACHINE LOCALHOST LOGIN A PASSWORD B", Some("A:B")),
            ("machine x login q password r\nmachine localhost login a password b\n", Some("a:b")),
            ("machine localhost.example login q password r\n", None),
            ("default login d password e\nmachine localhost login a password b\n", Some("d:e")),
            ("machine localhost login a password b\ndefault login d password e\n", Some("a:b")),
            ("machine x login q password r default login d password e", Some("d:e")),
            ("default\nmachine localhost login a password b", Some("a:b")),
            ("default", None),
            ("machine localhost password b\n", Some(":b")),
            ("machine localhost login a\n", Some("a:")),
            ("machine localhost\n", None),
            ("", None),
            ("machine localhost login a\nmachine x password p\n", Some(":")),
            ("machine localhost login a\ndefault login d password e\n", Some("d:e")),
            ("machine localhost login a default password q\n", Some(":q")),
            ("machine localhost password b login a\n", Some("a:b")),
            ("machine localhost password b\nmachine localhost login a password c\n", Some("a:c")),
            ("machine localhost login a account z password b\n", Some("a:b")),
            ("machine localhost account login password b\n", Some("password:")),
            ("machine localhost login a login c password b\n", Some("c:b")),
            ("machine localhost login a password b password c\n", Some("a:b")),
            ("machine localhost login default password machine\n", Some("default:machine")),
        ] {
            assert_eq!(find_credentials(text, None).as_deref(), credentials, "{text:?}");
        }
    }

    #[test]
    fn quotations_comments_and_macros() {
        for (text, credentials) in [
            (r#"machine localhost login "a b" password "c\"d\\e\n\tx""#, Some("a b:c\"d\\e\n\tx")),
            (r#"machine localhost login a password "b\q""#, Some("a:bq")),
            (r#"machine localhost login a"b password b"c"#, Some("a\"b:b\"c")),
            (r#"machine localhost login "a"x password b"#, Some("a:b")),
            (r#"machine localhost login "a"x"c" password b"#, Some("a:b")),
            (r#"machine "localhost" login a password b"#, Some("a:b")),
            (r#"machine localhost login "" password b"#, Some(":b")),
            (r#"machine localhost login a password """#, Some("a:")),
            (r#"machine localhost login "a password b"#, None),
            ("machine localhost login c password d\nmachine x password \"b", Some("c:d")),
            ("# machine localhost login c password d\ndefault login a password b # c", Some("a:b")),
            ("machine localhost login a#b password #c\nd\n", Some("a#b:d")),
            ("machine localhost login a password b#c\n", Some("a:b#c")),
            (
                "macdef x\nmachine localhost login m password n\n\ndefault login a password b",
                Some("a:b"),
            ),
            ("macdef init\nmachine localhost login m password n\n", None),
            (
                "macdef x machine localhost login a password b\n\ndefault login c password d",
                Some("c:d"),
            ),
            ("machine localhost macdef x\nlogin m\n\nlogin a password b\n", Some("a:b")),
        ] {
            assert_eq!(find_credentials(text, None).as_deref(), credentials, "{text:?}");
        }
    }

    #[test]
    fn entries_of_a_login() {
        let two = "machine localhost login a password b\nmachine localhost login c password d\n";
        for (text, login, credentials) in [
            (two, "a", Some("a:b")),
            (two, "c", Some("c:d")),
            (two, "x", Some("x:d")),
            (two, "C", Some("C:d")),
            (two, "", Some(":d")),
            ("machine localhost password b login c\n", "c", Some("c:b")),
            ("machine localhost password b login q\n", "c", Some("c:b")),
            ("machine localhost login c\n", "c", Some("c:")),
            ("machine localhost login a\n", "c", None),
            ("machine z login c password q", "c", None),
        ] {
            assert_eq!(find_credentials(text, Some(login)).as_deref(), credentials, "{login}");
        }
    }
}
