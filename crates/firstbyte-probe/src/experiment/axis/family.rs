//! `family=4,6`: the address family.

use std::rc::Rc;

use firstbyte_core::run::Shortfall;
use firstbyte_core::timeline::Connection;

use super::{Setting, Visit};
use crate::probe::options::Family;

#[derive(Debug)]
struct Only(Family);

pub(super) fn read(value: &str) -> Result<Rc<dyn Setting>, String> {
    match value {
        "4" | "ipv4" => Ok(Rc::new(Only(Family::V4))),
        "6" | "ipv6" => Ok(Rc::new(Only(Family::V6))),
        _ => Err("unknown address family".into()),
    }
}

impl Setting for Only {
    fn label(&self) -> String {
        self.0.name().into()
    }

    fn apply(&self, visit: &mut Visit) -> Result<(), String> {
        visit.options.family = self.0;
        let host = &visit.target.host;
        if let Ok(address) = host.trim_matches(['[', ']']).parse()
            && !self.0.allows(&address)
        {
            return Err(format!("{host} is an address of the other family"));
        }
        let mut given =
            visit.options.resolve.iter().filter(|rule| {
                rule.host.as_deref().is_none_or(|name| name.eq_ignore_ascii_case(host))
            });
        match given.next_back() {
            Some(rule) if !rule.addresses.iter().any(|a| self.0.allows(a)) => {
                Err("the edge has no address of this family".into())
            }
            _ => Ok(()),
        }
    }

    fn prove(&self, connection: &Connection) -> Result<(), Shortfall> {
        let remote = connection.facts.remote.ok_or(Shortfall::OtherFamily)?;
        self.0.allows(&remote.ip()).then_some(()).ok_or(Shortfall::OtherFamily)
    }
}
