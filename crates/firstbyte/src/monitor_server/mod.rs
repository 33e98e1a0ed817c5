//! HTTP server of a monitor: health, Prometheus scrapes, the store's contents, and probes like blackbox_exporter's.
//!
//! In: a recorder's figures, and the store (read only); annotations from people go to the recorder. The server has its
//! own thread, which measurements never wait for. Store reads run on other threads, one at a time.

mod access;
mod annotations;
mod answers;
mod history;
mod negotiation;
mod overview;
mod page;
mod parameters;
mod raw;
mod reload;
mod routes;
mod series;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use firstbyte_blackbox::{Compat, Exporter, ExporterOptions, ServerLimits, serve_requests};
use hyper::body::Incoming;
use tokio::sync::oneshot;

use crate::recording::Observer;

pub(crate) use access::{Token, TokenError};
pub(crate) use annotations::check_annotation;
pub(crate) use parameters::moment;
pub(crate) use reload::{ReloadRequest, ReloadRequests, reload_channel};

const LIMITS: ServerLimits = ServerLimits {
    connections: 64,
    // Scrapers keep connections open from one scrape to the next.
    head: Duration::from_secs(150),
    answer: Duration::from_secs(60),
};

/// Inputs of a server.
pub(crate) struct ServerOptions {
    /// Socket to accept connections from.
    pub(crate) listener: TcpListener,
    /// Token that requests must carry.
    pub(crate) token: Option<Token>,
    /// File with the modules for `/probe`.
    pub(crate) modules: Option<PathBuf>,
    /// Path of the store.
    pub(crate) store: PathBuf,
    /// Series being measured and their figures.
    pub(crate) observer: Observer,
    /// Requests a reload of the configuration; absent if it does not come from a file.
    pub(crate) reloads: Option<ReloadRequests>,
}

/// Reason why a server cannot start.
#[derive(Debug)]
pub(crate) enum ServerError {
    /// A system error.
    System(io::Error),
    /// The modules are invalid, with an explanation.
    Modules(String),
}

/// Handle of the server's thread.
pub(crate) struct MonitorServer {
    address: SocketAddr,
    end: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl MonitorServer {
    /// Starts the server.
    ///
    /// # Errors
    /// [`ServerError`].
    pub(crate) fn start(options: ServerOptions) -> Result<Self, ServerError> {
        let address = options.listener.local_addr().map_err(ServerError::System)?;
        let (end, ended) = oneshot::channel();
        let (begun, has_begun) = channel();
        let thread = std::thread::Builder::new()
            .name("server".into())
            .spawn(move || {
                let prepared = prepare(options);
                let (state, listener, runtime) = match prepared {
                    Ok(prepared) => prepared,
                    Err(error) => return drop(begun.send(Err(error))),
                };
                let ahead = Rc::clone(&state);
                let answer = move |request: http::Request<Incoming>| {
                    let state = Rc::clone(&state);
                    async move { routes::answer(&state, request).await }
                };
                // The caller is waiting for this message.
                let _ = begun.send(Ok(()));
                let end = async { drop(ended.await) };
                let served = runtime.block_on(async {
                    tokio::select! {
                        served = serve_requests(answer, vec![listener], LIMITS, end) => served,
                        never = routes::keep_first_view(&ahead) => match never {},
                    }
                });
                if let Err(error) = served {
                    tracing::info!(%error, "the server stopped");
                }
                // Do not wait for store reads whose results nobody needs any more.
                runtime.shutdown_background();
            })
            .map_err(ServerError::System)?;
        let gone = || ServerError::System(io::Error::other("its thread stopped"));
        has_begun.recv().unwrap_or_else(|_| Err(gone()))?;
        Ok(Self { address, end, thread })
    }

    /// Address that it listens on.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the server. Responses in progress are cut short.
    pub(crate) fn finish(self) {
        // The thread may have ended by itself.
        let _ = self.end.send(());
        if let Err(panicked) = self.thread.join() {
            std::panic::resume_unwind(panicked);
        }
    }
}

/// Creates the exporter for the `modules` file.
///
/// # Errors
/// What is wrong with the modules, with the file and the line.
pub(crate) fn exporter(modules: PathBuf) -> Result<Exporter, String> {
    Exporter::new(ExporterOptions {
        config_file: modules,
        timeout_offset: 0.5,
        history_limit: 0,
        compat: Compat::default(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

type Prepared = (Rc<routes::State>, TcpListener, tokio::runtime::Runtime);

fn prepare(options: ServerOptions) -> Result<Prepared, ServerError> {
    let ServerOptions { listener, token, modules, store, observer, reloads } = options;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ServerError::System)?;
    let exporter = {
        let _within = runtime.enter();
        modules.map(exporter).transpose().map_err(ServerError::Modules)?
    };
    let state = routes::State::new(token, exporter, store, observer, reloads);
    Ok((Rc::new(state), listener, runtime))
}
