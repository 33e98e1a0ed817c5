//! `POST /-/reload`: has the configuration read again by who measures, and says how that went.

use std::time::Duration;

use firstbyte_blackbox::Answer;
use http::{HeaderMap, StatusCode};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::answers::{Refusal, text};

/// Requests that wait, at most: more would read the same file again.
const MOST_WAITING: usize = 8;
/// How long it may take: names that are measured at each address are looked up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Somebody wants the configuration read again.
pub(crate) struct ReloadRequest(oneshot::Sender<Result<String, String>>);

impl ReloadRequest {
    /// Says what is measured now, or every mistake.
    pub(crate) fn answer(self, outcome: Result<String, String>) {
        // Who asked may be gone.
        let _ = self.0.send(outcome);
    }
}

/// Where the server hands requests in.
pub(crate) struct ReloadRequests(mpsc::Sender<ReloadRequest>);

/// Both ends.
pub(crate) fn reload_channel() -> (ReloadRequests, mpsc::Receiver<ReloadRequest>) {
    let (requests, asked) = mpsc::channel(MOST_WAITING);
    (ReloadRequests(requests), asked)
}

impl ReloadRequests {
    /// Has the configuration read again, and waits until it is.
    pub(super) async fn reload(&self, headers: &HeaderMap) -> Result<Answer, Refusal> {
        // Browsers send this on their own, and pages of other sites may make them send a POST.
        let site = headers.get("sec-fetch-site").map(http::HeaderValue::as_bytes);
        if site.is_some_and(|site| site != b"same-origin") {
            let what = "requests of other sites' pages are refused";
            return Err(Refusal::Because(StatusCode::FORBIDDEN, what.to_owned()));
        }
        let (tell, told) = oneshot::channel();
        self.0
            .try_send(ReloadRequest(tell))
            .map_err(|_| Refusal::unavailable("too many requests at once: try again"))?;
        match timeout(PATIENCE, told).await {
            Ok(Ok(Ok(what))) => Ok(text(StatusCode::OK, format!("reloaded: {what}\n"))),
            Ok(Ok(Err(mistakes))) => {
                Err(Refusal::Because(StatusCode::INTERNAL_SERVER_ERROR, mistakes))
            }
            Ok(Err(_)) => Err(Refusal::unavailable("the monitor is stopping")),
            Err(_) => Err(Refusal::unavailable("the configuration is still being read")),
        }
    }
}
