//! Connecting through a proxy: TLS to it, and a tunnel.
//!
//! Input: a TCP connection to the proxy. Output: a stream to the target, with the marks of both steps. If a proxy
//! refuses or fails, the cause blames the proxy, not the target.

mod http_connect;
pub(super) mod options;
mod socks;

use std::net::IpAddr;

use firstbyte_core::timeline::{Cause, Mark, PhaseName, ProxyFacts, ProxyKind, Stamp};

use self::options::{ProxyOptions, ProxyRules, authority};
use super::observation::{Shared, When};
use super::options::{Family, HttpOptions, HttpVersion, Options, TlsOptions};
use super::request::ProxyForwarding;
use super::secret::Secret;
use super::stream::Stream;
use super::tls::Session;
use super::{NetProber, Target};

/// How a target is reached through a proxy.
pub(super) struct ProxyRoute<'a> {
    pub(super) rules: &'a ProxyRules,
    pub(super) proxy: &'a ProxyOptions,
    /// Host and port that the proxy connects to.
    pub(super) host: String,
    pub(super) port: u16,
    /// Whether the proxy opens a tunnel; otherwise it gets the request itself.
    pub(super) has_tunnel: bool,
}

/// The TLS sessions of a connection, created before its clock starts.
#[derive(Default)]
pub(super) struct HandshakeSessions {
    pub(super) target: Option<Box<Session>>,
    pub(super) proxy: Option<Box<Session>>,
}

impl<'a> ProxyRoute<'a> {
    /// The route to `target`; absent if it is reached directly.
    pub(super) fn find(options: &'a Options, target: &Target) -> Option<Self> {
        let rules = options.proxy.as_ref()?;
        let proxy = rules.proxy_for(target)?;
        let rule = options.connect_rule(target);
        let is_moved = rule.is_some_and(|rule| rule.to_host.is_some() || rule.to_port.is_some());
        let (host, port) = options.place_behind_proxy(target);
        let has_tunnel = !proxy.kind.is_http() || target.tls || rules.tunnel || is_moved;
        Some(Self { rules, proxy, host, port, has_tunnel })
    }

    pub(super) fn facts(&self) -> ProxyFacts {
        ProxyFacts {
            kind: self.proxy.kind,
            authority: self.proxy.authority(),
            tunnel: self.has_tunnel,
            status: None,
        }
    }

    /// What to add to a request that the proxy itself gets.
    pub(super) fn forwarding(&self) -> Option<ProxyForwarding> {
        let user = self.proxy.user.as_ref();
        let authorization = user.map(|user| Secret::new(user.authorization()));
        (!self.has_tunnel).then_some(ProxyForwarding { authorization })
    }

    fn target_authority(&self) -> String {
        authority(&self.host, self.port)
    }

    fn refused(&self, detail: &str) -> Cause {
        let authority = self.proxy.authority();
        Cause::ProxyRefused { authority, detail: detail.to_owned(), status: None }
    }

    fn misbehaved(&self, detail: &str) -> Cause {
        Cause::ProxyMisbehaved { authority: self.proxy.authority(), detail: detail.to_owned() }
    }

    fn closed(&self) -> Cause {
        self.misbehaved("it closed the connection before the end of its answer")
    }

    /// A connection that ends while the tunnel is opened is the proxy's fault.
    fn blame(&self, cause: Cause) -> Cause {
        match cause {
            Cause::Reset | Cause::ResetInHandshake => {
                self.misbehaved("it reset the connection before the end of its answer")
            }
            cause => cause,
        }
    }
}

/// The TLS options for proxies.
pub(super) fn tls_options(rules: &ProxyRules) -> TlsOptions {
    TlsOptions { insecure: rules.insecure, ca_file: rules.ca_file.clone(), ..TlsOptions::default() }
}

impl NetProber {
    /// Creates the TLS sessions for a connection to `target`.
    pub(super) fn begin_sessions(&self, target: &Target) -> Result<HandshakeSessions, String> {
        if self.speaks_quic() {
            return Ok(HandshakeSessions::default());
        }
        let route = ProxyRoute::find(&self.options, target);
        let host = route.filter(|route| route.proxy.kind == ProxyKind::Https);
        let proxy =
            host.zip(self.proxy_tls.as_ref()).map(|(route, tls)| tls.begin(&route.proxy.host));
        let of_target = target.tls.then(|| self.tls.begin(&target.host));
        Ok(HandshakeSessions { target: of_target.transpose()?, proxy: proxy.transpose()? })
    }

    /// The target's address, if the proxy needs it. It is resolved before the connection begins.
    pub(super) async fn address_behind(
        &self,
        route: &ProxyRoute<'_>,
        seen: &Shared,
    ) -> Result<Option<IpAddr>, Cause> {
        let family = match route.proxy.kind {
            ProxyKind::Http | ProxyKind::Https => return Ok(None),
            ProxyKind::Socks4a | ProxyKind::Socks5h => return Ok(route.host.parse().ok()),
            ProxyKind::Socks4 => Family::V4,
            ProxyKind::Socks5 => self.options.family,
        };
        let options = Options { family, ..Options::clone(&self.options) };
        let begun = {
            let mut seen = seen.borrow_mut();
            seen.looked_up = Some(route.host.clone());
            seen.connection.marks.stamp(Mark::DomainLookupStart)
        };
        let found = self.resolver.resolve(seen, &options, &route.host, route.port).await?;
        if let Some(begun) = begun {
            seen.borrow_mut().mark(Mark::DomainLookupStart, When::At(begun));
        }
        Ok(found.addresses.first().copied())
    }
}

/// Goes from the TCP connection to the proxy, made at `connected`, to the target.
pub(super) async fn pass_proxy(
    stream: &mut Stream,
    route: &ProxyRoute<'_>,
    session: Option<Box<Session>>,
    (address, connected): (Option<IpAddr>, Stamp),
    http: &HttpOptions,
    seen: &Shared,
) -> Result<(), Cause> {
    if let Some(session) = session {
        {
            let mut seen = seen.borrow_mut();
            seen.phase = PhaseName::ProxyTls;
            seen.mark(Mark::ProxySecureStart, When::At(connected));
        }
        stream.handshake_with_proxy(session).await.map_err(|cause| match cause {
            Cause::NotTls { looks_like, .. } => {
                Cause::NotTls { looks_like, server: Some(route.proxy.authority()) }
            }
            cause => cause,
        })?;
    }
    if route.has_tunnel {
        seen.borrow_mut().phase = PhaseName::Tunnel;
        stream.begin_tunnel();
        match route.proxy.kind.is_http() {
            true => http_connect::open(stream, route, http, seen).await?,
            false => socks::open(stream, route, address).await?,
        }
        stream.end_tunnel();
    }
    Ok(())
}

/// Returns why a visit over HTTP/3 cannot be made, if it cannot.
pub(super) fn refuse_http3(target: &Target, options: &Options) -> Result<(), String> {
    match ProxyRoute::find(options, target) {
        Some(route) if options.http.version == HttpVersion::Http3 => {
            let proxy = route.proxy.authority();
            Err(format!(
                "HTTP/3 cannot go through the proxy {proxy}; --noproxy '*' connects directly"
            ))
        }
        _ => Ok(()),
    }
}
