//! blackbox_exporter's configuration: YAML to modules, with a message and a line for what is wrong.
//!
//! Input: the file's text. Output: [`Configuration`], or the first [`Mistake`]. blackbox_exporter's mistakes refuse the
//! file, what firstbyte alone cannot do refuses its module. Reads no other file, prints nothing; secrets are of a type
//! that does not print.

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

/// Modules by name.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// Modules by name.
    pub modules: BTreeMap<String, Module>,
    /// Modules that cannot be served, by name, with what of each is not supported.
    pub refused: BTreeMap<String, Mistake>,
}

impl Configuration {
    /// Reads a configuration.
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

    /// As YAML, with what is set by itself, and without secrets.
    pub fn shown(&self) -> String {
        shown::configuration(self)
    }
}

impl Module {
    /// As YAML, as in [`Configuration::shown`].
    pub fn shown(&self) -> String {
        shown::module(self)
    }
}

#[cfg(test)]
mod tests;
