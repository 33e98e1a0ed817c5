//! A page load for the terminal: its connections and requests on one time axis, and what set-up cost.
//!
//! Input: a [`Navigation`]. Output: text. Below each connection stand the requests that went over it; a request whose
//! connection is not known stands by itself.

use std::time::Duration;

use firstbyte_core::page_load::{PageLoad, PageRequest};
use firstbyte_core::shown_url::shown_url;
use firstbyte_core::timeline::{Beginning, Handshake, Mark, Navigation, Offset, PageConnection};

use super::error;
use super::style::{Ink, Style};
use super::units::{Scale, count};

/// The page as text.
pub fn page_load(page: &Navigation, style: &Style) -> String {
    let load = PageLoad::from_navigation(page);
    let view = View { page, load: &load, style, scale: Scale::for_largest(whole(&load)) };
    let mut lines = view.header();
    lines.push(String::new());
    if load.end > Offset::ZERO {
        lines.extend(view.chart());
        lines.push(String::new());
    }
    if !load.origins.is_empty() {
        lines.extend(view.origins());
    }
    lines.extend(view.set_up());
    if let Some(failure) = page.main.failure() {
        lines.push(error::failure(failure, style));
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

/// From when to when a row's bar is of one kind.
type Stretch = (Offset, Offset, char, Ink);

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
        if self.page.loaded.is_some() {
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
        let mut lines = Vec::new();
        for (place, connection) in self.page.connections.iter().enumerate() {
            lines.push(self.row(
                &self.connection_name(place),
                Ink::Strong,
                &self.connection_bar(connection),
            ));
            let over = self.load.requests.iter().filter(|r| r.connection == Some(place));
            lines.extend(over.map(|request| self.request(request)));
        }
        let without = self.load.requests.iter().filter(|request| request.connection.is_none());
        lines.extend(without.map(|request| self.request(request)));
        lines.extend(self.axis());
        lines.extend(self.key());
        lines
    }

    fn connection_name(&self, place: usize) -> String {
        let connection = &self.page.connections[place];
        let mut words = vec![connection.authority.trim_end_matches(":443").to_owned()];
        words.extend(connection.protocol.clone());
        let handshake = connection.tls.as_ref().and_then(|tls| tls.handshake);
        words.push(match (connection.beginning, handshake) {
            (Some(Beginning::OpenBefore { .. }), _) => "open before".to_owned(),
            (_, Some(Handshake::Resumed)) => "resumed".to_owned(),
            (Some(Beginning::Opened), _) => "new".to_owned(),
            _ => String::new(),
        });
        if self.load.set_ups[place].requests == 0 {
            words.push("unused".to_owned());
        }
        words.retain(|word| !word.is_empty());
        words.join(" ")
    }

    /// Name, TCP, TLS.
    fn connection_bar(&self, connection: &PageConnection) -> Vec<Stretch> {
        let at = |mark| connection.marks.at(mark);
        let secure = at(Mark::SecureConnectionStart).or_else(|| at(Mark::TcpConnected));
        let full = self.style.glyph('█', '#');
        let stretch = |from: Option<Offset>, to: Option<Offset>, glyph, ink| {
            from.zip(to).map(|(from, to)| (from, to, glyph, ink))
        };
        let tls = at(Mark::HandshakeComplete);
        let spans = [
            stretch(at(Mark::DomainLookupStart), at(Mark::DomainLookupEnd), full, Ink::Resolver),
            stretch(
                at(Mark::ConnectStart),
                secure.or(tls),
                self.style.glyph('━', '='),
                Ink::Network,
            ),
            stretch(
                secure.or_else(|| at(Mark::ConnectStart)),
                tls,
                self.style.glyph('▓', '%'),
                Ink::Client,
            ),
        ];
        spans.into_iter().flatten().collect()
    }

    fn request(&self, request: &PageRequest) -> String {
        let url = shown_url(&request.url);
        let path = url.split_once("://").map_or(&*url, |(_, rest)| rest);
        let path = match path.split_once('/') {
            Some((_, path)) if request.connection.is_some() => format!("/{path}"),
            _ => path.to_owned(),
        };
        let mut bar: Vec<Stretch> = Vec::new();
        let mut stretch = |from: Option<Offset>, to: Option<Offset>, glyph, ink| {
            bar.extend(from.zip(to).map(|(from, to)| (from, to, glyph, ink)));
        };
        stretch(request.asked, request.sent, self.style.glyph('·', '.'), Ink::Faint);
        stretch(request.sent, request.first_byte, self.style.glyph('░', '-'), Ink::Server);
        stretch(request.first_byte, request.end, self.style.glyph('█', '#'), Ink::Transfer);
        let ink = if request.failed { Ink::Loss } else { Ink::Plain };
        let status = request.status.filter(|status| *status >= 300);
        let status = match status.map(|status| status.to_string()) {
            None if request.failed => Some("failed".to_owned()),
            status => status,
        };
        let name = match status {
            Some(status) => {
                let room = self.name_width().saturating_sub(status.len() + 3);
                format!("  {} {status}", cut(&self.style.safe(&path), room, self.style))
            }
            None => format!("  {path}"),
        };
        self.row(&name, ink, &bar)
    }

    /// Columns for what a row is of.
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

    fn row(&self, name: &str, ink: Ink, bar: &[Stretch]) -> String {
        let mut cells = vec![(' ', Ink::Plain); self.columns()];
        for (from, to, glyph, ink) in bar {
            // What is short is seen all the same; what follows it covers it.
            for cell in &mut cells[self.column(*from)..=self.column(*to)] {
                *cell = (*glyph, *ink);
            }
        }
        let width = self.name_width();
        let name = cut(&self.style.safe(name), width, self.style);
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

    fn key(&self) -> Vec<String> {
        let style = self.style;
        let keys = [
            (style.glyph('█', '#'), Ink::Resolver, "name"),
            (style.glyph('━', '='), Ink::Network, "TCP"),
            (style.glyph('▓', '%'), Ink::Client, "TLS, QUIC"),
            (style.glyph('·', '.'), Ink::Faint, "not sent yet"),
            (style.glyph('░', '-'), Ink::Server, "waiting"),
            (style.glyph('█', '#'), Ink::Transfer, "receiving"),
        ];
        let mut lines = vec![(String::new(), 0)];
        for (glyph, ink, name) in keys {
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

    /// The round trip to each origin, and what went there.
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

    fn set_up(&self) -> Option<String> {
        let share = self.load.set_up_share()?;
        let time = self.scale.time(self.load.set_up_waited, self.style);
        let share = share * 100.0;
        Some(format!("waiting for set-up: {time}, {share:.0} % of the load"))
    }
}

/// The next larger of 1, 2 and 5 times a power of ten.
fn tick_ns(at_least: f64) -> f64 {
    let power = 10_f64.powf(at_least.max(1.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= at_least).unwrap_or(10.0 * power)
}

/// `text`, or as much of its end as there is room for: paths differ there.
fn cut(text: &str, room: usize, style: &Style) -> String {
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    let ellipsis = style.glyph("…", "..");
    let kept = room.saturating_sub(ellipsis.chars().count());
    let indent: String = text.chars().take_while(|c| *c == ' ').collect();
    let end: String = text.chars().skip(length - kept + indent.len()).collect();
    indent + ellipsis + &end
}

#[cfg(test)]
mod tests {
    use firstbyte_core::document::navigation;
    use firstbyte_core::timeline::{Cause, Failure, PhaseName};

    use super::*;

    fn fixture() -> Navigation {
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
