//! The page at `/`, which lists the last probes.

use http::StatusCode;
use http::header::{CONTENT_SECURITY_POLICY, HeaderValue};

use crate::exporter::{Answer, text};
use crate::history::History;
use crate::log::shown;

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color-scheme: light dark }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); overflow-wrap: anywhere }
.failed { color: light-dark(#b3261e, #ff8a80); font-weight: 600 }";

pub(crate) fn page(history: &History) -> Answer {
    let mut rows = String::new();
    for past in history.all().rev() {
        let result =
            if past.success { "Success" } else { "<strong class=\"failed\">Failure</strong>" };
        rows += &format!(
            "<tr><td>{}</td><td>{}</td><td>{result}</td><td><a href=\"logs?id={}\">Logs</a></td></tr>\n",
            escaped(&past.module),
            escaped(&shown(&past.target)),
            past.id
        );
    }
    if rows.is_empty() {
        rows = "<tr><td colspan=\"4\">None yet.</td></tr>\n".into();
    }
    let html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Blackbox Exporter</title>\
         <style>{STYLE}</style></head>\n<body>\n<h1>Blackbox Exporter</h1>\n\
         <p>firstbyte answers like blackbox_exporter: <code>probe?target=…&amp;module=…</code>, \
         <code>&amp;debug=true</code> shows the log of the probe.</p>\n\
         <p><a href=\"metrics\">Metrics</a> · <a href=\"config\">Configuration</a></p>\n\
         <h2>Recent Probes</h2>\n\
         <table><tr><th>Module</th><th>Target</th><th>Result</th><th>Debug</th></tr>\n{rows}</table>\n\
         </body></html>\n"
    );
    let mut answer = text(StatusCode::OK, "text/html; charset=utf-8", html);
    let policy = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");
    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    answer
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}
