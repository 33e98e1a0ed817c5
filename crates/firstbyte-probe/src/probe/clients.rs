//! Other clients than ours: creates their probers by the client's name.
//!
//! This crate only knows the clients' names; the code that drives a client registers a [`ProberMaker`] for it.

use std::collections::HashMap;
use std::rc::Rc;

use super::options::{Client, Options};
use super::proxy::refuse_http3;
use super::{Prober, SetupError, Target};

/// Creates probers that make visits with one client.
pub trait ProberMaker {
    /// Checks whether the client can visit `target` as `options` ask. Starts nothing, except to ask the client for its
    /// version.
    ///
    /// # Errors
    /// Why it cannot, in words: "curl 7.88.1 has no HTTP/3".
    fn check(&self, target: &Target, options: &Options) -> Result<(), String>;

    /// Creates a prober with its own sessions and connections. The client is started when it is first needed.
    ///
    /// # Errors
    /// [`SetupError`].
    fn make(&self, options: &Options) -> Result<Box<dyn Prober>, SetupError>;
}

/// The registered makers. Clones share them.
#[derive(Clone, Default)]
pub struct Clients(HashMap<Client, Rc<dyn ProberMaker>>);

impl Clients {
    /// Registers `maker` for `client`.
    #[must_use]
    pub fn with(mut self, client: Client, maker: Rc<dyn ProberMaker>) -> Self {
        self.0.insert(client, maker);
        self
    }

    /// Checks whether the client named by `options` can visit `target` as they ask.
    ///
    /// # Errors
    /// Why it cannot, in words.
    pub fn check(&self, target: &Target, options: &Options) -> Result<(), String> {
        if options.client == Client::Firstbyte {
            return refuse_http3(target, options);
        }
        if options.requests.is_some() {
            let name = options.client.name();
            return Err(format!(
                "{name} makes one request per sample; only firstbyte can make several"
            ));
        }
        let pinned = !(options.resolve.is_empty() && options.connect_to.is_empty());
        if pinned && target.url.host_str().is_some_and(|host| host.ends_with('.')) {
            // The client would ask DNS and silently measure another edge.
            let name = options.client.name();
            return Err(format!(
                "{name} cannot use given addresses for a host name that ends with a dot"
            ));
        }
        self.maker(options.client)?.check(target, options)
    }

    pub(super) fn maker(&self, client: Client) -> Result<&Rc<dyn ProberMaker>, String> {
        self.0.get(&client).ok_or_else(|| format!("{} is not supported here", client.name()))
    }
}
