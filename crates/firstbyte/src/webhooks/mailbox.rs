//! Events waiting for one webhook, in order, in memory and in a file, so that unacknowledged events survive a restart.
//!
//! In: notices from the thread that finds events. Out: the oldest notice, until it is finished. Lines are appended to
//! the file, which is emptied whenever nothing waits. Only the webhooks' thread uses the file, so a slow disk delays
//! neither measurements nor the search for changes.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_lc_rs::digest;
use bytes::Bytes;
use firstbyte_clock::{Monotonic, Realtime};
use firstbyte_monitor::webhook::WebhookSettings;
use firstbyte_probe::probe::describe_io;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::{Counts, Notice, Tell};

/// Maximum number of finished lines before the file is rewritten.
const MOST_FINISHED: usize = 1_000;
/// Hexadecimal digits of a file name; far fewer would distinguish twenty webhooks.
const NAME_DIGITS: usize = 16;

/// A line: a numbered notice, or without `notice` the record that this number is finished.
#[derive(Serialize, Deserialize)]
struct MailboxLine {
    number: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notice: Option<KeptNotice>,
}

#[derive(Serialize, Deserialize)]
struct KeptNotice {
    id: String,
    found_unix_ms: u64,
    body: String,
}

impl KeptNotice {
    fn from_notice(notice: &Notice) -> Self {
        let found = Realtime::now() - Monotonic::now().since(notice.found);
        Self {
            id: notice.id.clone(),
            found_unix_ms: found.unix_nanos() / 1_000_000,
            body: String::from_utf8_lossy(&notice.body).into_owned(),
        }
    }

    fn into_notice(self) -> Notice {
        let now = Realtime::now().unix_nanos() / 1_000_000;
        let age = Duration::from_millis(now.saturating_sub(self.found_unix_ms));
        Notice { id: self.id, body: Bytes::from(self.body), found: Monotonic::now() - age }
    }
}

/// Notices waiting for one webhook.
pub(super) struct Mailbox {
    /// Name of the webhook, for messages.
    name: String,
    incoming: mpsc::Receiver<Notice>,
    waiting: VecDeque<(u64, Notice)>,
    next_number: u64,
    /// Number of finished lines in the file.
    finished: usize,
    path: PathBuf,
    file: Option<File>,
    is_unsynced: bool,
    /// Whether a failure to write the file was reported.
    fails: bool,
    counts: Arc<Counts>,
    tell: Tell,
}

