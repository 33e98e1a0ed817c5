//! One visit by curl, as text: `cargo run -p firstbyte-clients --example curl_visit -- URL [OPTION]...`
//!
//! Options: --program CURL, --cacert FILE, --pin ADDRESS, --http1.1, --http2, --http3, --tls1.2, --tls1.3, --kept,
//! --resumed, --early-data, --location, --count N.
#![allow(clippy::print_stdout, reason = "what an example is for")]

use std::error::Error;

use firstbyte_clients::curl::{CurlCapabilities, CurlOptions, CurlProber};
use firstbyte_core::timeline::Connection;
use firstbyte_probe::probe::options::{
    HttpVersion, Options, ResolveOverride, SessionUse, TlsVersion,
};
use firstbyte_probe::probe::{Prober, Target};

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = Options::default();
    let (mut url, mut program, mut count) = (None, "curl".to_owned(), 1);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} of what?"));
        match &*word {
            "--program" => program = value()?,
            "--cacert" => options.tls.ca_file = Some(value()?.into()),
            "--pin" => {
                let addresses = vec![value()?.parse()?];
                let given = ResolveOverride { host: None, port: None, addresses, zone: None };
                options.resolve.push(given);
            }
            "--http1.1" => options.http.version = HttpVersion::Http1,
            "--http2" => options.http.version = HttpVersion::Http2,
            "--http3" => options.http.version = HttpVersion::Http3,
            "--tls1.2" => options.tls.max = TlsVersion::V1_2,
            "--tls1.3" => options.tls.min = TlsVersion::V1_3,
            "--kept" => options.reuse = true,
            "--resumed" => options.tls.session = SessionUse::Resume(None),
            "--early-data" => options.tls.session = SessionUse::EarlyData { any_method: false },
            "--location" => options.max_redirects = Some(10),
            "--count" => count = value()?.parse()?,
            _ => url = Some(word),
        }
    }
    let target = Target::parse(&url.ok_or("which URL?")?).map_err(|bad| bad.to_string())?;
    let able = CurlCapabilities::ask(&program)?;
    let curl = CurlOptions::new(&program, &options, able)?;
    curl.check(&target)?;
    let prober = CurlProber::new(curl)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for _ in 0..count {
        let sample = runtime.block_on(async {
            prober.prepare(&target).await?;
            Ok::<_, Box<dyn Error>>(prober.probe(&target).await)
        })?;
        sample.redirects.iter().chain([&sample.connection]).for_each(show);
    }
    Ok(())
}

fn show(connection: &Connection) {
    let facts = &connection.facts;
    println!("{}", connection.url);
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    if let Some(client) = &facts.client {
        println!(
            "client    {} {}, {}",
            client.name,
            text(&client.version),
            text(&client.tls_library)
        );
    }
    if let Some(http) = &facts.http {
        let status = http.status.map_or("none".to_owned(), |status| status.to_string());
        println!("http      {}, status {status}", text(&http.version));
    }
    if let Some(tls) = &facts.tls {
        let handshake = tls.handshake.map_or("unknown", |handshake| handshake.name());
        println!("tls       {} {handshake}, group {}", text(&tls.version), text(&tls.group));
        if let Some(early) = tls.early_data {
            let bytes = early.bytes_before_server_hello;
            let bytes = bytes.map_or_else(|| "some".to_owned(), |bytes| bytes.to_string());
            println!("early     {bytes} bytes, accepted: {:?}", early.accepted);
        }
    }
    if let (Some(local), Some(remote)) = (facts.local, facts.remote) {
        println!("from      {local} to {remote}, reused: {}", facts.reused);
    }
    for (mark, stamp) in connection.marks.iter() {
        println!("  {:24} {:9.3} ms", mark.name(), stamp.at.as_nanos() as f64 / 1e6);
    }
    if let Some(failure) = &connection.failure {
        println!("failure   {failure}");
    }
}
