//! A plan file: an experiment in TOML, which can be shared.
//!
//! It sets the same options as the flags of `compare`; typed flags override it.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

use super::comparison::of_words;
use crate::cli::exit::{self, Problem};
use crate::plans::ComparisonPlan;
use firstbyte_core::toml_errors::describe_toml_error;
use firstbyte_probe::probe::{MOST_TEXT, describe_io, read_text};

/// A plan as written. `docs/plans.md` describes every field.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct PlanFile {
    pub url: Option<String>,
    #[serde(default)]
    pub vary: Vec<String>,
    #[serde(default)]
    pub variant: Vec<String>,
    pub samples: Option<u32>,
    pub until: Option<String>,
    pub max_samples: Option<u32>,
    pub warmup: Option<u32>,
    pub interval: Option<NumberOrText>,
    pub seed: Option<u64>,
    pub concurrent: Option<String>,
    #[serde(default)]
    pub aa: bool,
    /// Further flags, as one would type them.
    #[serde(default)]
    pub flags: Vec<String>,
    /// Whether clients' own times are compared with a capture, for `lab study`.
    #[serde(default)]
    pub capture: bool,
    /// Expected results, for `lab study`.
    #[serde(default)]
    pub expect: Vec<toml::Table>,
    /// The study's story, for `lab study`.
    pub story: Option<StoryPlan>,
}

/// The story of a study.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct StoryPlan {
    /// Who published what, in a line.
    pub source: String,
    /// The sentence, with `{NAME}` as placeholder for measured figures.
    #[serde(default)]
    pub sentence: String,
}

/// A quantity in TOML: `5`, `0.5` or `"250ms"`.
#[derive(Clone, Debug)]
pub(in crate::cli) struct NumberOrText(pub String);

impl fmt::Display for NumberOrText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for NumberOrText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = NumberOrText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or text such as \"250ms\"")
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<NumberOrText, E> {
                Ok(NumberOrText(number.to_string()))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<NumberOrText, E> {
                Ok(NumberOrText(number.to_string()))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<NumberOrText, E> {
                Ok(NumberOrText(text.to_owned()))
            }
        }
        from.deserialize_any(Either)
    }
}

impl PlanFile {
    pub(in crate::cli) fn read(path: &Path) -> Result<Self, Problem> {
        Self::parse(&Self::text(path)?)
            .map_err(|why| Problem::new(exit::USAGE, format!("--plan {}: {why}", path.display())))
    }

    /// The text of a plan file.
    pub(in crate::cli) fn text(path: &Path) -> Result<String, Problem> {
        read_text(path, MOST_TEXT).map_err(|error| {
            let shown = path.display();
            Problem::new(exit::READ, format!("--plan {shown}: {}", describe_io(&error)))
        })
    }

    pub(in crate::cli) fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| {
            // The error omits the line itself, because flags may contain secrets.
            describe_toml_error(text, error.message(), error.span())
        })
    }

    /// The plan with the number of rounds from `-n`, if given.
    pub(in crate::cli) fn with_samples(self, samples: Option<u32>) -> Result<Self, Problem> {
        match (samples, &self.until) {
            (None, _) => Ok(self),
            (Some(_), None) => Ok(Self { samples, ..self }),
            (Some(_), Some(until)) => {
                let why = format!("-n: the plan measures until {until}");
                Err(Problem::new(exit::USAGE, why)
                    .hint("the plan's max_samples limits the number of rounds"))
            }
        }
    }

    /// The comparison that the plan describes; `whence` names the file in errors.
    pub(in crate::cli) fn comparison(&self, whence: &str) -> Result<ComparisonPlan, Problem> {
        of_words(self.words(true), whence)
    }

    /// The equivalent arguments of `compare`.
    pub(super) fn words(&self, with_url: bool) -> Vec<OsString> {
        let mut words: Vec<String> = Vec::new();
        let mut flag = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("--{name}={value}")));
        };
        for axis in &self.vary {
            flag("vary", Some(axis.clone()));
        }
        for variant in &self.variant {
            flag("variant", Some(variant.clone()));
        }
        flag("samples", self.samples.map(|n| n.to_string()));
        flag("until", self.until.clone());
        flag("max-samples", self.max_samples.map(|n| n.to_string()));
        flag("warmup", self.warmup.map(|n| n.to_string()));
        flag("interval", self.interval.as_ref().map(ToString::to_string));
        flag("seed", self.seed.map(|n| n.to_string()));
        flag("concurrent", self.concurrent.clone());
        words.extend(self.aa.then(|| "--aa".to_owned()));
        words.extend(self.flags.iter().cloned());
        words.extend(self.url.clone().filter(|_| with_url));
        words.into_iter().map(OsString::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_a_number_of_seconds_or_has_a_unit() {
        let words = |text: &str| PlanFile::parse(text).unwrap().words(false);
        assert_eq!(words("interval = 0.5"), ["--interval=0.5"]);
        assert_eq!(words("interval = 2"), ["--interval=2"]);
        assert_eq!(words("interval = '250ms'"), ["--interval=250ms"]);
        assert!(PlanFile::parse("interval = true").unwrap_err().contains("250ms"));
    }

    #[test]
    fn a_field_that_is_not_known_is_named() {
        let error = PlanFile::parse("sampels = 3").unwrap_err();
        assert!(error.contains("sampels") && error.contains("samples"), "{error}");
    }
}
