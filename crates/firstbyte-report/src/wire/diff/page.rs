//! `wire diff --html`: changes as one page that loads nothing and runs no script.
//!
//! Input: the result of the comparison, and the captures read for it. Output: HTML: sentences, the most costly
//! change first; a picture for each; tables; the captures read.

use std::fmt::Write as _;

use firstbyte_passive::Hygiene;
use firstbyte_passive::diff::{Beside, Change, Changes, Figure as Seen, Pair};

use super::beside;
use super::{figure as shown, in_all, nothing, phrase, plus, projected, sentence, signed};
use crate::chart::{Figure, changed};
use crate::svg::escape;
use crate::units::grouped;
use crate::wire::page::findings_read;
use crate::wire::page::tables::{TABLE_END, cell, table};
use crate::{dates, html};

/// Maximum number of changes with a picture.
const DRAWN: usize = 24;
/// Maximum number of comparisons with a row.
const LISTED: usize = 200;

/// A capture that was read.
#[derive(Clone, Debug)]
pub struct Read {
    /// Name of the capture.
    pub name: String,
    /// Cleaning results and unreadable data.
    pub hygiene: Hygiene,
    /// Number of connections excluded because there were too many to compare.
    pub left_out: u64,
}

/// Input of the page.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// The captures, in order.
    pub read: &'a [Read],
    /// The result of the comparison.
    pub changes: &'a Changes,
    /// Both sides of each comparison, side by side.
    pub beside: &'a [Beside],
    /// The compared pairs.
    pub pairs: &'a [Pair],
    /// Servers on one side only.
    pub only: [&'a [String]; 2],
}

/// The page.
pub fn page(page: &Page<'_>) -> String {
    let mut html = String::with_capacity(1 << 16);
    let names: Vec<&str> = page.read.iter().map(|read| read.name.as_str()).collect();
    let title = match names.as_slice() {
        [one] => format!("What differs within {one}"),
        [one, other] if one == other => format!("What changed on {one}"),
        names => format!("What changed from {}", names.join(" to ")),
    };
    html::begin(&mut html, &title, None);
    header(&mut html, page, &title);
    findings(&mut html, page);
    let figure = figure(page);
    contents(&mut html, page, figure.as_ref());
    if let Some(figure) = &figure {
        html::draw(&mut html, figure);
    }
    if !page.changes.changes.is_empty() {
        changes(&mut html, page);
    }
    projected::section(&mut html, page.changes, page.pairs);
    beside::section(&mut html, page.beside, page.pairs);
    compared(&mut html, page.pairs);
    html += "<section id=\"read\" aria-labelledby=\"read-h\">\n<h2 id=\"read-h\">Files read</h2>\n";
    for read in page.read {
        let begin = read.hygiene.span.and_then(|(first, _)| u64::try_from(first.unix_ns()).ok());
        let begin = begin.and_then(dates::minute).map(|begin| format!(" · {begin}"));
        let name = format!("{}{}", read.name, begin.unwrap_or_default());
        let _ = writeln!(html, "<h3>{}</h3>", escape(&name));
        findings_read(&mut html, &read.hygiene);
        if read.left_out > 0 {
            let n = grouped(read.left_out);
            let _ = writeln!(html, "<p class=\"note\">{n} more connections are not compared.</p>");
        }
    }
    html += "</section>\n</main>\n</body>\n</html>\n";
    html
}

fn connections(pairs: &[Pair]) -> [usize; 2] {
    let sum = |side: fn(&Pair) -> usize| pairs.iter().map(side).sum();
    [sum(|pair| pair.before.connections()), sum(|pair| pair.after.connections())]
}

fn header(html: &mut String, page: &Page<'_>, title: &str) {
    let [before, after] = connections(page.pairs).map(|n| grouped(n as u64));
    let (pairs, tested) = (page.pairs.len() as u64, page.changes.tested as u64);
    let words = match page.pairs.first() {
        // A connection counts once for every server that it is compared with.
        Some(Pair { against: Some(_), .. }) if pairs > 1 => format!("{after} connections"),
        Some(Pair { against: Some(against), name, .. }) => {
            format!("{before} connections of {against} · {after} of {name}")
        }
        _ => format!("{before} connections before · {after} after"),
    };
    let plural = |n: u64| if n == 1 { "" } else { "s" };
    let _ = write!(
        html,
        "<body>\n<a class=\"skip\" href=\"#main\">Skip to the findings</a>\n<header>\n<h1>{}</h1>\n\
         <p class=\"sub\">{} · {} comparison{} · {} difference{} tested</p>\n</header>\n\
         <main id=\"main\" tabindex=\"-1\">\n",
        escape(title),
        escape(&words),
        grouped(pairs),
        plural(pairs),
        grouped(tested),
        plural(tested),
    );
}

/// Whether a change is for the worse; absent if unclear.
fn is_worse(change: &Change) -> Option<bool> {
    match &change.cost {
        Some(cost) => Some(cost.per_connection > 0.0),
        None => change.what.is_error().then_some(change.difference.value > 0.0),
    }
}

