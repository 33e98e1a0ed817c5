//! One sample as a page: by phase, by message, and as shown in the terminal. The page has no script.

use std::fmt::Write as _;

use firstbyte_core::run::{Standing, Taken};
use firstbyte_core::sequence::Sequence;
use firstbyte_core::split::AttributedConnection;

use super::{begin, draw, elsewhere};
use crate::chart;
use crate::study::{Grouping, Study};
use crate::style::Style;
use crate::svg::escape;
use crate::waterfall::waterfall;

/// Input of a sample's page.
#[derive(Clone, Copy, Debug)]
pub struct SampleView<'a> {
    /// The visited URL and the way.
    pub title: &'a str,
    /// Date of the measurement, as text.
    pub date: &'a str,
    /// Links to related pages: label and address.
    pub links: &'a [(String, String)],
    /// The sample.
    pub taken: &'a Taken,
}

/// The page of `view`.
pub fn sample_page(view: &SampleView<'_>) -> String {
    let SampleView { title, date, links, taken } = *view;
    let mut html = String::with_capacity(1 << 16);
    begin(&mut html, title, None);
    let standing = match taken.standing {
        Standing::Proven => "counts".to_owned(),
        Standing::Failed => "failed".to_owned(),
        Standing::Unproven(shortfall) => {
            format!("does not count: unverified ({})", shortfall.name())
        }
    };
    let _ = write!(
        html,
        "<body>\n<a class=\"skip\" href=\"#main\">Skip to the sample</a>\n<header>\n{}<h1>{}</h1>\n\
         <p class=\"sub\">{} · {}</p>\n</header>\n<main id=\"main\" tabindex=\"-1\">\n",
        elsewhere(links),
        escape(title),
        escape(date),
        escape(&standing)
    );
    pictures(&mut html, view);
    let style = Style { width: 120, ..Style::default() };
    // Escape each line separately to keep line breaks.
    let text = waterfall(&taken.sample, &style);
    let lines: Vec<String> = text.lines().map(escape).collect();
    let _ = write!(
        html,
        "<section id=\"text\" aria-labelledby=\"text-h\">\n<h2 id=\"text-h\">Facts and parts</h2>\n\
         <pre class=\"sample\" tabindex=\"0\" aria-labelledby=\"text-h\"><code>{}</code></pre>\n</section>\n\
         </main>\n</body>\n</html>\n",
        lines.join("\n")
    );
    html
}

fn pictures(html: &mut String, view: &SampleView<'_>) {
    let connection = &view.taken.sample.connection;
    let row = view.taken.row();
    let attributed = AttributedConnection::alone(connection.clone());
    let drawn = Sequence::from_attributed(&attributed);
    let medians = [Some(attributed)];
    let cells = [firstbyte_core::run::Cell::default()];
    let rows = [row];
    let study = Study { cells: &cells, rows: &rows, medians: &medians, ..Study::default() };
    let mut phases = chart::waterfall_figure(&study, &Grouping::from_study(&study));
    if phases.panels().next().is_some() {
        "Phase by phase".clone_into(&mut phases.title);
        phases.note.clear();
        draw(html, &phases);
    }
    if !connection.flights.is_empty() && !drawn.arrows.is_empty() {
        draw(html, &chart::sequences("Message by message", &[("", drawn)]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn a_sample_is_shown_in_three_ways_and_runs_nothing() {
        let samples = [
            fixtures::tls13_http2(),
            fixtures::tls12_sydney(),
            fixtures::expired_certificate(),
            fixtures::connect_timeout(),
        ];
        for sample in samples {
            let standing = match sample.failure() {
                Some(_) => Standing::Failed,
                None => Standing::Proven,
            };
            let taken = Taken {
                stands_for: None,
                cell: 0,
                standing,
                lateness: std::time::Duration::ZERO,
                sample,
            };
            let links = [("All targets".to_owned(), "/?a=\"><script>".to_owned())];
            let view = SampleView {
                title: "<script>x</script>",
                date: "now",
                links: &links,
                taken: &taken,
            };
            let page = sample_page(&view);
            assert!(!page.contains("<script"), "{page}");
            assert!(
                page.contains("script-src 'none'") && page.contains("&lt;script&gt;x"),
                "{page}"
            );
            assert!(page.contains("total"), "{page}");
        }
    }
}
