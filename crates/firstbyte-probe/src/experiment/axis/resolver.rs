//! `resolver=dns,system,192.0.2.53`: the resolver that turns the name into an address.

use std::rc::Rc;

use firstbyte_core::run::Shortfall;
use firstbyte_core::timeline::Connection;

use super::{Setting, Visit};
use crate::probe::options::{Client, ResolverChoice};

#[derive(Debug)]
struct Resolver(ResolverChoice);

pub(super) fn read(value: &str) -> Result<Rc<dyn Setting>, String> {
    ResolverChoice::read(value).map(|choice| Rc::new(Resolver(choice)) as Rc<dyn Setting>)
}

impl Setting for Resolver {
    fn label(&self) -> String {
        match &self.0 {
            ResolverChoice::Dns => "DNS".into(),
            ResolverChoice::System => "system resolver".into(),
            ResolverChoice::Server(address) if address.port() == 53 => {
                format!("DNS at {}", address.ip())
            }
            ResolverChoice::Server(address) => format!("DNS at {address}"),
        }
    }

    fn apply(&self, visit: &mut Visit) -> Result<(), String> {
        if visit.options.client == Client::Curl && self.0 == ResolverChoice::Dns {
            return Err("curl uses the system's resolver".into());
        }
        visit.options.resolver = self.0.clone();
        Ok(())
    }

    /// Nothing to prove: only the requested resolver is ever asked.
    fn prove(&self, _: &Connection) -> Result<(), Shortfall> {
        Ok(())
    }
}
