//! A connection with its split, made once and handed on.

use std::borrow::Cow;

use super::{Course, Rules, Split};
use crate::server_model::ServerFit;
use crate::timeline::Connection;

/// A connection, and where its time went.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributedConnection<'a> {
    /// The connection.
    pub connection: Cow<'a, Connection>,
    /// Its time, split.
    pub split: Split,
    /// The same in order.
    pub course: Course,
}

impl<'a> AttributedConnection<'a> {
    /// By what the connection shows of its server itself: what live outputs say.
    pub fn alone(connection: impl Into<Cow<'a, Connection>>) -> Self {
        let connection = connection.into();
        let (split, course) = Split::in_order(&connection);
        Self { connection, split, course }
    }

    /// By what all connections to the server show of it: what is said of several connections.
    pub fn by_fit(connection: impl Into<Cow<'a, Connection>>, fit: &ServerFit) -> Self {
        let connection = connection.into();
        let (split, course) = Split::in_order_by(Rules::Right, &connection, Some(fit));
        Self { connection, split, course }
    }
}

impl<'a> From<&'a Connection> for Cow<'a, Connection> {
    fn from(connection: &'a Connection) -> Self {
        Cow::Borrowed(connection)
    }
}

impl From<Connection> for Cow<'_, Connection> {
    fn from(connection: Connection) -> Self {
        Cow::Owned(connection)
    }
}
