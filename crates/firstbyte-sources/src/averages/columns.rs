//! Column names of analytics exports, and what the columns contain. The table is that of `docs/formats.md`.

/// The product that wrote an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AveragesProduct {
    /// Google Analytics until 2024, as exported by its pages and its reporting API.
    GoogleAnalytics,
    /// Matomo, with its page performance metrics.
    Matomo,
    /// Any other product: columns with common names.
    Generic,
}

impl AveragesProduct {
    /// Name of the product.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GoogleAnalytics => "Google Analytics",
            Self::Matomo => "Matomo",
            Self::Generic => "generic",
        }
    }
}

/// The time that is averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AveragedTime {
    /// From `connectStart` to `connectEnd`: TCP and, with https, TLS. Zero for a reused connection.
    Connection,
    /// Name lookup and connection.
    Network,
    /// Name lookup.
    Lookup,
    /// From request to first byte.
    Response,
    /// The whole page.
    PageLoad,
    /// The header does not say.
    Unsaid,
}

impl AveragedTime {
    /// Name for display.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection time",
            Self::Network => "network time (name lookup and connection)",
            Self::Lookup => "name lookup",
            Self::Response => "server response time",
            Self::PageLoad => "page load time",
            Self::Unsaid => "time",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ColumnRole {
    Date,
    /// An average, with the nanoseconds of its unit if the header names one.
    Average {
        time: AveragedTime,
        unit_ns: Option<f64>,
    },
    /// Number of samples that the average is based on.
    Samples,
    /// All page views, timed or not.
    PageViews,
}

const SECOND: f64 = 1e9;
const MILLISECOND: f64 = 1e6;

/// Lower-case column names, the product that uses each, and the column's content.
const NAMED: [(&str, AveragesProduct, ColumnRole); 22] = {
    use AveragedTime::{Connection, Lookup, Network, PageLoad, Response};
    use AveragesProduct::{Generic, GoogleAnalytics as Ga, Matomo};
    use ColumnRole::{Date, PageViews, Samples};
    const fn seconds(time: AveragedTime) -> ColumnRole {
        ColumnRole::Average { time, unit_ns: Some(SECOND) }
    }
    [
        ("avg. server connection time (sec)", Ga, seconds(Connection)),
        ("ga:avgserverconnectiontime", Ga, seconds(Connection)),
        ("avg. domain lookup time (sec)", Ga, seconds(Lookup)),
        ("ga:avgdomainlookuptime", Ga, seconds(Lookup)),
        ("avg. server response time (sec)", Ga, seconds(Response)),
        ("ga:avgserverresponsetime", Ga, seconds(Response)),
        ("avg. page load time (sec)", Ga, seconds(PageLoad)),
        ("ga:avgpageloadtime", Ga, seconds(PageLoad)),
        ("speed metrics sample", Ga, Samples),
        ("ga:speedmetricssample", Ga, Samples),
        ("page timing sample", Ga, Samples),
        ("page load sample", Ga, Samples),
        ("ga:pageloadsample", Ga, Samples),
        ("ga:pageviews", Ga, PageViews),
        ("ga:date", Ga, Date),
        ("day index", Ga, Date),
        ("avg. network time", Matomo, seconds(Network)),
        ("avg_time_network", Matomo, seconds(Network)),
        ("pageviews with network time", Matomo, Samples),
        ("nb_hits_with_time_network", Matomo, Samples),
        ("pageviews", Generic, PageViews),
        ("nb_pageviews", Matomo, PageViews),
    ]
};

/// The product and the role of the column with this header, if it is a relevant one.
pub(super) fn role(header: &str) -> Option<(AveragesProduct, ColumnRole)> {
    let name = header.trim().to_lowercase();
    if let Some((_, product, role)) = NAMED.iter().find(|(known, ..)| *known == name) {
        return Some((*product, *role));
    }
    let (name, unit_ns) = without_unit(&name);
    let words: Vec<&str> =
        name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let role = match words[..] {
        ["date" | "day"] => ColumnRole::Date,
        ["samples" | "sample" | "count" | "n" | "measurements"] | ["sample", "size"] => {
            ColumnRole::Samples
        }
        ["page", "views"] | ["views"] => ColumnRole::PageViews,
        _ => {
            let is = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
            let average = is(&["average", "avg", "mean"]);
            let connection = is(&["connection", "connect"]);
            if !average && !(connection && (is(&["time"]) || unit_ns.is_some())) {
                return None;
            }
            let time = if connection { AveragedTime::Connection } else { AveragedTime::Unsaid };
            ColumnRole::Average { time, unit_ns }
        }
    };
    Some((AveragesProduct::Generic, role))
}

/// Splits `average (ms)`, `connect_ms`, `mean [s]` into the name and the nanoseconds of the unit.
fn without_unit(name: &str) -> (&str, Option<f64>) {
    let bare = name.trim_end_matches([')', ']', ' ']);
    let Some(at) = bare.rfind(['(', '[', '_', ' ']) else { return (name, None) };
    match unit(&bare[at + 1..]) {
        Some(unit) => (bare[..at].trim_end(), Some(unit)),
        None => (name, None),
    }
}

/// Nanoseconds of the unit with this name.
pub(super) fn unit(name: &str) -> Option<f64> {
    match name.trim() {
        "s" | "sec" | "secs" | "second" | "seconds" => Some(SECOND),
        "ms" | "msec" | "millisecond" | "milliseconds" => Some(MILLISECOND),
        "us" | "µs" | "microseconds" => Some(1e3),
        _ => None,
    }
}

/// Unit assumed for an average without one.
pub(super) const ASSUMED_UNIT_NS: f64 = MILLISECOND;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_by_their_names() {
        let average = |time, unit_ns| ColumnRole::Average { time, unit_ns };
        let known = |header: &str| role(header).map(|(_, role)| role);
        use AveragedTime::{Connection, Unsaid};
        assert_eq!(
            known("Avg. Server Connection Time (sec)"),
            Some(average(Connection, Some(1e9)))
        );
        assert_eq!(known("average"), Some(average(Unsaid, None)));
        assert_eq!(known("average_ms"), Some(average(Unsaid, Some(1e6))));
        assert_eq!(known("Mean connect time [s]"), Some(average(Connection, Some(1e9))));
        assert_eq!(known("connect_ms"), Some(average(Connection, Some(1e6))));
        assert_eq!(known("Date"), Some(ColumnRole::Date));
        assert_eq!(known("samples"), Some(ColumnRole::Samples));
        assert_eq!(known("Page Views"), Some(ColumnRole::PageViews));
        for other in ["Bounce rate", "", "sessions", "ms"] {
            assert_eq!(known(other), None, "{other}");
        }
    }
}
