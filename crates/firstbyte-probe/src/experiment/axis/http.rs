//! `http=1.1,2,3`: the version of HTTP.

use std::rc::Rc;

use firstbyte_core::run::Shortfall;
use firstbyte_core::timeline::Connection;

use super::{Setting, Visit};
use crate::probe::options::{HttpVersion, TlsVersion};

#[derive(Debug)]
struct Version(&'static str, HttpVersion);

pub(super) fn read(value: &str) -> Result<Rc<dyn Setting>, String> {
    let version = match value {
        "1.1" => Version("1.1", HttpVersion::Http1),
        "2" => Version("2", HttpVersion::Http2),
        "3" => Version("3", HttpVersion::Http3),
        _ => return Err("unknown HTTP version".into()),
    };
    Ok(Rc::new(version))
}

impl Setting for Version {
    fn label(&self) -> String {
        format!("HTTP/{}", self.0)
    }

    fn apply(&self, visit: &mut Visit) -> Result<(), String> {
        visit.options.http.version = self.1;
        if self.1 == HttpVersion::Http1 {
            return Ok(());
        }
        if !visit.target.tls {
            return Err("HTTP/2 and HTTP/3 require https".into());
        }
        let tls = &mut visit.options.tls;
        if self.1 == HttpVersion::Http3 {
            if tls.max < TlsVersion::V1_3 {
                return Err("HTTP/3 requires TLS 1.3".into());
            }
            tls.min = TlsVersion::V1_3;
        }
        Ok(())
    }

    fn prove(&self, connection: &Connection) -> Result<(), Shortfall> {
        let version = connection.facts.http.as_ref().and_then(|http| http.version.as_deref());
        (version == Some(self.0)).then_some(()).ok_or(Shortfall::OtherHttpVersion)
    }
}
