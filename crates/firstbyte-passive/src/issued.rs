//! Session IDs that servers issued, and whether a session ID that a client sends belongs to a session.
//!
//! Clients also send random session IDs (RFC 8446 §D.4, RFC 5077 §3.4), which look the same. So an ID that the server
//! does not accept counts as an offer only if the capture shows that it was issued. In: issued IDs, and finished
//! connections, in the order of the capture. Out: the connections with that decided. The number of IDs kept is bounded;
//! the oldest are dropped.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Observed;
use firstbyte_core::timeline::{Handshake, SessionMechanism};

/// Most session IDs kept.
const MOST: usize = 1 << 16;

/// Hash of a session ID. Two different IDs collide with a probability of 2^-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub(super) u64);

impl SessionId {
    /// Absent for an empty ID, which means that there is none.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (!bytes.is_empty()).then(|| {
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            Self(hasher.finish())
        })
    }
}

/// Session IDs that the capture saw being issued.
#[derive(Debug, Default)]
pub(super) struct Issued {
    ids: HashSet<SessionId>,
    oldest: VecDeque<SessionId>,
}

impl Issued {
    pub(super) fn add(&mut self, id: SessionId) {
        if !self.ids.insert(id) {
            return;
        }
        self.oldest.push_back(id);
        if self.oldest.len() > MOST
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }

    /// Decides whether a session ID that was not accepted was an offer.
    pub(super) fn judge(&self, observed: &mut Observed) {
        // Usually no IDs were issued, and the connection need not be examined.
        if self.ids.is_empty() {
            return;
        }
        let Some(tls) = observed.tls.as_deref_mut() else { return };
        let resumption = &mut tls.resumption;
        let Some((id, length)) = resumption.id_sent else { return };
        if resumption.offered.is_none() && self.ids.contains(&id) {
            resumption.offered = Some(SessionMechanism::SessionId);
            resumption.offered_size = Some(length);
            resumption.declined = tls.handshake.is_some_and(|kind| kind != Handshake::Resumed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go() {
        let mut issued = Issued::default();
        for id in 0..=MOST as u64 {
            issued.add(SessionId(id));
            issued.add(SessionId(id));
        }
        assert_eq!((issued.ids.len(), issued.oldest.len()), (MOST, MOST));
        assert!(!issued.ids.contains(&SessionId(0)) && issued.ids.contains(&SessionId(1)));
    }

    #[test]
    fn the_empty_one_is_none() {
        assert_eq!(SessionId::from_bytes(b""), None);
        assert_ne!(SessionId::from_bytes(b"a"), SessionId::from_bytes(b"b"));
    }
}
