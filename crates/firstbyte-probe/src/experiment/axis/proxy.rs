//! `proxy=http://proxy.example:3128,none`: the proxy to use, or none.

use std::rc::Rc;

use firstbyte_core::run::Shortfall;
use firstbyte_core::timeline::Connection;

use super::{Setting, Visit};
use crate::probe::options::{HttpVersion, ProxyOptions, ProxyRules};

#[derive(Debug)]
struct ProxySetting(Option<ProxyOptions>);

pub(super) fn read(value: &str) -> Result<Rc<dyn Setting>, String> {
    let proxy = match value {
        "none" => None,
        url => Some(ProxyOptions::read(url)?),
    };
    Ok(Rc::new(ProxySetting(proxy)))
}

impl Setting for ProxySetting {
    fn label(&self) -> String {
        match &self.0 {
            Some(proxy) => format!("{}://{}", proxy.kind.name(), proxy.authority()),
            None => "no proxy".into(),
        }
    }

    fn apply(&self, visit: &mut Visit) -> Result<(), String> {
        let rules = visit.options.proxy.take();
        let Some(proxy) = &self.0 else { return Ok(()) };
        if visit.options.http.version == HttpVersion::Http3 {
            return Err("HTTP/3 cannot go through a proxy".into());
        }
        visit.options.proxy = Some(ProxyRules {
            http: Some(proxy.clone()),
            https: Some(proxy.clone()),
            direct_hosts: String::new(),
            ..rules.unwrap_or_default()
        });
        Ok(())
    }

    fn prove(&self, connection: &Connection) -> Result<(), Shortfall> {
        let passed = connection.facts.proxy.as_ref();
        let passed = passed.map(|proxy| (proxy.kind, proxy.authority.clone()));
        let asked = self.0.as_ref().map(|proxy| (proxy.kind, proxy.authority()));
        (passed == asked).then_some(()).ok_or(Shortfall::OtherAddress)
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_core::timeline::{ProxyFacts, ProxyKind};

    use super::*;
    use crate::experiment::Axis;
    use crate::probe::Target;
    use crate::probe::options::Options;

    #[test]
    fn a_proxy_is_named_without_its_password_and_proven_by_the_facts() {
        let axis = Axis::read("proxy=http://me:s3cret@proxy.test:3128,none").unwrap();
        let shown: Vec<&str> = axis.values.iter().map(|value| value.written.as_str()).collect();
        assert_eq!(shown, ["http://<hidden>@proxy.test:3128", "none"]);
        assert_eq!(axis.values[0].label, "http://proxy.test:3128");

        let through = read("http://me:s3cret@proxy.test:3128").unwrap();
        let mut visit = Visit {
            target: Target::parse("https://a.test/").unwrap(),
            options: Options::default().into(),
        };
        through.apply(&mut visit).unwrap();
        assert!(visit.options.proxy_for(&visit.target).is_some());
        let mut connection = Connection::default();
        assert!(
            through.prove(&connection).is_err() && read("none").unwrap().prove(&connection).is_ok()
        );
        connection.facts.proxy = Some(ProxyFacts {
            kind: ProxyKind::Http,
            authority: "proxy.test:3128".into(),
            tunnel: true,
            status: Some(200),
        });
        assert!(through.prove(&connection).is_ok());
        read("none").unwrap().apply(&mut visit).unwrap();
        assert_eq!(visit.options.proxy, None);
        let error = Axis::read("proxy=ftp://me:s3cret@a.test").unwrap_err();
        assert!(error.contains("expected http") && !error.contains("s3cret"), "{error}");
    }
}
