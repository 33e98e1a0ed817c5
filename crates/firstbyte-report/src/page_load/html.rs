//! A page load as one HTML page that loads nothing and runs no script.

use std::fmt::Write as _;
use std::time::Duration;

use firstbyte_core::shown_url::shown_url;
use firstbyte_core::timeline::{
    Beginning, ConnectionUse, DeliveredFrom, Handshake, Mark, Navigation, Offset, PageConnection,
};
use firstbyte_pages::page_load::{Fate, PageLoad, PageRequest, SetUp};
use firstbyte_pages::page_savings::PageSavings;

use super::{carrier, in_place_of, setup_sentence, took_early_data, why_in_vain};
use crate::chart;
use crate::html;
use crate::page_savings::page_savings_section;
use crate::shell;
use crate::style::Style;
use crate::svg::escape;
use crate::units::{Scale, count};

/// Input of the page.
#[derive(Clone, Copy, Debug)]
pub struct PageDocument<'a> {
    /// The page load.
    pub page: &'a Navigation,
    /// Changes that would save time, if requested.
    pub savings: Option<&'a PageSavings>,
    /// When it was loaded, formatted; empty if unknown.
    pub date: &'a str,
    /// The command that repeats the page load, without secrets.
    pub command: &'a [String],
}

/// The page of a page load.
pub fn page_html(document: &PageDocument<'_>) -> String {
    let page = document.page;
    let load = PageLoad::from_navigation(page);
    let view = View { page, load: &load, scale: Scale::for_largest(whole(&load)) };
    let mut html = String::with_capacity(1 << 17);
    let url = shown_url(&page.main.requested_url);
    html::begin(&mut html, &format!("How {url} loads"), None);
    view.header(&mut html, &url, document.date);
    view.headline(&mut html);
    let mut waterfall = chart::page_load_laid_out(page, &load);
    waterfall.title = "Connections and requests".to_owned();
    html::draw(&mut html, &waterfall);
    if let Some(savings) = document.savings {
        html += &page_savings_section(savings);
    }
    html += "<section id=\"tables\" aria-labelledby=\"tables-h\">\n\
             <h2 id=\"tables-h\">Connection by connection</h2>\n";
    view.connections(&mut html);
    view.in_vain(&mut html);
    view.origins(&mut html);
    view.requests(&mut html);
    html += "</section>\n";
    repeat(&mut html, document.command);
    html += "</main>\n</body>\n</html>\n";
    html
}

fn whole(load: &PageLoad) -> Duration {
    load.end.since(Offset::ZERO)
}

/// A column of a table: its name, and whether it contains words instead of figures.
type Column = (&'static str, bool);

struct View<'a> {
    page: &'a Navigation,
    load: &'a PageLoad,
    scale: Scale,
}

