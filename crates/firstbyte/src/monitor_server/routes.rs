//! Routes requests to their handlers.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use firstbyte_blackbox::{Answer, Exporter};
use firstbyte_clock::Monotonic;
use firstbyte_monitor::store::SeriesLabels;
use http::header::VARY;
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::access::{Token, names_this_machine};
use super::annotations;
use super::answers::{Refusal, json, json_text, of_kind, text};
use super::history::HistoryQuery;
use super::negotiation::Form;
use super::overview::{ClosedSteps, Look, Overview, OverviewQuery, steps_over};
use super::page;
use super::parameters::Parameters;
use super::raw::{self, CompareQuery, SampleQuery, SamplesQuery};
use super::reload::ReloadRequests;
use super::series::{EventsQuery, SeriesQuery, Targets, look_at};
use crate::exposition::{self, Exposed, PROTOBUF_KIND, TEXT_KIND, not_ready};
use crate::recording::Observer;

/// Paths of the HTML pages.
const VIEWS: [&str; 4] = ["/", "/target", "/sample", "/compare"];
const SIGN_IN: &str = "/sign-in";
const RELOAD: &str = "/-/reload";
/// Maximum number of concurrent store reads; more would wait for the same disk.
const LOOKS: usize = 1;
/// Maximum number of scrape responses being sent; each may be tens of megabytes.
const SCRAPES: usize = 8;
/// How long a request waits for its turn.
const TURN_PATIENCE: Duration = Duration::from_secs(10);
/// Scrapes within this time get the same response.
const SAME_FOR: Duration = Duration::from_millis(200);
/// Number of series per turn when summing up ahead of requests.
const AHEAD_AT_ONCE: usize = 100;
/// How often to check whether steps have ended.
const LOOK_AHEAD_EVERY: Duration = Duration::from_millis(500);

/// State shared by all requests.
pub(super) struct State {
    token: Option<Token>,
    exporter: Option<Exporter>,
    store: PathBuf,
    observer: Observer,
    reloads: Option<ReloadRequests>,
    closed: ClosedSteps,
    /// Exposed labels of the latest series.
    exposed: RefCell<Arc<Exposed>>,
    scraped: RefCell<Option<Scraped>>,
    looks: Arc<Semaphore>,
    raw_looks: Arc<Semaphore>,
    scrapes: Arc<Semaphore>,
}

/// Response to a scrape.
#[derive(Clone)]
struct Scraped {
    at: Monotonic,
    form: Form,
    body: Bytes,
}

impl State {
    pub(super) fn new(
        token: Option<Token>,
        exporter: Option<Exporter>,
        store: PathBuf,
        observer: Observer,
        reloads: Option<ReloadRequests>,
    ) -> Self {
        Self {
            token,
            exporter,
            store,
            closed: ClosedSteps::default(),
            exposed: RefCell::new(Arc::new(Exposed::from_labels(observer.labels()))),
            observer,
            reloads,
            scraped: RefCell::default(),
            looks: Arc::new(Semaphore::new(LOOKS)),
            raw_looks: Arc::new(Semaphore::new(LOOKS)),
            scrapes: Arc::new(Semaphore::new(SCRAPES)),
        }
    }
}

pub(super) async fn answer(state: &State, request: Request<Incoming>) -> Answer {
    let (head, body) = request.into_parts();
    let answer = match allowed(state, &head) {
        Ok(()) => answer_of(state, &head, body).await,
        Err(refusal) => Err(refusal),
    };
    match answer {
        // Answer with a form instead of the browser's own password prompt.
        Err(Refusal::Because(StatusCode::UNAUTHORIZED, _)) if is_view(&head) => {
            let next = head.uri.path_and_query().map_or("/", |path| path.as_str());
            page::sign_in_form(next, false)
        }
        answer => answer.unwrap_or_else(Refusal::answer),
    }
}

/// Whether the request is for an HTML page.
fn is_view(head: &Parts) -> bool {
    only_read(&head.method).is_ok() && VIEWS.contains(&head.uri.path())
}

fn allowed(state: &State, head: &Parts) -> Result<(), Refusal> {
    let path = head.uri.path();
    // Process supervisors have no token; these paths disclose nothing else.
    if path.starts_with("/-/") && path != RELOAD {
        return Ok(());
    }
    match &state.token {
        // These files are the same in every copy of the program.
        Some(_) if path == SIGN_IN || path.starts_with("/page/") => Ok(()),
        Some(token) if token.is_in(&head.headers) => Ok(()),
        Some(token) if token.cookie_is_in(&head.headers) => match only_read(&head.method) {
            Ok(()) => Ok(()),
            Err(_) => page::may_write(&head.headers),
        },
        Some(_) => {
            let what = "send the token: Authorization: Bearer …";
            Err(Refusal::Because(StatusCode::UNAUTHORIZED, what.to_owned()))
        }
        None if names_this_machine(&head.uri, &head.headers) => Ok(()),
        None => {
            let what = "without a token_file, requests must name 127.0.0.1, [::1] or localhost as \
                        the host";
            Err(Refusal::Because(StatusCode::MISDIRECTED_REQUEST, what.to_owned()))
        }
    }
}

