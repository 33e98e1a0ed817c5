//! The stored form of a run: a header, then lines with samples and the facts that they share.

mod environment;
mod line;
mod quick;
mod row;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use environment::{EnvironmentRecord, InterfaceRecord};
pub use line::{LineError, failure, sample_line, taken, taken_in_detail};
pub use quick::SampleDetail;
pub use row::{LineKind, kind, row};

use super::{Seal, seal};
use crate::run::{Cell, Factor};

/// Value of the field `format`.
pub const RUN_FORMAT: &str = "firstbyte/run";
/// Value of the field `version`.
///
/// Version 2 added the plan, and removed secrets from the command. Version 3 added a checksum to every line.
pub const RUN_VERSION: u32 = 3;
/// Error text for a line whose checksum does not match.
pub const BROKEN: &str = "its checksum does not match";
/// Error text for a line that lacks its checksum.
pub const UNSEALED: &str = "its checksum is missing";
/// First bytes of a run file written by firstbyte.
const BEGIN: &[u8] = b"{\"format\":\"firstbyte/run\"";

/// The first line of a run file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct RunHeader {
    pub format: String,
    pub version: u32,
    pub created_unix_ns: u64,
    pub firstbyte_version: String,
    /// The command, program included, for people, without credentials. Up to version 1 it contained them, and it is
    /// dropped when such a file is read.
    pub command: Vec<String>,
    /// The measured plan as the program keeps it, for continuing the run.
    #[serde(default)]
    pub plan: Value,
    pub design: DesignRecord,
    pub axes: Vec<AxisRecord>,
    #[serde(rename = "variants")]
    pub cells: Vec<CellRecord>,
    #[serde(default)]
    pub environment: EnvironmentRecord,
}

/// A line that marks where the run was continued, with the changes since.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct ContinuedRecord {
    pub continued_unix_ns: u64,
    pub firstbyte_version: String,
    pub command: Vec<String>,
    pub design: DesignRecord,
    #[serde(default)]
    pub environment: EnvironmentRecord,
}

impl ContinuedRecord {
    /// Creates the record of a run continued under `header`.
    pub fn from_header(header: &RunHeader) -> Self {
        Self {
            continued_unix_ns: header.created_unix_ns,
            firstbyte_version: header.firstbyte_version.clone(),
            command: header.command.clone(),
            design: header.design.clone(),
            environment: header.environment.clone(),
        }
    }

    /// Serialises the record as a line, with its line ending.
    ///
    /// # Errors
    /// Cannot occur.
    pub fn line(&self) -> Result<Vec<u8>, serde_json::Error> {
        sealed_line(self)
    }
}

/// Serialises an object as a line with checksum and line ending.
fn sealed_line(object: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(object)?;
    seal(&mut line, 0);
    line.push(b'\n');
    Ok(line)
}

/// Design of the experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct DesignRecord {
    pub warmup: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Stop condition that replaces a number of rounds, in the user's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    pub seed: u64,
    pub concurrent: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<u64>,
}

/// A varied axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct AxisRecord {
    pub name: String,
    /// Values in the user's order; the others are compared with the first one.
    #[serde(default)]
    pub values: Vec<String>,
}

/// One way of connecting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct CellRecord {
    pub factors: Vec<FactorRecord>,
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub twin_of: Option<usize>,
}

/// A value of an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct FactorRecord {
    pub axis: String,
    pub value: String,
    pub label: String,
}

impl CellRecord {
    /// Converts `cell` to its stored form.
    pub fn from_cell(cell: &Cell) -> Self {
        let factors = cell.factors.iter().map(|factor| FactorRecord {
            axis: factor.axis.clone(),
            value: factor.value.clone(),
            label: factor.label.clone(),
        });
        Self { factors: factors.collect(), url: cell.url.clone(), twin_of: cell.twin_of }
    }

    /// Converts back to a cell.
    pub fn cell(&self) -> Cell {
        let factors = self.factors.iter().map(|factor| Factor {
            axis: factor.axis.clone(),
            value: factor.value.clone(),
            label: factor.label.clone(),
        });
        Cell { factors: factors.collect(), url: self.url.clone(), twin_of: self.twin_of }
    }
}

/// Why a line is not the header of a readable run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The line is something else.
    NotARun,
    /// A later version of the format.
    Version(u32),
    /// The line is an incomplete run header.
    Invalid(String),
}

impl RunHeader {
    /// Whether `line` begins a run file of any version.
    pub fn sniff(line: &[u8]) -> bool {
        line.starts_with(BEGIN) || named(line).is_some()
    }

    /// Parses the first line of a run file.
    ///
    /// # Errors
    /// The line is not the header of a run, or its version is above [`RUN_VERSION`].
    pub fn parse(line: &[u8]) -> Result<Self, HeaderError> {
        let invalid = |detail: &str| HeaderError::Invalid(detail.to_owned());
        // Check the seal first, whatever the line contains.
        let seal = Seal::read(line);
        if seal == Seal::Broken && line.starts_with(BEGIN) {
            return Err(invalid(BROKEN));
        }
        match named(line) {
            None if line.starts_with(BEGIN) => {
                Err(HeaderError::Invalid("the line is cut short".into()))
            }
            None => Err(HeaderError::NotARun),
            Some(version) if version > RUN_VERSION => Err(HeaderError::Version(version)),
            Some(_) if seal == Seal::Broken => Err(invalid(BROKEN)),
            Some(3..) if seal == Seal::Absent => Err(invalid(UNSEALED)),
            Some(version) => {
                let mut header: Self = serde_json::from_slice(line)
                    .map_err(|e| HeaderError::Invalid(e.to_string()))?;
                if version < 2 {
                    header.command.clear();
                }
                Ok(header)
            }
        }
    }

    /// Whether every line of the run has a checksum, including the first: a line without one is damaged.
    pub const fn is_sealed(&self) -> bool {
        self.version >= 3
    }

    /// Serialises the header as the first line, with its line ending.
    ///
    /// # Errors
    /// Cannot occur.
    pub fn line(&self) -> Result<Vec<u8>, serde_json::Error> {
        sealed_line(self)
    }

    /// Why samples of `other` cannot be added to this run; `None` if they can.
    ///
    /// The number of rounds may differ: a run can be extended.
    pub fn difference(&self, other: &Self) -> Option<&'static str> {
        let (a, b) = (&self.design, &other.design);
        if self.axes != other.axes || self.cells != other.cells {
            Some("other variants")
        } else if a.seed != b.seed {
            Some("another seed")
        } else if a.warmup != b.warmup {
            Some("another number of warm-up rounds")
        } else if (a.concurrent, a.interval_ns) != (b.concurrent, b.interval_ns) {
            Some("another load")
        } else if self.plan != other.plan {
            Some("other options")
        } else {
            None
        }
    }

    /// The cells of the run.
    pub fn cells(&self) -> Vec<Cell> {
        self.cells.iter().map(CellRecord::cell).collect()
    }
}

/// The version in a line with the right `format`.
fn named(line: &[u8]) -> Option<u32> {
    #[derive(Deserialize)]
    struct Named {
        format: String,
        version: u32,
    }
    let named: Named = serde_json::from_slice(line).ok()?;
    (named.format == RUN_FORMAT).then_some(named.version)
}
