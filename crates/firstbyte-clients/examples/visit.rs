//! One visit by a browser, as text: `cargo run -p firstbyte-clients --example visit -- URL [OPTION]...`
//!
//! Options: --firefox (otherwise Chromium), --cacert FILE, --pin HOST=ADDRESS, --http1.1, --http2, --http3, --tls1.2,
//! --tls1.3, --kept, --resumed, --early-data, --count N, --chunks (only the connection's local port, its marks, and
//! every run of bytes, for comparison with a capture: direction, time in nanoseconds since the Unix epoch, bytes).
#![allow(clippy::print_stdout, reason = "what an example is for")]

use std::error::Error;
use std::time::Duration;

use firstbyte_clients::browser::{
    BrowserHttp, BrowserOptions, BrowserSession, BrowserTls, HostPin,
};
use firstbyte_clients::chromium::{Chromium, ChromiumVisit};
use firstbyte_clients::firefox::{Firefox, FirefoxVisit};
use firstbyte_core::timeline::{Connection, Direction, Navigation, PanelTime};

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = BrowserOptions::default();
    let mut url = None;
    let (mut count, mut chunks, mut firefox) = (1, false, false);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match &*word {
            "--firefox" => firefox = true,
            "--cacert" => {
                let file = words.next().ok_or("--cacert FILE")?;
                options.trusted_pem.push(std::fs::read_to_string(file)?);
            }
            "--pin" => {
                let pin = words.next().ok_or("--pin HOST=ADDRESS")?;
                let (host, address) = pin.split_once('=').ok_or("--pin HOST=ADDRESS")?;
                let (host, address) = (host.to_owned(), address.parse()?);
                options.pins.push(HostPin { host, address });
            }
            "--http1.1" => options.http = BrowserHttp::Http1,
            "--http2" => options.http = BrowserHttp::Http2,
            "--http3" => options.http = BrowserHttp::Http3,
            "--tls1.2" => options.tls = BrowserTls::Tls12,
            "--tls1.3" => options.tls = BrowserTls::Tls13,
            "--kept" => options.session = BrowserSession::Kept,
            "--resumed" => options.session = BrowserSession::Resumed,
            "--early-data" => options.session = BrowserSession::EarlyData,
            "--count" => count = words.next().ok_or("--count N")?.parse()?,
            "--chunks" => chunks = true,
            _ => url = Some(word),
        }
    }
    let url = url.ok_or("which URL?")?;
    let (mut chromium, mut other) = (Chromium::new(options.clone()), Firefox::new(options));
    for _ in 0..count {
        if firefox {
            let visit = other.visit(&url)?;
            show(&visit.page, chunks);
            show_bidi(&visit);
        } else {
            let visit = chromium.visit(&url)?;
            show(&visit.page, chunks);
            if !chunks {
                show_panel(&visit);
            }
        }
    }
    Ok(())
}

fn show_chunks(connection: &Connection) {
    let Some(origin) = connection.started_unix_ns else { return };
    let port = connection.facts.local.map_or(0, |local| local.port());
    println!("connection {port}");
    let unix = |ns: i64| i128::from(origin) + i128::from(ns);
    for (mark, stamp) in connection.marks.iter() {
        println!("mark {} {}", mark.name(), unix(stamp.at.as_nanos()));
    }
    for flight in &connection.flights {
        for chunk in &flight.chunks {
            let direction = if flight.direction == Direction::Sent { "sent" } else { "received" };
            println!("{direction} {} {}", unix(chunk.stamp.at.as_nanos()), chunk.bytes);
        }
    }
}

fn show(page: &Navigation, chunks: bool) {
    let connection = &page.main.connection;
    if chunks {
        return show_chunks(connection);
    }
    let facts = &connection.facts;
    let http = facts.http.as_ref();
    println!("{}", connection.url);
    if let Some(client) = &facts.client {
        println!("client    {} {}", client.name, client.version.as_deref().unwrap_or_default());
    }
    let version = http.and_then(|http| http.version.as_deref()).unwrap_or("unknown");
    let status = http.and_then(|http| http.status);
    println!("http      {version}, status {}", status.map_or("none".to_owned(), |s| s.to_string()));
    if let Some(tls) = &facts.tls {
        let handshake = tls.handshake.map_or("unknown", |handshake| handshake.name());
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        println!("tls       {} {handshake} {}", text(&tls.version), text(&tls.group));
        if let Some(early) = tls.early_data {
            let bytes = early.bytes_before_server_hello;
            let bytes = bytes.map_or_else(|| "some".to_owned(), |bytes| bytes.to_string());
            println!("early     {bytes} bytes, accepted: {:?}", early.accepted);
        }
    }
    println!("reused    {}", facts.reused);
    for (mark, stamp) in connection.marks.iter() {
        println!("  {:24} {:9.3} ms", mark.name(), stamp.at.as_nanos() as f64 / 1e6);
    }
    for flight in &connection.flights {
        let arrow = if flight.direction == Direction::Sent { "→" } else { "←" };
        let (at, bytes) = (flight.first().as_nanos() as f64 / 1e6, flight.bytes());
        println!("  {arrow} {at:9.3} ms {bytes:6} bytes  {}", flight.messages.join(", "));
    }
    if let Some(failure) = &connection.failure {
        println!("failure   {failure}");
    }
    for resource in &page.resources {
        println!("resource  {} over {:?}", resource.url, resource.connection);
    }
}

fn show_panel(visit: &ChromiumVisit) {
    println!("panel");
    for PanelTime { label, took } in &visit.sample().connection.facts.panel {
        println!("  {label:28} {:>9.3} ms", took.as_secs_f64() * 1e3);
    }
}

fn show_bidi(visit: &FirefoxVisit) {
    if let Some(early) = visit.early_data {
        println!("early     {early:?}");
    }
    if let Some(bidi) = visit.bidi {
        println!("WebDriver BiDi");
        let shown = [
            ("dnsStart - dnsEnd", bidi.dns),
            ("connectStart - connectEnd", bidi.connect),
            ("tlsStart - tlsEnd", bidi.tls),
            ("requestStart - responseStart", bidi.waiting),
            ("responseStart - responseEnd", bidi.receiving),
            ("requestTime - responseEnd", bidi.total),
        ];
        let text = |t: Duration| format!("{:.3} ms", t.as_secs_f64() * 1e3);
        for (name, took) in shown {
            println!("  {name:30} {:>12}", took.map_or("-".to_owned(), text));
        }
    }
    for origin in &visit.beside {
        println!("also      {origin}");
    }
}
