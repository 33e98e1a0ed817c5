//! Axes of a prediction, such as `tls=1.2,1.3`, and the ways that their values combine to.

use firstbyte_core::run::{Cell, Factor};
use firstbyte_core::timeline::Parallel;
use firstbyte_predict::{Http, KexGroup, Reuse, Session, Several, Tls, Way};

/// Ways to connect, each with the axis values that make it.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    /// Names of the varied axes.
    pub axes: Vec<String>,
    /// The ways; others are compared with the first one.
    pub ways: Vec<(Cell, Way)>,
    /// Impossible combinations, with reasons.
    pub left_out: Vec<(String, String)>,
}

/// Several requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests {
    /// Number of requests.
    pub count: u32,
    /// Ways to make them if no axis is varied. If other axes are, the first of these is used.
    pub parallel: Vec<Parallel>,
}

impl Requests {
    /// `count` requests in every possible way.
    pub fn every_way(count: u32) -> Self {
        let connections = [Parallel::Connections(1), Parallel::Connections(6)];
        let all = connections.into_iter().chain([Parallel::Http2, Parallel::Http3]);
        let possible = |parallel: &Parallel| u32::from(parallel.connections()) <= count;
        Self { count, parallel: all.filter(possible).collect() }
    }
}

const AXES: [(&str, &str); 6] = [
    ("tls", "none, 1.2, 1.3"),
    ("session", "full, resumed, 0rtt"),
    ("http", "1.1, 2, 3"),
    ("kex", "x25519, p256, p384, x25519mlkem768"),
    ("connection", "new, reused"),
    ("parallel", "1, 6, h2, h3 (a number of HTTP/1.1 connections; needs --requests)"),
];

/// Every axis, with a description of its values.
pub fn axes() -> impl Iterator<Item = (&'static str, &'static str)> {
    AXES.into_iter()
}

/// Sets `axis` to `value` and returns the label of the value.
fn set(way: &mut Way, axis: &str, value: &str) -> Option<String> {
    let label = match (axis, value) {
        ("tls", "none") => {
            way.tls = Tls::None;
            "no TLS".into()
        }
        ("tls", "1.2" | "1.3") => {
            way.tls = if value == "1.2" { Tls::V1_2 } else { Tls::V1_3 };
            format!("TLS {value}")
        }
        ("session", "full") => {
            way.session = Session::Full;
            "full handshake".into()
        }
        ("session", "resumed") => {
            way.session = Session::Resumed;
            "resumed".into()
        }
        ("session", "0rtt" | "0-rtt") => {
            way.session = Session::ZeroRtt;
            "0-RTT".into()
        }
        ("http", "1.1" | "2" | "3") => {
            way.http = match value {
                "1.1" => Http::V1_1,
                "2" => Http::V2,
                _ => Http::V3,
            };
            format!("HTTP/{value}")
        }
        ("kex", name) => {
            let group = KexGroup::named(name)?;
            way.group = Some(group);
            group.name().into()
        }
        ("connection", "new") => {
            way.reuse = Reuse::New;
            "new connection".into()
        }
        ("connection", "reused") => {
            way.reuse = Reuse::Reused;
            "connection reused".into()
        }
        ("parallel", name) => {
            let parallel = Parallel::named(name)?;
            if let Some(several) = &mut way.several {
                several.parallel = parallel;
            }
            parallel.label()
        }
        _ => return None,
    };
    Some(label)
}

/// Parses `AXIS=VALUE,VALUE…`.
fn axis(text: &str, separator: char) -> Result<(&'static str, Vec<String>), String> {
    let (name, values) = text.split_once('=').unwrap_or((text, ""));
    let Some((name, allowed)) = AXES.into_iter().find(|(axis, _)| *axis == name.trim()) else {
        let names: Vec<&str> = AXES.iter().map(|(name, _)| *name).collect();
        return Err(format!("{text:?}: unknown axis; there are {}", names.join(", ")));
    };
    let values: Vec<String> = values.split(separator).map(|v| v.trim().to_owned()).collect();
    for value in &values {
        if set(&mut Way::default(), name, value).is_none() {
            return Err(format!(
                "{text:?}: {value:?} is not a value of {name}; allowed: {allowed}"
            ));
        }
    }
    Ok((name, values))
}

