//! `POST /-/reload`: asks the monitor to read its configuration again, and returns the result.

use std::time::Duration;

use firstbyte_blackbox::Answer;
use http::{HeaderMap, StatusCode};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::answers::{Refusal, text};

/// Maximum number of waiting requests; more would read the same file again.
const MOST_WAITING: usize = 8;
/// Time limit of a reload, during which names measured at each address are looked up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request to read the configuration again.
pub(crate) struct ReloadRequest(oneshot::Sender<Result<String, String>>);

impl ReloadRequest {
    /// Reports the targets measured now, or every mistake.
    pub(crate) fn answer(self, outcome: Result<String, String>) {
        // The requester may be gone.
        let _ = self.0.send(outcome);
    }
}

/// Sends reload requests to the monitor.
pub(crate) struct ReloadRequests(mpsc::Sender<ReloadRequest>);

/// Creates both ends of the channel.
pub(crate) fn reload_channel() -> (ReloadRequests, mpsc::Receiver<ReloadRequest>) {
    let (requests, asked) = mpsc::channel(MOST_WAITING);
    (ReloadRequests(requests), asked)
}

impl ReloadRequests {
    /// Asks for a reload and waits until it is done.
    pub(super) async fn reload(&self, headers: &HeaderMap) -> Result<Answer, Refusal> {
        // Browsers set this header themselves, and other sites' pages may make them send a POST.
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
