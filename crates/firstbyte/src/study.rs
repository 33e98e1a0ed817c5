//! Compares a dataset and prepares it for views, with the median sample of every cell.
//!
//! In: a [`Dataset`]. Out: a [`Study`], which borrows from it.

use std::collections::BTreeMap;

use firstbyte_core::compare::{
    self, Axis, CellSummary, Comparison, Design, PairEffects, PercentileEffects, Settings, Table,
    describe_answers, find_difference,
};
use firstbyte_core::document::run::{EnvironmentRecord, RunHeader};
use firstbyte_core::run::{Metric, Standing};
use firstbyte_core::split::{AttributedConnection, ServerFits};
use firstbyte_core::timeline::Connection;

use crate::parallel::side_by_side;
use crate::runs::{Dataset, RunError};
use firstbyte_core::shown_url::{shown_url, shown_urls_within};
use firstbyte_report::study::{
    Examined, FailureView, PanelTimes, PanelView, ProcessorTimes, ProcessorView, Study,
};
use firstbyte_report::{dates, shell};

/// All parts of a study.
pub(crate) struct Material {
    title: String,
    date: String,
    command: String,
    environment: Vec<(String, String)>,
    medians: Vec<Option<AttributedConnection>>,
    failures: Vec<FailureView>,
    examined: Option<Examined>,
    panels: Vec<PanelView>,
    processors: Vec<ProcessorView>,
    percentiles: Vec<PercentileEffects>,
    axes: Vec<Axis>,
    comparison: Comparison,
    unlike_answers: Vec<String>,
}

/// How to compare samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ComparisonChoices<'a> {
    /// Axis to compare by.
    pub(crate) by: Option<&'a str>,
    /// Also compares percentile by percentile.
    pub(crate) with_percentiles: bool,
    /// Gives verdicts on times even if the responses differ.
    pub(crate) compare_unlike: bool,
}

impl Material {
    /// Compares the samples of `data`.
    ///
    /// # Errors
    /// If one of its samples cannot be read.
    pub(crate) fn from_dataset(
        data: &Dataset,
        choices: ComparisonChoices<'_>,
        examined: Option<Examined>,
    ) -> Result<Self, RunError> {
        let mut axes: Vec<Axis> = data
            .axes
            .iter()
            .map(|axis| Axis { name: axis.name.clone(), values: axis.values.clone() })
            .collect();
        compare::put_in_order(&mut axes, choices.by);
        let headers: Vec<&RunHeader> = data.headers().map(|(_, header)| header).collect();
        let settings = Settings {
            seed: headers.first().map_or(Settings::default().seed, |header| header.design.seed),
            compare_unlike: choices.compare_unlike,
            ..Settings::default()
        };
        let table = Table::from_rows(data.cells.len(), &data.rows);
        let dates = headers.iter().filter_map(|header| dates::minute(header.created_unix_ns));
        let commands = headers.iter().map(|header| shell::line(&header.command));
        let commands: Vec<String> = commands.filter(|command| !command.is_empty()).collect();
        let medians = medians(data)?;
        Ok(Self {
            title: title(data, &axes),
            date: dates.min().unwrap_or_default(),
            command: commands.join("; "),
            environment: headers.first().map(|h| environment(h)).unwrap_or_default(),
            panels: panels(data, &medians)?,
            processors: processors(data, &medians)?,
            medians,
            failures: failures(data)?,
            examined,
            percentiles: match choices.with_percentiles {
                true => percentiles(data, &table, &axes, &settings),
                false => Vec::new(),
            },
            comparison: compared(data, &table, &axes, &settings),
            unlike_answers: unlike_answers(data, &table),
            axes,
        })
    }

    /// The responses of each variant with its name, if they are not all alike.
    pub(crate) fn unlike_answers(&self) -> &[String] {
        &self.unlike_answers
    }