async fn answer_of(state: &State, head: &Parts, body: Incoming) -> Result<Answer, Refusal> {
    let query = head.uri.query();
    match head.uri.path() {
        "/-/healthy" => only_read(&head.method).map(|()| text(StatusCode::OK, "healthy\n".into())),
        "/-/ready" => {
            only_read(&head.method)?;
            match not_ready(&state.observer.health()) {
                None => Ok(text(StatusCode::OK, "ready\n".into())),
                Some(why) => Err(Refusal::unavailable(why)),
            }
        }
        RELOAD => match (&state.reloads, &head.method) {
            (None, _) => {
                let what = "there is nothing to reload: the monitor has no --config file";
                Err(Refusal::Because(StatusCode::NOT_FOUND, what.to_owned()))
            }
            (Some(reloads), &Method::POST) => reloads.reload(&head.headers).await,
            (Some(_), _) => Err(Refusal::Method("POST")),
        },
        "/" | "/target" => only_read(&head.method).map(|()| page::shell()),
        "/sample" => {
            only_read(&head.method)?;
            let asked = SampleQuery::read(query);
            as_page(state, asked, SampleQuery::page).await
        }
        "/compare" => {
            only_read(&head.method)?;
            let asked = CompareQuery::read(query);
            as_page(state, asked, CompareQuery::page).await
        }
        SIGN_IN => match (&state.token, &head.method) {
            (Some(token), &Method::POST) => page::sign_in(token, &head.headers, body).await,
            (Some(_), _) => only_read(&head.method).map(|()| page::sign_in_form("/", false)),
            (None, _) => {
                let what = "without a token_file there is no sign-in: request /";
                Err(Refusal::Because(StatusCode::NOT_FOUND, what.to_owned()))
            }
        },
        "/metrics" => {
            only_read(&head.method)?;
            scrape(state, Form::asked_in(&head.headers)).await
        }
        "/api/v1/targets" => {
            only_read(&head.method)?;
            Parameters::read(query, &[])?;
            let series = state.observer.labels();
            json(StatusCode::OK, &Targets::from_labels(place(&series), &series))
        }
        "/api/v1/series" => {
            only_read(&head.method)?;
            let asked = SeriesQuery::read(query, place(&state.observer.labels()))?;
            let turn = turn(&state.looks).await?;
            let points = look_at(turn, state.store.clone(), |store| asked.points(store)).await?;
            json(StatusCode::OK, &points)
        }
        "/api/v1/overview" => {
            only_read(&head.method)?;
            let asked = OverviewQuery::read(query)?;
            json(StatusCode::OK, &first_view(state, asked).await?)
        }
        "/api/v1/history" => {
            only_read(&head.method)?;
            let asked = HistoryQuery::read(query, place(&state.observer.labels()))?;
            let turn = turn(&state.looks).await?;
            let look = |store: &_| asked.points(store);
            json(StatusCode::OK, &look_at(turn, state.store.clone(), look).await?)
        }
        "/api/v1/samples" => {
            only_read(&head.method)?;
            let asked = SamplesQuery::read(query)?;
            let look = move |raw: &_| asked.find(raw);
            json(StatusCode::OK, &look_at_raw(state, look).await?)
        }
        "/api/v1/events" => {
            only_read(&head.method)?;
            let asked = EventsQuery::read(query)?;
            let turn = turn(&state.looks).await?;
            let look = move |store: &_| asked.events(store);
            let events = look_at(turn, state.store.clone(), look).await?;
            Ok(json_text(StatusCode::OK, events))
        }
        "/api/v1/annotations" => match head.method {
            Method::POST => {
                Parameters::read(query, &[])?;
                let kept = annotations::keep(&head.headers, body, &state.observer).await?;
                json(StatusCode::CREATED, &kept)
            }
            Method::GET | Method::HEAD => {
                let asked = EventsQuery::read(query)?;
                let turn = turn(&state.looks).await?;
                let look = move |store: &_| asked.annotations(store);
                json(StatusCode::OK, &look_at(turn, state.store.clone(), look).await?)
            }
            _ => Err(Refusal::Method("GET, HEAD, POST")),
        },
        "/probe" => match &state.exporter {
            Some(exporter) => {
                only_read(&head.method)?;
                Ok(exporter.handle(&head.method, &head.uri, &head.headers).await)
            }
            None => {
                let what = "/probe is disabled: the configuration names no modules file";
                Err(Refusal::Because(StatusCode::NOT_FOUND, what.to_owned()))
            }
        },
        path => {
            if let Some(file) = page::file(path) {
                return only_read(&head.method).map(|()| file);
            }
            let what = "not found; available: /, /metrics, /api/v1/targets, /api/v1/overview, \
                        /api/v1/history, /api/v1/series, /api/v1/events, /api/v1/annotations, \
                        /api/v1/samples, /probe, /-/healthy, /-/ready or /-/reload";
            Err(Refusal::Because(StatusCode::NOT_FOUND, what.to_owned()))
        }
    }
}

