//! Results of a visit that are kept in memory for the caller: the body, the server's certificates.
//!
//! Clones are handles to the same storage. Each visit replaces the results of the previous one.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A response's body as received; its content is decoded only if that was requested.
#[derive(Clone, Debug)]
pub struct KeptBody {
    limit: u64,
    inner: Arc<Mutex<Held>>,
}

/// Two handles are equal if they refer to the same storage.
impl PartialEq for KeptBody {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl KeptBody {
    /// Keeps up to `limit` bytes. A longer body ends the visit at that point.
    pub fn new(limit: u64) -> Self {
        Self { limit, inner: Arc::default() }
    }

    /// Takes the kept bytes out, and whether there were more.
    pub fn take(&self) -> (Vec<u8>, bool) {
        let held = std::mem::take(&mut *self.held());
        (held.bytes, held.is_cut)
    }

    /// Clears the storage, and returns a writer for a new body.
    pub(super) fn sink(&self) -> Box<dyn Write> {
        *self.held() = Held::default();
        Box::new(Sink(self.clone()))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Sink(KeptBody);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut held = self.0.held();
        let room = self.0.limit.saturating_sub(held.bytes.len() as u64);
        let fit = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        held.bytes.extend_from_slice(&bytes[..fit]);
        if fit < bytes.len() {
            held.is_cut = true;
            return Err(io::Error::other("the body is longer than the limit"));
        }
        Ok(fit)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The certificates that a server presented, in DER, leaf first.
#[derive(Clone, Debug, Default)]
pub struct KeptCertificates(Arc<Mutex<Vec<Vec<u8>>>>);

/// Two handles are equal if they refer to the same storage.
impl PartialEq for KeptCertificates {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl KeptCertificates {
    /// Takes out the certificates of the last handshake.
    pub fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn put(&self, chain: Vec<Vec<u8>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = chain;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_was_asked_for() {
        let kept = KeptBody::new(5);
        let mut sink = kept.sink();
        sink.write_all(b"abc").unwrap();
        assert!(sink.write_all(b"defg").is_err());
        assert_eq!(kept.take(), (b"abcde".to_vec(), true));
        kept.sink().write_all(b"xyz").unwrap();
        assert_eq!(kept.take(), (b"xyz".to_vec(), false));
    }
}