impl View<'_> {
    fn time(&self, time: Duration) -> String {
        self.scale.time(time, &Style::default())
    }

    /// A cell with a time, in the unit given in the table's caption.
    fn cell(&self, html: &mut String, time: Option<Duration>) {
        match time {
            Some(time) => {
                let _ = write!(html, "<td>{}</td>", escape(&self.scale.time_figure(time)));
            }
            None => *html += "<td class=\"no\">–</td>",
        }
    }

    fn at(&self, html: &mut String, at: Option<Offset>) {
        self.cell(html, at.map(|at| at.since(Offset::ZERO)));
    }

    fn header(&self, html: &mut String, url: &str, date: &str) {
        let client = self.page.main.connection.facts.client.as_ref();
        let client = client.map(|client| match &client.version {
            Some(version) => format!("{} {version}", client.name),
            None => client.name.clone(),
        });
        let opened = self.load.origins.iter().map(|origin| origin.opened as u64).sum();
        let said = [
            Some(date.to_owned()).filter(|date| !date.is_empty()),
            client,
            Some(count(self.load.requests.len() as u64, "request")),
            Some(count(opened, "new connection")),
        ];
        let said: Vec<String> = said.into_iter().flatten().map(|text| escape(&text)).collect();
        let _ = write!(
            html,
            "<body>\n<a class=\"skip\" href=\"#main\">Skip to the figures</a>\n<header>\n\
             <h1>{}</h1>\n<p class=\"sub\">{}</p>\n</header>\n<main id=\"main\" tabindex=\"-1\">\n",
            escape(url),
            said.join(" · ")
        );
    }

    /// The most important results.
    fn headline(&self, html: &mut String) {
        *html += "<section aria-labelledby=\"sum-h\">\n\
                  <h2 id=\"sum-h\" class=\"vh\">Where the time goes</h2>\n";
        let _ = writeln!(html, "<p class=\"sum\">{}</p>", escape(&self.sentence()));
        *html += "<dl>\n";
        let mut line = |name: &str, text: String| {
            let _ = writeln!(html, "<dt>{name}</dt><dd>{}</dd>", escape(&text));
        };
        line("Connections", setup_sentence(self.load));
        let uses = |wanted| {
            self.load.requests.iter().filter(|r| r.connection_use == Some(wanted)).count() as u64
        };
        let uses = [
            (uses(ConnectionUse::Opened), "waited for a new connection"),
            (uses(ConnectionUse::Reused), "found an open connection"),
            (uses(ConnectionUse::Coalesced), "used another host's connection"),
        ];
        let uses = uses.into_iter().filter(|(number, _)| *number > 0);
        let uses: Vec<String> = uses.map(|(number, what)| format!("{number} {what}")).collect();
        line("Requests", uses.join(", "));
        if self.load.in_vain().next().is_some() {
            let cost: Duration = self.load.in_vain().filter_map(|(_, set_up)| set_up.cost).sum();
            let tried = count(self.load.in_vain().count() as u64, "connection");
            let cost = if cost.is_zero() { "no time".to_owned() } else { self.time(cost) };
            line("Failed attempts", format!("{tried}, cost {cost}"));
        }
        let far = self.load.origins.iter().filter(|origin| origin.round_trip.is_some());
        if let Some(far) = far.max_by_key(|origin| origin.round_trip) {
            let trip = self.time(far.round_trip.unwrap_or_default());
            let host = far.authority.trim_end_matches(":443");
            line("Farthest origin", format!("{host}, round trip {trip}"));
        }
        *html += "</dl>\n</section>\n";
    }

    fn sentence(&self) -> String {
        if let Some(failure) = self.page.main.failure() {
            return format!("The page did not load: {failure}.");
        }
        let begun = match self.page.loaded {
            Some(_) => format!("Loaded in {}", self.time(whole(self.load))),
            None => {
                format!("Not fully loaded; the last byte came at {}", self.time(whole(self.load)))
            }
        };
        match self.load.set_up_share() {
            Some(share) => format!(
                "{begun}. For {} of that ({:.0} %) the page waited for connections to be set up.",
                self.time(self.load.set_up_waited),
                share * 100.0
            ),
            None => format!("{begun}."),
        }
    }

    fn open(&self, html: &mut String, caption: &str, columns: &[Column]) {
        let unit = self.scale.name(&Style::default());
        let caption = format!("{caption} (times in {unit})");
        let _ = write!(
            html,
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table class=\"close\">\n\
             <caption><span>{0}</span></caption>\n<thead><tr>",
            escape(&caption)
        );
        for (name, words) in columns {
            let class = if *words { " class=\"t\"" } else { "" };
            let _ = write!(html, "<th scope=\"col\"{class}>{name}</th>");
        }
        *html += "</tr></thead>\n<tbody>\n";
    }

    fn connections(&self, html: &mut String) {
        if self.page.connections.is_empty() {
            *html += "<p>Nothing is known about connections.</p>\n";
            return;
        }
        self.open(
            html,
            "Connections, in the order they were opened",
            &[
                ("Host", true),
                ("Address", true),
                ("Protocol", true),
                ("Set-up", true),
                ("Begun", false),
                ("Name", false),
                ("TCP", false),
                ("TLS, QUIC", false),
                ("Ready", false),
                ("Use", true),
            ],
        );
        for (place, (connection, set_up)) in
            self.page.connections.iter().zip(&self.load.set_ups).enumerate()
        {
            self.connection(html, place, connection, set_up);
        }
        *html += "</tbody></table></div>\n";
    }

    fn connection(
        &self,
        html: &mut String,
        place: usize,
        connection: &PageConnection,
        set_up: &SetUp,
    ) {
        row(html, &format!("{}. {}", place + 1, connection.authority.trim_end_matches(":443")));
        words(html, &connection.remote.map(|remote| remote.to_string()).unwrap_or_default());
        words(html, carrier(connection));
        words(html, began(connection));
        self.at(html, connection.marks.at(Mark::ConnectStart));
        for phase in [set_up.name, set_up.tcp, set_up.handshake] {
            self.cell(html, phase);
        }
        let ready = connection.marks.at(Mark::HandshakeComplete);
        let plain = || connection.marks.at(Mark::TcpConnected).filter(|_| connection.tls.is_none());
        self.at(html, ready.or_else(plain));
        words(html, &used(set_up));
        *html += "</tr>\n";
    }

    fn in_vain(&self, html: &mut String) {
        if self.load.in_vain().next().is_none() {
            return;
        }
        self.open(
            html,
            "Failed attempts and lost races",
            &[
                ("Host", true),
                ("Address", true),
                ("Protocol", true),
                ("Begun", false),
                ("Cost", false),
                ("Used instead", true),
                ("Why", true),
            ],
        );
        for (place, set_up) in self.load.in_vain() {
            let connection = &self.page.connections[place];
            row(html, &format!("{}. {}", place + 1, connection.authority.trim_end_matches(":443")));
            words(html, &connection.remote.map(|remote| remote.to_string()).unwrap_or_default());
            words(html, carrier(connection));
            self.at(html, connection.marks.at(Mark::ConnectStart));
            self.cell(html, set_up.cost);
            let number = set_up.fate.winner().map(|to| format!("{}. ", to + 1));
            let other = in_place_of(self.page, connection, set_up.fate).unwrap_or_default();
            words(html, &(number.unwrap_or_default() + &other));
            let why = escape(&why_in_vain(connection, set_up.fate));
            let _ = write!(html, "<td class=\"t\">{why}</td>");
            *html += "</tr>\n";
        }
        *html += "</tbody></table></div>\n";
    }

    fn origins(&self, html: &mut String) {
        self.open(
            html,
            "Origins",
            &[("Host", true), ("Round trip", false), ("Requests", false), ("Connections", false)],
        );
        for origin in &self.load.origins {
            row(html, origin.authority.trim_end_matches(":443"));
            self.cell(html, origin.round_trip);
            let _ = writeln!(html, "<td>{}</td><td>{}</td></tr>", origin.requests, origin.opened);
        }
        *html += "</tbody></table></div>\n";
    }

    fn requests(&self, html: &mut String) {
        self.open(
            html,
            "Requests",
            &[
                ("URL", true),
                ("Status", false),
                ("Connection", true),
                ("Asked", false),
                ("Not sent yet", false),
                ("Waiting", false),
                ("Receiving", false),
                ("End", false),
            ],
        );
        for request in &self.load.requests {
            row(html, &shown_url(&request.url));
            match request.status {
                Some(status) => {
                    let _ = write!(html, "<td>{status}</td>");
                }
                None => *html += "<td class=\"no\">–</td>",
            }
            words(html, &over(request));
            self.at(html, request.asked);
            let between = |from: Option<Offset>, to: Option<Offset>| Some(to?.since(from?));
            self.cell(html, between(request.asked, request.sent));
            self.cell(html, between(request.sent, request.first_byte));
            self.cell(html, between(request.first_byte, request.end));
            self.at(html, request.end);
            *html += "</tr>\n";
        }
        *html += "</tbody></table></div>\n";
    }
}