fn findings(html: &mut String, page: &Page<'_>) {
    *html +=
        "<section aria-labelledby=\"found-h\">\n<h2 id=\"found-h\" class=\"vh\">Findings</h2>\n";
    let Changes { changes, .. } = page.changes;
    if changes.is_empty() {
        let text = nothing(page.changes, page.pairs);
        let first = text.chars().next().map(|first| first.to_uppercase().to_string());
        let rest = text.get(1..).unwrap_or_default();
        let _ = writeln!(
            html,
            "<ul class=\"found\"><li class=\"plain\"><span class=\"mark\" aria-hidden=\"true\">=</span> \
             {}{}.</li></ul>",
            first.unwrap_or_default(),
            escape(rest)
        );
    } else {
        *html += "<ol class=\"found\">\n";
        for change in changes {
            let class = match is_worse(change) {
                Some(true) => "slower",
                Some(false) => "faster",
                None => "plain",
            };
            let text = sentence(change, &page.pairs[change.pair]);
            let _ = writeln!(html, "<li class=\"{class}\">{}.</li>", escape(&text));
        }
        *html += "</ol>\n";
        let several = page.changes.totals.len() > 1;
        for total in &page.changes.totals {
            let text = in_all(total, several.then(|| &page.pairs[total.pair]));
            let first: String = text.chars().take(1).flat_map(char::to_uppercase).collect();
            let rest: String = text.chars().skip(1).collect();
            let _ = writeln!(html, "<p>{}.</p>", escape(&format!("{first}{rest}")));
        }
    }
    for (servers, side) in page.only.into_iter().zip(["before", "after"]) {
        if !servers.is_empty() {
            let some: Vec<String> = servers.iter().take(20).map(|server| escape(server)).collect();
            let more = match servers.len() - some.len() {
                0 => String::new(),
                more => format!(", and {} more", grouped(more as u64)),
            };
            let names = some.join(", ");
            let _ =
                writeln!(html, "<p class=\"note\">Only {side} (not compared): {names}{more}.</p>");
        }
    }
    *html += "</section>\n";
}

fn contents(html: &mut String, page: &Page<'_>, figure: Option<&Figure>) {
    *html += "<nav aria-label=\"On this page\"><ul>\n";
    if let Some(figure) = figure {
        let (id, title) = (figure.name, escape(&figure.title));
        let _ = write!(
            html,
            "<li><a href=\"#{id}\">{title}</a></li>\n<li><a href=\"#changes\">Changes</a></li>\n"
        );
    }
    if !page.changes.projected_to.is_empty() && !page.changes.totals.is_empty() {
        *html += "<li><a href=\"#projected\">At other round trips</a></li>\n";
    }
    if !page.beside.is_empty() {
        *html += "<li><a href=\"#beside\">Side by side</a></li>\n";
    }
    *html += "<li><a href=\"#compared\">What was compared</a></li>\n\
              <li><a href=\"#read\">What was read</a></li>\n</ul></nav>\n";
}

/// Short names of a comparison's two sides, and its full name.
pub(super) fn sides(pair: &Pair) -> ([String; 2], String) {
    let words = |[one, other]: [&str; 2]| [one.to_owned(), other.to_owned()];
    match pair.against.as_deref() {
        Some(against @ "the others") => {
            (words([against, "this server"]), format!("{}, against {against}", pair.name))
        }
        Some(against) => {
            (words([against, &pair.name]), format!("{}, against {against}", pair.name))
        }
        None => (words(["before", "after"]), pair.name.clone()),
    }
}

fn figure(page: &Page<'_>) -> Option<Figure> {
    let changes = &page.changes.changes;
    let panels = changes.iter().take(DRAWN).enumerate().filter_map(|(index, change)| {
        let (sides, name) = sides(&page.pairs[change.pair]);
        let title = format!("{}. {}: {name}", index + 1, phrase(change.what));
        changed::panel(&title, sides, &change.spread(page.pairs), &interval(change)?)
    });
    let panels: Vec<_> = panels.collect();
    let note = match changes.len().saturating_sub(DRAWN) {
        0 => String::new(),
        more => format!(" {more} more are in the table."),
    };
    (!panels.is_empty()).then(|| changed::figure(panels, &note))
}

/// The change's interval, as text.
fn interval(change: &Change) -> Option<String> {
    let interval = change.difference.interval?;
    let [low, high] = [interval.low, interval.high];
    Some(match change.what.is_share() {
        true => format!("{:+.1} to {:+.1} pp", 100.0 * low, 100.0 * high).replace('-', "−"),
        false => range(low, high),
    })
}