/// Runs `look` on the raw files, one at a time.
async fn look_at_raw<T: Send + 'static>(
    state: &State,
    look: impl FnOnce(&Path) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let turn = turn(&state.raw_looks).await?;
    look_at(turn, raw::raw_directory(&state.store), look).await
}

/// The HTML page for `asked`, or an error page.
async fn as_page<Q: Send + 'static>(
    state: &State,
    asked: Result<Q, Refusal>,
    page: impl FnOnce(&Q, &Path) -> Result<String, Refusal> + Send + 'static,
) -> Result<Answer, Refusal> {
    let made = match asked {
        Ok(asked) => look_at_raw(state, move |raw| page(&asked, raw)).await,
        Err(refusal) => Err(refusal),
    };
    match made {
        Ok(html) => Ok(page::report(StatusCode::OK, html)),
        Err(Refusal::Bad(why)) => {
            Ok(page::report(StatusCode::BAD_REQUEST, raw::problem_page(&why)))
        }
        Err(Refusal::Because(status, why)) => Ok(page::report(status, raw::problem_page(&why))),
        Err(refusal) => Err(refusal),
    }
}

/// Name of the vantage point of `series`; empty if it has none.
fn place(series: &[SeriesLabels]) -> &str {
    series.first().map_or("", |labels| &labels.place)
}

const fn only_read(method: &Method) -> Result<(), Refusal> {
    match *method {
        Method::GET | Method::HEAD => Ok(()),
        _ => Err(Refusal::Method("GET, HEAD")),
    }
}

async fn first_view(state: &State, asked: OverviewQuery) -> Result<Overview, Refusal> {
    let look = Look {
        measured: state.observer.labels(),
        budgets: state.observer.budgets(),
        closed: state.closed.clone(),
        catches_up: state.observer.health().catches_up,
    };
    let turn = turn(&state.looks).await?;
    look_at(turn, state.store.clone(), move |store| asked.rows(store, &look)).await
}

/// Sums up the steps of the first view's periods as they end, before anybody requests them. Never returns.
///
/// With thousands of series this takes longer than a user should wait for the page.
pub(super) async fn keep_first_view(state: &State) -> std::convert::Infallible {
    let mut known = None;
    loop {
        let over = steps_over();
        if known == Some(over) || not_ready(&state.observer.health()).is_some() {
            tokio::time::sleep(LOOK_AHEAD_EVERY).await;
            continue;
        }
        known = Some(over);
        for days in [1, 7, 30] {
            let mut next = 0;
            // Other requests get their turn in between.
            while let Ok(Overview { series, .. }) =
                first_view(state, OverviewQuery::ahead(days, next..next + AHEAD_AT_ONCE)).await
            {
                next += AHEAD_AT_ONCE;
                if next >= series {
                    break;
                }
            }
        }
    }
}

async fn turn(of: &Arc<Semaphore>) -> Result<tokio::sync::OwnedSemaphorePermit, Refusal> {
    let busy = || Refusal::unavailable("too many requests at once: try again");
    let turn = timeout(TURN_PATIENCE, Arc::clone(of).acquire_owned()).await;
    turn.map_err(|_| busy())?.map_err(|_| busy())
}

/// A response being sent, and its turn, which is held until all of it is sent.
struct OnItsWay(Bytes, #[expect(dead_code, reason = "is held")] tokio::sync::OwnedSemaphorePermit);

impl AsRef<[u8]> for OnItsWay {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

async fn scrape(state: &State, form: Form) -> Result<Answer, Refusal> {
    let turn = turn(&state.scrapes).await?;
    let at = Monotonic::now();
    let is_same = |before: &Scraped| before.form == form && at.since(before.at) < SAME_FOR;
    let same = state.scraped.borrow().clone().filter(is_same);
    let body = match same {
        Some(before) => before.body,
        None => {
            let (observer, exposed) = (state.observer.clone(), state.exposed.borrow().clone());
            let made = tokio::task::spawn_blocking(move || {
                let figures = observer.figures();
                let exposed = exposed.of_now(&figures);
                let body = match form {
                    Form::Text => Bytes::from(exposition::text(&exposed, &figures)),
                    Form::Protobuf => Bytes::from(exposition::protobuf(&exposed, &figures)),
                };
                (body, exposed)
            });
            let (body, exposed) =
                made.await.map_err(|_| Refusal::unavailable("the scrape was aborted"))?;
            state.exposed.replace(exposed);
            state.scraped.replace(Some(Scraped { at, form, body: body.clone() }));
            body
        }
    };
    let kind = match form {
        Form::Text => TEXT_KIND,
        Form::Protobuf => PROTOBUF_KIND,
    };
    let mut answer = of_kind(StatusCode::OK, kind, Bytes::from_owner(OnItsWay(body, turn)));
    answer.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    Ok(answer)
}
