//! Labels of exposed series: few, short, and unique, whatever targets and tags are called.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use firstbyte_monitor::store::SeriesLabels;
use firstbyte_report::Style;

use crate::recording::Figures;

/// Maximum number of exposed series; each becomes some hundred Prometheus series.
pub(crate) const MOST_EXPOSED: usize = 2_000;
/// Maximum number of labels per series.
const MOST_LABELS: usize = 48;
/// Maximum size of all labels of one series in the text format, in bytes.
const MOST_LABEL_BYTES: usize = 4_096;
/// Labels that series have whatever their tags are called, and those with a special meaning in Prometheus.
const TAKEN: [&str; 7] = ["target", "variant", "place", "type", "metric", "budget", "le"];

/// Labels of all exposed series.
#[derive(Default)]
pub(crate) struct Exposed {
    /// Labels of each exposed series, with the index of its figures.
    pub(super) labels: Vec<(usize, Labels)>,
    all: Arc<Vec<SeriesLabels>>,
}

/// The labels of one series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labels {
    /// Names and values, sorted by name.
    pub(super) pairs: Vec<(String, String)>,
    /// Text form: `name="value",…`
    pub(super) text: String,
}

impl Exposed {
    pub(crate) fn from_labels(series: Arc<Vec<SeriesLabels>>) -> Self {
        let mut seen = HashSet::new();
        let first = series.iter().enumerate().take(MOST_EXPOSED);
        let labels = first.filter_map(|(place, labels)| {
            let labels = Labels::from_series(labels)?;
            // Prometheus would accept neither of two series with the same labels.
            seen.insert(labels.text.clone()).then_some((place, labels))
        });
        Self { labels: labels.collect(), all: series }
    }

    /// Whether these are the labels of the series in `figures`.
    pub(crate) fn is_of(&self, figures: &Figures) -> bool {
        Arc::ptr_eq(&self.all, &figures.labels)
    }

    /// The labels of the series in `figures`; reuses these if they match.
    pub(crate) fn of_now(self: &Arc<Self>, figures: &Figures) -> Arc<Self> {
        match self.is_of(figures) {
            true => Arc::clone(self),
            false => Arc::new(Self::from_labels(Arc::clone(&figures.labels))),
        }
    }

    /// The labels that are missing in `later`.
    pub(crate) fn gone_in(&self, later: &Self) -> Self {
        let still: HashSet<&str> =
            later.labels.iter().map(|(_, labels)| labels.text.as_str()).collect();
        let gone = |(_, labels): &&(usize, Labels)| !still.contains(labels.text.as_str());
        let labels = self.labels.iter().filter(gone).cloned().collect();
        Self { labels, all: Arc::clone(&self.all) }
    }

    /// Number of series, exposed or not.
    pub(super) fn all(&self) -> usize {
        self.all.len()
    }

    pub(super) fn hidden(&self) -> usize {
        self.all.len() - self.labels.len()
    }
}

impl Labels {
    /// Returns `None` if the labels are too many or too long.
    fn from_series(series: &SeriesLabels) -> Option<Self> {
        let SeriesLabels { target, variant, place, tags, .. } = series;
        let mut labels: BTreeMap<String, &str> = BTreeMap::new();
        labels.insert("target".to_owned(), target);
        labels.insert("variant".to_owned(), variant);
        if !place.is_empty() {
            labels.insert("place".to_owned(), place);
        }
        for (axis, value) in axes(variant) {
            // A named variant is already in "variant".
            labels.entry(label_name(axis)).or_insert(value);
        }
        for (tag, value) in tags {
            let name = match label_name(tag) {
                name if TAKEN.contains(&name.as_str()) || labels.contains_key(&name) => {
                    format!("tag_{name}")
                }
                name => name,
            };
            labels.entry(name).or_insert(value);
        }
        let pairs: Vec<(String, String)> =
            labels.into_iter().map(|(name, value)| (name, label_value(value))).collect();
        let each: Vec<String> =
            pairs.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let text = each.join(",");
        let are_few = pairs.len() <= MOST_LABELS && text.len() <= MOST_LABEL_BYTES;
        are_few.then_some(Self { pairs, text })
    }
}

/// Axes and values of a way such as "tls=1.2 family=6".
fn axes(variant: &str) -> Vec<(&str, &str)> {
    let mut axes: Vec<(&str, &str)> = Vec::new();
    for factor in variant.split(' ') {
        if let Some(factor) = factor.split_once('=') {
            axes.push(factor);
        }
    }
    axes
}

/// `name` as a valid label name.
fn label_name(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let safe: String = name.chars().map(letter).collect();
    // Prometheus reserves names that begin with two underscores.
    match safe.starts_with(|c: char| c.is_ascii_digit()) || safe.starts_with("__") {
        true => format!("tag_{}", safe.trim_start_matches('_')),
        false => safe,
    }
}

/// Value of a label without control characters except line ends, because people read it on terminals.
fn label_value(value: &str) -> String {
    let style = Style { unicode: true, ..Style::default() };
    value.split('\n').map(|line| style.safe(line)).collect::<Vec<_>>().join("\n")
}

/// Escapes a value for the text format.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn labels(
        target: &str,
        variant: &str,
        tags: &[(&str, &str)],
    ) -> SeriesLabels {
        SeriesLabels {
            target: target.into(),
            variant: variant.into(),
            place: "fra1".into(),
            tags: tags.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
            ..SeriesLabels::default()
        }
    }

    /// Labels that try to break the format.
    pub(in super::super) fn hostile() -> SeriesLabels {
        labels(
            "a\"b\\c\nd\u{1b}[31m",
            "tls=1.2 early-data=on family=6",
            &[("family", "wide"), ("le", "1"), ("target", "x"), ("_x", "y")],
        )
    }

    #[test]
    fn labels_are_axes_place_and_tags_and_none_is_there_twice() {
        let found = Labels::from_series(&hostile()).unwrap();
        assert_eq!(
            found.text,
            "_x=\"y\",early_data=\"on\",family=\"6\",place=\"fra1\",tag_family=\"wide\",tag_le=\"1\",tag_target=\"x\",\
             target=\"a\\\"b\\\\c\\nd\\\\u{1b}[31m\",tls=\"1.2\",\
             variant=\"tls=1.2 early-data=on family=6\""
        );
        assert!(found.pairs.contains(&("target".into(), "a\"b\\c\nd\\u{1b}[31m".into())));
        let long = labels(&"x".repeat(5_000), "as negotiated", &[]);
        assert_eq!(Labels::from_series(&long), None);
    }

    #[test]
    fn series_beyond_the_most_are_counted_alone() {
        let all: Vec<SeriesLabels> =
            (0..MOST_EXPOSED + 5).map(|n| labels(&n.to_string(), "as negotiated", &[])).collect();
        let exposed = Exposed::from_labels(Arc::new(all));
        assert_eq!((exposed.labels.len(), exposed.hidden()), (MOST_EXPOSED, 5));
        let twice = vec![labels("\u{1b}", "w", &[]), labels("\u{1b}", "w", &[])];
        assert_eq!(Exposed::from_labels(Arc::new(twice)).hidden(), 1);
    }

    #[test]
    fn what_is_gone_is_what_later_labels_do_not_have() {
        let exposed = |names: &[&str]| {
            let all = names.iter().map(|name| labels(name, "as negotiated", &[]));
            Exposed::from_labels(Arc::new(all.collect()))
        };
        let gone = exposed(&["a", "b", "c"]).gone_in(&exposed(&["c", "a"]));
        assert_eq!(gone.labels.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [1]);
    }
}
