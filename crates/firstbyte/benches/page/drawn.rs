//! A random page drawn from a seed: origins, and resources that lead to others, as the hosts of a scenario.

use std::fmt::Write as _;
use std::time::Duration;

/// A server of the page.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) round_trip: Duration,
}

/// Type of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Style,
    Script,
    AsyncScript,
    Image,
}

#[derive(Clone, Debug)]
struct Resource {
    origin: usize,
    kind: Kind,
    /// The resource that requests it; `None` for those requested by the document.
    parent: Option<usize>,
    bytes: usize,
    think_ms: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct DrawnPage {
    pub(crate) seed: u64,
    pub(crate) origins: Vec<Origin>,
    pub(crate) http1: bool,
    pub(crate) tls12: bool,
    document_bytes: usize,
    document_think_ms: u64,
    resources: Vec<Resource>,
    /// The origin that the change brings nearer, and its round trip then.
    pub(crate) edge: (usize, Duration),
}

impl DrawnPage {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let origins: Vec<Origin> = (0..random.usize(1..=4))
            .map(|_| Origin { round_trip: Duration::from_millis(random.u64(5..=150)) })
            .collect();
        let count = random.usize(3..=30);
        let mut resources: Vec<Resource> = Vec::new();
        for _ in 0..count {
            let kind = match random.u32(0..10) {
                0 | 1 => Kind::Style,
                2 | 3 => Kind::Script,
                4 => Kind::AsyncScript,
                _ => Kind::Image,
            };
            let leads_on = |resource: &Resource| match resource.kind {
                Kind::Script | Kind::AsyncScript => kind != Kind::Script,
                Kind::Style => kind == Kind::Style,
                Kind::Image => false,
            };
            let parents: Vec<usize> =
                (0..resources.len()).filter(|of| leads_on(&resources[*of])).collect();
            let by_another = !parents.is_empty() && random.u32(0..3) == 0;
            let think_ms = if random.u32(0..3) == 0 { random.u64(5..=120) } else { 0 };
            let bytes = (500.0 * 120.0_f64.powf(random.f64())) as usize;
            resources.push(Resource {
                origin: random.usize(0..origins.len()),
                kind,
                parent: by_another.then(|| parents[random.usize(0..parents.len())]),
                bytes: bytes + 300,
                think_ms,
            });
        }
        let nearer = random.usize(0..origins.len());
        let trip = origins[nearer].round_trip;
        let edge =
            (nearer, Duration::from_millis(random.u64(2..=(trip.as_millis() as u64 / 2).max(2))));
        Self {
            seed,
            http1: random.u32(0..3) == 0,
            tls12: random.u32(0..3) == 0,
            document_bytes: 6_000 + random.usize(0..30_000),
            document_think_ms: if random.bool() { random.u64(5..=100) } else { 0 },
            origins,
            resources,
            edge,
        }
    }

