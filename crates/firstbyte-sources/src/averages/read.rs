//! Reads the bytes of an export into days.

use super::calendar::{SlashOrder, WrittenDate, date_of_day};
use super::columns::{self, ASSUMED_UNIT_NS, AveragedTime, AveragesProduct, ColumnRole};
use super::fields::{DecimalMark, number, separator, split, text};
use super::{AveragesError, DailyAverages, DayAverage, MOST_DAYS};

/// A connection's average cannot exceed a day.
const LONGEST_NS: f64 = 86_400e9;
/// Maximum number of lines before the header: titles, comments, dates.
const PREFACE: usize = 50;

struct Layout {
    product: AveragesProduct,
    time: AveragedTime,
    header: Vec<String>,
    separator: char,
    date: usize,
    average: usize,
    unit_ns: Option<f64>,
    samples: Option<usize>,
    page_views: Option<usize>,
}

struct WrittenRow {
    line: usize,
    date: WrittenDate,
    fields: Vec<String>,
}

impl DailyAverages {
    /// Reads an export: CSV with commas, semicolons or tabs.
    ///
    /// Skips comments, titles before the header, totals after the days, and further tables.
    ///
    /// # Errors
    /// If the export is malformed: what is wrong, with line and column.
    pub fn read(bytes: &[u8]) -> Result<Self, AveragesError> {
        let text = text(bytes)?;
        let mut lines = (1..).zip(text.lines());
        let layout = lines
            .by_ref()
            .take(PREFACE)
            .find_map(|(number, line)| Layout::from_header(line, number).transpose())
            .ok_or_else(|| {
                AveragesError::at(
                    1,
                    1,
                    "no header line with a date and an average found; see docs/formats.md",
                )
            })??;
        let (rows, passed_over) = layout.rows(lines)?;
        layout.days(&rows, passed_over)
    }
}

impl Layout {
    /// `None` if `line` is not a header.
    fn from_header(line: &str, number: usize) -> Result<Option<Self>, AveragesError> {
        if line.trim().is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let separator = separator(line);
        let Ok(header) = split(line, separator, number) else { return Ok(None) };
        let roles: Vec<_> = header.iter().map(|name| columns::role(name)).collect();
        let first = |wanted: fn(&ColumnRole) -> bool| {
            roles.iter().position(|role| role.as_ref().is_some_and(|(_, role)| wanted(role)))
        };
        let Some(date) = first(|role| *role == ColumnRole::Date) else { return Ok(None) };
        let averages: Vec<(usize, AveragesProduct, AveragedTime, Option<f64>)> = roles
            .iter()
            .enumerate()
            .filter_map(|(at, role)| match role {
                Some((product, ColumnRole::Average { time, unit_ns })) => {
                    Some((at, *product, *time, *unit_ns))
                }
                _ => None,
            })
            .collect();
        let wanted = [AveragedTime::Connection, AveragedTime::Network];
        let connection = wanted.iter().find_map(|time| averages.iter().find(|a| a.2 == *time));
        let (average, product, time, unit_ns) = match (connection, &averages[..]) {
            (Some(found), _) | (None, [found]) => *found,
            (None, []) => {
                let message =
                    "no column with an average found; see docs/formats.md for the known names";
                return Err(AveragesError::at(number, 1, message));
            }
            (None, [_, second, ..]) => {
                let message = "several columns with averages, none of them of connections; \
                               keep only the one to read";
                return Err(AveragesError::at(number, second.0 + 1, message));
            }
        };
        Ok(Some(Self {
            product,
            time,
            separator,
            date,
            average,
            unit_ns,
            samples: first(|role| *role == ColumnRole::Samples),
            page_views: first(|role| *role == ColumnRole::PageViews),
            header,
        }))
    }

    /// The rows with dates, and the number of skipped lines.
    fn rows<'a>(
        &self,
        lines: impl Iterator<Item = (usize, &'a str)>,
    ) -> Result<(Vec<WrittenRow>, u64), AveragesError> {
        let mut rows = Vec::new();
        let mut passed_over = 0;
        let mut apart = false;
        for (line, text) in lines {
            if text.starts_with('#') {
                continue;
            }
            if text.trim_matches([',', ';', '\t', ' ', '"']).is_empty() {
                apart = !rows.is_empty();
                continue;
            }
            let fields = split(text, self.separator, line)?;
            let field = fields.get(self.date).map_or("", String::as_str);
            let Some(date) = WrittenDate::parse(field) else {
                // A line without a date starts another table if it follows an empty line; otherwise it may be a total.
                if apart {
                    return Ok((rows, passed_over));
                }
                if is_total(field) {
                    passed_over += 1;
                    continue;
                }
                return Err(self.bad(line, self.date, field, "is not a date"));
            };
            if date == WrittenDate::NoSuchDay {
                return Err(self.bad(line, self.date, field, "is not an existing day"));
            }
            rows.push(WrittenRow { line, date, fields });
            if rows.len() > MOST_DAYS {
                let message = format!("more than {MOST_DAYS} days");
                return Err(AveragesError::at(line, self.date + 1, message));
            }
        }
        Ok((rows, passed_over))
    }

