//! A page load for the terminal: its connections and requests on one time axis, and the cost of set-up.
//!
//! Input: a [`Navigation`]. Output: text. Each connection is followed by its requests; a request whose connection
//! is unknown stands alone.

mod html;

use std::time::Duration;

use firstbyte_core::shown_url::shown_url;
use firstbyte_core::timeline::{
    Beginning, ConnectionUse, Handshake, Mark, Navigation, Offset, PageConnection,
};
use firstbyte_pages::page_load::{Fate, PageLoad, PageRequest};

use super::error;
use super::style::{Ink, Style, cut_end};
use super::units::{Scale, count};

pub use html::{PageDocument, page_html};

/// The page as text.
pub fn page_load(page: &Navigation, style: &Style) -> String {
    page_load_laid_out(page, &PageLoad::from_navigation(page), true, style)
}

/// The page as text with a given layout, from a caller who knows more about its source, and who may have shown its
/// origins already.
pub(crate) fn page_load_laid_out(
    page: &Navigation,
    load: &PageLoad,
    with_origins: bool,
    style: &Style,
) -> String {
    let view = View { page, load, style, scale: Scale::for_largest(whole(load)) };
    let mut lines = view.header();
    lines.push(String::new());
    if load.end > Offset::ZERO {
        lines.extend(view.chart());
        lines.push(String::new());
    }
    if with_origins && !load.origins.is_empty() {
        lines.extend(view.origins());
    }
    lines.extend(view.in_vain());
    lines.extend(view.set_up());
    if page.main.failure().is_some() {
        lines.push(error::failure(&page.main, style));
    }
    let mut text = String::new();
    for line in lines {
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn whole(load: &PageLoad) -> Duration {
    load.end.since(Offset::ZERO)
}

/// The meaning of a stretch of a row's bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Of a connection: the name lookup.
    Name,
    /// The TCP handshake.
    Tcp,
    /// The handshake of TLS or QUIC.
    Handshake,
    /// The connection failed or was abandoned; nothing more was seen of it until then.
    InVain,
    /// Of a request: it waited to be sent.
    Unsent,
    /// Of a request: it was sent, and its first byte had not arrived.
    Waiting,
    /// Of a response: from the first byte to the last.
    Receiving,
}

impl Piece {
    pub(crate) const ALL: [Self; 7] = [
        Self::Name,
        Self::Tcp,
        Self::Handshake,
        Self::InVain,
        Self::Unsent,
        Self::Waiting,
        Self::Receiving,
    ];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Tcp => "TCP",
            Self::Handshake => "TLS, QUIC",
            Self::InVain => "in vain",
            Self::Unsent => "not sent yet",
            Self::Waiting => "waiting",
            Self::Receiving => "receiving",
        }
    }

    fn look(self, style: &Style) -> (char, Ink) {
        match self {
            Self::Name => (style.glyph('▒', ':'), Ink::Resolver),
            Self::Tcp => (style.glyph('━', '='), Ink::Network),
            Self::Handshake => (style.glyph('▓', '%'), Ink::Client),
            Self::InVain => (style.glyph('×', 'x'), Ink::Loss),
            Self::Unsent => (style.glyph('·', '.'), Ink::Faint),
            Self::Waiting => (style.glyph('░', '-'), Ink::Server),
            Self::Receiving => (style.glyph('█', '#'), Ink::Transfer),
        }
    }
}

/// Begin, end and kind of a stretch of a row's bar.
pub(crate) type Stretch = (Offset, Offset, Piece);

/// A connection, or one of the requests listed below it.
pub(crate) struct PageRow {
    /// The host with facts about the connection; or a request's path, or its URL if there is no connection.
    pub name: String,
    /// Outcome of a request: "404", "failed".
    pub end: Option<String>,
    pub is_connection: bool,
    pub failed: bool,
    pub bar: Vec<Stretch>,
}

