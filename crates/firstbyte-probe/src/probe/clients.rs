//! Other clients than ours: what makes their probers, by the client's name.
//!
//! This crate knows that they exist and what they are called; who drives them registers a [`ProberMaker`] for each.

use std::collections::HashMap;
use std::rc::Rc;

use super::options::{Client, Options};
use super::proxy::refuse_http3;
use super::{Prober, SetupError, Target};

/// Makes probers that let one client visit.
pub trait ProberMaker {
    /// Whether the client can visit `target` as `options` ask. Nothing is started for the answer but what says its
    /// version.
    ///
    /// # Errors
    /// Why it cannot, in words: "curl 7.88.1 has no HTTP/3".
    fn check(&self, target: &Target, options: &Options) -> Result<(), String>;

    /// A prober of such visits, with sessions and connections of its own. The client is started when it is first
    /// needed.
    ///
    /// # Errors
    /// [`SetupError`].
    fn make(&self, options: &Options) -> Result<Box<dyn Prober>, SetupError>;
}

/// The makers there are. Clones share them.
#[derive(Clone, Default)]
pub struct Clients(HashMap<Client, Rc<dyn ProberMaker>>);

impl Clients {
    /// Makes `maker` the one for `client`.
    #[must_use]
    pub fn with(mut self, client: Client, maker: Rc<dyn ProberMaker>) -> Self {
        self.0.insert(client, maker);
        self
    }

    /// Whether `options`' client can visit `target` as they ask.
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
            // It would ask DNS, and measure another edge, without a word.
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
