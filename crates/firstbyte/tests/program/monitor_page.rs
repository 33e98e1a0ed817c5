//! The page of `firstbyte monitor` in a browser: viewed, clicked through, operated by keyboard, narrow and dark.

use std::path::Path;
use std::time::Duration;

use firstbyte_clock::Realtime;
use serde_json::{Value, json};

use crate::monitor_server::Monitor;
use crate::support::browser::Tab;
use crate::support::echo::{Echo, response};
use crate::support::files::Directory;
use crate::support::monitor_history::Past;
use crate::support::run::firstbyte;

const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'&";

fn now() -> i64 {
    (Realtime::now().unix_nanos() / 1_000_000_000) as i64
}

/// The rows of `monitor export` as objects.
fn exported(directory: &Path, target: &str, step: &str, from: i64, until: i64) -> Vec<Value> {
    let asked = [
        "monitor", "export", "--store", "store", "--target", target, "--step", step, "--format",
        "ndjson",
    ];
    let [from, until] = [from, until].map(|at| at.to_string());
    let asked: Vec<&str> = asked.into_iter().chain(["--since", &from, "--until", &until]).collect();
    let outcome = firstbyte(directory, &asked);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn people_look_at_it() {
    let directory = Directory::new();
    let many = std::env::var_os("FIRSTBYTE_GALLERY").is_some();
    let more = if many { 40 } else { 2 };
    let mut targets = vec!["shop.example.com".to_owned(), HOSTILE.to_owned()];
    targets.extend((0..more).map(|n| format!("www{n:02}.example.net")));
    let until = now() - 120;
    let (days, every) = if many { (6, 5) } else { (4, 20) };
    let past = Past { targets, until, days, every };
    past.write(&directory.path().join("store"));
    past.write_outage(&directory.path().join("store"));
    let server = Echo::start(|_| response("200 OK", "", b"ok"));
    directory.write(
        "monitor.toml",
        format!(
            "[defaults]\nevery = \"1s\"\n[[target]]\nname = \"live\"\nurl = \"http://127.0.0.1:{}/\"\nvary = [\"family=4\"]\n\
             tags = {{ service = \"<b>live\" }}\n",
            server.peer.port()
        ),
    );
    let monitor = Monitor::start(directory.path());
    monitor.until_ready();
    let mut tab = Tab::open();
    let site = monitor.address();

    // Changes come first, and every target has a row.
    tab.look(1_300, false);
    tab.go(&format!("{site}/?period=7d"));
    tab.until("document.querySelector('.events .event-chart .change')");
    let sentence = tab.text(".event .sentence");
    assert!(sentence.contains("39.0") && sentence.contains("20.0 ms"), "{sentence}");
    // An outage is shown as a band with its failure.
    tab.until("document.querySelector('.event.outage .event-chart .outage')");
    let chips = tab.text(".event.outage .chips");
    for part in ["ended", "tcp.refused", "lasted 10 min", "family 4", "1 of 1 series"] {
        assert!(chips.contains(part), "{part}: {chips}");
    }
    assert!(tab.text(".event .chips").contains("TLS TLSv1.2 → TLSv1.3"));
    tab.picture("overview-light");
    let hostile = tab.value(&format!(
        "[...document.querySelectorAll('.target')].filter((e) => e.textContent === {}).length",
        json!(HOSTILE)
    ));
    assert_eq!(
        (hostile, tab.value("document.querySelectorAll('main img, main b.live').length")),
        (json!(2), json!(0))
    );

    // By keyboard: to the filter, a word, a row, its view.
    tab.key("/");
    tab.until("document.activeElement.id === 'filter'");
    tab.type_text("shop.example ipv6");
    tab.until("document.querySelectorAll('.targets tbody tr').length === 1");
    assert_eq!(
        tab.value("new URLSearchParams(location.search).get('filter')"),
        json!("shop.example ipv6")
    );
    let row = tab.value("({ ...document.querySelector('.targets tbody tr').dataset })");
    tab.value("document.querySelector('.row-link').focus()");
    tab.key("Enter");
    tab.until("location.pathname === '/target' && document.querySelector('#chart')");
    tab.until("document.title.startsWith('shop.example.com')");
    assert!(tab.text("h1").contains("IPv6"));
    assert_eq!(tab.value("document.querySelectorAll('#chart .pin').length"), json!(1));
    assert_eq!(
        tab.value("document.querySelectorAll('[data-fact=\"tls.version\"] .value').length"),
        json!(2)
    );
    assert_eq!(tab.value("document.querySelectorAll('#chart .outage').length"), json!(0));
    tab.picture("target-light");
    // The band is also shown if the outage began before the period.
    let down = past.down_at();
    tab.go(&format!(
        "{site}/target?target=shop.example.com&variant=family%3D4&from={}&until={}",
        down + 300,
        down + 7_200
    ));
    tab.until("document.querySelector('#chart .outage')");
    assert_eq!(tab.value("document.querySelectorAll('.event.outage').length"), json!(1));
    check_a_day(&mut tab, directory.path(), &past);
    check_overview_row(&row, directory.path(), &past);
    assert_eq!(tab.value("document.querySelectorAll('.problem').length"), json!(0));

    // In the chart: one step with the arrow keys, finer steps with Enter, back with the browser's key.
    tab.go(&format!(
        "{site}/target?target=shop.example.com&variant=family%3D6&from={}&until={}&step=day",
        until - 3 * 86_400,
        until
    ));
    tab.until("document.querySelector('#chart')");
    tab.value("document.querySelector('#chart').focus()");
    tab.key("Home");
    tab.key("ArrowRight");
    assert!(tab.text(".readout").contains("(UTC)"), "{}", tab.text(".readout"));
    tab.key("Enter");
    tab.until(
        "document.querySelector('.charts .note:last-child').textContent.startsWith('By hour')",
    );
    let span = tab.value("new URLSearchParams(location.search).get('until') - new URLSearchParams(location.search).get('from')");
    assert_eq!(span, json!(86_400));
    tab.back();
    tab.until(
        "document.querySelector('.charts .note:last-child').textContent.startsWith('By day')",
    );
    // By dragging.
    let box_ = tab.value("(() => { const b = document.querySelector('#chart').getBoundingClientRect(); return [b.x, b.y, b.width]; })()");
    let [x, y, width] = [0, 1, 2].map(|i| box_[i].as_f64().unwrap());
    tab.mouse("mousePressed", [x + width * 0.4, y + 100.0]);
    tab.mouse("mouseMoved", [x + width * 0.5, y + 100.0]);
    tab.mouse("mouseMoved", [x + width * 0.6, y + 100.0]);
    tab.mouse("mouseReleased", [x + width * 0.6, y + 100.0]);
    tab.until("!new URLSearchParams(location.search).get('step')");

    // If nothing changed in the period, the page says so and names the period.
    tab.go(&format!("{site}/?from={}&until={}", until - 20 * 3_600, until));
    tab.until("document.querySelector('.nothing')");
    assert!(tab.text(".nothing").starts_with("Nothing changed: "), "{}", tab.text(".nothing"));

    check_samples(&mut tab, &monitor, &site);
    check_narrow_and_dark(&mut tab, &site);
    assert_eq!(tab.complaints(), Vec::<String>::new());
    drop(tab);
    let (code, _, said) = monitor.stop();
    assert_eq!(code, Some(0), "{said}");
}

/// A day's figures equal those of `monitor export`.
fn check_a_day(tab: &mut Tab, directory: &Path, past: &Past) {
    let day = past.until / 86_400 * 86_400 - 86_400;
    let address = format!(
        "/target?target=shop.example.com&variant=family%3D6&from={day}&until={}&step=day",
        day + 86_400
    );
    let site = tab.value("location.origin");
    tab.go(&format!("{}{address}", site.as_str().unwrap()));
    tab.until("document.querySelector('#sum-median')?.dataset.value && location.search.includes('step=day')");
    let rows = exported(directory, "shop.example.com", "day", day, day + 86_400);
    let row = |metric: &str| {
        let is_it = |row: &&Value| row["variant"] == "family=6" && row["metric"] == metric;
        rows.iter().find(is_it).unwrap_or_else(|| panic!("{metric}: {rows:?}")).clone()
    };
    let shown = |tab: &mut Tab, id: &str| -> f64 {
        let value = tab.value(&format!("document.querySelector('#sum-{id}').dataset.value"));
        value.as_str().unwrap().parse().unwrap()
    };
    let total = row("total");
    for (id, column) in
        [("median", "median_ns"), ("p90", "p90_ns"), ("p95", "p95_ns"), ("p99", "p99_ns")]
    {
        let exported = total[column].as_f64().unwrap_or_else(|| panic!("{total}"));
        assert_eq!(shown(tab, id), exported, "{id}");
        let text = format!("{:.1} ms", exported / 1e6);
        assert_eq!(tab.text(&format!("#sum-{id}")), text);
    }
    assert_eq!(shown(tab, "samples"), total["samples"].as_f64().unwrap());
    assert_eq!(shown(tab, "server"), row("part.server")["median_ns"].as_f64().unwrap());
    assert_eq!(shown(tab, "rtt"), row("rtt")["median_ns"].as_f64().unwrap());
}

/// An overview row has as many samples as `monitor export` in the period, and a median within the range of its hours.
fn check_overview_row(row: &Value, directory: &Path, past: &Past) {
    let until = past.until + 3_600;
    let hours = exported(directory, "shop.example.com", "hour", until - 7 * 86_400, until);
    let is_it = |hour: &&Value| hour["variant"] == "family=6" && hour["metric"] == "total";
    let hours: Vec<&Value> = hours.iter().filter(is_it).collect();
    let shown = |name: &str| row[name].as_str().unwrap().parse::<u64>().unwrap();
    let all =
        |name: &str| hours.iter().map(|hour| hour[name].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(shown("samples"), all("samples").iter().sum::<u64>());
    assert_eq!(shown("failures"), all("failures").iter().sum::<u64>());
    let medians = all("median_ns");
    let range = *medians.iter().min().unwrap()..=*medians.iter().max().unwrap();
    assert!(range.contains(&shown("medianNs")), "{row} {range:?}");
}

/// Goes from a minute to its samples, to one sample with its pictures, and back; then compares two periods.
fn check_samples(tab: &mut Tab, monitor: &Monitor, site: &str) {
    let minute = monitor.until("/api/v1/series?target=live&metric=total&step=minute", |answer| {
        let points = answer.json()["points"].as_array().cloned().unwrap_or_default();
        points.last().and_then(|point| point["at"].as_i64())
    });
    tab.go(&format!(
        "{site}/target?target=live&variant=family%3D4&from={}&until={}",
        minute - 1_800,
        minute + 60
    ));
    tab.until("document.querySelector('#chart')");
    tab.value("document.querySelector('#chart').focus()");
    tab.key("Home");
    tab.key("Enter");
    tab.until("document.querySelector('.samples tbody tr a')");
    assert_eq!(
        tab.value("document.querySelectorAll('main b:not([class]) script, main b.live').length"),
        json!(0)
    );
    tab.picture("samples-light");
    tab.click(".samples tbody tr a");
    tab.until("location.pathname === '/sample' && document.querySelector('pre.sample')");
    assert!(tab.text("h1").starts_with("live, IPv4"), "{}", tab.text("h1"));
    assert!(tab.value("document.querySelectorAll('figure svg').length").as_u64().unwrap() >= 1);
    tab.picture("sample-light");
    tab.back();
    tab.until("document.querySelector('.samples tbody tr a')");
    let half = now() - 1;
    tab.go(&format!("{site}/compare?target=live&variant=family%3D4&base_from={}&base_until={half}&from={half}&until={}", half - 3_600, half + 3_600));
    tab.until("document.querySelector('.problem, h1')");
    let gone = format!(
        "{site}/compare?target=live&variant=family%3D4&base_from=1000&base_until=2000&from=3000&until=4000"
    );
    let answer = monitor.get(gone.trim_start_matches(site));
    assert_eq!(answer.status, 404, "{answer:?}");
    assert!(answer.body.contains("were deleted"), "{answer:?}");
    // The periods are compared as in `compare`, once each has a sample.
    let address = format!(
        "/compare?target=live&variant=family%3D4&base_from={}&base_until={half}&from={half}&until={}",
        half - 3_600,
        half + 3_600
    );
    monitor.until(&address, |answer| (answer.status == 200).then_some(()));
    tab.go(&format!("{site}{address}"));
    tab.until("document.querySelector('#tables')");
    assert!(tab.text("h1").contains("live, IPv4: two periods"), "{}", tab.text("h1"));
    tab.picture("compare-light");
}

fn check_narrow_and_dark(tab: &mut Tab, site: &str) {
    for (name, width, is_dark) in
        [("dark", 1_300, true), ("narrow", 420, false), ("narrow-dark", 420, true)]
    {
        tab.look(width, is_dark);
        tab.go(&format!("{site}/?period=7d"));
        tab.until("document.querySelector('.events .event-chart .change')");
        check_fits(tab, name);
        tab.picture(&format!("overview-{name}"));
        tab.go(&format!("{site}/target?target=shop.example.com&variant=family%3D6&period=7d"));
        tab.until("document.querySelector('#chart')");
        check_fits(tab, name);
        let page = tab.value("getComputedStyle(document.body).backgroundColor");
        assert_eq!(page == json!("rgb(13, 17, 23)"), is_dark, "{page}");
        tab.picture(&format!("target-{name}"));
    }
}

/// Asserts that nothing overflows the window.
fn check_fits(tab: &mut Tab, name: &str) {
    let wide =
        tab.value("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert_eq!(wide, json!(0), "{name}");
}

/// A user without a token is asked for it once, and then has a cookie.
#[test]
fn who_signs_in_has_a_cookie_that_reads() {
    let directory = Directory::new();
    let server = Echo::start(|_| response("200 OK", "", b"ok"));
    directory.write("token", "0123456789abcdef0123456789abcdef\n");
    directory.write(
        "monitor.toml",
        format!(
            "token_file = \"token\"\n[[target]]\nname = \"live\"\nurl = \"http://127.0.0.1:{}/\"\n",
            server.peer.port()
        ),
    );
    let monitor = Monitor::start(directory.path());
    let asked = monitor.get("/target?target=%3Cscript%3E");
    assert_eq!(asked.status, 401, "{asked:?}");
    assert!(
        asked.body.contains("name=\"next\" value=\"/target?target=%3Cscript%3E\""),
        "{asked:?}"
    );
    assert!(asked.has("content-security-policy: default-src 'none'"), "{asked:?}");
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let own = format!("{form}Sec-Fetch-Site: same-origin\r\n");
    let right = "token=0123456789abcdef0123456789abcdef&next=%2Ftarget%3Ftarget%3Dlive";
    assert_eq!(monitor.ask("POST", "/sign-in", &own, "token=wrong").status, 403);
    assert_eq!(monitor.ask("POST", "/sign-in", form, right).status, 403);
    let signed = monitor.ask("POST", "/sign-in", &own, right);
    assert_eq!(signed.status, 303, "{signed:?}");
    assert!(signed.has("location: /target?target=live"), "{signed:?}");
    let cookie = signed.field("set-cookie").unwrap();
    assert!(cookie.contains("httponly") && cookie.contains("samesite=strict"), "{cookie}");
    assert!(!cookie.contains("0123456789abcdef0123456789abcdef"), "{cookie}");
    let brought = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    assert_eq!(monitor.get("/api/v1/targets").status, 401);
    assert_eq!(monitor.ask("GET", "/api/v1/targets", &brought, "").status, 200);
    assert_eq!(monitor.ask("GET", "/", &brought, "").status, 200);
    // Requests that change something must also come from the monitor's own page.
    let json = format!("{brought}Content-Type: application/json\r\n");
    let note = r#"{"text": "deploy"}"#;
    assert_eq!(monitor.ask("POST", "/api/v1/annotations", &json, note).status, 403);
    monitor.until_ready();
    let own = format!("{json}Sec-Fetch-Site: same-origin\r\n");
    assert_eq!(monitor.ask("POST", "/api/v1/annotations", &own, note).status, 201);
    let (_, took, _) = monitor.stop();
    assert!(took < Duration::from_secs(30), "{took:?}");
}