/// The rows of a page, each connection followed by its requests.
pub(crate) fn rows(page: &Navigation, load: &PageLoad) -> Vec<PageRow> {
    let mut rows = Vec::new();
    for (place, connection) in page.connections.iter().enumerate() {
        rows.push(PageRow {
            name: connection_name(connection, load.set_ups[place].fate),
            end: None,
            is_connection: true,
            failed: connection.failure.is_some(),
            bar: connection_bar(connection, load.set_ups[place].fate, load.end),
        });
        let over = load.requests.iter().filter(|r| r.connection == Some(place));
        rows.extend(over.map(request_row));
    }
    let without = load.requests.iter().filter(|request| request.connection.is_none());
    let mut without = without.map(request_row).peekable();
    if !rows.is_empty() && without.peek().is_some() {
        // A heading, because the requests below do not belong to the connection above.
        rows.push(PageRow {
            name: "no known connection".to_owned(),
            end: None,
            is_connection: true,
            failed: false,
            bar: Vec::new(),
        });
    }
    rows.extend(without);
    rows
}

fn connection_name(connection: &PageConnection, fate: Fate) -> String {
    let mut words = vec![connection.authority.trim_end_matches(":443").to_owned()];
    words.extend(connection.protocol.clone());
    words.extend(family(connection, fate).map(str::to_owned));
    let handshake = connection.tls.as_ref().and_then(|tls| tls.handshake);
    let gone = matches!(fate, Fate::Lost { .. } | Fate::Failed { .. });
    words.push(match (connection.beginning, handshake) {
        (Some(Beginning::OpenBefore { .. }), _) => "open before".to_owned(),
        _ if took_early_data(connection) => "0-RTT".to_owned(),
        (_, Some(Handshake::Resumed)) => "resumed".to_owned(),
        (Some(Beginning::Opened), _) if !gone => "new".to_owned(),
        _ => String::new(),
    });
    words.push(match fate {
        Fate::Used => String::new(),
        Fate::Unused => "unused".to_owned(),
        Fate::Lost { .. } => "lost".to_owned(),
        Fate::Failed { .. } => "failed".to_owned(),
    });
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// Whether the server accepted requests in early data.
fn took_early_data(connection: &PageConnection) -> bool {
    let early = connection.tls.as_ref().and_then(|tls| tls.early_data.as_ref());
    early.is_some_and(|early| early.accepted == Some(true))
}

/// "IPv6" for an unsuccessful attempt over IPv6, because another address may have been used instead.
fn family(connection: &PageConnection, fate: Fate) -> Option<&'static str> {
    let gone = matches!(fate, Fate::Lost { .. } | Fate::Failed { .. });
    let ipv6 = connection.remote.is_some_and(|remote| remote.is_ipv6());
    (gone && ipv6).then_some("IPv6")
}

/// The protocol of a connection, or the one it would have used.
fn carrier(connection: &PageConnection) -> &str {
    connection.protocol.as_deref().unwrap_or("TCP")
}

/// What replaced a connection that failed or lost the race: the protocol, and the address if it is different.
fn in_place_of(page: &Navigation, lost: &PageConnection, fate: Fate) -> Option<String> {
    let winner = &page.connections[fate.winner()?];
    let address = winner.remote.filter(|remote| Some(*remote) != lost.remote);
    let address = address.map(|remote| format!(" {}", remote.ip()));
    Some(format!("{}{}", carrier(winner), address.unwrap_or_default()))
}

/// Why a connection was not used: its failure, or because it was too late.
fn why_in_vain(connection: &PageConnection, fate: Fate) -> String {
    let there = connection.marks.at(Mark::HandshakeComplete).is_some();
    match (&connection.failure, fate.winner()) {
        (Some(failure), _) => failure.cause.to_string(),
        (None, Some(_)) if there => "the other connection was ready first".to_owned(),
        (None, Some(_)) => "not ready when the other connection was".to_owned(),
        (None, None) => String::new(),
    }
}

/// The outcome of the started connections, in words.
fn setup_sentence(load: &PageLoad) -> String {
    let number = |wanted: &dyn Fn(Fate) -> bool| {
        load.set_ups.iter().filter(|set_up| wanted(set_up.fate)).count()
    };
    let said = [
        (number(&|fate| fate == Fate::Used), "used"),
        (number(&|fate| fate == Fate::Unused), "not used"),
        (number(&|fate| matches!(fate, Fate::Lost { .. })), "lost"),
        (number(&|fate| matches!(fate, Fate::Failed { .. })), "failed"),
    ];
    let said = said.into_iter().filter(|(number, _)| *number > 0);
    said.map(|(number, word)| format!("{number} {word}")).collect::<Vec<_>>().join(", ")
}

