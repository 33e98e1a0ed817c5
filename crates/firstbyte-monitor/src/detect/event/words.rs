//! Describes a scope in words.

use std::fmt::Write as _;

use super::{Quorum, Scope};

/// Most targets that are named individually.
const NAMED: usize = 3;

impl Scope {
    /// For example "shop", "shop and blog" or "12 of 40 targets".
    pub(super) fn targets_phrase(&self) -> String {
        match self.targets.as_slice() {
            [] => "no target".to_owned(),
            many if many.len() > 1 && many.len() == self.of => {
                format!("all {} targets", many.len())
            }
            [before @ .., last] if before.len() < NAMED && !before.is_empty() => {
                format!("{} and {last}", before.join(", "))
            }
            [one] => one.clone(),
            many => format!("{} of {} targets", many.len(), self.of),
        }
    }

    /// For example ", IPv6, edge sydney".
    pub(super) fn tags_phrase(&self) -> String {
        let mut text = String::new();
        for (tag, value) in &self.tags {
            let _ = match tag.as_str() {
                "family" => write!(text, ", IPv{value}"),
                "tls" => write!(text, ", TLS {value}"),
                "http" => write!(text, ", HTTP/{value}"),
                _ => write!(text, ", {tag} {value}"),
            };
        }
        text
    }

    /// For example "both families" or "2 of 4 addresses": the tags that differ among the series of the scope.
    pub(super) fn quorum_phrases(&self) -> Vec<String> {
        let told_apart = self.quorum.iter().filter(|(tag, _)| *tag != "series");
        let mut phrases: Vec<String> =
            told_apart.map(|(tag, quorum)| quorum_phrase(tag, *quorum)).collect();
        if let Some(all) = self.quorum.get("series").filter(|all| all.seen < all.of) {
            phrases.push(format!("{} of {} series", all.seen, all.of));
        }
        phrases
    }
}

fn quorum_phrase(tag: &str, Quorum { seen, of }: Quorum) -> String {
    let both = seen == 2 && of == 2;
    match tag {
        "family" if both => "both families".to_owned(),
        "family" => format!("{seen} of {of} families"),
        "edge" if both => "both addresses".to_owned(),
        "edge" => format!("{seen} of {of} addresses"),
        "tls" => format!("{seen} of {of} TLS versions"),
        "http" => format!("{seen} of {of} HTTP versions"),
        "session" => format!("{seen} of {of} kinds of handshake"),
        "place" => format!("{seen} of {of} places"),
        _ => format!("{seen} of {of} values of {tag}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn scopes_are_plain_words() {
        let quorum = |seen, of| Quorum { seen, of };
        let tagged = |pairs: &[(&str, Quorum)]| -> BTreeMap<String, Quorum> {
            pairs.iter().map(|(tag, quorum)| ((*tag).to_owned(), *quorum)).collect()
        };
        let scope = Scope {
            targets: vec!["shop".into()],
            of: 4,
            tags: BTreeMap::from([("tls".to_owned(), "1.2".to_owned())]),
            quorum: tagged(&[
                ("family", quorum(2, 2)),
                ("edge", quorum(1, 4)),
                ("series", quorum(2, 8)),
                ("rack", quorum(3, 3)),
            ]),
        };
        assert_eq!(scope.targets_phrase() + &scope.tags_phrase(), "shop, TLS 1.2");
        let phrases =
            ["1 of 4 addresses", "both families", "3 of 3 values of rack", "2 of 8 series"];
        assert_eq!(scope.quorum_phrases(), phrases);
        let named = |targets: &[&str], of| {
            let targets = targets.iter().map(|target| (*target).to_owned()).collect();
            Scope { targets, of, ..Scope::default() }.targets_phrase()
        };
        assert_eq!(named(&["a", "b"], 9), "a and b");
        assert_eq!(named(&["a", "b"], 2), "all 2 targets");
        assert_eq!(named(&["a", "b", "c", "d", "e"], 9), "5 of 9 targets");
    }
}
