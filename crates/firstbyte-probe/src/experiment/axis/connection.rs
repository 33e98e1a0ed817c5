//! `connection=new,reused`: a new connection for every sample, or one that stays open.

use std::rc::Rc;

use firstbyte_core::run::Shortfall;
use firstbyte_core::timeline::Connection;

use super::{Setting, Visit};
use crate::probe::options::SessionUse;

#[derive(Debug)]
struct Reuse(bool);

pub(super) fn read(value: &str) -> Result<Rc<dyn Setting>, String> {
    match value {
        "new" => Ok(Rc::new(Reuse(false))),
        "reused" => Ok(Rc::new(Reuse(true))),
        _ => Err("unknown value".into()),
    }
}

impl Setting for Reuse {
    fn label(&self) -> String {
        if self.0 { "connection reused".into() } else { "new connection".into() }
    }

    fn apply(&self, visit: &mut Visit) -> Result<(), String> {
        visit.options.reuse = self.0;
        if self.0 && visit.options.tls.session != SessionUse::Full {
            return Err("a reused connection has no handshake that could resume a session".into());
        }
        Ok(())
    }

    fn prove(&self, connection: &Connection) -> Result<(), Shortfall> {
        (connection.facts.reused == self.0).then_some(()).ok_or(Shortfall::NotReused)
    }
}
