//! Cross-examination for the views: figures and texts, the same in the terminal and on the page.

use firstbyte_core::cross_examination::{Meaning, Testimony, WayExamined};

use super::super::units::count;

/// Figures for the marks that the capture or the client reports.
pub(crate) fn figures(way: &WayExamined) -> impl Iterator<Item = TestimonyFigures> + '_ {
    let known = way.testimonies.iter().filter(|_| way.held > 0);
    known.filter(|it| it.meaning != Meaning::Unseen).map(TestimonyFigures::new)
}

/// Figures for one mark.
pub(crate) struct TestimonyFigures {
    pub(crate) mark: &'static str,
    pub(crate) count: String,
    /// Signed milliseconds.
    pub(crate) median: String,
    /// Milliseconds.
    pub(crate) p99: String,
    pub(crate) meaning: &'static str,
}

impl TestimonyFigures {
    /// Headings of the columns.
    pub(crate) const HEADINGS: [&'static str; 5] =
        ["mark", "n", "median, ms", "p99, ms", "what it means"];

    fn new(testimony: &Testimony) -> Self {
        let ms = |seconds: f64| format!("{:.3}", seconds * 1e3);
        let signed = |seconds: f64| match ms(seconds) {
            zero if zero == "0.000" || zero == "-0.000" => "0.000".to_owned(),
            figure if seconds > 0.0 => format!("+{figure}"),
            figure => figure,
        };
        Self {
            mark: testimony.mark.name(),
            count: testimony.count.to_string(),
            median: testimony.median.map_or_else(|| "-".to_owned(), signed),
            p99: testimony.p99.map_or_else(|| "-".to_owned(), ms),
            meaning: testimony.meaning.phrase(),
        }
    }
}

/// How a way's connections compare with the capture, in words.
pub(crate) fn held(name: &str, way: &WayExamined) -> String {
    let mut text = format!("{name}: {} of the capture", count(way.held as u64, "connection"));
    for (why, unheld) in &way.unheld {
        text += &format!("; {unheld} {}", why.phrase());
    }
    if way.from_its_begin && way.held > 0 {
        text += "; times count from the start of the connection, because the client does not report the time of day";
    }
    text
}
