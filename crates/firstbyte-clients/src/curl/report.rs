//! curl's report at the end of a transfer (`--write-out`): JSON, or names and values before 7.70.
//!
//! Output: [`Report`]. Values by which curl means "did not happen" (zero, an empty text) are absent.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

/// Larger times of curl are invalid: no transfer takes a year.
const NO_TIME_SECONDS: f64 = 3.0e7;

/// Times since the start of the transfer, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) namelookup: Option<i64>,
    pub(super) connect: Option<i64>,
    pub(super) appconnect: Option<i64>,
    pub(super) pretransfer: Option<i64>,
    pub(super) posttransfer: Option<i64>,
    pub(super) starttransfer: Option<i64>,
    pub(super) total: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) times: Times,
    pub(super) exit_code: Option<i32>,
    pub(super) error_message: Option<String>,
    pub(super) status: Option<u16>,
    /// "1.1", "2", "3".
    pub(super) http_version: Option<String>,
    pub(super) remote: Option<SocketAddr>,
    pub(super) local: Option<SocketAddr>,
    pub(super) new_connections: Option<u64>,
    pub(super) downloaded_bytes: Option<u64>,
    pub(super) header_bytes: Option<u64>,
    pub(super) request_bytes: Option<u64>,
    pub(super) verify_result: Option<i64>,
    /// Bytes sent as early data; negative if they were rejected.
    pub(super) early_data_bytes: Option<i64>,
    /// The server's certificates, as text with PEM.
    pub(super) certificates: String,
}

impl Report {
    /// Parses a report.
    ///
    /// # Errors
    /// If the report is invalid: what is wrong, in words.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let fields = if text.trim_start().starts_with('{') {
            match serde_json::from_str(text) {
                Ok(Value::Object(object)) => object.into_iter().collect(),
                Ok(_) => return Err("curl's report is not a JSON object".into()),
                Err(error) => return Err(format!("curl's report is not JSON: {error}")),
            }
        } else {
            Fields(by_name(text)).0
        };
        let fields = Fields(fields);
        let total = fields.time("time_total")?;
        if total.is_none() && !fields.0.contains_key("time_total") {
            return Err("curl's report has no time_total".into());
        }
        let times = Times {
            namelookup: fields.time("time_namelookup")?,
            connect: fields.time("time_connect")?,
            appconnect: fields.time("time_appconnect")?,
            pretransfer: fields.time("time_pretransfer")?,
            posttransfer: fields.time("time_posttransfer")?,
            starttransfer: fields.time("time_starttransfer")?,
            total,
        };
        let version = fields.text("http_version").filter(|version| version != "0");
        Ok(Self {
            times,
            exit_code: fields.whole("exitcode").and_then(|code| i32::try_from(code).ok()),
            error_message: fields.text("errormsg"),
            status: fields.whole("http_code").and_then(|code| u16::try_from(code).ok()),
            http_version: version,
            remote: fields.address("remote_ip", "remote_port"),
            local: fields.address("local_ip", "local_port"),
            new_connections: fields.count("num_connects"),
            downloaded_bytes: fields.count("size_download"),
            header_bytes: fields.count("size_header"),
            request_bytes: fields.count("size_request"),
            verify_result: fields.whole("ssl_verify_result"),
            early_data_bytes: fields.whole("tls_earlydata").filter(|bytes| *bytes != 0),
            certificates: fields.text("certs").unwrap_or_default(),
        }
        .without_zeros())
    }

    fn without_zeros(mut self) -> Self {
        self.status = self.status.filter(|status| *status != 0);
        self
    }
}

struct Fields(BTreeMap<String, Value>);

