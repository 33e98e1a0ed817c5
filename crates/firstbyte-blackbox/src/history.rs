//! Remembers the last probes, and failed ones for longer.

use std::collections::VecDeque;

/// A finished probe.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    pub(crate) id: i64,
    pub(crate) module: String,
    /// The target as requested.
    pub(crate) target: String,
    /// The log, the metrics and the module, as text.
    pub(crate) debug: String,
    pub(crate) success: bool,
}

/// Finished probes.
#[derive(Debug)]
pub(crate) struct History {
    limit: usize,
    next: i64,
    last: VecDeque<Past>,
    failed: VecDeque<Past>,
}

impl History {
    /// Remembers up to `limit` probes, and as many failed ones from before these.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, next: 0, last: VecDeque::new(), failed: VecDeque::new() }
    }

    pub(crate) fn add(&mut self, module: &str, target: &str, debug: String, success: bool) {
        let id = self.next;
        self.next += 1;
        let (module, target) = (module.to_owned(), target.to_owned());
        self.last.push_back(Past { id, module, target, debug, success });
        if self.last.len() > self.limit
            && let Some(oldest) = self.last.pop_front()
            && !oldest.success
        {
            self.failed.push_back(oldest);
            if self.failed.len() > self.limit {
                self.failed.pop_front();
            }
        }
    }

    /// All remembered probes, oldest first.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = &Past> {
        self.failed.iter().chain(&self.last)
    }

    pub(crate) fn by_id(&self, id: i64) -> Option<&Past> {
        self.all().find(|past| past.id == id)
    }

    /// The oldest probe of this target, and of this module if one is named.
    pub(crate) fn by_target(&self, target: &str, module: &str) -> Option<&Past> {
        self.all()
            .find(|past| past.target == target && (module.is_empty() || past.module == module))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_ones_stay_for_longer() {
        let mut history = History::new(2);
        for i in 0..6 {
            history.add("m", &format!("t{i}"), String::new(), i % 3 != 0);
        }
        let ids: Vec<i64> = history.all().map(|past| past.id).collect();
        assert_eq!(ids, [0, 3, 4, 5]);
        assert!(history.by_id(1).is_none() && history.by_target("t3", "m").is_some());
    }
}
