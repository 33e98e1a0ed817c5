//! Predicts what repeated visits would save.
//!
//! Both the actual connection and the improved one are predicted from the measurements; the saving is the difference.

use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::split::{Parts, total};
use firstbyte_core::timeline::{PhaseName, TlsFacts};
use firstbyte_explain::{Evidence, Finding, FindingKind, TimeSaved};
use firstbyte_lab::ca::{Ca, LeafOptions};
use firstbyte_predict::{KexGroup, Reuse, Session, Setup, Way, certified, predict};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::prediction::hosts::{calibrate, handshakes};
use firstbyte_clock::timer_now;

/// How far a prediction may be off, as a share, if the model is to count as valid for this server.
const CLOSE: f64 = 0.1;

/// Fills in what resumption and early data would save.
///
/// Nothing is filled in if the actual connection cannot be predicted: the model does not hold for this server.
pub(super) fn fill_in(findings: &mut [Finding], evidence: &Evidence) {
    let sessions = |finding: &&mut Finding| {
        matches!(finding.kind, FindingKind::NoResumption | FindingKind::NoEarlyData)
    };
    let mut findings = findings.iter_mut().filter(sessions).peekable();
    let model = findings.peek().and_then(|_| Model::from_evidence(evidence));
    let Some(model) = model else { return };
    for finding in findings {
        finding.saving.predicted = match finding.kind {
            FindingKind::NoResumption => model.saves(Session::Full, Session::Resumed),
            _ => model.saves(Session::Resumed, Session::ZeroRtt),
        };
    }
}

/// Model of the actual connection.
struct Model {
    setup: Setup,
    way: Way,
}

impl Model {
    fn from_evidence(evidence: &Evidence) -> Option<Self> {
        let subject = evidence.subject()?;
        let middle = &subject.middle()?.connection;
        let rtt = subject.median(|c| c.split.rtt)?;
        let facts = &middle.facts;
        let part = |phase: PhaseName, of: fn(&Parts) -> Duration| {
            subject
                .median(|c| Some(c.split.phase(phase).map_or(Duration::ZERO, |p| of(&p.parts))))
                .unwrap_or_default()
        };
        let tls = facts.tls.as_ref();
        let chain = tls.and_then(TlsFacts::certificate_chain_bytes).unwrap_or(0);
        let mut setup = Setup::new(rtt, chain_of(chain as usize)?);
        setup.client.resolver_time = Some(part(PhaseName::Resolve, |p| p.resolver));
        setup.server.think_time = part(PhaseName::Wait, |p| p.server);
        let fit = &evidence.fit;
        if let Some(window) = fit.initial_windows().and_then(|_| fit.best()?.initial_window) {
            setup.server.initial_window = window;
        }
        let http = facts.http.as_ref()?;
        setup.exchange.response_bytes = http.body_bytes.unwrap_or(0);
        setup.exchange.response_head_bytes = http.header_bytes.unwrap_or(200);
        // Unchanged except for the session, because the saving of a repeated visit is one of the questions.
        let way =
            Way { session: Session::Full, reuse: Reuse::New, ..Way::from_connection(middle)? };
        let retried = tls.and_then(|tls| tls.handshake)
            == Some(firstbyte_core::timeline::Handshake::FullWithHelloRetryRequest);
        if retried {
            let group = tls.and_then(|tls| tls.group.as_deref()).and_then(KexGroup::named)?;
            setup.server.groups = vec![group];
        }
        calibrate(&mut setup, &handshakes(subject.connections().map(|c| &c.connection)), rtt);
        let predicted = predict(&setup, &way, timer_now().into_std()).ok()?;
        let (predicted, measured) = (total(&predicted), subject.total()?);
        // Parts with names of their own are not predicted by the model.
        let apart = subject.median(|c| {
            let parts = c.split.parts;
            Some(parts.pause + parts.variation + parts.fallback)
        })?;
        let off = predicted.abs_diff(measured.saturating_sub(apart));
        (off.as_secs_f64() <= CLOSE * measured.as_secs_f64()).then_some(Self { setup, way })
    }

    /// How much longer a visit with the session `before` takes than with `after`.
    fn saves(&self, before: Session, after: Session) -> Option<TimeSaved> {
        let with = |session: Session| times(&self.setup, &Way { session, ..self.way });
        let (before, after) = (with(before)?, with(after)?);
        Some(TimeSaved {
            total: before.0.checked_sub(after.0)?,
            first_byte: Some(before.1.saturating_sub(after.1)),
        })
    }
}

/// The total, and the time to the first byte of the response.
fn times(setup: &Setup, way: &Way) -> Option<(Duration, Duration)> {
    let connection = predict(setup, way, timer_now().into_std()).ok()?;
    let first_byte = connection.marks.first_packet_of_response()?;
    Some((total(&connection), Duration::from_nanos(first_byte.as_nanos().unsigned_abs())))
}

/// A certificate chain of about `bytes` bytes, or of the default size if that is too short.
fn chain_of(bytes: usize) -> Option<Arc<CertifiedKey>> {
    let ca = Ca::new().ok()?;
    let names = ["server.test".to_owned()];
    let sized = LeafOptions { chain_bytes: Some(bytes), ..LeafOptions::default() };
    let certificate = ca
        .issue_with(&names, &sized)
        .or_else(|_| ca.issue_with(&names, &LeafOptions::default()))
        .ok()?;
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(certificate.chain_pem.as_bytes())
            .collect::<Result<_, _>>()
            .ok()?;
    let key = PrivateKeyDer::from_pem_slice(certificate.key_pem.as_bytes()).ok()?;
    certified(chain, key).ok()
}
