//! Events of connect jobs and QUIC jobs, and of the host resolver.

use std::rc::Rc;

use super::super::open::{OpenConnectJob, OpenLookup, OpenQuicJob};
use super::super::request::LookupSource;
use super::super::{NetLogEvent, NetLogPhase};
use super::{NetLogReduction, entry};

impl NetLogReduction {
    pub(super) fn connect_job_event(&mut self, event: &NetLogEvent) {
        let shared = entry(&mut self.connect_jobs, event.source, &mut self.not_followed);
        let mut job = shared.borrow_mut();
        match (&*event.name, event.phase) {
            ("CONNECT_JOB", NetLogPhase::Begin) => job.begin = Some(event.at_us),
            ("CONNECT_JOB", NetLogPhase::End) => {
                self.connect_jobs.remove(&event.source);
            }
            ("SOCKET_POOL_CONNECT_JOB_CREATED", _) => {
                job.group = event.text("group_id").map(Rc::from);
                job.backup = event.truth("backup_job").unwrap_or(false);
            }
            (name, NetLogPhase::End) if name.ends_with("_CONNECT_JOB_CONNECT") => {
                job.error = event.number("net_error").filter(|error| *error != 0).or(job.error);
            }
            _ => {
                let OpenConnectJob { lookup, .. } = &mut *job;
                self.resolvers_of(event, lookup);
            }
        }
    }

    pub(super) fn quic_job_event(&mut self, event: &NetLogEvent) {
        // In the newer pool an attempt ends before its parts; ignore their ends.
        if event.phase == NetLogPhase::End && !self.quic_jobs.contains_key(&event.source) {
            return;
        }
        let shared = entry(&mut self.quic_jobs, event.source, &mut self.not_followed);
        let mut job = shared.borrow_mut();
        let error = event.number("net_error").filter(|error| *error != 0);
        match (&*event.name, event.phase) {
            (
                "QUIC_SESSION_POOL_JOB"
                | "QUIC_STREAM_FACTORY_JOB"
                | "HTTP_STREAM_POOL_QUIC_ATTEMPT_ALIVE",
                NetLogPhase::End,
            ) => {
                job.error = error.or(job.error);
                if job.connect.begin.is_some() {
                    job.connect.end.get_or_insert(event.at_us);
                }
                self.quic_jobs.remove(&event.source);
            }
            ("QUIC_SESSION_POOL_JOB_CONNECT" | "QUIC_STREAM_FACTORY_JOB_CONNECT", phase) => {
                match phase {
                    NetLogPhase::End => {
                        job.connect.end = Some(event.at_us);
                        job.error = error.or(job.error);
                    }
                    _ => job.connect.begin = Some(event.at_us),
                }
            }
            ("QUIC_SESSION_CREATED", _) => {
                let session = event.dependency().and_then(|number| self.connections.get(&number));
                job.connection = session.map(Rc::clone);
            }
            _ => {
                let OpenQuicJob { lookup, .. } = &mut *job;
                self.resolvers_of(event, lookup);
            }
        }
    }

    /// Applies a resolver event to the lookup of the source that asked.
    pub(super) fn resolvers_of(&mut self, event: &NetLogEvent, lookup: &mut Option<OpenLookup>) {
        let at = event.at_us;
        let begun = |lookup: &mut Option<OpenLookup>| {
            lookup.get_or_insert_with(OpenLookup::default).time.begin.get_or_insert(at);
        };
        match (&*event.name, event.phase) {
            ("HOST_RESOLVER_MANAGER_REQUEST" | "HOST_RESOLVER_IMPL_REQUEST", NetLogPhase::End) => {
                let lookup = lookup.get_or_insert_with(OpenLookup::default);
                lookup.time.end = Some(at);
                lookup.error = event.number("net_error").filter(|error| *error != 0);
            }
            (
                "HOST_RESOLVER_MANAGER_REQUEST"
                | "HOST_RESOLVER_IMPL_REQUEST"
                | "HOST_RESOLVER_MANAGER_TASK_SEQUENCE_CREATED"
                | "HOST_RESOLVER_MANAGER_CREATE_JOB",
                _,
            ) => begun(lookup),
            ("HOST_RESOLVER_MANAGER_CACHE_HIT" | "HOST_RESOLVER_IMPL_CACHE_HIT", _) => {
                begun(lookup);
                known(lookup, LookupSource::Cache, at);
            }
            ("HOST_RESOLVER_MANAGER_HOSTS_HIT" | "HOST_RESOLVER_IMPL_HOSTS_HIT", _) => {
                begun(lookup);
                known(lookup, LookupSource::HostsFile, at);
            }
            ("HOST_RESOLVER_MANAGER_JOB_ATTACH" | "HOST_RESOLVER_IMPL_JOB_ATTACH", _) => {
                begun(lookup);
                if let (Some(number), Some(lookup)) = (event.dependency(), lookup) {
                    let resolver = entry(&mut self.resolvers, number, &mut self.not_followed);
                    lookup.resolver = Some(resolver);
                }
            }
            _ => {}
        }
    }

    pub(super) fn resolver_event(&mut self, event: &NetLogEvent) {
        let shared = entry(&mut self.resolvers, event.source, &mut self.not_followed);
        let mut resolver = shared.borrow_mut();
        let source = match (&*event.name, event.phase) {
            ("HOST_RESOLVER_MANAGER_JOB" | "HOST_RESOLVER_IMPL_JOB", NetLogPhase::End) => {
                resolver.end = Some(event.at_us);
                resolver.error = event.number("net_error").filter(|error| *error != 0);
                self.resolvers.remove(&event.source);
                return;
            }
            ("HOST_RESOLVER_DNS_TASK" | "HOST_RESOLVER_IMPL_DNS_TASK", NetLogPhase::Begin) => {
                match event.truth("secure") {
                    Some(true) => LookupSource::Doh,
                    _ => LookupSource::Dns,
                }
            }
            ("HOST_RESOLVER_SYSTEM_TASK" | "HOST_RESOLVER_IMPL_PROC_TASK", NetLogPhase::Begin) => {
                LookupSource::System
            }
            _ => return,
        };
        if !resolver.sources.contains(&source) {
            resolver.sources.push(source);
        }
    }
}

/// The answer was available locally, without a query.
fn known(lookup: &mut Option<OpenLookup>, source: LookupSource, at: i64) {
    if let Some(lookup) = lookup {
        lookup.known.get_or_insert(source);
        lookup.time.end.get_or_insert(at);
    }
}
