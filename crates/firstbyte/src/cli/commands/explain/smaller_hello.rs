//! Tries a smaller ClientHello if a large one got no answer.
//!
//! Input: a visit that failed in this way. Output: if the smaller one succeeds, a problem that names the cause and
//! its cost; if not, nothing, because the size is not the cause.

use std::time::Duration;

use firstbyte_core::run::visit_time;
use firstbyte_core::shown_url::shown_url;
use firstbyte_core::timeline::{Failure, Sample};
use firstbyte_probe::probe::Target;
use firstbyte_probe::probe::options::{Options, TlsOptions};

use super::measure::{interrupted, visits};
use crate::cli::exit::{self, Problem};
use crate::cli::measuring::Measuring;
use crate::cli::signals::asked_to_end;

/// The group with the smallest key share, as a value of `--curves`.
const SMALL_GROUP: &str = "x25519";

/// Results of both ClientHellos.
#[derive(Clone, Copy, Debug)]
struct HelloTrial {
    large_bytes: u64,
    small_bytes: u64,
    /// How long the visit with the large one took to fail; the next field is how long the other took to succeed.
    failed_after: Duration,
    succeeded_after: Duration,
}

/// Visits `target` with a smaller ClientHello, if the size of its own may be why `failed` failed.
pub(super) fn try_smaller(
    measuring: &Measuring,
    options: &Options,
    target: &Target,
    failed: &Sample,
) -> Result<Option<Problem>, Problem> {
    let (Some(failure), Some(large_bytes)) =
        (failed.failure(), failed.connection.unanswered_large_hello())
    else {
        return Ok(None);
    };
    let tls = TlsOptions { groups: vec![SMALL_GROUP.into()], ..options.tls.clone() };
    let options = Options { max_redirects: Some(20), tls, ..options.clone() };
    let prober = measuring.prober(&options)?;
    let [_, small] = measuring.wait_for(async {
        tokio::select! {
            biased;
            _ = asked_to_end() => Err(interrupted()),
            samples = visits(&*prober, target) => Ok(samples),
        }
    })?;
    if small.failure().is_some() {
        return Ok(None);
    }
    let Some(small_bytes) = small.connection.client_hello_bytes() else { return Ok(None) };
    let (failed_after, succeeded_after) = (visit_time(failed), visit_time(&small));
    let trial = HelloTrial { large_bytes, small_bytes, failed_after, succeeded_after };
    Ok(Some(describe_trial(&failed.connection.url, failure, trial)))
}

fn describe_trial(url: &str, failure: &Failure, trial: HelloTrial) -> Problem {
    let HelloTrial { large_bytes, small_bytes, failed_after, succeeded_after } = trial;
    let (lost, took) = (milliseconds(failed_after), milliseconds(succeeded_after));
    let message = format!(
        "{}: {failure}; the cause is the size of the ClientHello: with {large_bytes} bytes (a key share such as \
         X25519MLKEM768's) a visit fails after {lost}, with {small_bytes} bytes it succeeds in {took}",
        shown_url(url)
    );
    Problem::new(exit::code(&failure.cause), message).hint(
        "have the server, or what is on the path to it, take a ClientHello of several segments; until then \
         --curves x25519 avoids it, also for explain",
    )
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use firstbyte_core::timeline::{Cause, PhaseName};

    use super::*;

    #[test]
    fn the_cause_is_named_with_what_it_costs() {
        let failure = Failure { phase: PhaseName::Tls, cause: Cause::ResetInHandshake, at: None };
        let trial = HelloTrial {
            large_bytes: 1_480,
            small_bytes: 254,
            failed_after: Duration::from_micros(40_260),
            succeeded_after: Duration::from_millis(81),
        };
        let problem = describe_trial("https://a.test/", &failure, trial);
        assert_eq!(problem.code(), 35);
        assert_eq!(
            problem.message(),
            "https://a.test/: tls: connection reset during the handshake; the cause is the size of the ClientHello: with \
             1480 bytes (a key share such as X25519MLKEM768's) a visit fails after 40.3 ms, with 254 bytes it succeeds \
             in 81.0 ms"
        );
        assert!(problem.to_string().contains("--curves x25519"));
    }
}
