//! `firstbyte page`: measures a page load in a browser.

use std::time::Duration;

use firstbyte_clients::browser::{BrowserProber, RunningBrowser};
use firstbyte_clients::chromium::RunningChromium;
use firstbyte_clients::firefox::RunningFirefox;
use firstbyte_core::timeline::Navigation;
use firstbyte_pages::document::page_line;
use firstbyte_pages::page_load::shown_page;
use firstbyte_pages::page_savings::{EDGE, PageSavings};
use firstbyte_probe::probe::Prober;
use firstbyte_probe::probe::options::{Client, Options};
use firstbyte_report::chart;
use firstbyte_report::dates;
use firstbyte_report::har::page_archive;
use firstbyte_report::page_load::{PageDocument, page_html, page_load};
use firstbyte_report::page_savings::page_savings;

use crate::cli::commands::probe::setup_problem;
use crate::cli::exit::{self, Problem};
use crate::cli::exports::{print, whole};
use crate::cli::files::Files;
use crate::cli::measuring::Measuring;
use crate::cli::plan::target;
use crate::cli::render;
use crate::cli::signals::{self, asked_to_end};
use crate::cli::terminal::{self, note};
use crate::plans::PagePlan;

/// How long an interrupted visit may take to end.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub(in crate::cli) fn run(plan: &PagePlan) -> Result<u8, Problem> {
    let target = target(plan.url.reveal())?;
    let usage = |why: String| Problem::new(exit::USAGE, why);
    let opened = Files::default().reads(&plan.reads).exports_of_responses(&plan.outputs).open()?;
    let measuring = Measuring::new()?;
    measuring.clients().check(&target, &plan.options).map_err(usage)?;
    let (url, options) = (target.url.as_str(), &plan.options);
    let page = match options.client {
        Client::Chromium => load::<RunningChromium>(&measuring, options, url),
        Client::Firefox => load::<RunningFirefox>(&measuring, options, url),
        other => {
            let message = format!("a page needs a browser, and {} is not a browser", other.name());
            return Err(usage(message).hint("--client chromium, or firefox"));
        }
    }?;
    let savings = plan.savings.then(|| PageSavings::from_navigation(&page, EDGE)).flatten();
    if let Some(to) = &plan.outputs.json {
        let mut line = Vec::new();
        page_line(&shown_page(&page), savings.as_ref(), &mut line)
            .map_err(|error| usage(error.to_string()))?;
        whole(to, &line)?;
    }
    if let Some(to) = &plan.outputs.html {
        let begun = page.main.redirects.first().unwrap_or(&page.main.connection);
        let date = begun.started_unix_ns.and_then(dates::minute).unwrap_or_default();
        let document = PageDocument {
            page: &page,
            savings: savings.as_ref(),
            date: &date,
            command: &plan.command,
        };
        whole(to, page_html(&document).as_bytes())?;
    }
    if let Some(to) = &plan.outputs.har {
        whole(to, &page_archive(&page))?;
    }
    if !plan.outputs.use_stdout() {
        let style = terminal::style(plan.colors);
        let saved = savings.as_ref().map(|savings| page_savings(savings, &style));
        let saved = saved.map(|saved| format!("\n{saved}")).unwrap_or_default();
        print(&format!("{}{saved}", page_load(&page, &style)))?;
    }
    if plan.outputs.draw() {
        render::pictures(&[chart::page_load(&page)], &plan.outputs)?;
    }
    opened.keep();
    Ok(match page.main.failure() {
        Some(failure) => exit::code(&failure.cause),
        None if page.loaded.is_none() => {
            note("the page did not finish loading in time; only the loaded part is shown");
            exit::TIMED_OUT
        }
        None => exit::OK,
    })
}

fn load<R: RunningBrowser>(
    measuring: &Measuring,
    options: &Options,
    url: &str,
) -> Result<Navigation, Problem> {
    let browser = BrowserProber::<R>::asked(options).map_err(setup_problem)?;
    let visit = measuring.wait_for(async {
        let mut visit = std::pin::pin!(browser.visit(url));
        tokio::select! {
            biased;
            visit = &mut visit => Some(visit),
            _ = asked_to_end() => {
                browser.interrupt();
                let _ = tokio::time::timeout(LAST_WORDS, visit).await;
                None
            }
        }
    });
    let visit = visit.ok_or_else(|| {
        Problem::new(signals::exit_code(), "interrupted before the page was loaded")
    })?;
    let visit = visit.map_err(|error| Problem::new(exit::READ, error.to_string()))?;
    Ok(R::page(visit))
}
