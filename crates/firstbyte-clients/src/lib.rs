//! Clients other than firstbyte's own: each runs a program and converts its output to the model.
//!
//! Input: a URL and options. Output: a `firstbyte_core::timeline::Sample`, as from our own prober; values that a client
//! does not report are absent. Browsers get a temporary home and end with their [`process::ClientProcess`]. [`netlog`]
//! reads logs of Chromium's network stack, from traces and from exported files.

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

/// All clients of this crate.
pub fn clients() -> Clients {
    Clients::default()
        .with(Client::Curl, Rc::new(curl::CurlMaker))
        .with(Client::Chromium, Rc::new(BrowserMaker::<RunningChromium>::default()))
        .with(Client::Firefox, Rc::new(BrowserMaker::<RunningFirefox>::default()))
}