fn row(html: &mut String, head: &str) {
    let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(head));
}

fn words(html: &mut String, text: &str) {
    match text {
        "" => *html += "<td class=\"tl no\">–</td>",
        text => {
            let _ = write!(html, "<td class=\"tl\">{}</td>", escape(text));
        }
    }
}

/// The number of requests on a connection, or why there were none.
fn used(set_up: &SetUp) -> String {
    let requests = count(set_up.requests as u64, "request");
    match set_up.fate {
        Fate::Used if set_up.coalesced > 0 => {
            format!("{requests}, {} of another host", set_up.coalesced)
        }
        Fate::Used => requests,
        Fate::Unused => "not used".to_owned(),
        Fate::Lost { .. } => "lost".to_owned(),
        Fate::Failed { .. } => "failed".to_owned(),
    }
}

/// How a connection began.
fn began(connection: &PageConnection) -> &'static str {
    let tls = connection.tls.as_ref();
    match (connection.beginning, tls.and_then(|tls| tls.handshake)) {
        (Some(Beginning::OpenBefore { .. }), _) => "already open",
        _ if took_early_data(connection) => "0-RTT",
        (_, Some(Handshake::Resumed)) => "resumed",
        (Some(Beginning::Opened), _) => "new",
        _ => "",
    }
}

