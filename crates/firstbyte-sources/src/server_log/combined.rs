//! "combined" and "common" lines, the default formats of nginx and Apache, optionally preceded by the host (Apache's
//! "vhost_combined"). Anything after these fields is ignored.

use std::time::Duration;

use super::json::{host_and_port, status};
use super::reader::LogLineError;
use super::request::{LogForm, LoggedRequest, protocol, said, without_query};

/// `ADDRESS IDENTITY USER [23/Nov/2026:14:19:20 +0000] "GET /path HTTP/1.1" 200 1234 …`
pub(super) fn parse(line: &str) -> Result<LoggedRequest, LogLineError> {
    parts(line).ok_or(LogLineError::NotALog)
}

fn parts(line: &str) -> Option<LoggedRequest> {
    let (who, rest) = line.split_once(" [")?;
    let (date, rest) = rest.split_once("] \"")?;
    let logged = unix(date)?;
    let (asked, rest) = quoted(rest)?;
    let mut numbers = rest.strip_prefix(' ')?.split(' ');
    let code = status(Some(numbers.next()?.parse().ok()?))?;
    let bytes = numbers.next()?;
    // Apache's %b writes "-" for zero bytes.
    let bytes = if bytes == "-" { Some(0) } else { bytes.parse().ok() }?;
    // A host, with or without a port, may precede address, identity and user.
    let host = match who.split(' ').count() {
        3 => None,
        4 => who.split(' ').next().map(host_and_port),
        _ => return None,
    };
    let mut words = asked.split(' ');
    let (method, path, version) = (words.next(), words.next(), words.next());
    let version = version.and_then(protocol);
    Some(LoggedRequest {
        logged: Some(logged),
        port: host.as_ref().and_then(|(_, port)| *port),
        host: host.map(|(host, _)| host),
        protocol: version,
        // If the request line is not HTTP (a scanner's bytes), it has neither.
        method: method.filter(|_| version.is_some()).and_then(said).map(str::to_owned),
        path: path.filter(|_| version.is_some()).map(without_query),
        status: Some(code),
        bytes: Some(bytes),
        ..LoggedRequest::unknown(LogForm::Combined)
    })
}

/// Splits the text at the closing quotation mark.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    Some((&text[..end], &text[end + 1..]))
}

/// Parses `23/Nov/2026:14:19:20 +0000` into the time since 1970.
fn unix(date: &str) -> Option<Duration> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (date, zone) = date.split_once(' ')?;
    let mut parts = date.split(['/', ':']);
    let mut number = |most: i64| -> Option<i64> {
        let part = parts.next()?;
        let number = match MONTHS.iter().position(|month| *month == part) {
            Some(month) => month as i64 + 1,
            None => part.parse().ok()?,
        };
        (0..=most).contains(&number).then_some(number)
    };
    let (day, month, year) = (number(31)?, number(12)?, number(9_999)?);
    let (hour, minute, second) = (number(23)?, number(59)?, number(60)?);
    let offset: i64 = zone.parse().ok().filter(|offset: &i64| offset.abs() <= 2_400)?;
    let offset = offset / 100 * 60 + offset % 100;
    if !zone.starts_with(['+', '-']) || day == 0 || month == 0 {
        return None;
    }
    // Days since 1 March of the year 0 (Howard Hinnant, "chrono-compatible low-level date algorithms").
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468;
    let seconds = ((days * 24 + hour) * 60 + minute - offset) * 60 + second;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}