    /// Passes the study to `view`.
    pub(crate) fn show<T>(&self, data: &Dataset, view: impl FnOnce(&Study<'_>) -> T) -> T {
        let study = Study {
            title: &self.title,
            date: &self.date,
            command: &self.command,
            environment: &self.environment,
            cells: &data.cells,
            rows: &data.rows,
            medians: &self.medians,
            failures: self.failures.clone(),
            examined: self.examined.as_ref(),
            panels: &self.panels,
            processors: &self.processors,
            percentiles: &self.percentiles,
            ..Study::default()
        };
        view(&study.with_comparison(&self.comparison, &self.axes))
    }
}

/// Figures of browsers' network panels, if the median samples have any.
fn panels(
    data: &Dataset,
    medians: &[Option<AttributedConnection>],
) -> Result<Vec<PanelView>, RunError> {
    if medians.iter().flatten().all(|median| median.connection.facts.panel.is_empty()) {
        return Ok(Vec::new());
    }
    let mut times = vec![PanelTimes::default(); data.cells.len()];
    for taken in data.each_taken() {
        let taken = taken?;
        let whole = !taken.sample.warmup && taken.sample.failure().is_none();
        if let Some(times) = times.get_mut(usize::from(taken.cell)).filter(|_| whole) {
            times.take(&taken.sample.connection.facts.panel);
        }
    }
    let ways = data.cells.iter().zip(times);
    Ok(ways.filter_map(|(cell, times)| times.view(cell.name())).collect())
}

/// Processor time of visits, from samples spread over the run; enough of each way for a median.
fn processors(
    data: &Dataset,
    medians: &[Option<AttributedConnection>],
) -> Result<Vec<ProcessorView>, RunError> {
    const OF_EACH: usize = 1_000;
    if medians.iter().flatten().all(|median| median.connection.facts.processor.is_none()) {
        return Ok(Vec::new());
    }
    let mut views = Vec::new();
    for (number, cell) in data.cells.iter().enumerate() {
        let rows = data.rows.iter().enumerate();
        let of_way = rows.filter(|(_, row)| row.counts() && usize::from(row.cell) == number);
        let of_way: Vec<usize> = of_way.map(|(index, _)| index).collect();
        let mut times = ProcessorTimes::default();
        for index in of_way.iter().step_by(of_way.len().div_ceil(OF_EACH).max(1)) {
            let taken = data.taken(*index)?;
            times.take(taken.sample.connection.facts.processor);
        }
        views.extend(times.view(cell.name()));
    }
    Ok(views)
}

/// Like [`compare::compare`], on all processors.
fn compared(data: &Dataset, table: &Table, axes: &[Axis], settings: &Settings) -> Comparison {
    let cells = data.cells.len();
    let design = Design::new(&data.cells, axes);
    let pairs =
        side_by_side(design.pairs.len(), |n| compare::effects(table, design.pairs[n], settings));
    let pairs: Vec<PairEffects> = pairs;
    let summaries: Vec<CellSummary> = side_by_side(cells, |n| compare::summarise(table, n));
    compare::conclude(summaries, pairs, design.base_missing, settings)
}

/// Compares the ways percentile by percentile, on all processors.
fn percentiles(
    data: &Dataset,
    table: &Table,
    axes: &[Axis],
    settings: &Settings,
) -> Vec<PercentileEffects> {
    let pairs = Design::new(&data.cells, axes).pairs;
    let of_pair = |n: usize| compare::percentile_effects(table, pairs[n], settings);
    side_by_side(pairs.len(), of_pair).concat()
}

/// The responses of each cell with its name, if they are not all alike.
fn unlike_answers(data: &Dataset, table: &Table) -> Vec<String> {
    let cells = 0..data.cells.len();
    if find_difference(cells.clone().filter_map(|cell| table.answers(cell))).is_none() {
        return Vec::new();
    }
    let described = |cell: usize| {
        let answers = describe_answers(table.answers(cell)?);
        Some(format!("{}: {answers}", shown_urls_within(&data.cells[cell].name())))
    };
    cells.filter_map(described).collect()
}

/// For each cell, the sample with the median total among those that count.
///
/// Its time is attributed with what connections to the same address show about the server.
fn medians(data: &Dataset) -> Result<Vec<Option<AttributedConnection>>, RunError> {
    let mut by_cell: Vec<Vec<(u64, usize)>> = vec![Vec::new(); data.cells.len()];
    for (index, row) in data.rows.iter().enumerate().filter(|(_, row)| row.counts()) {
        let total = row.metric(Metric::Total);
        if let (Some(total), Some(cell)) = (total, by_cell.get_mut(usize::from(row.cell))) {
            cell.push((total, index));
        }
    }
    let read = |index: usize| data.taken(index).map(|taken| taken.sample.connection);
    let (mut fitted, mut middles) = (Vec::new(), Vec::with_capacity(by_cell.len()));
    for mut totals in by_cell {
        let step = totals.len().div_ceil(FITTED).max(1);
        for (_, index) in totals.iter().step_by(step) {
            fitted.push(read(*index)?);
        }
        let middle = totals.len().checked_sub(1).map(|last| last / 2);
        let index = middle.map(|middle| totals.select_nth_unstable(middle).1.1);
        middles.push(index.map(read).transpose()?);
    }
    let fits = ServerFits::from_connections(&fitted, None);
    let attribute = |connection: Connection| fits.attribute(connection);
    Ok(middles.into_iter().map(|middle| middle.map(attribute)).collect())
}

/// Maximum number of connections of each cell that the server model is fitted to.
const FITTED: usize = 12;

/// Reasons of failed samples for each cell, the most frequent first.
fn failures(data: &Dataset) -> Result<Vec<FailureView>, RunError> {
    const AT_ONCE: usize = 1_000;
    let failed = data.rows.iter().enumerate();
    let failed = failed.filter(|(_, row)| !row.warmup && row.standing == Standing::Failed);
    let failed: Vec<usize> = failed.map(|(index, _)| index).collect();
    let blocks: Vec<&[usize]> = failed.chunks(AT_ONCE).collect();
    let counted = side_by_side(blocks.len(), |n| {
        let mut causes: BTreeMap<(u16, String), u64> = BTreeMap::new();
        for index in blocks[n] {
            if let Some(cause) = data.failure(*index)? {
                *causes.entry((data.rows[*index].cell, cause)).or_default() += 1;
            }
        }
        Ok(causes)
    });
    let mut causes: BTreeMap<(u16, String), u64> = BTreeMap::new();
    for block in counted {
        for (cause, count) in block? {
            *causes.entry(cause).or_default() += count;
        }
    }
    let mut views: Vec<FailureView> = causes
        .into_iter()
        .map(|((cell, cause), count)| FailureView { cell: usize::from(cell), cause, count })
        .collect();
    views.sort_by_key(|view| (view.cell, std::cmp::Reverse(view.count)));
    Ok(views)
}

/// "TLS 1.2 and TLS 1.3: https://example.com/"
fn title(data: &Dataset, axes: &[Axis]) -> String {
    const NAMED: usize = 6;
    let first = axes.iter().find(|axis| axis.values.len() > 1).or(axes.first());
    let mut labels: Vec<&str> = Vec::new();
    for factor in data.cells.iter().flat_map(|cell| &cell.factors) {
        if first.is_some_and(|axis| axis.name == factor.axis)
            && !labels.contains(&factor.label.as_str())
        {
            labels.push(&factor.label);
        }
    }
    let compared = match labels.split_last() {
        None => "Comparison".to_owned(),
        Some((last, [])) => (*last).to_owned(),
        Some(_) if labels.len() > NAMED => format!("{} ways to connect", labels.len()),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    };
    let url = data.cells.first().map_or("", |cell| cell.url.as_str());
    if url.is_empty() || data.cells.iter().any(|cell| cell.url != url) {
        return compared;
    }
    format!("{compared}: {}", shown_url(url))
}

/// The environment as names and values.
fn environment(header: &RunHeader) -> Vec<(String, String)> {
    let e: &EnvironmentRecord = &header.environment;
    let joined = |parts: &[Option<String>]| {
        let parts: Vec<&str> = parts.iter().flatten().map(String::as_str).collect();
        Some(parts.join(", ")).filter(|text| !text.is_empty())
    };
    let named = |name: &str, value: &Option<String>| value.as_ref().map(|v| format!("{name} {v}"));
    let interfaces = e.interfaces.iter().map(|interface| {
        let mtu = interface.mtu_bytes.map(|mtu| format!(" (MTU {mtu})")).unwrap_or_default();
        format!("{}{mtu}", interface.name)
    });
    let load = e.load_average.map(|[one, five, fifteen]| format!("{one} {five} {fifteen}"));
    let design = &header.design;
    let pairs = [
        ("firstbyte", e.firstbyte_version.clone()),
        (
            "libraries",
            joined(&[
                named("rustls", &e.rustls_version),
                named("hyper", &e.hyper_version),
                named("quinn", &e.quinn_version),
            ]),
        ),
        ("system", joined(&[e.os.clone(), named("Linux", &e.kernel), e.architecture.clone()])),
        (
            "processors",
            joined(&[
                e.cpus.map(|n| n.to_string()),
                e.cpu_model.clone(),
                named("governor", &e.cpu_governor),
            ]),
        ),
        ("memory", e.memory_bytes.map(|bytes| format!("{:.1} GB", bytes as f64 / 1e9))),
        ("load", load),
        ("virtual machine", e.virtualisation.clone().filter(|name| name != "none")),
        ("container", e.container.clone()),
        ("clock", e.clock_source.clone()),
        ("packet stamps", e.packet_stamps.map(|are| if are { "kernel" } else { "none" }.into())),
        ("default congestion control", e.congestion_control.clone()),
        ("interfaces", joined(&[Some(interfaces.collect::<Vec<_>>().join(", "))])),
        ("seed", Some(design.seed.to_string())),
    ];
    pairs
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .filter(|(_, value)| !value.is_empty())
        .collect()
}
