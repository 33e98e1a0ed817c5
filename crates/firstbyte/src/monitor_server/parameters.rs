//! Validated query parameters of a request.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::answers::Refusal;

/// Latest accepted time: the end of the year 9999, in seconds since the Unix epoch.
const LAST: i64 = 253_402_300_799;

pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Parses `query`, which may contain only `known` parameters.
    pub(super) fn read(query: Option<&str>, known: &[&str]) -> Result<Self, Refusal> {
        let query = query.unwrap_or_default().as_bytes();
        let mut all: Vec<(String, String)> = Vec::new();
        for (name, value) in url::form_urlencoded::parse(query).into_owned() {
            if !known.contains(&name.as_str()) {
                let what = match known {
                    [] => format!("unknown parameter {name:?}: this path takes none"),
                    _ => format!("unknown parameter {name:?}; known: {}", known.join(", ")),
                };
                return Err(Refusal::Bad(what));
            }
            if all.iter().any(|(other, _)| *other == name) {
                return Err(Refusal::Bad(format!("{name} given twice")));
            }
            all.push((name, value));
        }
        Ok(Self(all))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn needed(&self, name: &str, example: &str) -> Result<&str, Refusal> {
        let missing = || Refusal::Bad(format!("{name} is missing: write {name}={example}"));
        self.get(name).filter(|value| !value.is_empty()).ok_or_else(missing)
    }

    /// A parameter that is a time, in seconds since the Unix epoch.
    pub(super) fn moment(&self, name: &str) -> Result<Option<i64>, Refusal> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let bad = || {
            let example = "1795392000 or 2026-11-23T12:00:00Z";
            Refusal::Bad(format!("{name} {text:?} is not a time: write {name}={example}"))
        };
        moment(text).map(Some).ok_or_else(bad)
    }
}

/// Parses a number of seconds since the Unix epoch, or an RFC 3339 time.
pub(crate) fn moment(text: &str) -> Option<i64> {
    let seconds = match text.parse::<i64>() {
        Ok(seconds) => seconds,
        Err(_) => OffsetDateTime::parse(text, &Rfc3339).ok()?.unix_timestamp(),
    };
    (0..=LAST).contains(&seconds).then_some(seconds)
}

/// Whether `seconds` is in the accepted range.
pub(super) fn is_moment(seconds: i64) -> bool {
    (0..=LAST).contains(&seconds)
}

/// The period between two times. The first must be earlier.
pub(super) fn period(
    names: [&str; 2],
    from: i64,
    until: i64,
) -> Result<std::ops::Range<i64>, Refusal> {
    match from < until {
        true => Ok(from..until),
        false => {
            let [first, last] = names;
            Err(Refusal::Bad(format!("{first} ({from}) is not before {last} ({until})")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_known_once_and_decoded() {
        let known = ["target", "from"];
        let read = |query: &str| Parameters::read(Some(query), &known);
        let parameters = read("target=a+b%2Fc&from=2026-11-23T12%3A00%3A00%2B01:00").unwrap();
        assert_eq!(parameters.get("target"), Some("a b/c"));
        assert_eq!(parameters.moment("from"), Ok(Some(1_795_431_600)));
        assert_eq!(read("").unwrap().moment("from"), Ok(None));
        for (query, part) in
            [("form=1", "\"form\"; known: target, from"), ("from=1&from=2", "from given twice")]
        {
            let Err(Refusal::Bad(why)) = read(query) else { panic!("{query}") };
            assert!(why.contains(part), "{why}");
        }
        for bad in ["", "now", "-1", "1e9", "2026-11-23", "99999999999999999999", "253402300800"] {
            let query = format!("from={bad}");
            assert!(matches!(read(&query).unwrap().moment("from"), Err(Refusal::Bad(_))), "{bad}");
        }
        assert!(period(["since", "until"], 1, 1).is_err());
    }
}
