//! What all probers share: root certificates, crypto providers, client certificates, resolvers.
//!
//! Each is loaded when it is first asked for, and once: the system's roots are a hundred and fifty certificates to
//! parse, and ten thousand targets need them no oftener than one. What is a target's own (sessions, an open
//! connection) is its prober's. Files that change are read again by who makes a new equipment.

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

/// What all probers of a runtime share. Clones share it too.
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
    /// With other clients than ours.
    pub fn with_clients(clients: Clients) -> Self {
        Self(Rc::new(Stock { clients, ..Stock::default() }))
    }

    /// After a visit over plain HTTP that ends without a response, a prober made from now on asks the server with one
    /// ClientHello whether the port speaks TLS. Monitors and exporters do not: they open no connection that nobody
    /// configured.
    pub fn look_for_tls(&self) {
        self.0.looks_for_tls.set(true);
    }

    pub(super) fn looks_for_tls(&self) -> bool {
        self.0.looks_for_tls.get()
    }

    /// Who visits as `options` ask, by the client that they name. Has to be called within the runtime that it
    /// visits in.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn prober(&self, options: &SharedOptions) -> Result<Box<dyn Prober>, SetupError> {
        if options.client == Client::Firstbyte {
            return Ok(Box::new(NetProber::new(options.clone(), self)?));
        }
        // What is wrong with certificates is so for all clients.
        self.tls(&options.tls, options.http.version).map_err(SetupError::Tls)?;
        let maker = self.0.clients.maker(options.client).map_err(SetupError::Client)?;
        maker.make(options)
    }

    /// TLS as `options` ask, for handshakes of others: the same who is trusted, the same checks.
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

    /// Has to be called within the runtime that the resolver is asked in.
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
