//! Starting the browser, and finding its port.
//!
//! Input: options, and the target. Output: a [`ClientCommand`]; the port of its WebDriver BiDi server, which it writes
//! to a file in its profile. A comment next to each argument explains it.

use std::path::Path;
use std::time::Duration;

use firstbyte_probe::probe::Target;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value;

use super::{RunningFirefox, preferences};
use crate::browser::{BrowserOptions, RunningBrowser};
use crate::deadline::Deadline;
use crate::interruption::Interruption;
use crate::process::{ClientCommand, ClientError, ClientProcess, find, system};

/// The profile's path within the temporary home.
const PROFILE: &str = "profile";
/// Interval of checks for the browser's port.
const PORT_INTERVAL: Duration = Duration::from_millis(10);

/// Name of the program: Debian's, or else Mozilla's.
pub(super) fn installed_program() -> &'static str {
    match (find("firefox-esr"), find("firefox")) {
        (None, Some(_)) => "firefox",
        _ => "firefox-esr",
    }
}

/// The command that starts the browser for visits to `target`.
pub(super) fn command(options: &BrowserOptions, target: &Target) -> ClientCommand {
    let arguments = [
        "--headless",
        // Do not hand over to another Firefox of this user.
        "--new-instance",
        "--no-remote",
        "--profile",
        "{home}/profile",
        // WebDriver BiDi on a free port.
        "--remote-debugging-port",
        "0",
        // The network code's facts are only available in the browser's own scope.
        "--remote-allow-system-access",
        "about:blank",
    ];
    ClientCommand {
        program: options.program.clone().unwrap_or_else(|| installed_program().to_owned()),
        package: RunningFirefox::PACKAGE,
        arguments: arguments.map(str::to_owned).to_vec(),
        files: vec![(format!("{PROFILE}/user.js"), preferences::user_js(options, target))],
        trusted_pem: options.trusted_pem.clone(),
        nss_database: Some(PROFILE),
        environment: vec![
            // Makes the preference `services.settings.server` effective.
            ("MOZ_REMOTE_SETTINGS_DEVTOOLS", "1"),
            // A crash shows as the end of the process; open no window and send no report.
            ("MOZ_CRASHREPORTER_DISABLE", "1"),
        ],
    }
}

/// The port on which the browser listens for WebDriver BiDi.
pub(super) fn port(
    process: &mut ClientProcess,
    deadline: &Deadline,
    interruption: &Interruption,
) -> Result<u16, ClientError> {
    let home = process.home().map(Path::to_owned).unwrap_or_default();
    let file = home.join(PROFILE).join("WebDriverBiDiServer.json");
    loop {
        if let Some(port) = std::fs::read(&file).ok().and_then(|bytes| read_port(&bytes)) {
            return Ok(port);
        }
        if interruption.is_set() {
            return Err(ClientError::Interrupted);
        }
        if deadline.left().is_none() {
            let waiting_for = format!("the port of {}'s WebDriver BiDi", process.program());
            return Err(ClientError::TimedOut { waiting_for, limit: deadline.limit() });
        }
        if has_ended(process)? {
            return Err(process.ended());
        }
    }
}

/// `None` while the file is not complete.
fn read_port(bytes: &[u8]) -> Option<u16> {
    let file: Value = serde_json::from_slice(bytes).ok()?;
    u16::try_from(file.get("ws_port")?.as_u64()?).ok()
}

/// Waits briefly for the program to end, which closes its end of a pipe.
fn has_ended(process: &ClientProcess) -> Result<bool, ClientError> {
    use std::os::fd::AsFd;
    let Some(pipe) = &process.from_program else { return Ok(true) };
    let timeout = PollTimeout::try_from(PORT_INTERVAL).unwrap_or(PollTimeout::ZERO);
    let mut pipe = [PollFd::new(pipe.as_fd(), PollFlags::empty())];
    match poll(&mut pipe, timeout) {
        Ok(0) | Err(nix::errno::Errno::EINTR) => Ok(false),
        Ok(_) => Ok(true),
        Err(error) => Err(system("wait for the browser")(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_once_it_is_there() {
        assert_eq!(read_port(br#"{"ws_host":"127.0.0.1","ws_port":41235}"#), Some(41235));
        for bytes in [&b""[..], br#"{"ws_host":"127"#, b"{}", br#"{"ws_port":70000}"#] {
            assert_eq!(read_port(bytes), None);
        }
    }

    #[test]
    fn the_package_is_named_where_it_is_missing() {
        let options =
            BrowserOptions { program: Some("no-such-browser".to_owned()), ..Default::default() };
        let target = Target::parse("https://site.test/").unwrap();
        let error = ClientProcess::start(&command(&options, &target)).unwrap_err();
        assert!(error.to_string().contains("install firefox-esr"), "{error}");
    }
}
