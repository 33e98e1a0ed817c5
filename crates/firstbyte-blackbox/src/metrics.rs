//! Metrics of one scrape, in version 0.0.4 of Prometheus' text format.

use std::collections::BTreeMap;

use crate::Compat;
use crate::configuration::print_float;

/// The content type. Later versions also name the escaping of metric names, which none of these needs.
pub(crate) const fn content_type(compat: Compat) -> &'static str {
    match compat {
        Compat::V0_23 => "text/plain; version=0.0.4; charset=utf-8",
        Compat::V0_28 => "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
    }
}

type Labels = Vec<(String, String)>;

/// Metric families, by name.
#[derive(Debug, Default)]
pub(crate) struct Metrics(BTreeMap<&'static str, Family>);

#[derive(Debug)]
struct Family {
    help: &'static str,
    kind: &'static str,
    /// Sorted by labels, so that the output is deterministic.
    values: BTreeMap<Labels, f64>,
}

impl Metrics {
    pub(crate) fn gauge(&mut self, name: &'static str, help: &'static str, value: f64) {
        self.set(name, help, "gauge", Vec::new(), value);
    }

    /// Sets a gauge with labels.
    pub(crate) fn labelled(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        value: f64,
    ) {
        self.set(name, help, "gauge", owned(labels), value);
    }

    pub(crate) fn counter(&mut self, name: &'static str, help: &'static str, value: f64) {
        self.set(name, help, "counter", Vec::new(), value);
    }

    /// Adds to a gauge with these labels, which starts at 0.
    pub(crate) fn add(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        value: f64,
    ) {
        let family = self.family(name, help, "gauge");
        *family.values.entry(owned(labels)).or_insert(0.0) += value;
    }

    /// Adds the values of `others`.
    pub(crate) fn merge(&mut self, others: Self) {
        for (name, family) in others.0 {
            self.family(name, family.help, family.kind).values.extend(family.values);
        }
    }

    fn set(
        &mut self,
        name: &'static str,
        help: &'static str,
        kind: &'static str,
        labels: Labels,
        value: f64,
    ) {
        self.family(name, help, kind).values.insert(labels, value);
    }

    fn family(
        &mut self,
        name: &'static str,
        help: &'static str,
        kind: &'static str,
    ) -> &mut Family {
        self.0.entry(name).or_insert_with(|| Family { help, kind, values: BTreeMap::new() })
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (name, family) in &self.0 {
            text += &format!("# HELP {name} {}\n# TYPE {name} {}\n", family.help, family.kind);
            for (labels, value) in &family.values {
                text += name;
                if !labels.is_empty() {
                    let each =
                        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
                    text += &format!("{{{}}}", each.collect::<Vec<_>>().join(","));
                }
                text += &format!(" {}\n", print_float(*value));
            }
        }
        text
    }
}

fn owned(labels: &[(&str, &str)]) -> Labels {
    let mut owned: Labels =
        labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    owned.sort();
    owned
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_everything_is_in_order() {
        let mut metrics = Metrics::default();
        metrics.labelled("b_info", "B", &[("z", "1"), ("a", "x\"\\\ny")], 1.0);
        metrics.add("a_seconds", "A", &[("phase", "tls")], 0.0);
        metrics.add("a_seconds", "A", &[("phase", "connect")], 0.25);
        metrics.add("a_seconds", "A", &[("phase", "connect")], 0.25);
        assert_eq!(
            metrics.text(),
            "# HELP a_seconds A\n# TYPE a_seconds gauge\na_seconds{phase=\"connect\"} 0.5\n\
             a_seconds{phase=\"tls\"} 0\n# HELP b_info B\n# TYPE b_info gauge\n\
             b_info{a=\"x\\\"\\\\\\ny\",z=\"1\"} 1\n"
        );
    }
}