fn stretches(of: [(Option<Offset>, Option<Offset>, Piece); 3]) -> Vec<Stretch> {
    let known = |(from, to, piece): (Option<Offset>, Option<Offset>, Piece)| {
        from.zip(to).filter(|(from, to)| from <= to).map(|(from, to)| (from, to, piece))
    };
    of.into_iter().filter_map(known).collect()
}

/// An unsuccessful attempt that was still going on when the page had loaded is drawn until `end`.
fn connection_bar(connection: &PageConnection, fate: Fate, end: Offset) -> Vec<Stretch> {
    let at = |mark| connection.marks.at(mark);
    let (begun, connected) = (at(Mark::ConnectStart), at(Mark::TcpConnected));
    // QUIC's handshake serves as both.
    let secure = connected.or(begun).max(at(Mark::SecureConnectionStart));
    let mut bar = stretches([
        (at(Mark::DomainLookupStart), at(Mark::DomainLookupEnd), Piece::Name),
        (begun, connected, Piece::Tcp),
        (secure, at(Mark::HandshakeComplete), Piece::Handshake),
    ]);
    let failed = connection.failure.as_ref().and_then(|failure| failure.at);
    let there = at(Mark::HandshakeComplete).is_some();
    let still = matches!(fate, Fate::Lost { .. }) && !there;
    let given_up = failed.or(connection.given_up.map(|stamp| stamp.at));
    let given_up = given_up.or(still.then_some(end));
    let last = at(Mark::HandshakeComplete).or(connected).or(begun);
    bar.extend(
        last.zip(given_up)
            .filter(|(from, to)| from <= to)
            .map(|(from, to)| (from, to, Piece::InVain)),
    );
    bar
}

fn request_row(request: &PageRequest) -> PageRow {
    let url = shown_url(&request.url);
    let path = url.split_once("://").map_or(&*url, |(_, rest)| rest);
    let name = match path.split_once('/') {
        Some((_, path))
            if request.connection.is_some()
                && request.connection_use != Some(ConnectionUse::Coalesced) =>
        {
            format!("/{path}")
        }
        _ => path.to_owned(),
    };
    let coalesced = request.connection_use == Some(ConnectionUse::Coalesced);
    let status = request.status.filter(|status| *status >= 300).map(|s| s.to_string());
    PageRow {
        name,
        end: status
            .or_else(|| request.failed.then(|| "failed".to_owned()))
            .or_else(|| coalesced.then(|| "coalesced".to_owned())),
        is_connection: false,
        failed: request.failed,
        bar: stretches([
            (request.asked, request.sent, Piece::Unsent),
            (request.sent, request.first_byte, Piece::Waiting),
            (request.first_byte, request.end, Piece::Receiving),
        ]),
    }
}

struct View<'a> {
    page: &'a Navigation,
    load: &'a PageLoad,
    style: &'a Style,
    scale: Scale,
}

