//! blackbox_exporter's configuration: parses YAML into modules. Each error has a message and a line.
//!
//! Input: the file's text. Output: [`Configuration`], or the first [`Mistake`]. What blackbox_exporter rejects makes
//! the file invalid; what only firstbyte does not support makes its module unusable. Reads no other file and prints
//! nothing; secrets have a type that does not print.

mod go_values;
mod http;
mod model;
mod pattern;
mod reader;
mod shown;
mod yaml;

use std::collections::BTreeMap;

pub(crate) use go_values::{encode_base64, print_float};
pub use http::{Authorization, HeaderRule, HttpModule, SecretSource};
pub(crate) use model::source_address;
pub use model::{
    AddressChoice, DnsModule, GrpcModule, IcmpModule, Module, QueryResponse, RecordRules,
    TcpModule, TlsSettings,
};
pub use pattern::{Pattern, expand};
pub use yaml::Mistake;

use reader::Fields;

/// The modules of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// Usable modules, by name.
    pub modules: BTreeMap<String, Module>,
    /// Modules that cannot be served, by name, each with its unsupported setting.
    pub refused: BTreeMap<String, Mistake>,
}

impl Configuration {
    /// Parses a configuration.
    ///
    /// # Errors
    /// The first [`Mistake`] in it.
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        let Some(document) = yaml::parse(text)? else {
            return Err(Mistake::new(1, "the file is empty; expected \"modules:\""));
        };
        let mut fields = Fields::new(document, "the file")?;
        let (mut modules, mut refused) = (BTreeMap::new(), BTreeMap::new());
        if let Some((node, _)) = fields.take("modules") {
            let (_, entries) = Fields::new(node, "modules")?.rest();
            for entry in entries {
                let path = format!("modules.{}", entry.key);
                match Module::read(Fields::new(entry.value, path)?) {
                    Ok(module) => drop(modules.insert(entry.key, module)),
                    Err(mistake) if mistake.is_unsupported => {
                        refused.insert(entry.key, mistake);
                    }
                    Err(mistake) => return Err(mistake),
                }
            }
        }
        fields.end()?;
        Ok(Self { modules, refused })
    }

    /// The configuration as YAML, including default values and without secrets.
    pub fn shown(&self) -> String {
        shown::configuration(self)
    }
}

impl Module {
    /// The module as YAML, as in [`Configuration::shown`].
    pub fn shown(&self) -> String {
        shown::module(self)
    }
}

#[cfg(test)]
mod tests;
