//! `parallel=1,6,h2,h3`: how the requests of a sample are made.

use std::rc::Rc;

use firstbyte_core::run::Shortfall;
use firstbyte_core::timeline::{Connection, Parallel, Sample};

use super::{Setting, Visit};

#[derive(Debug)]
struct InParallel(Parallel);

pub(super) fn read(value: &str) -> Result<Rc<dyn Setting>, String> {
    match Parallel::named(value) {
        Some(parallel) => Ok(Rc::new(InParallel(parallel))),
        None => Err("unknown value".into()),
    }
}

impl Setting for InParallel {
    fn label(&self) -> String {
        self.0.label()
    }

    fn apply(&self, visit: &mut Visit) -> Result<(), String> {
        match &mut visit.options.requests {
            Some(requests) => {
                requests.parallel = self.0;
                Ok(())
            }
            None => Err("it needs several requests per sample; add --requests 12".into()),
        }
    }

    fn prove(&self, connection: &Connection) -> Result<(), Shortfall> {
        let version = connection.facts.http.as_ref().and_then(|http| http.version.as_deref());
        (version == Some(self.0.http_version())).then_some(()).ok_or(Shortfall::OtherHttpVersion)
    }

    fn prove_sample(&self, sample: &Sample) -> Result<(), Shortfall> {
        let requests = sample.requests.as_ref().ok_or(Shortfall::NotSaid)?;
        sample.connections().try_for_each(|connection| self.prove(connection))?;
        if requests.connections() != usize::from(self.0.connections()) {
            return Err(Shortfall::OtherConnections);
        }
        match self.0 {
            // How many requests overlap depends on how fast the responses come.
            Parallel::Connections(_) => Ok(()),
            Parallel::Http2 | Parallel::Http3 if requests.most_at_once() > 1 => Ok(()),
            Parallel::Http2 | Parallel::Http3 => Err(Shortfall::NotAtOnce),
        }
    }
}
