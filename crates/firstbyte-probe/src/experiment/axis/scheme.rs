//! `scheme=http,https`: with or without TLS.

use std::rc::Rc;

use firstbyte_core::run::Shortfall;
use firstbyte_core::timeline::Connection;

use super::{Setting, Visit};
use crate::probe::Target;

#[derive(Debug)]
struct Scheme {
    tls: bool,
    port: Option<u16>,
}

pub(super) fn read(value: &str) -> Result<Rc<dyn Setting>, String> {
    let (scheme, port) = match value.split_once(':') {
        Some((scheme, port)) => {
            let port = port.parse().map_err(|_| format!("{port:?} is not a port"))?;
            (scheme, Some(port))
        }
        None => (value, None),
    };
    match scheme {
        "http" => Ok(Rc::new(Scheme { tls: false, port })),
        "https" => Ok(Rc::new(Scheme { tls: true, port })),
        _ => Err("unsupported scheme".into()),
    }
}

impl Scheme {
    const fn name(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }
}

impl Setting for Scheme {
    fn label(&self) -> String {
        self.name().to_uppercase()
    }

    fn apply(&self, visit: &mut Visit) -> Result<(), String> {
        let mut url = visit.target.url.clone();
        let same = url.scheme() == self.name();
        let _ = url.set_scheme(self.name());
        if let Some(port) = self.port {
            let _ = url.set_port(Some(port));
        } else if !same {
            // A port given for the other scheme does not apply here.
            let _ = url.set_port(None);
        }
        let target = Target::from_url(url).map_err(|error| error.to_string())?;
        visit.target = Target { zone: visit.target.zone.take(), ..target };
        Ok(())
    }

    fn prove(&self, connection: &Connection) -> Result<(), Shortfall> {
        let encrypted = connection.facts.tls.is_some();
        (encrypted == self.tls).then_some(()).ok_or(Shortfall::OtherTlsVersion)
    }
}
