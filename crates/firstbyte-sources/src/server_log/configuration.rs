//! What a server's configuration needs, so that its log says what can be read here.

use super::request::ServerKind;

/// The configuration to paste: lines of JSON, without addresses of clients, queries and header fields. Its comments say where it
/// goes.
pub const fn configuration(server: ServerKind) -> &'static str {
    match server {
        ServerKind::Nginx => include_str!("nginx.conf"),
        ServerKind::Apache => include_str!("apache.conf"),
        ServerKind::Caddy => include_str!("Caddyfile"),
    }
}
