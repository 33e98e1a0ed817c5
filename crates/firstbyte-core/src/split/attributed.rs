//! A connection with its attributed time, computed once and passed on.

use std::net::IpAddr;
use std::time::Duration;

use super::{Course, Rules, ServerFit, Split};
use crate::timeline::Connection;

/// A connection, and where its time went.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributedConnection {
    /// The connection.
    pub connection: Connection,
    /// The attributed time.
    pub split: Split,
    /// The same time as a sequence.
    pub course: Course,
}

impl AttributedConnection {
    /// Attributes the time using this connection alone. Live outputs do this.
    pub fn alone(connection: Connection) -> Self {
        let (split, course) = Split::in_order(&connection);
        Self { connection, split, course }
    }

    /// Attributes the time using the model that fits all connections to the server.
    pub fn by_fit(connection: Connection, fit: &ServerFit) -> Self {
        let (split, course) = Split::in_order_by(Rules::Right, &connection, Some(fit));
        Self { connection, split, course }
    }
}

/// Models of the servers at their addresses, fitted to connections.
#[derive(Clone, Debug, Default)]
pub struct ServerFits {
    by_address: Vec<(Option<IpAddr>, ServerFit)>,
}

impl ServerFits {
    /// Fits a model of the server to the connections to each address; `think` as in [`ServerFit::from_connections`].
    pub fn from_connections<'a>(
        connections: impl IntoIterator<Item = &'a Connection>,
        think: Option<Duration>,
    ) -> Self {
        let mut by_address: Vec<(Option<IpAddr>, Vec<&Connection>)> = Vec::new();
        for connection in connections {
            let address = address(connection);
            match by_address.iter_mut().find(|(other, _)| *other == address) {
                Some((_, all)) => all.push(connection),
                None => by_address.push((address, vec![connection])),
            }
        }
        let fit = |(address, all): (_, Vec<&Connection>)| {
            (address, ServerFit::from_connections(all, think))
        };
        Self { by_address: by_address.into_iter().map(fit).collect() }
    }

    /// The fit for the server of `connection`, if any.
    pub fn get(&self, connection: &Connection) -> Option<&ServerFit> {
        let address = address(connection);
        self.by_address.iter().find(|(other, _)| *other == address).map(|(_, fit)| fit)
    }

    /// Attributes a connection's time using the fit for its server, or the connection alone if there is none.
    pub fn attribute(&self, connection: Connection) -> AttributedConnection {
        match self.get(&connection) {
            Some(fit) => AttributedConnection::by_fit(connection, fit),
            None => AttributedConnection::alone(connection),
        }
    }
}

fn address(connection: &Connection) -> Option<IpAddr> {
    connection.facts.remote.map(|remote| remote.ip())
}
