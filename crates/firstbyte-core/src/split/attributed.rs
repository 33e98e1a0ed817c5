//! A connection with its split, made once and handed on.

use super::{Course, Rules, Split};
use crate::split::server_model::ServerFit;
use crate::timeline::Connection;

/// A connection, and where its time went.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributedConnection {
    /// The connection.
    pub connection: Connection,
    /// Its time, split.
    pub split: Split,
    /// The same in order.
    pub course: Course,
}

impl AttributedConnection {
    /// By what the connection shows of its server itself: what live outputs say.
    pub fn alone(connection: Connection) -> Self {
        let (split, course) = Split::in_order(&connection);
        Self { connection, split, course }
    }

    /// By what all connections to the server show of it: what is said of several connections.
    pub fn by_fit(connection: Connection, fit: &ServerFit) -> Self {
        let (split, course) = Split::in_order_by(Rules::Right, &connection, Some(fit));
        Self { connection, split, course }
    }
}
