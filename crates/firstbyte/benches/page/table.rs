//! Predicted and measured effects of changes.

/// One change of one page, medians.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) seed: u64,
    pub(crate) page: String,
    pub(crate) change: &'static str,
    pub(crate) before_ns: i64,
    pub(crate) predicted_ns: i64,
    pub(crate) measured_ns: i64,
}

fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}

impl Held {
    fn error_ms(&self) -> f64 {
        ms(self.predicted_ns - self.measured_ns)
    }

    /// Whether the error is within 5 ms or 5 %, whichever is larger.
    fn is_good(&self) -> bool {
        self.error_ms().abs() <= (ms(self.measured_ns) * 0.05).max(5.0)
    }

    pub(crate) fn line(&self) -> String {
        format!(
            "{:>3} {:<12} before {:>7.1}, predicted {:>7.1}, measured {:>7.1} ms: {:>+6.1}{}  {}",
            self.seed,
            self.change,
            ms(self.before_ns),
            ms(self.predicted_ns),
            ms(self.measured_ns),
            self.error_ms(),
            if self.is_good() { "" } else { " !" },
            self.page,
        )
    }
}

/// Prints Markdown: a row for each change, then the worst cases.
pub(crate) fn print(held: &[Held], all: bool) {
    let mut changes: Vec<&str> = held.iter().map(|one| one.change).collect();
    changes.sort_unstable();
    changes.dedup();
    println!(
        "| change | pages | saved, ms | error, ms: median | 9 of 10 within | within 5 ms or 5 % |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for change in changes.into_iter().map(Some).chain([None]) {
        let of: Vec<&Held> =
            held.iter().filter(|one| change.is_none_or(|change| one.change == change)).collect();
        let sorted = |value: &dyn Fn(&Held) -> f64| {
            let mut values: Vec<f64> = of.iter().map(|one| value(one)).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let saved = sorted(&|one| ms(one.before_ns - one.measured_ns));
        let errors = sorted(&Held::error_ms);
        let sizes = sorted(&|one| one.error_ms().abs());
        let good = of.iter().filter(|one| one.is_good()).count();
        let at = |values: &[f64], share: f64| {
            let place = (values.len() as f64 * share) as usize;
            values.get(place.min(values.len().saturating_sub(1))).copied().unwrap_or_default()
        };
        println!(
            "| {} | {} | {:.0} | {:+.1} | {:.1} | {good} ({:.0} %) |",
            change.unwrap_or("all"),
            of.len(),
            at(&saved, 0.5),
            at(&errors, 0.5),
            at(&sizes, 0.9),
            good as f64 / of.len().max(1) as f64 * 100.0,
        );
    }
    let mut worst: Vec<&Held> = held.iter().filter(|one| all || !one.is_good()).collect();
    worst.sort_by(|a, b| b.error_ms().abs().total_cmp(&a.error_ms().abs()));
    println!();
    for one in worst {
        println!("{}", one.line());
    }
}
