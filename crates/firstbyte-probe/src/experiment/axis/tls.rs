//! `tls=1.2,1.3`: the version of TLS.

use std::rc::Rc;

use firstbyte_core::run::Shortfall;
use firstbyte_core::timeline::Connection;

use super::{Setting, Visit};
use crate::probe::options::TlsVersion;

#[derive(Debug)]
struct Version(TlsVersion);

pub(super) fn read(value: &str) -> Result<Rc<dyn Setting>, String> {
    match value {
        "1.2" => Ok(Rc::new(Version(TlsVersion::V1_2))),
        "1.3" => Ok(Rc::new(Version(TlsVersion::V1_3))),
        "1.0" | "1.1" => Err("no longer supported (RFC 8996)".into()),
        _ => Err("unknown TLS version".into()),
    }
}

impl Version {
    const fn number(&self) -> &'static str {
        match self.0 {
            TlsVersion::V1_2 => "1.2",
            TlsVersion::V1_3 => "1.3",
        }
    }
}

impl Setting for Version {
    fn label(&self) -> String {
        format!("TLS {}", self.number())
    }

    fn apply(&self, visit: &mut Visit) -> Result<(), String> {
        (visit.options.tls.min, visit.options.tls.max) = (self.0, self.0);
        Ok(())
    }

    fn prove(&self, connection: &Connection) -> Result<(), Shortfall> {
        let version = connection.facts.tls.as_ref().and_then(|tls| tls.version.as_deref());
        let proven =
            version.and_then(|version| version.strip_prefix("TLSv")) == Some(self.number());
        proven.then_some(()).ok_or(Shortfall::OtherTlsVersion)
    }
}
