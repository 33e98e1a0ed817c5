//! `edge=london:198.51.100.1,sydney:198.51.100.3`: the server of a service that answers.
//!
//! The names in the certificate and in the request remain those of the URL, as with curl's `--resolve`.

use std::net::IpAddr;
use std::rc::Rc;

use firstbyte_core::run::Shortfall;
use firstbyte_core::timeline::Connection;

use super::{Setting, Visit, capitalised};
use crate::probe::options::{ConnectTo, ResolveOverride};

#[derive(Debug)]
struct Edge {
    name: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Addresses(Vec<IpAddr>),
    /// A host name, for the resolver.
    Host(String),
}

pub(super) fn read(value: &str) -> Result<Rc<dyn Setting>, String> {
    let (name, place) = value.split_once(':').ok_or("the address is missing")?;
    if name.is_empty() || place.is_empty() {
        return Err("expected NAME:ADDRESS".into());
    }
    let addresses: Result<Vec<IpAddr>, _> =
        place.split('+').map(|address| address.trim_matches(['[', ']']).parse()).collect();
    let place = match addresses {
        Ok(addresses) => Place::Addresses(addresses),
        Err(_) if url::Host::parse(place).is_ok() => Place::Host(place.to_owned()),
        Err(_) => return Err(format!("{place:?} is not an address or a host")),
    };
    Ok(Rc::new(Edge { name: name.to_owned(), place }))
}

/// The edge at `address`, named by the address.
pub(super) fn at_address(address: IpAddr) -> Rc<dyn Setting> {
    Rc::new(Edge { name: address.to_string(), place: Place::Addresses(vec![address]) })
}

impl Setting for Edge {
    fn label(&self) -> String {
        capitalised(&self.name)
    }

    fn apply(&self, visit: &mut Visit) -> Result<(), String> {
        let (host, port) = (visit.target.host.clone(), visit.target.port);
        match &self.place {
            Place::Addresses(addresses) => visit.options.resolve.insert(
                0,
                ResolveOverride {
                    host: Some(host.to_ascii_lowercase()),
                    port: Some(port),
                    addresses: addresses.clone(),
                    zone: None,
                },
            ),
            Place::Host(other) => visit.options.connect_to.insert(
                0,
                ConnectTo {
                    from_host: Some(host),
                    from_port: Some(port),
                    to_host: Some(other.clone()),
                    to_port: None,
                },
            ),
        }
        Ok(())
    }

    fn prove(&self, connection: &Connection) -> Result<(), Shortfall> {
        let remote = connection.facts.remote.ok_or(Shortfall::OtherAddress)?;
        match &self.place {
            Place::Addresses(addresses) if !addresses.contains(&remote.ip()) => {
                Err(Shortfall::OtherAddress)
            }
            _ => Ok(()),
        }
    }
}
