//! `site=page:https://example.com/,image:https://example.com/logo.png`: the URL to visit.

use std::rc::Rc;

use firstbyte_core::run::Shortfall;
use firstbyte_core::timeline::Connection;

use super::{Setting, Visit, capitalised};
use crate::probe::Target;

#[derive(Debug)]
struct Site {
    name: String,
    target: Target,
}

pub(super) fn read(value: &str) -> Result<Rc<dyn Setting>, String> {
    let (name, url) = match value.split_once(':') {
        Some((name, url)) if !url.starts_with("//") => (name, url),
        _ => return Err("the name before the URL is missing".into()),
    };
    if name.is_empty() {
        return Err("the name before the URL is missing".into());
    }
    let target = Target::parse(url).map_err(|error| error.to_string())?;
    Ok(Rc::new(Site { name: name.to_owned(), target }))
}

impl Setting for Site {
    fn label(&self) -> String {
        capitalised(&self.name)
    }

    fn apply(&self, visit: &mut Visit) -> Result<(), String> {
        visit.target = self.target.clone();
        Ok(())
    }

    fn prove(&self, connection: &Connection) -> Result<(), Shortfall> {
        let visited = Target::parse(&connection.url);
        let same = visited.is_ok_and(|target| target.host == self.target.host);
        same.then_some(()).ok_or(Shortfall::OtherAddress)
    }
}