impl View<'_> {
    fn header(&self) -> Vec<String> {
        let dot = self.style.glyph(" · ", ", ");
        let url = self.style.safe(&shown_url(&self.page.main.requested_url));
        let opened = self.load.origins.iter().map(|origin| origin.opened).sum::<usize>();
        let mut right = vec![
            count(self.load.requests.len() as u64, "request"),
            count(opened as u64, "new connection"),
        ];
        if self.page.loaded.is_none() && self.page.main.failure().is_none() {
            right.push("not fully loaded".to_owned());
        } else if self.page.loaded.is_some() {
            right.push(format!("loaded in {}", self.scale.time(whole(self.load), self.style)));
        }
        let right = right.join(dot);
        let used = url.chars().count() + right.chars().count();
        if used + 2 <= self.style.columns() {
            let gap = " ".repeat(self.style.columns() - used);
            return vec![format!("{}{gap}{right}", self.style.paint(Ink::Strong, &url))];
        }
        vec![self.style.paint(Ink::Strong, &url), right]
    }

    fn chart(&self) -> Vec<String> {
        let rows = rows(self.page, self.load);
        let mut lines: Vec<String> = rows.iter().map(|row| self.row(row)).collect();
        lines.extend(self.axis());
        lines.extend(self.key(&rows));
        lines
    }

    /// Columns for a row's name.
    fn name_width(&self) -> usize {
        (self.style.columns() * 3 / 8).min(48)
    }

    /// Columns for bars.
    fn columns(&self) -> usize {
        self.style.columns() - self.name_width() - 2
    }

    fn column(&self, at: Offset) -> usize {
        let share = at.as_nanos() as f64 / whole(self.load).as_nanos().max(1) as f64;
        ((share * self.columns() as f64) as usize).min(self.columns() - 1)
    }

    fn row(&self, row: &PageRow) -> String {
        let mut cells = vec![(' ', Ink::Plain); self.columns()];
        for (from, to, piece) in &row.bar {
            // Draw even short stretches; later ones overwrite them.
            for cell in &mut cells[self.column(*from)..=self.column(*to)] {
                *cell = piece.look(self.style);
            }
        }
        let width = self.name_width();
        let name = self.style.safe(&row.name);
        let (name, ink) = match (row.is_connection, row.failed) {
            (true, _) => (cut_end(&name, width, self.style), Ink::Strong),
            (false, failed) => {
                let end = row.end.as_ref().map(|end| format!(" {end}")).unwrap_or_default();
                let room = width.saturating_sub(end.len() + 2);
                let ink = if failed { Ink::Loss } else { Ink::Plain };
                (format!("  {}{end}", cut(&name, room, self.style)), ink)
            }
        };
        let name = self.style.paint(ink, &format!("{name:<width$}"));
        format!("{name}  {}", self.style.cells(&cells))
    }

    fn axis(&self) -> Vec<String> {
        let mut rule = vec![self.style.glyph('─', '-'); self.columns()];
        let mut numbers = vec![' '; self.columns()];
        let step = tick_ns(whole(self.load).as_nanos() as f64 / 4.0);
        for tick in 0.. {
            let at = Offset::from_nanos((step * f64::from(tick)) as i64);
            let text = self.scale.figure(self.scale.steps(at.since(Offset::ZERO)));
            let column = self.column(at);
            if at > self.load.end || column + text.len() > self.columns() {
                break;
            }
            rule[column] = self.style.glyph('┴', '+');
            for (cell, c) in numbers[column..].iter_mut().zip(text.chars()) {
                *cell = c;
            }
        }
        let width = self.name_width();
        let line = |text: &str, cells: Vec<char>| {
            let cells: String = cells.into_iter().collect();
            self.style.paint(Ink::Faint, &format!("{text:>width$}  {}", cells.trim_end()))
        };
        vec![line("", rule), line(self.scale.name(self.style), numbers)]
    }

    fn key(&self, rows: &[PageRow]) -> Vec<String> {
        let style = self.style;
        let in_vain = |row: &PageRow| row.bar.iter().any(|(.., piece)| *piece == Piece::InVain);
        let in_vain = rows.iter().any(in_vain);
        let mut lines = vec![(String::new(), 0)];
        for piece in Piece::ALL.into_iter().filter(|piece| in_vain || *piece != Piece::InVain) {
            let ((glyph, ink), name) = (piece.look(style), piece.label());
            let width = name.len() + 2;
            let fits = lines.last().is_some_and(|(_, used)| used + 3 + width <= style.columns());
            if !fits {
                lines.push((String::new(), 0));
            }
            let Some((line, used)) = lines.last_mut() else { break };
            let gap = if *used == 0 { "" } else { "   " };
            *line += &format!("{gap}{} {name}", style.paint(ink, &glyph.to_string()));
            *used += gap.len() + width;
        }
        lines.into_iter().map(|(line, _)| line).collect()
    }

    /// The round trip to each origin, and its requests.
    fn origins(&self) -> Vec<String> {
        let width = self.name_width();
        let row = |name: &str, [trip, requests, opened]: [&str; 3]| {
            let name = cut(&self.style.safe(name), width, self.style);
            format!("{name:<width$}  {trip:>10}  {requests:>8}  {opened:>6}")
        };
        let head = row("origin", ["round trip", "requests", "opened"]);
        let mut lines = vec![self.style.paint(Ink::Faint, &head)];
        for origin in &self.load.origins {
            let trip = origin.round_trip.map(|trip| self.scale.time(trip, self.style));
            let trip = trip.unwrap_or_else(|| self.style.glyph("–", "-").to_owned());
            let name = origin.authority.trim_end_matches(":443");
            let [requests, opened] = [origin.requests, origin.opened].map(|n| n.to_string());
            lines.push(row(name, [&trip, &requests, &opened]));
        }
        lines.push(String::new());
        lines
    }

    /// Failed attempts and lost races, with their cost.
    fn in_vain(&self) -> Vec<String> {
        if self.load.in_vain().next().is_none() {
            return Vec::new();
        }
        let width = self.name_width();
        let room = self.style.columns() - width - 2 - 10 - 2;
        let row = |name: &str, cost: &str, why: &str| {
            let name = cut_end(name, width, self.style);
            let why = cut_end(why, room, self.style);
            format!("{name:<width$}  {cost:>10}  {why}")
        };
        let head = row("failed or lost", "cost", "why");
        let mut lines = vec![self.style.paint(Ink::Faint, &head)];
        for (place, set_up) in self.load.in_vain() {
            let connection = &self.page.connections[place];
            let host = connection.authority.trim_end_matches(":443");
            let words = [Some(host), Some(carrier(connection)), family(connection, set_up.fate)];
            let name = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
            let name = self.style.safe(&name);
            let cost = set_up.cost.map(|cost| match cost.is_zero() {
                true => "none".to_owned(),
                false => self.scale.time(cost, self.style),
            });
            let cost = cost.unwrap_or_else(|| self.style.glyph("–", "-").to_owned());
            let lost = connection.failure.is_none();
            let other = in_place_of(self.page, connection, set_up.fate).filter(|_| lost);
            let why = match other {
                Some(other) => format!("lost to {other}"),
                None => why_in_vain(connection, set_up.fate),
            };
            lines.push(row(&name, &cost, &self.style.safe(&why)));
        }
        lines.push(String::new());
        lines
    }

    fn set_up(&self) -> Option<String> {
        let share = self.load.set_up_share()?;
        let connections = setup_sentence(self.load);
        let time = self.scale.time(self.load.set_up_waited, self.style);
        let share = share * 100.0;
        let connections = match connections.as_str() {
            "" => String::new(),
            said => format!("\nconnections: {said}"),
        };
        Some(format!("waiting for set-up: {time}, {share:.0} % of the load{connections}"))
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that is at least `at_least`.
fn tick_ns(at_least: f64) -> f64 {
    let power = 10_f64.powf(at_least.max(1.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= at_least).unwrap_or(10.0 * power)
}

/// `text`, or as much of its end as fits, because paths differ there.
fn cut(text: &str, room: usize, style: &Style) -> String {
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    let ellipsis = style.glyph("…", "..");
    let kept = room.saturating_sub(ellipsis.chars().count());
    let end: String = text.chars().skip(length - kept).collect();
    ellipsis.to_owned() + &end
}

#[cfg(test)]
mod tests {
    use firstbyte_core::document::navigation;
    use firstbyte_core::timeline::{Cause, Failure, PhaseName};

    use super::*;

    pub(super) fn fixture() -> Navigation {
        let line = include_str!("../../firstbyte-core/fixtures/navigation/chromium.ndjson");
        navigation(line.trim_end().as_bytes()).unwrap()
    }

    #[test]
    fn a_page_of_four_origins() {
        insta::assert_snapshot!(page_load(&fixture(), &Style::default()));
    }

    #[test]
    fn a_page_that_does_not_come_says_why() {
        let mut page = Navigation::default();
        page.main.requested_url = "https://a.test/".into();
        page.main.connection.failure = Some(Failure {
            phase: PhaseName::Connect,
            cause: Cause::Refused { remote: "192.0.2.1:443".parse().unwrap() },
            at: None,
        });
        let text = page_load(&page, &Style::default());
        assert!(text.contains("error: connect: ") && !text.contains("round trip"), "{text}");
    }

    #[test]
    fn every_line_fits() {
        for width in [60, 80, 120, 200] {
            for unicode in [false, true] {
                let style = Style { color: false, width, unicode };
                let text = page_load(&fixture(), &style);
                for line in text.lines() {
                    assert!(line.chars().count() <= width, "{width}: {line}");
                }
                assert!(unicode || text.is_ascii(), "{text}");
            }
        }
    }
}
