//! Resources shared by all probers: root certificates, crypto providers, client certificates, resolvers.
//!
//! Each is loaded on first use, and only once: the system's roots are a hundred and fifty certificates to parse, and
//! ten thousand targets need them no more often than one. Anything that belongs to one target (sessions, an open
//! connection) is kept by its prober. To read changed files again, create a new `Equipment`.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use rustls::ClientConfig;

use super::clients::Clients;
use super::options::{Client, HttpVersion, ResolverChoice, SharedOptions, TlsOptions};
use super::resolve::Resolver;
use super::tls::{Tls, TlsSetupError, TlsStock};
use super::{NetProber, Prober, SetupError};

/// Resources shared by all probers of a runtime. Clones share them too.
#[derive(Clone, Default)]
pub struct Equipment(Rc<Stock>);

#[derive(Default)]
struct Stock {
    tls: TlsStock,
    resolvers: RefCell<HashMap<ResolverChoice, Rc<Resolver>>>,
    clients: Clients,
    looks_for_tls: Cell<bool>,
}

impl Equipment {
    /// Creates equipment that also has other clients than ours.
    pub fn with_clients(clients: Clients) -> Self {
        Self(Rc::new(Stock { clients, ..Stock::default() }))
    }

    /// Makes probers created from now on check whether the port speaks TLS after a plain-HTTP visit without a response.
    ///
    /// The check sends the server one ClientHello. Monitors and exporters do not enable it: they open no connections
    /// that nobody configured.
    pub fn look_for_tls(&self) {
        self.0.looks_for_tls.set(true);
    }

    pub(super) fn looks_for_tls(&self) -> bool {
        self.0.looks_for_tls.get()
    }

    /// Creates a prober for the client and settings in `options`. Call it within the runtime that makes the visits.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn prober(&self, options: &SharedOptions) -> Result<Box<dyn Prober>, SetupError> {
        if options.client == Client::Firstbyte {
            return Ok(Box::new(NetProber::new(options.clone(), self)?));
        }
        // Errors in the certificates apply to all clients.
        self.tls(&options.tls, options.http.version).map_err(SetupError::Tls)?;
        let maker = self.0.clients.maker(options.client).map_err(SetupError::Client)?;
        maker.make(options)
    }

    /// The TLS configuration for `options`, for handshakes made by other code: the same trust, the same checks.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn client_config(
        &self,
        options: &TlsOptions,
        alpn: &[&str],
    ) -> Result<Arc<ClientConfig>, SetupError> {
        self.0.tls.client_config(options, alpn).map_err(SetupError::Tls)
    }

    /// Call it within the runtime that makes the queries.
    pub(super) fn resolver(&self, choice: &ResolverChoice) -> Result<Rc<Resolver>, String> {
        if let Some(known) = self.0.resolvers.borrow().get(choice) {
            return Ok(Rc::clone(known));
        }
        let made = Rc::new(Resolver::new(choice)?);
        self.0.resolvers.borrow_mut().insert(choice.clone(), Rc::clone(&made));
        Ok(made)
    }

    pub(super) fn tls(
        &self,
        options: &TlsOptions,
        http: HttpVersion,
    ) -> Result<Tls, TlsSetupError> {
        Tls::new(options, http, &self.0.tls)
    }
}