/// The connection that a request used.
fn over(request: &PageRequest) -> String {
    let local = request.delivered_from.filter(|from| from.is_local());
    match (request.connection, request.connection_use, local.map(DeliveredFrom::name)) {
        (_, _, Some(cache)) => cache.replace('-', " "),
        (Some(place), Some(used), _) => format!("{}, {}", place + 1, used.name()),
        (Some(place), None, _) => (place + 1).to_string(),
        (None, ..) if request.failed => "failed".to_owned(),
        (None, ..) => String::new(),
    }
}

fn repeat(html: &mut String, command: &[String]) {
    if command.is_empty() {
        return;
    }
    let _ = writeln!(
        html,
        "<section id=\"repeat\" aria-labelledby=\"repeat-h\">\n<h2 id=\"repeat-h\">To load it again</h2>\n\
         <pre tabindex=\"0\" aria-label=\"Command line\"><code>{}</code></pre>\n</section>",
        escape(&shell::line(command))
    );
}

#[cfg(test)]
mod tests {
    use super::super::tests::fixture;
    use super::*;

    #[test]
    fn the_page_says_what_the_terminal_says() {
        let page = fixture();
        let command = ["firstbyte", "page", "https://shop.test/"].map(str::to_owned);
        let document = PageDocument {
            page: &page,
            savings: None,
            date: "2026-11-23 14:00 UTC",
            command: &command,
        };
        let html = page_html(&document);
        let load = PageLoad::from_navigation(&page);
        for (connection, _) in page.connections.iter().zip(&load.set_ups) {
            assert!(html.contains(connection.authority.trim_end_matches(":443")), "{html}");
        }
        for wanted in [
            "the page waited for connections to be set up",
            "script-src 'none'",
            "Failed attempts and lost races",
            "firstbyte page https://shop.test/",
            "<td class=\"tl\">failed</td>",
            "<td class=\"tl\">lost</td>",
        ] {
            assert!(html.contains(wanted), "{wanted}: {html}");
        }
        assert_eq!(html.matches("<table").count(), html.matches("</table>").count());
    }

    #[test]
    fn a_page_that_did_not_come_says_so() {
        let mut page = Navigation::default();
        page.main.requested_url = "https://a.test/?token=s3cret".into();
        let html = page_html(&PageDocument { page: &page, savings: None, date: "", command: &[] });
        assert!(html.contains("Nothing is known about connections") && !html.contains("s3cret"));
    }
}