/// Parses `name=value` pairs, separated by spaces.
fn by_name(text: &str) -> BTreeMap<String, Value> {
    let pairs = text.split_whitespace().filter_map(|word| word.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
}

impl Fields {
    fn text(&self, name: &str) -> Option<String> {
        let text = self.0.get(name)?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn number(&self, name: &str) -> Option<f64> {
        match self.0.get(name)? {
            Value::String(text) => text.parse().ok(),
            other => other.as_f64(),
        }
    }

    fn whole(&self, name: &str) -> Option<i64> {
        match self.0.get(name)? {
            Value::String(text) => text.parse().ok(),
            other => other.as_i64(),
        }
    }

    fn count(&self, name: &str) -> Option<u64> {
        self.whole(name).and_then(|number| u64::try_from(number).ok())
    }

    /// Parses seconds with six digits.
    fn time(&self, name: &str) -> Result<Option<i64>, String> {
        let Some(given) = self.0.get(name) else { return Ok(None) };
        let seconds = self.number(name);
        match seconds {
            Some(seconds) if (0.0..NO_TIME_SECONDS).contains(&seconds) => {
                let microseconds = (seconds * 1e6).round() as i64;
                Ok((microseconds > 0).then_some(microseconds * 1000))
            }
            _ => {
                let shown: String = given.to_string().chars().take(40).collect();
                Err(format!("curl's report has the invalid value {shown} for {name}"))
            }
        }
    }

    fn address(&self, ip: &str, port: &str) -> Option<SocketAddr> {
        let text = self.text(ip)?;
        let ip: IpAddr = text.split('%').next()?.parse().ok()?;
        let port = u16::try_from(self.whole(port)?).ok().filter(|port| *port != 0)?;
        Some(SocketAddr::new(ip, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From curl 7.88.1 with OpenSSL, shortened.
    const NEW: &str = r#"{"certs":"","errormsg":null,"exitcode":0,"http_code":200,"http_version":"2",
        "local_ip":"127.0.0.1","local_port":59926,"num_connects":1,"remote_ip":"127.0.0.1",
        "remote_port":24443,"size_download":6,"size_header":119,"size_request":77,
        "ssl_verify_result":0,"time_appconnect":0.008343,"time_connect":0.000234,
        "time_namelookup":0.000017,"time_pretransfer":0.009079,"time_redirect":0.000000,
        "time_starttransfer":0.009259,"time_total":0.009328}"#;

    #[test]
    fn a_report_is_read() {
        let report = Report::read(NEW).unwrap();
        assert_eq!(report.times.connect, Some(234_000));
        assert_eq!(report.times.posttransfer, None);
        assert_eq!((report.status, report.http_version.as_deref()), (Some(200), Some("2")));
        assert_eq!(report.local, Some("127.0.0.1:59926".parse().unwrap()));
        assert_eq!((report.exit_code, report.error_message), (Some(0), None));
    }

    #[test]
    fn what_did_not_happen_is_absent() {
        let failed = r#"{"errormsg":"x","exitcode":7,"http_code":0,"http_version":"0","local_ip":"",
            "local_port":0,"remote_ip":"","remote_port":0,"time_appconnect":0.000000,
            "time_connect":0.000000,"time_namelookup":0.000012,"time_total":0.000128}"#;
        let report = Report::read(failed).unwrap();
        assert_eq!((report.times.appconnect, report.times.connect), (None, None));
        assert_eq!((report.status, report.remote, report.http_version), (None, None, None));
        assert_eq!(report.error_message.as_deref(), Some("x"));
    }

    /// In the form requested from curl before 7.70.
    #[test]
    fn names_and_values_are_read() {
        let report = Report::read(
            "http_code=200 http_version=1.1 local_ip=::1 local_port=5 num_connects=0 remote_ip=::1 \
             remote_port=443 time_connect=0.000000 time_total=0.000290 ",
        )
        .unwrap();
        assert_eq!((report.status, report.new_connections), (Some(200), Some(0)));
        assert_eq!(report.remote, Some("[::1]:443".parse().unwrap()));
        assert_eq!((report.times.connect, report.times.total), (None, Some(290_000)));
    }

    /// From documentation: the fields of 8.12.
    #[test]
    fn later_fields_are_read() {
        let later = NEW.replace(
            "\"certs\"",
            "\"tls_earlydata\":-127,\"time_posttransfer\":0.009100,\"certs\"",
        );
        let report = Report::read(&later).unwrap();
        assert_eq!(report.early_data_bytes, Some(-127));
        assert_eq!(report.times.posttransfer, Some(9_100_000));
    }

    #[test]
    fn rubbish_is_named() {
        for (text, named) in [
            ("{\"time_total\":", "not JSON"),
            ("", "no time_total"),
            ("[1]", "no time_total"),
            ("{}", "no time_total"),
            ("{\"time_total\":-1}", "-1 for time_total"),
            ("{\"time_total\":1e300}", "for time_total"),
            ("{\"time_total\":\"soon\"}", "\"soon\" for time_total"),
        ] {
            let error = Report::read(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