/// A range, with the unit only once if both ends share it.
fn range(low: f64, high: f64) -> String {
    let [low, high] = [plus(low), plus(high)];
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((figure, unit)), Some((_, same))) if unit == same => format!("{figure} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

fn count_of(figure: &Seen) -> String {
    let of = grouped(figure.of as u64);
    match figure.count {
        Some(count) => format!("{} of {of}", grouped(count as u64)),
        None => of,
    }
}

fn changes(html: &mut String, page: &Page<'_>) {
    let columns = [
        "#",
        "what",
        "of",
        "before",
        "n",
        "after",
        "n",
        "95 % interval of the change",
        "p",
        "cost per connection",
        "95 %",
        "cost per second",
    ];
    let note = "Most costly first; a failed connection costs more than time. Shares are shown with \
                their numbers of connections, times as medians; n is the number of connections \
                with a known value, pp are percentage points. Both sides are weighted to the same \
                mix of versions, handshakes and first connections of clients. Costs are averages \
                over successful connections, and add up; a cost with − is a saving. p is adjusted \
                for all tests.";
    table(html, ["changes", "Changes", note], &columns, 3);
    for (number, change) in page.changes.changes.iter().enumerate() {
        let (_, name) = sides(&page.pairs[change.pair]);
        let _ = write!(
            html,
            "<tr><td>{}</td><td class=\"t\">{}</td><td class=\"t\">{}</td>",
            number + 1,
            escape(&phrase(change.what)),
            escape(&name)
        );
        for side in [&change.before, &change.after] {
            cell(html, Some(shown(change.what, side)));
            cell(html, Some(count_of(side)));
        }
        cell(html, interval(change));
        let p = change.p_adjusted;
        cell(html, Some(if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }));
        let cost = change.cost.as_ref();
        cell(html, cost.map(|cost| signed(cost.per_connection).replace('-', "−")));
        let ends = cost.and_then(|cost| cost.interval);
        cell(html, ends.map(|ends| range(ends.low, ends.high)));
        let each = cost.and_then(|cost| cost.per_second);
        cell(html, each.map(|seconds| signed(seconds).replace('-', "−")));
        *html += "</tr>\n";
    }
    *html += TABLE_END;
    *html += "</section>\n";
}

fn compared(html: &mut String, pairs: &[Pair]) {
    let columns = ["what", "compared with", "before", "a second", "after", "a second"];
    let note = "Connections whose server is known, and connections per second.";
    table(html, ["compared", "What was compared", note], &columns, 2);
    for pair in pairs.iter().take(LISTED) {
        let against = pair.against.as_deref().unwrap_or("itself, earlier");
        let _ = write!(
            html,
            "<tr><th scope=\"row\">{}</th><td class=\"t\">{}</td>",
            escape(&pair.name),
            escape(against)
        );
        for side in [&pair.before, &pair.after] {
            cell(html, Some(grouped(side.connections() as u64)));
            cell(html, side.connections_per_second().map(|rate| format!("{rate:.1}")));
        }
        *html += "</tr>\n";
    }
    *html += TABLE_END;
    if pairs.len() > LISTED {
        let more = grouped((pairs.len() - LISTED) as u64);
        let _ = writeln!(html, "<p class=\"note\">{more} more are left out.</p>");
    }
    *html += "</section>\n";
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;
    use crate::wire::page_rules::assert_self_contained;

    fn made(changes: &Changes, pairs: &[Pair], only: [&[String]; 2]) -> String {
        let read =
            |name: &str| Read { name: name.into(), hygiene: Hygiene::default(), left_out: 0 };
        let read = [read("<monday>.pcapng"), read("tuesday.pcapng")];
        page(&Page { read: &read, changes, beside: &[], pairs, only })
    }

    #[test]
    fn it_is_well_formed_loads_nothing_and_runs_nothing() {
        let (changes, pairs) = found();
        let only = ["old<b>".to_owned()];
        let page = made(&changes, &pairs, [&only, &[]]);
        assert_self_contained(&page);
        assert!(page.contains("&lt;monday&gt;") && page.contains("old&lt;b&gt;"));
    }

    #[test]
    fn it_says_what_the_table_says() {
        let (changes, pairs) = found();
        let page = made(&changes, &pairs, [&[], &[]]);
        for part in [
            "resumption fell from 81 % to 0 % of the handshakes of returning clients (n 640 → 655)",
            "518 of 640",
            "In total, a connection takes 80.4 ms instead of 51.1 ms: +29.3 ms, of which the \
             changes above explain +29.2 ms",
            "−85.0 to −77.0 pp",
            "<td>29.2 ms</td>",
            "<td>−9.00 ms</td>",
            "&lt; 0.001",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        let places = ["resumption fell", "b, compared with a"].map(|text| page.find(text).unwrap());
        assert!(places.is_sorted());
    }

    #[test]
    fn without_a_change_it_says_so() {
        let (_, pairs) = found();
        let none = Changes { tested: 28, too_few: 3, ..Changes::default() };
        let page = made(&none, &pairs, [&[], &[]]);
        assert!(page.contains("No change: of 28 differences tested"));
        assert!(!page.contains("id=\"changes\""));
    }
}
