//! Reads typed values from a tree, with a message for each mistake. Unknown keys are mistakes too.

use super::go_values::{parse_bytes, parse_duration, parse_int};
use super::pattern::Pattern;
use super::yaml::{Entry, Kind, Mistake, Node};

/// A mapping whose keys are taken one after the other. Keys left at the end are unknown.
pub(super) struct Fields {
    /// Path of the mapping: `modules.http_2xx.http`.
    path: String,
    pub line: usize,
    left: Vec<Entry>,
    asked: Vec<&'static str>,
}

impl Fields {
    /// The fields of a mapping; null counts as an empty one.
    pub(super) fn new(node: Node, path: impl Into<String>) -> Result<Self, Mistake> {
        let path = path.into();
        let left = match node.kind {
            Kind::Null => Vec::new(),
            Kind::Mapping(entries) => entries,
            _ => return Err(Mistake::new(node.line, format!("{path}: expected a mapping"))),
        };
        Ok(Self { path, line: node.line, left, asked: Vec::new() })
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The value of `key`, if it is present and not null.
    pub(super) fn take(&mut self, key: &'static str) -> Option<(Node, String)> {
        self.asked.push(key);
        let at = self.left.iter().position(|entry| entry.key == key)?;
        let entry = self.left.remove(at);
        let path = format!("{}.{key}", self.path);
        (entry.value.kind != Kind::Null).then_some((entry.value, path))
    }

    /// The remaining entries, whose keys are names chosen by the user.
    pub(super) fn rest(self) -> (String, Vec<Entry>) {
        (self.path, self.left)
    }

    /// Checks that no keys are left.
    pub(super) fn end(self) -> Result<(), Mistake> {
        let Some(unknown) = self.left.first() else { return Ok(()) };
        let close = self
            .asked
            .iter()
            .map(|known| (strsim::jaro(known, &unknown.key), *known))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(likeness, _)| *likeness > 0.8);
        let meant = close.map_or_else(String::new, |(_, known)| format!("; did you mean {known}?"));
        let what = format!("{}: unknown key {:?}{meant}", self.path, unknown.key);
        Err(Mistake::new(unknown.line, what))
    }

    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<String>, Mistake> {
        self.take(key).map(|(node, path)| text(node, &path)).transpose()
    }

    /// Text, or the decoded bytes of a `!!binary`.
    pub(super) fn raw_bytes(&mut self, key: &'static str) -> Result<Option<Vec<u8>>, Mistake> {
        match self.take(key) {
            Some((Node { kind: Kind::Binary(bytes), .. }, _)) => Ok(Some(bytes)),
            other => Ok(other.map(|(node, path)| text(node, &path)).transpose()?.map(Into::into)),
        }
    }

    pub(super) fn text_into(&mut self, key: &'static str, to: &mut String) -> Result<(), Mistake> {
        if let Some(value) = self.text(key)? {
            *to = value;
        }
        Ok(())
    }

    pub(super) fn flag(&mut self, key: &'static str) -> Result<Option<bool>, Mistake> {
        let Some((node, path)) = self.take(key) else { return Ok(None) };
        let line = node.line;
        let Kind::Scalar { text, plain } = node.kind else {
            return Err(Mistake::new(line, format!("{path}: expected true or false")));
        };
        // As in yaml.v3, quotes do not matter for the words of YAML 1.1.
        match (text.as_str(), plain) {
            ("true" | "True" | "TRUE", true)
            | ("y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON", _) => Ok(Some(true)),
            ("false" | "False" | "FALSE", true)
            | ("n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF", _) => Ok(Some(false)),
            _ => Err(Mistake::new(line, format!("{path}: expected true or false, found {text:?}"))),
        }
    }

    pub(super) fn flag_into(&mut self, key: &'static str, to: &mut bool) -> Result<(), Mistake> {
        if let Some(value) = self.flag(key)? {
            *to = value;
        }
        Ok(())
    }

    pub(super) fn number(&mut self, key: &'static str) -> Result<Option<i64>, Mistake> {
        let Some((node, path)) = self.take(key) else { return Ok(None) };
        number(node, &path).map(Some)
    }

