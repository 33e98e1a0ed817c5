//! Server configuration that makes access logs readable here.

use super::request::ServerKind;

/// The configuration to paste: it logs JSON lines, without client addresses, queries and header fields. Its comments
/// say where it goes.
pub const fn configuration(server: ServerKind) -> &'static str {
    match server {
        ServerKind::Nginx => include_str!("nginx.conf"),
        ServerKind::Apache => include_str!("apache.conf"),
        ServerKind::Caddy => include_str!("Caddyfile"),
    }
}
