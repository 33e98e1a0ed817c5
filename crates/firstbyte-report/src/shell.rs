//! Commands as a user would type them.

/// `words` quoted for a POSIX shell.
pub fn line(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted() {
        let words = ["firstbyte", "--variant", "HTTP/3: http=3", "it's", ""].map(String::from);
        assert_eq!(line(&words), "firstbyte --variant 'HTTP/3: http=3' 'it'\\''s' ''");
    }
}