    pub(super) fn duration_ns(&mut self, key: &'static str) -> Result<Option<i64>, Mistake> {
        let Some((node, path)) = self.take(key) else { return Ok(None) };
        let line = node.line;
        let is_plain = matches!(node.kind, Kind::Scalar { plain: true, .. });
        let value = text(node, &path)?;
        // yaml.v3 does not take a number as a duration, not even 0; quoted "0" is one.
        let is_number = is_plain && parse_int(&value).is_some();
        let parsed = if is_number { None } else { parse_duration(&value) };
        parsed.map(Some).ok_or_else(|| {
            let what = format!("{path}: {value:?} is not a duration; write 5s, 500ms or 1m30s");
            Mistake::new(line, what)
        })
    }

    pub(super) fn bytes(&mut self, key: &'static str) -> Result<Option<u64>, Mistake> {
        let Some((node, path)) = self.take(key) else { return Ok(None) };
        let line = node.line;
        let value = text(node, &path)?;
        parse_bytes(&value).map(Some).ok_or_else(|| {
            let what =
                format!("{path}: {value:?} is not a size; write 10MB (1MB is 1024 × 1024 bytes)");
            Mistake::new(line, what)
        })
    }

    pub(super) fn texts(&mut self, key: &'static str) -> Result<Option<Vec<String>>, Mistake> {
        let Some((node, path)) = self.take(key) else { return Ok(None) };
        list(node, &path, text).map(Some)
    }

    pub(super) fn numbers(&mut self, key: &'static str) -> Result<Option<Vec<i64>>, Mistake> {
        let Some((node, path)) = self.take(key) else { return Ok(None) };
        list(node, &path, number).map(Some)
    }

    pub(super) fn patterns(&mut self, key: &'static str) -> Result<Vec<Pattern>, Mistake> {
        let Some((node, path)) = self.take(key) else { return Ok(Vec::new()) };
        list(node, &path, pattern)
    }

    pub(super) fn pattern(&mut self, key: &'static str) -> Result<Option<Pattern>, Mistake> {
        self.take(key).map(|(node, path)| pattern(node, &path)).transpose()
    }

    /// Reads each item of a list with `read`.
    pub(super) fn each<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(Fields) -> Result<T, Mistake>,
    ) -> Result<Vec<T>, Mistake> {
        let Some((node, path)) = self.take(key) else { return Ok(Vec::new()) };
        list(node, &path, |node, path| read(Fields::new(node, path)?))
    }

    pub(super) fn inner(&mut self, key: &'static str) -> Result<Option<Self>, Mistake> {
        self.take(key).map(|(node, path)| Self::new(node, path)).transpose()
    }

    /// Refuses `key`, which blackbox_exporter supports and firstbyte does not.
    pub(super) fn refuse(&mut self, key: &'static str, why: &str) -> Result<(), Mistake> {
        match self.take(key) {
            None => Ok(()),
            Some((node, path)) => {
                Err(Mistake::unsupported(node.line, format!("{path} is not supported: {why}")))
            }
        }
    }
}

pub(super) fn text(node: Node, path: &str) -> Result<String, Mistake> {
    match node.kind {
        Kind::Scalar { text, .. } => Ok(text),
        Kind::Null => Ok(String::new()),
        Kind::Binary(_) => {
            let what = format!("{path}: a !!binary value that is not UTF-8 is not supported here");
            Err(Mistake::unsupported(node.line, what))
        }
        _ => Err(Mistake::new(node.line, format!("{path}: expected text"))),
    }
}

fn number(node: Node, path: &str) -> Result<i64, Mistake> {
    let line = node.line;
    let is_plain = matches!(node.kind, Kind::Scalar { plain: true, .. });
    let value = text(node, path)?;
    parse_int(&value).filter(|_| is_plain).ok_or_else(|| {
        let hint = if is_plain { "" } else { "; write it without quotes" };
        Mistake::new(line, format!("{path}: {value:?} is not a whole number{hint}"))
    })
}

fn pattern(node: Node, path: &str) -> Result<Pattern, Mistake> {
    let line = node.line;
    let value = text(node, path)?;
    Pattern::new(&value).map_err(|why| {
        Mistake::new(line, format!("{path}: {value:?} is not a regular expression: {why}"))
    })
}

pub(super) fn list<T>(
    node: Node,
    path: &str,
    read: impl Fn(Node, &str) -> Result<T, Mistake>,
) -> Result<Vec<T>, Mistake> {
    match node.kind {
        Kind::Null => Ok(Vec::new()),
        Kind::List(all) => all.into_iter().map(|one| read(one, path)).collect(),
        _ => Err(Mistake::new(node.line, format!("{path}: expected a list"))),
    }
}
