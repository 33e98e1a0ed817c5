//! Events of Chromium's newer pool (feature `HappyEyeballsV3`).
//!
//! In it, jobs over TCP and QUIC do not race; instead attempts belong to a group of the pool. The manager of a group's
//! attempts takes the place of the connect job, and a job of the pool that of the job that got the connection.

use std::rc::Rc;

use super::super::open::{OpenController, OpenJob, OpenRequest, Shared, Sharing};
use super::super::{NetLogEvent, NetLogPhase};
use super::{MOST_OPEN, NetLogReduction, entry};

/// Name of such jobs.
const POOL: &str = "pool";
/// `StreamSocketHandle::SocketReuseType::kReusedIdle`.
const REUSED_IDLE: i64 = 2;

/// A socket that a group handed out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    socket: u64,
    reused: bool,
}

/// The pool job that got the request its connection; counts the request as a use of that connection.
pub(super) fn served(request: &OpenRequest) -> Option<Shared<OpenJob>> {
    let controllers = request.controllers.iter().rev();
    let jobs = controllers.flat_map(|controller| controller.borrow().jobs.clone());
    let mut served = jobs.filter(|job| {
        let job = job.borrow();
        job.name.as_deref() == Some(POOL) && job.connection.is_some()
    });
    let job = served.next()?;
    job.borrow_mut().bind();
    Some(job)
}

/// The pool job that tried QUIC.
pub(super) fn over_quic(request: &OpenRequest) -> Option<Shared<OpenJob>> {
    let jobs = request.controllers.iter().flat_map(|it| it.borrow().jobs.clone());
    jobs.into_iter().find(|job| {
        let job = job.borrow();
        job.name.as_deref() == Some(POOL) && (job.quic || job.quic_tried().is_some())
    })
}

impl NetLogReduction {
    /// A job that a controller gave to the pool, or a session that it found.
    pub(super) fn pool_job(&mut self, event: &NetLogEvent, controller: &Shared<OpenController>) {
        let Some(number) = event.dependency() else { return };
        let found = event.name.ends_with("SESSION");
        let job = match found {
            true => Shared::<OpenJob>::default(),
            false => entry(&mut self.jobs, number, &mut self.not_followed),
        };
        let mut open = job.borrow_mut();
        open.name = Some(POOL.into());
        open.number = number;
        if found {
            let session = self.sessions.get(&number).or_else(|| self.connections.get(&number));
            open.connection = session.map(Rc::clone);
            (open.shares, open.is_over) = (Some(Sharing::SameHost), true);
            open.quic = event.name.ends_with("QUIC_SESSION");
        }
        drop(open);
        controller.borrow_mut().jobs.push(job);
    }

    pub(super) fn pool_event(&mut self, event: &NetLogEvent) {
        match (&*event.name, event.phase) {
            ("HTTP_STREAM_POOL_ATTEMPT_MANAGER_ALIVE", NetLogPhase::Begin) => {
                let manager = entry(&mut self.connect_jobs, event.source, &mut self.not_followed);
                let mut manager = manager.borrow_mut();
                manager.begin = Some(event.at_us);
                manager.group_number = event.dependency();
                manager.group = event.params.get("stream_key").and_then(|key| {
                    let text = |name: &str| key.get(name)?.as_str();
                    // Named as in the older pool, so that partitions that share no sessions stay separate.
                    let privacy = if text("privacy_mode") == Some("disabled") { "" } else { "pm/" };
                    let partition = text("network_anonymization_key").unwrap_or_default();
                    Some(format!("{privacy}{} <{partition}>", text("destination")?).into())
                });
            }
            ("HTTP_STREAM_POOL_ATTEMPT_MANAGER_ALIVE", NetLogPhase::End) => {
                self.connect_jobs.remove(&event.source);
            }
            ("HTTP_STREAM_POOL_ATTEMPT_MANAGER_JOB_BOUND", _) => {
                let manager = event.dependency().and_then(|number| self.connect_jobs.get(&number));
                if let (Some(manager), Some(job)) = (manager, self.jobs.get(&event.source)) {
                    job.borrow_mut().connect_job = Some(Rc::clone(manager));
                }
            }
            ("HTTP_STREAM_POOL_GROUP_HANDLE_CREATED", _) if self.given.len() < MOST_OPEN => {
                if let Some(socket) = event.dependency() {
                    let reused = event.number("reuse_type") == Some(REUSED_IDLE);
                    self.given.insert(event.source, Given { socket, reused });
                }
            }
            ("HTTP_STREAM_POOL_GROUP_ALIVE", NetLogPhase::End) => {
                self.given.remove(&event.source);
            }
            ("HTTP_STREAM_POOL_ATTEMPT_MANAGER_QUIC_ATTEMPT_BOUND", _) => {
                let manager = self.connect_jobs.get(&event.source);
                if let (Some(manager), Some(number)) = (manager, event.dependency()) {
                    let attempt = entry(&mut self.quic_jobs, number, &mut self.not_followed);
                    manager.borrow_mut().quic_job = Some(attempt);
                }
            }
            ("HTTP_STREAM_POOL_JOB_ALIVE", NetLogPhase::Begin) => {
                let job = entry(&mut self.jobs, event.source, &mut self.not_followed);
                let allowed = event.params.get("allowed_alpns").and_then(|it| it.as_array());
                job.borrow_mut().quic =
                    allowed.is_some_and(|allowed| allowed.iter().all(|alpn| alpn == "quic"));
            }
            ("HTTP_STREAM_POOL_JOB_ALIVE", NetLogPhase::End) => self.end_pool_job(event),
            _ => {
                if let Some(manager) = self.connect_jobs.get(&event.source).map(Rc::clone) {
                    let mut manager = manager.borrow_mut();
                    self.resolvers_of(event, &mut manager.lookup);
                }
            }
        }
    }

