//! `kex=x25519,p256,x25519mlkem768`: the key-exchange group.

use std::rc::Rc;

use firstbyte_core::run::Shortfall;
use firstbyte_core::timeline::Connection;

use super::{Setting, Visit};
use crate::probe::options::TlsVersion;

#[derive(Debug)]
struct Group {
    /// The name that `--curves` takes.
    flag: &'static str,
    /// The name in the IANA registry.
    name: &'static str,
    label: &'static str,
    /// Whether it is a key encapsulation mechanism, which TLS 1.2 does not support.
    encapsulates: bool,
}

const GROUPS: [Group; 6] = [
    Group { flag: "x25519", name: "X25519", label: "X25519", encapsulates: false },
    Group { flag: "p256", name: "secp256r1", label: "P-256", encapsulates: false },
    Group { flag: "p384", name: "secp384r1", label: "P-384", encapsulates: false },
    Group {
        flag: "x25519mlkem768",
        name: "X25519MLKEM768",
        label: "X25519MLKEM768",
        encapsulates: true,
    },
    Group {
        flag: "secp256r1mlkem768",
        name: "secp256r1MLKEM768",
        label: "SecP256r1MLKEM768",
        encapsulates: true,
    },
    Group { flag: "mlkem768", name: "MLKEM768", label: "MLKEM768", encapsulates: true },
];

pub(super) fn read(value: &str) -> Result<Rc<dyn Setting>, String> {
    let wanted = value.to_ascii_lowercase().replace("p-", "p");
    let group = GROUPS.into_iter().find(|group| group.flag == wanted);
    group.map(|group| Rc::new(group) as Rc<dyn Setting>).ok_or("unknown group".into())
}

impl Setting for Group {
    fn label(&self) -> String {
        self.label.into()
    }

    fn apply(&self, visit: &mut Visit) -> Result<(), String> {
        visit.options.tls.groups = vec![self.flag.into()];
        if self.encapsulates && visit.options.tls.max < TlsVersion::V1_3 {
            return Err("TLS 1.2 does not support this group".into());
        }
        Ok(())
    }

    fn prove(&self, connection: &Connection) -> Result<(), Shortfall> {
        let facts = &connection.facts;
        match facts.tls.as_ref().and_then(|tls| tls.group.as_deref()) {
            Some(group) if group.eq_ignore_ascii_case(self.name) => Ok(()),
            None if facts.client.is_some() => Err(Shortfall::NotSaid),
            _ => Err(Shortfall::OtherGroup),
        }
    }
}
