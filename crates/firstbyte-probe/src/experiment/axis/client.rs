//! `client=firstbyte,curl,chromium,firefox`: the client that makes the visits.

use std::rc::Rc;

use firstbyte_core::run::Shortfall;
use firstbyte_core::timeline::Connection;

use super::{Setting, Visit};
use crate::probe::options::Client;

pub(super) fn read(value: &str) -> Result<Rc<dyn Setting>, String> {
    Client::read(value).map(|client| Rc::new(client) as Rc<dyn Setting>)
}

impl Setting for Client {
    fn label(&self) -> String {
        self.name().to_owned()
    }

    fn apply(&self, visit: &mut Visit) -> Result<(), String> {
        visit.options.client = *self;
        Ok(())
    }

    /// Our own client does not name itself; other clients do.
    fn prove(&self, connection: &Connection) -> Result<(), Shortfall> {
        let named = connection.facts.client.as_ref().map(|client| client.name.as_str());
        let named = named.unwrap_or(Self::Firstbyte.name());
        (named == self.name()).then_some(()).ok_or(Shortfall::OtherClient)
    }
}