    pub(crate) fn host(origin: usize) -> String {
        format!("o{origin}.page.test")
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}/", Self::host(0))
    }

    fn url_of(&self, place: usize) -> String {
        let resource = &self.resources[place];
        let end = match resource.kind {
            Kind::Style => "css",
            Kind::Script | Kind::AsyncScript => "js",
            Kind::Image => "svg",
        };
        format!("https://{}/r{place}.{end}", Self::host(resource.origin))
    }

    /// The tags that request the resources whose parent is `parent`.
    fn tags(&self, parent: Option<usize>, tag: impl Fn(Kind, &str) -> String) -> String {
        let own =
            self.resources.iter().enumerate().filter(|(_, resource)| resource.parent == parent);
        own.map(|(place, resource)| tag(resource.kind, &self.url_of(place))).collect()
    }

    fn document(&self) -> String {
        let head = self.tags(None, |kind, url| match kind {
            Kind::Style => format!("<link rel=stylesheet href={url}>\n"),
            Kind::AsyncScript => format!("<script async src={url}></script>\n"),
            Kind::Script | Kind::Image => String::new(),
        });
        let body = self.tags(None, |kind, url| match kind {
            Kind::Image => format!("<img src={url} width=9 height=9>\n"),
            Kind::Script => format!("<script src={url}></script>\n"),
            Kind::Style | Kind::AsyncScript => String::new(),
        });
        format!(
            "<!DOCTYPE html><html><head><title>p</title><link rel=icon href=data:,>\n{head}</head><body>\n{body}</body></html>\n"
        )
    }

    fn text(&self, place: usize) -> (&'static str, String) {
        match self.resources[place].kind {
            Kind::Style => {
                ("text/css", self.tags(Some(place), |_, url| format!("@import url({url});\n")))
            }
            Kind::Script | Kind::AsyncScript => {
                let text = self.tags(Some(place), |kind, url| match kind {
                    Kind::Image => format!("new Image().src='{url}';\n"),
                    Kind::Style => format!(
                        "{{const l=document.createElement('link');l.rel='stylesheet';l.href='{url}';document.head.append(l)}}\n"
                    ),
                    Kind::Script | Kind::AsyncScript => format!(
                        "{{const s=document.createElement('script');s.src='{url}';document.head.append(s)}}\n"
                    ),
                });
                ("text/javascript", text)
            }
            Kind::Image => (
                "image/svg+xml",
                "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'></svg>\n".to_owned(),
            ),
        }
    }

    /// The address of `origin`; all origins share one if `coalesced`.
    pub(crate) fn address(origin: usize, coalesced: bool) -> String {
        format!("198.51.100.{}", if coalesced { 1 } else { origin + 1 })
    }

    /// The scenario, optionally with `edge` nearer, or with all origins on the document's server.
    pub(crate) fn scenario(&self, nearer: bool, coalesced: bool) -> String {
        let mut text = String::from(
            "description = \"a drawn page\"\n[[host]]\nname = \"client\"\nrole = \"client\"\nipv4 = \"192.0.2.10\"\n",
        );
        let hosts = if coalesced { 1 } else { self.origins.len() };
        for host in 0..hosts {
            let round_trip = match self.edge {
                (origin, near) if nearer && origin == host => near,
                _ => self.origins[host].round_trip,
            };
            let half = round_trip.as_micros() / 2;
            let names = if coalesced { 0..self.origins.len() } else { host..host + 1 };
            let names: Vec<String> = names.map(|of| format!("{:?}", Self::host(of))).collect();
            let _ = write!(
                text,
                "[[host]]\nname = \"server{host}\"\nrole = \"server\"\nipv4 = {:?}\nnames = [{}]\n\
                 up = {{ delay = \"{half}us\" }}\ndown = {{ delay = \"{half}us\" }}\n\
                 [host.server]\nkind = \"builtin\"\nhttp3 = true\nearly_data = \"on\"\n",
                Self::address(host, false),
                names.join(", "),
            );
            if host == 0 {
                let document = self.document();
                let bytes = self.document_bytes.max(document.len());
                text += &content("/", "text/html", &document, bytes, self.document_think_ms);
            }
            for (place, resource) in self.resources.iter().enumerate() {
                if coalesced || resource.origin == host {
                    let (kind, body) = self.text(place);
                    let url = self.url_of(place);
                    let path = url.rsplit('/').next().unwrap_or_default();
                    let bytes = resource.bytes.max(body.len());
                    text += &content(&format!("/{path}"), kind, &body, bytes, resource.think_ms);
                }
            }
        }
        text
    }

    /// Description of the page for the table.
    pub(crate) fn words(&self) -> String {
        let trips: Vec<String> =
            self.origins.iter().map(|origin| origin.round_trip.as_millis().to_string()).collect();
        format!(
            "{} ms, {} resources, HTTP/{}, TLS 1.{}",
            trips.join("/"),
            self.resources.len(),
            if self.http1 { "1.1" } else { "2" },
            if self.tls12 { 2 } else { 3 }
        )
    }
}

fn content(path: &str, kind: &str, text: &str, bytes: usize, think_ms: u64) -> String {
    format!(
        "[host.server.content.{path:?}]\ntype = {kind:?}\ntext = '''\n{text}'''\nbytes = {bytes}\nthink_time = \"{think_ms}ms\"\n"
    )
}
