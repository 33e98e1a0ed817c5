//! Parses YAML into a tree whose nodes know their lines, with scalars as in Go's yaml.v3.
//!
//! Duplicate keys, further documents, deep nesting, and aliases that expand without bound are errors.

use std::collections::HashMap;
use std::fmt;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::go_values::decode_base64;

/// Most nodes of a document; each use of an alias counts again.
const MOST_NODES: usize = 200_000;
/// Deepest nesting of nodes.
const DEEPEST: usize = 64;
/// The prefix that `!!` stands for (YAML 1.2.2 §6.9.1).
const CORE_TAGS: &str = "tag:yaml.org,2002:";

/// An error in a configuration, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line in the file, counted from 1.
    pub line: usize,
    /// Description of the error.
    pub what: String,
    /// Valid in blackbox_exporter but not supported here: only the module is refused, not the file.
    pub(super) is_unsupported: bool,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl Mistake {
    pub(super) fn new(line: usize, what: impl Into<String>) -> Self {
        Self { line, what: what.into(), is_unsupported: false }
    }

    /// A mistake about a setting that blackbox_exporter supports.
    pub(super) fn unsupported(line: usize, what: impl Into<String>) -> Self {
        Self { is_unsupported: true, ..Self::new(line, what) }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub line: usize,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// Empty, `~`, or `null`.
    Null,
    /// Text. It is `plain` if it may be a number or a flag: unquoted, or with a tag that says so.
    Scalar {
        text: String,
        plain: bool,
    },
    /// `!!binary` that is not UTF-8.
    Binary(Vec<u8>),
    List(Vec<Node>),
    Mapping(Vec<Entry>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub line: usize,
    pub key: String,
    pub value: Node,
}

/// Parses the first document of `text`; `None` if there is no document.
pub(super) fn parse(text: &str) -> Result<Option<Node>, Mistake> {
    let mut reader =
        Reader { events: Parser::new_from_str(text), anchors: HashMap::new(), nodes: 0 };
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamEnd => return Ok(None),
            Event::DocumentStart(_) => break,
            Event::Nothing | Event::StreamStart => {}
            _ => return Err(Mistake::new(line(&span), "expected the start of a YAML document")),
        }
    }
    let (event, span) = reader.next()?;
    reader.node(event, &span, 0).map(Some)
}

/// The name of one of YAML's own tags: `binary` for `!!binary`.
fn core_name(tag: Option<&Tag>) -> Option<&str> {
    let tag = tag?;
    // A verbatim tag such as `!<tag:yaml.org,2002:binary>` has no handle.
    let written_out = || tag.suffix.strip_prefix(CORE_TAGS).filter(|_| tag.handle.is_empty());
    if tag.is_yaml_core_schema() { Some(&tag.suffix) } else { written_out() }
}

fn is_binary(tag: Option<&Tag>) -> bool {
    core_name(tag) == Some("binary")
}

fn scalar(
    text: String,
    style: ScalarStyle,
    tag: Option<&Tag>,
    line: usize,
) -> Result<Kind, Mistake> {
    if is_binary(tag) {
        return binary(&text, line);
    }
    let plain = match core_name(tag) {
        Some("int" | "float" | "bool" | "null") => true,
        _ => tag.is_none() && style == ScalarStyle::Plain,
    };
    let is_null = plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
    Ok(if is_null { Kind::Null } else { Kind::Scalar { text, plain } })
}

fn binary(text: &str, line: usize) -> Result<Kind, Mistake> {
    let bytes = decode_base64(text)
        .ok_or_else(|| Mistake::new(line, "the value of !!binary is not valid base64"))?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => Kind::Scalar { text, plain: false },
        Err(error) => Kind::Binary(error.into_bytes()),
    })
}

struct Reader<'a> {
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
}

fn line(span: &Span) -> usize {
    span.start.line().max(1)
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Mistake> {
        match self.events.next() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(Mistake::new(error.marker().line().max(1), error.info())),
            None => Err(Mistake::new(1, "the file ends in the middle of a value")),
        }
    }

    fn count(&mut self, nodes: usize, at: &Span) -> Result<(), Mistake> {
        self.nodes += nodes;
        if self.nodes > MOST_NODES {
            return Err(Mistake::new(
                line(at),
                format!("the file has more than {MOST_NODES} values"),
            ));
        }
        Ok(())
    }

    fn node(&mut self, event: Event<'a>, span: &Span, depth: usize) -> Result<Node, Mistake> {
        let line = line(span);
        if depth > DEEPEST {
            return Err(Mistake::new(
                line,
                format!("values are nested more than {DEEPEST} levels deep"),
            ));
        }
        let before = self.nodes;
        self.count(1, span)?;
        let (kind, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (scalar(text.into_owned(), style, tag.as_deref(), line)?, anchor)
            }
            Event::SequenceStart(anchor, _) => {
                let mut all = Vec::new();
                loop {
                    let (event, span) = self.next()?;
                    if matches!(event, Event::SequenceEnd) {
                        break (Kind::List(all), anchor);
                    }
                    all.push(self.node(event, &span, depth + 1)?);
                }
            }
            Event::MappingStart(anchor, _) => (self.mapping(depth)?, anchor),
            Event::Alias(id) => {
                let Some((known, nodes)) = self.anchors.get(&id).cloned() else {
                    return Err(Mistake::new(line, "an alias refers to an unknown anchor"));
                };
                self.count(nodes, span)?;
                return Ok(known);
            }
            _ => return Err(Mistake::new(line, "a value is missing")),
        };
        let node = Node { line, kind };
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), self.nodes - before));
        }
        Ok(node)
    }

    fn mapping(&mut self, depth: usize) -> Result<Kind, Mistake> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut merged: Vec<Entry> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let at = line(&span);
            let key = match event {
                Event::MappingEnd => break,
                Event::Scalar(key, _, _, tag) if is_binary(tag.as_deref()) => {
                    match binary(&key, at)? {
                        Kind::Scalar { text, .. } => text,
                        _ => return Err(Mistake::new(at, "a key must be text")),
                    }
                }
                Event::Scalar(key, ..) => key.into_owned(),
                _ => return Err(Mistake::new(at, "a key must be a plain word")),
            };
            let (event, span) = self.next()?;
            let value = self.node(event, &span, depth + 1)?;
            if key == "<<" {
                merge(&mut merged, value)?;
                continue;
            }
            if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                let first = first.line;
                let what = format!("key {key:?} is given twice; it is already in line {first}");
                return Err(Mistake::new(at, what));
            }
            entries.push(Entry { line: at, key, value });
        }
        for entry in merged {
            if entries.iter().all(|own| own.key != entry.key) {
                entries.push(entry);
            }
        }
        Ok(Kind::Mapping(entries))
    }
}

/// Adds the entries of `<<`; of several with the same key, the first wins.
fn merge(into: &mut Vec<Entry>, value: Node) -> Result<(), Mistake> {
    match value.kind {
        Kind::Mapping(entries) => {
            for entry in entries {
                if into.iter().all(|known| known.key != entry.key) {
                    into.push(entry);
                }
            }
            Ok(())
        }
        Kind::List(all) => all.into_iter().try_for_each(|one| merge(into, one)),
        _ => Err(Mistake::new(value.line, "<< must refer to a mapping")),
    }
}
