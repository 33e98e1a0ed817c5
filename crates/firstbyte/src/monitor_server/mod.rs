//! What a monitor answers over HTTP: how it is, Prometheus' scrapes, what is in its store, probes as blackbox_exporter has them.
//!
//! In: a recorder's figures and the store, read alone; what people say happened goes to the recorder. A thread of its own, whose
//! work measuring does not wait for; looks at the store are threads' of their own in turn, one at a time.

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
    // Scrapers keep theirs open from one to the next.
    head: Duration::from_secs(150),
    answer: Duration::from_secs(60),
};

/// What a server answers from, and where.
pub(crate) struct ServerOptions {
    /// Where it listens.
    pub(crate) listener: TcpListener,
    /// What requests have to bring.
    pub(crate) token: Option<Token>,
    /// Modules that `/probe` is answered by.
    pub(crate) modules: Option<PathBuf>,
    /// The store.
    pub(crate) store: PathBuf,
    /// What is measured, and what came of it.
    pub(crate) observer: Observer,
    /// Who reads the configuration again; nobody where it is not of a file.
    pub(crate) reloads: Option<ReloadRequests>,
}

/// Why a server could not be started.
#[derive(Debug)]
pub(crate) enum ServerError {
    /// The system's reason.
    System(io::Error),
    /// What is wrong with the modules.
    Modules(String),
}

/// A handle on the thread.
pub(crate) struct MonitorServer {
    address: SocketAddr,
    end: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl MonitorServer {
    /// Begins to answer.
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
                // Who started it is told, and listens for as long.
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
                // A look at the store that nobody waits for any more does not hold up the end.
                runtime.shutdown_background();
            })
            .map_err(ServerError::System)?;
        let gone = || ServerError::System(io::Error::other("its thread stopped"));
        has_begun.recv().unwrap_or_else(|_| Err(gone()))?;
        Ok(Self { address, end, thread })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it. Answers that are under way are cut short.
    pub(crate) fn finish(self) {
        // It may have ended by itself.
        let _ = self.end.send(());
        if let Err(panicked) = self.thread.join() {
            std::panic::resume_unwind(panicked);
        }
    }
}

/// The exporter of `modules`.
///
/// # Errors
/// What is wrong with them, with the file and the line.
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