    /// Ends a pool job: the socket that its group handed out just before is its connection.
    fn end_pool_job(&mut self, event: &NetLogEvent) {
        let Some(job) = self.jobs.remove(&event.source) else { return };
        let mut job = job.borrow_mut();
        job.is_over = true;
        if let Some(error) = event.number("net_error").filter(|error| *error != 0) {
            job.pool_error = Some(error);
            return;
        }
        let group = job.connect_job.as_ref().and_then(|manager| manager.borrow().group_number);
        let Some(given) = group.and_then(|group| self.given.get(&group)) else { return };
        job.connection = self.connections.get(&given.socket).map(Rc::clone);
        if given.reused {
            job.idle_ms = Some(None);
        }
    }

    /// Events of an attempt, whose addresses are counted as its manager's.
    pub(super) fn stream_attempt_event(&mut self, event: &NetLogEvent) {
        match (&*event.name, event.phase) {
            ("TCP_BASED_ATTEMPT_BOUND_TO_POOL", _) => {
                let manager = event.dependency().and_then(|number| self.connect_jobs.get(&number));
                let own = self.connect_jobs.get(&event.source);
                let (Some(manager), Some(own)) = (manager, own) else { return };
                if Rc::ptr_eq(manager, own) {
                    return;
                }
                let tried = std::mem::take(&mut own.borrow_mut().attempts);
                for attempt in &tried {
                    if let Some(socket) = self.connections.get(&attempt.socket) {
                        socket.borrow_mut().job = Some(Rc::clone(manager));
                    }
                }
                manager.borrow_mut().attempts.extend(tried);
                // Its later events apply to the manager directly.
                let (manager, is_over) = (Rc::clone(manager), own.borrow().is_over);
                match is_over {
                    true => self.connect_jobs.remove(&event.source),
                    false => self.connect_jobs.insert(event.source, manager),
                };
            }
            // For an attempt with TLS, the end of TCP is not its end.
            ("TCP_STREAM_ATTEMPT_ALIVE", NetLogPhase::End)
                if &*event.source_kind != "TCP_STREAM_ATTEMPT" => {}
            ("TLS_STREAM_ATTEMPT_ALIVE" | "TCP_STREAM_ATTEMPT_ALIVE", NetLogPhase::End) => {
                let Some(own) = self.connect_jobs.get(&event.source).map(Rc::clone) else { return };
                let mut own = own.borrow_mut();
                // An attempt that fails at once ends before it is bound to the manager.
                if own.group_number.is_some() || own.attempts.is_empty() {
                    self.connect_jobs.remove(&event.source);
                } else {
                    own.is_over = true;
                }
            }
            _ => {
                entry(&mut self.connect_jobs, event.source, &mut self.not_followed);
            }
        }
    }
}
