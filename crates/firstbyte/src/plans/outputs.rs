//! Destinations of results.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Destination of an output, stored as the file name or `-`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "PathBuf", into = "PathBuf")]
pub enum Destination {
    /// Standard output: `-`.
    StandardOutput,
    /// A file; its name is not `-`.
    File(PathBuf),
}

impl Destination {
    /// The name of a standard stream.
    pub const STREAM: &str = "-";

    /// The file name, or `-`.
    pub fn path(&self) -> &Path {
        match self {
            Self::StandardOutput => Path::new(Self::STREAM),
            Self::File(path) => path,
        }
    }

    /// Whether it is standard output.
    pub fn is_stdout(&self) -> bool {
        *self == Self::StandardOutput
    }
}

impl From<PathBuf> for Destination {
    fn from(path: PathBuf) -> Self {
        // Compare the text: `./-` is the same path spelled differently, and names a file.
        match path.as_os_str() == Self::STREAM {
            true => Self::StandardOutput,
            false => Self::File(path),
        }
    }
}

impl From<OsString> for Destination {
    fn from(path: OsString) -> Self {
        PathBuf::from(path).into()
    }
}

impl From<Destination> for PathBuf {
    fn from(destination: Destination) -> Self {
        destination.path().to_owned()
    }
}

/// Outputs of a command, one for each format. Formats that a command does not have are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Outputs {
    /// JSON: one line per result, or one object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<Destination>,
    /// Rows as CSV.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csv: Option<Destination>,
    /// Differences percentile by percentile, as CSV.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentiles: Option<Destination>,
    /// Rows as Parquet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parquet: Option<Destination>,
    /// Rows as in Zeek's `ssl.log`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zeek: Option<Destination>,
    /// Samples as an HTTP Archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub har: Option<Destination>,
    /// One HTML page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<Destination>,
    /// Medians and verdicts as Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub markdown: Option<Destination>,
    /// Packets as pcapng.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<Destination>,
    /// A directory for pictures as SVG.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub svg: Option<PathBuf>,
    /// A directory for pictures as PNG.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub png: Option<PathBuf>,
    /// A directory for logs of QUIC connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qlog: Option<PathBuf>,
}

impl Outputs {
    /// All outputs except pictures, which go to directories.
    pub fn destinations(&self) -> impl Iterator<Item = &Destination> {
        let Self {
            json,
            csv,
            percentiles,
            parquet,
            zeek,
            har,
            html,
            markdown,
            packets,
            svg: _,
            png: _,
            qlog: _,
        } = self;
        [json, csv, percentiles, parquet, zeek, har, html, markdown, packets].into_iter().flatten()
    }

    /// Whether one of the outputs goes to standard output; then nothing else is shown there.
    pub fn use_stdout(&self) -> bool {
        self.destinations().any(Destination::is_stdout)
    }

    /// Whether to draw pictures.
    pub const fn draw(&self) -> bool {
        self.svg.is_some() || self.png.is_some()
    }

    /// Whether no output was requested.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

/// When to use colours on the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColorChoice {
    /// When standard output is a terminal and `NO_COLOR` is not set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}