impl Ways {
    /// All combinations of the varied axes, for one request or several; every possible way if no axis is varied.
    ///
    /// # Errors
    /// An axis is invalid, or no way is left.
    pub fn read(vary: &[String], requests: Option<&Requests>) -> Result<Self, String> {
        let mut axes: Vec<(&str, Vec<String>)> = Vec::new();
        match requests {
            None if vary.is_empty() => return Ok(Self::all()),
            Some(requests) if vary.is_empty() => {
                axes.push((
                    "parallel",
                    requests.parallel.iter().map(ToString::to_string).collect(),
                ));
            }
            _ => {}
        }
        for text in vary {
            let (name, values) = axis(text, ',')?;
            if axes.iter().any(|(other, _)| *other == name) {
                return Err(format!("{text:?}: {name} is already varied"));
            }
            if name == "parallel" && requests.is_none() {
                return Err(format!("{text:?}: needs several requests: add --requests 12"));
            }
            axes.push((name, values));
        }
        let several = requests.map(|requests| Several {
            count: requests.count,
            parallel: requests.parallel.first().copied().unwrap_or(Parallel::Connections(1)),
        });
        let mut combinations: Vec<Vec<(&str, &str)>> = vec![Vec::new()];
        for (name, values) in &axes {
            combinations = combinations
                .iter()
                .flat_map(|c| {
                    values.iter().map(|v| [c.as_slice(), &[(*name, v.as_str())]].concat())
                })
                .collect();
        }
        let names = axes.iter().map(|(name, _)| (*name).to_owned()).collect();
        let mut ways = Self { axes: names, ..Self::default() };
        for combination in combinations {
            ways.add(&combination, several);
        }
        match (ways.ways.is_empty(), ways.left_out.first()) {
            (true, Some((name, why))) => Err(format!("{name}: {why}")),
            _ => Ok(ways),
        }
    }

    fn all() -> Self {
        let mut all = Self { axes: vec!["variant".into()], ..Self::default() };
        for way in Way::all() {
            let (value, label) = (way.label(), way.label());
            let factors = vec![Factor { axis: "variant".into(), value, label }];
            all.ways.push((Cell { factors, ..Cell::default() }, way));
        }
        all
    }

    /// Two ways: before and after the changes.
    ///
    /// Each change is `AXIS=FROM:TO`. Other axes have the values in `vary`.
    ///
    /// # Errors
    /// An axis is invalid, or one of the two ways does not exist.
    pub fn change(changes: &[String], vary: &[String]) -> Result<Self, String> {
        let mut sides: [Vec<(&str, String)>; 2] = Default::default();
        for text in vary {
            let (name, values) = axis(text, ',')?;
            let [value] = values.as_slice() else {
                return Err(format!("{text:?}: with --change, give a single value"));
            };
            sides.iter_mut().for_each(|side| side.push((name, value.clone())));
        }
        let mut axes = Vec::new();
        for text in changes {
            let (name, values) = axis(text, ':')?;
            if name == "parallel" {
                return Err(format!(
                    "{text:?}: audiences are simulated with one request per \
                                    visitor"
                ));
            }
            let [from, to] = values.as_slice() else {
                return Err(format!("{text:?}: write AXIS=FROM:TO, such as tls=1.2:1.3"));
            };
            sides[0].push((name, from.clone()));
            sides[1].push((name, to.clone()));
            axes.push(name.to_owned());
        }
        let mut ways = Self { axes, ..Self::default() };
        for side in &sides {
            let combination: Vec<(&str, &str)> =
                side.iter().map(|(name, value)| (*name, value.as_str())).collect();
            ways.add(&combination, None);
        }
        match ways.left_out.first() {
            Some((name, why)) => Err(format!("{name}: {why}")),
            None => Ok(ways),
        }
    }

