//! One visit by Firefox, as text: `cargo run -p firstbyte-clients --example visit_firefox -- URL [OPTION]...`
//!
//! Options: --cacert FILE, --pin HOST=ADDRESS, --http1.1, --http2, --http3, --tls1.2, --tls1.3, --kept, --resumed,
//! --early-data, --count N.
#![allow(clippy::print_stdout, reason = "what an example is for")]

use std::error::Error;
use std::time::Duration;

use firstbyte_clients::firefox::{
    Firefox, FirefoxHttp, FirefoxOptions, FirefoxSession, FirefoxTls, FirefoxVisit, HostPin,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = FirefoxOptions::default();
    let (mut url, mut count) = (None, 1);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match &*word {
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
            "--http1.1" => options.http = FirefoxHttp::Http1,
            "--http2" => options.http = FirefoxHttp::Http2,
            "--http3" => options.http = FirefoxHttp::Http3,
            "--tls1.2" => options.tls = FirefoxTls::Tls12,
            "--tls1.3" => options.tls = FirefoxTls::Tls13,
            "--kept" => options.session = FirefoxSession::Kept,
            "--resumed" => options.session = FirefoxSession::Resumed,
            "--early-data" => options.session = FirefoxSession::EarlyData,
            "--count" => count = words.next().ok_or("--count N")?.parse()?,
            _ => url = Some(word),
        }
    }
    let url = url.ok_or("which URL?")?;
    let mut browser = Firefox::new(options);
    for _ in 0..count {
        show(&browser.visit(&url)?);
    }
    Ok(())
}

fn show(visit: &FirefoxVisit) {
    let connection = &visit.sample().connection;
    let facts = &connection.facts;
    if let Some(client) = &facts.client {
        println!("client    {} {}", client.name, client.version.as_deref().unwrap_or_default());
    }
    let http = facts.http.as_ref();
    let version = http.and_then(|http| http.version.as_deref()).unwrap_or("unknown");
    let status = http.and_then(|http| http.status);
    println!("http      {version}, status {}", status.map_or("none".to_owned(), |s| s.to_string()));
    if let Some(tls) = &facts.tls {
        let handshake = tls.handshake.map_or("unknown", |handshake| handshake.name());
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        println!("tls       {} {handshake} {}", text(&tls.version), text(&tls.group));
    }
    if let Some(early) = visit.early_data {
        println!("early     {early:?}");
    }
    println!("reused    {}", facts.reused);
    for (mark, stamp) in connection.marks.iter() {
        println!("  {:24} {:9.3} ms", mark.name(), stamp.at.as_nanos() as f64 / 1e6);
    }
    if let Some(failure) = &connection.failure {
        println!("failure   {failure}");
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
        println!("beside    {origin}");
    }
    for resource in &visit.page.resources {
        println!("resource  {} over {:?}", resource.url, resource.connection);
    }
}
