//! Signs and sends the requests of a webhook, and checks the status of the response.

use std::io;

use aws_lc_rs::hmac;
use firstbyte_clock::Realtime;
use firstbyte_monitor::webhook::WebhookSettings;
use firstbyte_probe::probe::Secret;

use super::Notice;
use crate::posting::{Destination, Tls};

/// Sends the events of one webhook.
pub(super) struct Sender {
    destination: Destination,
    key: Option<hmac::Key>,
}

impl Sender {
    pub(super) fn new(
        settings: &WebhookSettings,
        secret: Option<&Secret<String>>,
        tls: Option<&Tls>,
    ) -> io::Result<Self> {
        let WebhookSettings { url, content_type, headers, .. } = settings;
        Ok(Self {
            destination: Destination::new(url.reveal(), content_type, headers, tls)?,
            key: secret.map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes())),
        })
    }

    /// Sends `notice`. Errors are texts.
    pub(super) async fn send(&self, notice: &Notice) -> Result<(), String> {
        let seconds = (Realtime::now().unix_nanos() / 1_000_000_000).to_string();
        let mut further =
            vec![("x-firstbyte-event", notice.id.as_str()), ("x-firstbyte-timestamp", &seconds)];
        let signature = self.key.as_ref().map(|key| signature(key, &seconds, &notice.body));
        further.extend(signature.as_deref().map(|signature| ("x-firstbyte-signature", signature)));
        let answer = self.destination.post(&further, notice.body.clone(), 0).await?;
        match answer.status {
            status if status.is_success() => Ok(()),
            status => Err(format!("the receiver answered {}", status.as_u16())),
        }
    }
}

/// `"sha256=…"` over the time, a full stop and the body, so that an old request cannot be replayed with a new time.
fn signature(key: &hmac::Key, seconds: &str, body: &[u8]) -> String {
    let mut signed = hmac::Context::with_key(key);
    signed.update(seconds.as_bytes());
    signed.update(b".");
    signed.update(body);
    let digits =
        signed.sign().as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("sha256={digits}")
}