    fn add(&mut self, combination: &[(&str, &str)], several: Option<Several>) {
        let mut way = Way { several, ..Way::default() };
        let mut factors = Vec::new();
        for (axis, value) in combination {
            if let Some(label) = set(&mut way, axis, value) {
                let (axis, value) = ((*axis).to_owned(), (*value).to_owned());
                factors.push(Factor { axis, value, label });
            }
        }
        let said = |axis: &str| combination.iter().any(|(name, _)| *name == axis);
        if let Some(several) = way.several.filter(|_| !said("http")) {
            way.http = match several.parallel {
                Parallel::Connections(_) => Http::V1_1,
                Parallel::Http2 => Http::V2,
                Parallel::Http3 => Http::V3,
            };
        } else if way.tls == Tls::None && !said("http") {
            way.http = Http::V1_1;
        }
        let cell = Cell { factors, ..Cell::default() };
        match way.check() {
            Ok(()) => self.ways.push((cell, way)),
            Err(why) => self.left_out.push((cell.name(), why.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(vary: &[&str]) -> Result<Ways, String> {
        Ways::read(&vary.iter().map(ToString::to_string).collect::<Vec<_>>(), None)
    }

    #[test]
    fn axes_multiply_and_what_cannot_be_is_left_out() {
        let ways = read(&["tls=1.2,1.3", "session=full,resumed,0rtt"]).unwrap();
        let labels: Vec<String> = ways.ways.iter().map(|(_, way)| way.label()).collect();
        assert_eq!(
            labels,
            [
                "TLS 1.2 full, HTTP/2",
                "TLS 1.2 resumed, HTTP/2",
                "TLS 1.3 full, HTTP/2",
                "TLS 1.3 resumed, HTTP/2",
                "TLS 1.3 0-RTT, HTTP/2",
            ]
        );
        assert_eq!(ways.left_out.len(), 1);
        assert_eq!(ways.ways[0].0.name(), "TLS 1.2, full handshake");
        assert_eq!(read(&["tls=none,1.3"]).unwrap().ways[0].1.http, Http::V1_1);
    }

    #[test]
    fn mistakes_are_named() {
        assert!(read(&["tsl=1.3"]).unwrap_err().contains("unknown axis"));
        assert!(read(&["tls=1.1"]).unwrap_err().contains("\"1.1\""));
        assert!(read(&["tls=1.2", "tls=1.3"]).unwrap_err().contains("already"));
        assert!(read(&["http=3", "tls=1.2"]).unwrap_err().contains("RFC 9001"));
        let change = |text: &str| Ways::change(&[text.to_owned()], &[]);
        assert_eq!(change("tls=1.2:1.3").unwrap().ways.len(), 2);
        assert!(change("tls=1.2").unwrap_err().contains("FROM:TO"));
    }

    fn labels(ways: &Ways) -> Vec<String> {
        ways.ways.iter().map(|(_, way)| way.label()).collect()
    }

    #[test]
    fn several_requests_have_ways_of_their_own() {
        let requests = Requests::every_way(12);
        let read = |vary: &[&str]| {
            let vary: Vec<String> = vary.iter().map(ToString::to_string).collect();
            Ways::read(&vary, Some(&requests))
        };
        let all = read(&[]).unwrap();
        assert_eq!(
            labels(&all),
            [
                "TLS 1.3 full, one after the other",
                "TLS 1.3 full, 6 connections",
                "TLS 1.3 full, one HTTP/2 connection",
                "TLS 1.3 full, one HTTP/3 connection",
            ]
        );
        assert_eq!(all.axes, ["parallel"]);
        let of_two = read(&["tls=1.2,1.3", "parallel=6,h3"]).unwrap();
        assert_eq!((of_two.ways.len(), of_two.left_out.len()), (3, 1));
        assert_eq!(
            labels(&read(&["session=full,resumed"]).unwrap())[1],
            "TLS 1.3 resumed, one after the other"
        );
        for (vary, why) in [
            (&["parallel=h2", "http=1.1"][..], "h2 is one HTTP/2 connection"),
            (&["session=0rtt"], "without early data"),
            (&["connection=reused"], "on new connections"),
            (&["parallel=13"], "more connections than requests"),
            (&["parallel=h1"], "not a value of parallel"),
        ] {
            let said = read(vary).unwrap_err();
            assert!(said.contains(why), "{vary:?}: {said}");
        }
        // Six connections for four requests are not possible, and are not predicted unless asked for.
        assert_eq!(Requests::every_way(4).parallel.len(), 3);
    }

    #[test]
    fn one_request_has_nothing_beside_it() {
        assert!(read(&["parallel=1,6"]).unwrap_err().contains("--requests"));
        let change = Ways::change(&["parallel=1:6".to_owned()], &[]);
        assert!(change.unwrap_err().contains("one request per visitor"));
    }

    #[test]
    fn without_axes_there_is_every_way() {
        let all = read(&[]).unwrap();
        assert_eq!(all.ways.len(), Way::all().len());
        assert!(all.ways.len() > 15);
    }
}