    fn days(&self, rows: &[WrittenRow], passed_over: u64) -> Result<DailyAverages, AveragesError> {
        let order = self.order(rows)?;
        let column =
            |at: usize| rows.iter().filter_map(move |row| row.fields.get(at)).map(String::as_str);
        // Exports separated by semicolons or tabs often come from locales with a decimal comma.
        let usual = if self.separator == ',' { DecimalMark::Point } else { DecimalMark::Comma };
        let mark = DecimalMark::shown_by(column(self.average), usual);
        let mut days: Vec<DayAverage> = Vec::new();
        let (mut without, mut unit_was_said) = (0, self.unit_ns.is_some());
        for row in rows {
            let Some(day) = row.date.day(order) else {
                let field = &row.fields[self.date];
                return Err(self.bad(row.line, self.date, field, "is not an existing day"));
            };
            let samples = self.count(row, self.samples)?;
            let page_views = self.count(row, self.page_views)?;
            let field = row.fields.get(self.average).map_or("", String::as_str);
            let average =
                if is_missing(field) { None } else { Some(self.average(row.line, field, mark)?) };
            unit_was_said |= average.is_some_and(|(_, said)| said);
            // An average of no samples is dropped. Without a sample count, zero means that nothing was timed.
            let average = average.map(|(ns, _)| ns).filter(|ns| match samples {
                Some(samples) => samples > 0,
                None => *ns > 0.0,
            });
            match average {
                Some(average_ns) => {
                    days.push(DayAverage { day, line: row.line, average_ns, samples, page_views })
                }
                None => without += 1,
            }
        }
        days.sort_by_key(|day| day.day);
        if let Some([first, second]) = days.windows(2).find(|pair| pair[0].day == pair[1].day) {
            let (year, month, number) = date_of_day(second.day);
            let line = first.line.max(second.line);
            let message = format!(
                "{year:04}-{month:02}-{number:02} is given twice; export with the day as the \
                 only dimension"
            );
            return Err(AveragesError::at(line, self.date + 1, message));
        }
        if days.is_empty() {
            return Err(AveragesError::at(1, self.average + 1, "no day has an average"));
        }
        Ok(DailyAverages {
            product: self.product,
            time: self.time,
            header: self.header[self.average].clone(),
            unit_was_said,
            days,
            without_average: without,
            passed_over,
        })
    }

    /// Whether the month comes first in dates with slashes: one number above 12 proves it for all.
    fn order(&self, rows: &[WrittenRow]) -> Result<SlashOrder, AveragesError> {
        let shown = |order| rows.iter().find(|row| row.date.order() == Some(order));
        match (shown(SlashOrder::MonthFirst), shown(SlashOrder::DayFirst)) {
            (Some(one), Some(other)) => {
                let later = if one.line > other.line { one } else { other };
                let field = &later.fields[self.date];
                Err(self.bad(
                    later.line,
                    self.date,
                    field,
                    "has day and month in a different order than earlier lines",
                ))
            }
            (None, Some(_)) => Ok(SlashOrder::DayFirst),
            (Some(_), None) => Ok(SlashOrder::MonthFirst),
            (None, None) => {
                match rows.iter().find(|row| matches!(row.date, WrittenDate::Slashes { .. })) {
                    Some(row) => {
                        let field = &row.fields[self.date];
                        Err(self.bad(
                            row.line,
                            self.date,
                            field,
                            "is ambiguous; write dates as 2026-04-15",
                        ))
                    }
                    None => Ok(SlashOrder::MonthFirst),
                }
            }
        }
    }

    /// The average in nanoseconds, and whether the field names its unit.
    fn average(
        &self,
        line: usize,
        field: &str,
        mark: DecimalMark,
    ) -> Result<(f64, bool), AveragesError> {
        let bad = |what| self.bad(line, self.average, field, what);
        let (value, unit) = number(field, mark).ok_or_else(|| bad("is not a number"))?;
        let own = match unit {
            "" => None,
            unit => Some(
                columns::unit(&unit.to_lowercase()).ok_or_else(|| bad("has an unknown unit"))?,
            ),
        };
        let ns = value * own.or(self.unit_ns).unwrap_or(ASSUMED_UNIT_NS);
        if !(0.0..=LONGEST_NS).contains(&ns) {
            return Err(bad("is not between 0 and one day"));
        }
        Ok((ns, own.is_some()))
    }

    fn count(&self, row: &WrittenRow, column: Option<usize>) -> Result<Option<u64>, AveragesError> {
        let Some(column) = column else { return Ok(None) };
        let field = row.fields.get(column).map_or("", String::as_str);
        if is_missing(field) {
            return Ok(None);
        }
        // Counts have no fraction: marks separate thousands, unless only zeros follow.
        let mark = DecimalMark::shown_by(std::iter::once(field), DecimalMark::Point);
        let value = match number(field, mark) {
            Some((value, "")) if value.fract() == 0.0 => Some(value),
            _ => number(&field.replace('.', ","), DecimalMark::Point)
                .filter(|(_, unit)| unit.is_empty() && is_grouped(field))
                .map(|(value, _)| value),
        };
        match value.filter(|value| (0.0..=1e15).contains(value)) {
            Some(value) => Ok(Some(value as u64)),
            None => Err(self.bad(row.line, column, field, "is not a whole number")),
        }
    }

    /// Error for a field.
    fn bad(&self, line: usize, column: usize, field: &str, what: &str) -> AveragesError {
        let shown: String = field.chars().take(40).collect();
        let name = self.header.get(column).map_or("", String::as_str);
        AveragesError::at(line, column + 1, format!("{shown:?} under {name:?} {what}"))
    }
}

/// Whether every group after a mark has three digits.
fn is_grouped(field: &str) -> bool {
    field.split(['.', ',']).skip(1).all(|group| group.len() == 3)
}

fn is_missing(field: &str) -> bool {
    let field = field.trim().to_ascii_lowercase();
    matches!(field.as_str(), "" | "-" | "–" | "n/a" | "na" | "null" | "none" | "(not set)")
}

/// Whether the date field of a line after the days marks a total.
fn is_total(field: &str) -> bool {
    let field = field.trim().to_ascii_lowercase();
    let known = ["total", "sum", "average", "avg", "mean", "grand total", "all"];
    field.is_empty() || known.iter().any(|word| field.starts_with(word))
}
