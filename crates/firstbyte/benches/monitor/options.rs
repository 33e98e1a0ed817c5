//! Arguments after `--`.

use std::path::PathBuf;

/// Parts and options.
pub(crate) struct Options {
    pub(crate) parts: Vec<String>,
    pub(crate) seconds: u64,
    pub(crate) rate: u32,
    pub(crate) series: u32,
    pub(crate) targets: u32,
    pub(crate) days: u32,
    pub(crate) tmpdir: PathBuf,
}

impl Options {
    /// Parses `arguments`; an error says what is wrong with them.
    pub(crate) fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            parts: Vec::new(),
            seconds: 60,
            rate: 10_000,
            series: 10_000,
            targets: 1_000,
            days: 365,
            tmpdir: std::env::temp_dir(),
        };
        while let Some(argument) = arguments.next() {
            // Added by cargo.
            if argument == "--bench" {
                continue;
            }
            if !argument.starts_with("--") {
                options.parts.push(argument);
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
            let number = || value.parse().map_err(|_| format!("{argument} {value}: not a number"));
            match argument.as_str() {
                "--seconds" => options.seconds = u64::from(number()?),
                "--rate" => options.rate = number()?,
                "--series" => options.series = number()?,
                "--targets" => options.targets = number()?,
                "--days" => options.days = number()?,
                "--tmpdir" => options.tmpdir = PathBuf::from(value),
                _ => return Err(format!("no option is called {argument}")),
            }
        }
        Ok(options)
    }
}
