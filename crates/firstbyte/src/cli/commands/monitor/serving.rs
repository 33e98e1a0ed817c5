//! The monitor's server, webhooks and pushes: where it listens, which secrets they need, and what is wrong with them.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use firstbyte_monitor::configuration::{Configuration, ServerSettings};
use firstbyte_monitor::push::PushSettings;
use firstbyte_monitor::webhook::WebhookSettings;
use firstbyte_probe::probe::describe_io;

use super::safe;
use crate::cli::exit::{self, Problem};
use crate::cli::terminal::note;
use crate::monitor_server::{
    MonitorServer, ReloadRequests, ServerError, ServerOptions, Token, TokenError, exporter,
};
use crate::plans::{MonitorPlan, MonitorSource};
use crate::pushing::{Push, PushPace, Pushes};
use crate::recording::Observer;
use crate::webhooks::{Notices, Pace, PreparedWebhooks, Tell, Webhook, Webhooks};

/// A server that listens but does not answer yet.
pub(super) struct Listening {
    listener: TcpListener,
    token: Option<Token>,
    modules: Option<PathBuf>,
}

/// Settings of a server that are read from files: its token and its modules.
struct NamedFiles {
    token: Option<Token>,
    modules: Option<PathBuf>,
}

impl NamedFiles {
    fn read(plan: &MonitorPlan, settings: &ServerSettings) -> Result<Self, Problem> {
        let token =
            settings.token_file.as_ref().map(|file| token_of("token_file", &beside(plan, file)));
        let modules = settings.modules.as_ref().map(|file| beside(plan, file));
        Ok(Self { token: token.transpose()?, modules })
    }
}

/// Resolves a file named in the configuration relative to the configuration's directory.
fn beside(plan: &MonitorPlan, file: &Path) -> PathBuf {
    match &plan.source {
        MonitorSource::File(configuration) => {
            configuration.parent().unwrap_or(Path::new("")).join(file)
        }
        MonitorSource::Urls { .. } | MonitorSource::Demo => file.to_owned(),
    }
}

/// Reads the token from the file that `key` names.
fn token_of(key: &str, file: &Path) -> Result<Token, Problem> {
    Token::read(file).map_err(|error| {
        let what = format!("{key} {}: {error}", file.display());
        match error {
            TokenError::Io(_) => Problem::new(exit::READ, safe(&what)),
            TokenError::Unusable => {
                Problem::new(exit::USAGE, safe(&what)).hint("make one: openssl rand -hex 32 > FILE")
            }
        }
    })
}

/// Webhooks with their secrets.
pub(super) fn webhooks(
    plan: &MonitorPlan,
    configuration: &Configuration,
) -> Result<Vec<Webhook>, Problem> {
    let webhook = |settings: &WebhookSettings| {
        let file = settings.secret_file.as_ref().map(|file| beside(plan, file));
        let secret = file.map(|file| token_of("secret_file", &file)).transpose()?;
        let secret = secret.map(Token::into_secret);
        Ok(Webhook { settings: settings.clone(), secret })
    };
    configuration.webhooks.iter().map(webhook).collect()
}

pub(super) fn prepare_webhooks(
    webhooks: Vec<Webhook>,
    tell: Tell,
) -> Result<(PreparedWebhooks, Notices), Problem> {
    PreparedWebhooks::new(webhooks, Pace::default(), tell).map_err(|error| webhook_problem(&error))
}

/// Starts sending to webhooks. Call this once no other process writes in the directory `store`.
pub(super) fn begin_webhooks(
    webhooks: PreparedWebhooks,
    store: &Path,
) -> Result<Webhooks, Problem> {
    webhooks.begin(store).map_err(|error| webhook_problem(&error))
}

fn webhook_problem(error: &std::io::Error) -> Problem {
    Problem::new(exit::USAGE, format!("cannot start webhooks: {}", describe_io(error)))
}

/// Pushes with their tokens.
pub(super) fn pushes(
    plan: &MonitorPlan,
    configuration: &Configuration,
) -> Result<Vec<Push>, Problem> {
    let push = |settings: &PushSettings| {
        let file = settings.token_file.as_ref().map(|file| beside(plan, file));
        let token = file.map(|file| token_of("token_file", &file)).transpose()?;
        let (token, place) = (token.map(Token::into_secret), configuration.place.clone());
        Ok(Push { settings: settings.clone(), token, place })
    };
    configuration.pushes.iter().map(push).collect()
}

pub(super) fn push(pushes: Vec<Push>, observer: &Observer, tell: Tell) -> Result<Pushes, Problem> {
    Pushes::start(pushes, observer, PushPace::default(), tell).map_err(|error| {
        Problem::new(exit::USAGE, format!("cannot start pushes: {}", describe_io(&error)))
    })
}

/// Warns about each module that `/probe` cannot serve.
fn name_refused_modules(modules: PathBuf) -> Result<(), Problem> {
    let exporter = exporter(modules).map_err(|error| modules_problem(&error))?;
    for refused in exporter.refused_modules() {
        note(&format!("warning: {}; /probe refuses this module", safe(&refused)));
    }
    Ok(())
}

fn modules_problem(error: &str) -> Problem {
    Problem::new(exit::USAGE, format!("modules: {}", safe(error)))
}

/// The address to listen at, if any and if it is allowed.
fn address(plan: &MonitorPlan, settings: &ServerSettings) -> Result<Option<SocketAddr>, Problem> {
    let Some(address) = plan.listen.or(settings.listen) else { return Ok(None) };
    let may = settings.may_listen(address).map(|()| Some(address));
    may.map_err(|(what, hint)| Problem::new(exit::USAGE, what).hint(hint))
}

/// Checks a server's settings without starting it.
pub(super) fn check(plan: &MonitorPlan, configuration: &Configuration) -> Result<(), Problem> {
    let settings = &configuration.server;
    address(plan, settings)?;
    webhooks(plan, configuration)?;
    pushes(plan, configuration)?;
    match NamedFiles::read(plan, settings)?.modules {
        Some(modules) => name_refused_modules(modules),
        None => Ok(()),
    }
}

/// Starts to listen, if an address is configured.
pub(super) fn listen(
    plan: &MonitorPlan,
    configuration: &Configuration,
) -> Result<Option<Listening>, Problem> {
    let settings = &configuration.server;
    let Some(address) = address(plan, settings)? else { return Ok(None) };
    let NamedFiles { token, modules } = NamedFiles::read(plan, settings)?;
    let listener = TcpListener::bind(address).map_err(|error| {
        let why = describe_io(&error);
        let problem = Problem::new(exit::USAGE, format!("cannot listen at {address}: {why}"));
        match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                problem.hint("another program uses that port: give another --listen")
            }
            _ => problem,
        }
    })?;
    Ok(Some(Listening { listener, token, modules }))
}

impl Listening {
    pub(super) fn answer(
        self,
        store: PathBuf,
        observer: Observer,
        reloads: Option<ReloadRequests>,
    ) -> Result<MonitorServer, Problem> {
        let Self { listener, token, modules } = self;
        if let Some(modules) = &modules {
            name_refused_modules(modules.clone())?;
        }
        let options = ServerOptions { listener, token, modules, store, observer, reloads };
        let server = MonitorServer::start(options).map_err(|error| match error {
            ServerError::System(error) => {
                let why = describe_io(&error);
                Problem::new(exit::USAGE, format!("cannot start the server: {why}"))
            }
            ServerError::Modules(error) => modules_problem(&error),
        })?;
        note(&format!(
            "the page is at http://{0}/, metrics are at http://{0}/metrics",
            server.address()
        ));
        Ok(server)
    }
}
