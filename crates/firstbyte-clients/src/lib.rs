//! Other clients than firstbyte's own: each drives a program, and turns what it says into the model.
//!
//! Input: a URL and how it is to be visited. Output: a `firstbyte_core::timeline::Sample`, as our own prober makes
//! them; what a client does not say is absent. A browser is started anew, under a temporary home, and ends with its
//! [`process::ClientProcess`]. [`netlog`] reads what Chromium's network stack says of itself, out of traces and of
//! files that people exported.

pub mod browser;
pub mod chromium;
pub mod curl;
mod deadline;
pub mod devtools;
pub mod firefox;
pub mod interruption;
pub mod netlog;
pub mod process;

use std::rc::Rc;

use firstbyte_probe::probe::Clients;
use firstbyte_probe::probe::options::Client;

use crate::browser::BrowserMaker;
use crate::chromium::RunningChromium;
use crate::firefox::RunningFirefox;

/// All clients that are driven from here.
pub fn clients() -> Clients {
    Clients::default()
        .with(Client::Curl, Rc::new(curl::CurlMaker))
        .with(Client::Chromium, Rc::new(BrowserMaker::<RunningChromium>::default()))
        .with(Client::Firefox, Rc::new(BrowserMaker::<RunningFirefox>::default()))
}