impl Mailbox {
    /// Opens the mailbox with the file at `path`; `incoming` brings new notices. Notices older than `give_up` are given
    /// up.
    pub(super) fn open(
        name: &str,
        path: PathBuf,
        incoming: mpsc::Receiver<Notice>,
        give_up: Duration,
        counts: Arc<Counts>,
        tell: Tell,
    ) -> Self {
        let mut mailbox = Self {
            name: name.to_owned(),
            incoming,
            waiting: VecDeque::new(),
            next_number: 0,
            finished: 0,
            path,
            file: None,
            is_unsynced: false,
            fails: false,
            counts,
            tell,
        };
        match read_waiting(&mailbox.path) {
            Ok(kept) => {
                for (number, kept) in kept {
                    mailbox.next_number = number + 1;
                    let notice = kept.into_notice();
                    if Monotonic::now().since(notice.found) > give_up {
                        mailbox.counts.given_up.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    mailbox.counts.pending.fetch_add(1, Ordering::Relaxed);
                    mailbox.waiting.push_back((number, notice));
                }
            }
            Err(error) => mailbox.tell_failure("read", &error),
        }
        let rewritten = mailbox.rewrite();
        mailbox.note_outcome(rewritten);
        mailbox
    }

    /// The oldest notice; absent once nothing waits and no more can arrive.
    pub(super) async fn oldest(&mut self) -> Option<Notice> {
        self.take_in_all();
        if self.waiting.is_empty() {
            let notice = self.incoming.recv().await?;
            self.take_in(notice);
            self.take_in_all();
        }
        self.waiting.front().map(|(_, notice)| notice.clone())
    }

    /// Keeps notices that arrive while `work` runs.
    pub(super) async fn take_in_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                Some(notice) = self.incoming.recv() => {
                    self.take_in(notice);
                    self.take_in_all();
                }
            }
        }
    }

    /// Removes the oldest notice, after it was delivered or given up.
    pub(super) fn finish_oldest(&mut self) {
        let Some((number, _)) = self.waiting.pop_front() else { return };
        self.counts.pending.fetch_sub(1, Ordering::Relaxed);
        self.finished += 1;
        let written = match self.waiting.is_empty() || self.finished > MOST_FINISHED {
            true => self.rewrite(),
            false => self.append(&MailboxLine { number, notice: None }),
        };
        self.note_outcome(written);
    }

    /// Keeps the notices that have arrived and syncs the file: an event is found only once, so a power cut must not
    /// lose it.
    pub(super) fn take_in_all(&mut self) {
        while let Ok(notice) = self.incoming.try_recv() {
            self.take_in(notice);
        }
        if std::mem::take(&mut self.is_unsynced) {
            let synced = self.file.as_ref().map_or(Ok(()), File::sync_data);
            self.note_outcome(synced);
        }
    }

    fn take_in(&mut self, notice: Notice) {
        let number = self.next_number;
        self.next_number += 1;
        let kept = Some(KeptNotice::from_notice(&notice));
        self.waiting.push_back((number, notice));
        let written = self.append(&MailboxLine { number, notice: kept });
        self.is_unsynced |= written.is_ok();
        self.note_outcome(written);
    }

    fn append(&mut self, line: &MailboxLine) -> io::Result<()> {
        if self.fails {
            // After a failure the file has gaps, so write all of it.
            return self.rewrite();
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(&line_bytes(line)?)
    }

    /// Rewrites the file with only the waiting notices.
    fn rewrite(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        for (number, notice) in &self.waiting {
            let notice = Some(KeptNotice::from_notice(notice));
            bytes.extend(line_bytes(&MailboxLine { number: *number, notice })?);
        }
        let beside = self.path.with_extension("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&beside)?;
        file.write_all(&bytes)?;
        file.sync_data()?;
        fs::rename(&beside, &self.path)?;
        self.file = Some(file);
        self.finished = 0;
        Ok(())
    }

    fn note_outcome(&mut self, written: io::Result<()>) {
        match written {
            Ok(()) => self.fails = false,
            Err(error) => self.tell_failure("write", &error),
        }
    }

    fn tell_failure(&mut self, what: &str, error: &io::Error) {
        if !std::mem::replace(&mut self.fails, true) {
            let (name, path, why) = (&self.name, self.path.display(), describe_io(error));
            (self.tell)(&format!(
                "webhook {name}: cannot {what} {path}: {why}; undelivered events are lost at a restart"
            ));
        }
    }
}

/// Encodes a line.
fn line_bytes(line: &MailboxLine) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Waiting notices in a file, by number. The last line may be incomplete; it was never acknowledged.
fn read_waiting(path: &Path) -> io::Result<BTreeMap<u64, KeptNotice>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut waiting = BTreeMap::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        match serde_json::from_slice(line) {
            Ok(MailboxLine { number, notice: Some(notice) }) => {
                waiting.insert(number, notice);
            }
            Ok(MailboxLine { number, notice: None }) => {
                waiting.remove(&number);
            }
            Err(_) => {}
        }
    }
    Ok(waiting)
}

/// The directory of all mailboxes of a store, created if missing.
///
/// # Errors
/// If it cannot be created.
pub(super) fn make_mailbox_directory(store: &Path) -> io::Result<PathBuf> {
    let directory = store.join("webhooks");
    DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    Ok(directory)
}

/// Deletes mailboxes of webhooks that are not configured any more, once their notices are too old to send.
pub(super) fn delete_outdated(directory: &Path, used: &HashSet<PathBuf>, give_up: Duration) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let now = Realtime::now().unix_nanos() / 1_000_000_000;
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let written = path.metadata().map_or(i64::MAX, |data| data.mtime()).cast_unsigned();
        if now.saturating_sub(written) > give_up.as_secs() && !used.contains(&path) {
            // If this fails, the next start tries again.
            let _ = fs::remove_file(path);
        }
    }
}

/// File of a webhook's mailbox. The URL may be secret, so the name does not show it.
pub(super) fn mailbox_file(directory: &Path, settings: &WebhookSettings) -> PathBuf {
    let url = settings.url.reveal().url.as_str();
    let digest = digest::digest(&digest::SHA256, url.as_bytes());
    let mut name: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    name.truncate(NAME_DIGITS);
    directory.join(format!("{name}.ndjson"))
}
