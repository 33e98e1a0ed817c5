//! An access log of nginx, in the format that `log-format` prints, over a path. It agrees with our samples about
//! resumption and early data in every case, and its time is the application's.

use serde_json::Value;

use crate::support::{PROGRAM, Permits, Scene, firstbyte, run, text};

/// nginx passes requests on to an application that takes longer than the handshake; by then `$ssl_early_data` is empty.
fn servers(printed: &str) -> String {
    let printed = printed.replace("/var/log/nginx/firstbyte.log", "{log}");
    let mut lines = printed.lines().map(|line| line.trim_start_matches(['#', ' ']));
    let set = lines.find(|line| line.starts_with("set $firstbyte_early_data")).unwrap();
    let configuration = format!(
        "daemon off; master_process off; user root root; pid {{directory}}/pid; error_log stderr warn;\n\
         events {{ worker_connections 512; }}\nhttp {{\n{printed}\n\
         client_body_temp_path {{directory}}/c; proxy_temp_path {{directory}}/p; fastcgi_temp_path {{directory}}/f;\n\
         uwsgi_temp_path {{directory}}/u; scgi_temp_path {{directory}}/s;\n\
         server {{ listen 443 ssl http2; listen [::]:443 ssl http2; ssl_certificate {{chain}};\n\
         ssl_certificate_key {{key}}; ssl_protocols TLSv1.2 TLSv1.3; ssl_early_data on;\n\
         ssl_session_cache shared:s:1m; {set}\n\
         location / {{ proxy_pass http://198.51.100.2; }} }} }}\n"
    );
    // JSON strings are valid TOML strings.
    let configuration = serde_json::to_string(&configuration).unwrap();
    format!(
        r#"
[[host]]
name = "web"
role = "server"
ipv4 = "198.51.100.1"
ipv6 = "2001:db8:0:2::1"
names = ["web.test"]
up = {{ delay = "10ms" }}
down = {{ delay = "10ms" }}
server = {{ kind = "command", package = "nginx-light", command = ["nginx", "-p", "{{directory}}", "-c", "{{directory}}/n.conf", "-e", "stderr"], files = {{ "n.conf" = {configuration} }} }}
[[host]]
name = "app"
role = "server"
ipv4 = "198.51.100.2"
ipv6 = "2001:db8:0:2::2"
names = ["app.test"]
server = {{ kind = "builtin", page_bytes = 2000, think_time = "50ms" }}
"#
    )
}

#[test]
fn nginx_logs_what_our_samples_prove_of_all_connections() {
    let _permits = Permits::one();
    let printed = run(&mut firstbyte(&["log-format", "nginx"]));
    let scene = Scene::with_servers(&servers(&text(&printed.stdout)));
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (logs, kept) = (path("logs"), path("kept.run"));
    let mut command = firstbyte(&["lab", "run"]);
    command.arg(scene.file()).args(["--logs", &logs, "--", PROGRAM]);
    command.args(["explain", "-n", "10", "--run", &kept, "https://web.test/"]);
    let output = run(&mut command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let log = format!("{logs}/server-web.log");
    let output = run(&mut firstbyte(&["explain", "--json", "--from", &kept, "--server-log", &log]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let explained: Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = &explained["server"][0];
    let log = &said["log"];
    assert_eq!(
        (&log["found"], &log["of"], &said["agrees"]),
        (&10.into(), &10.into(), &true.into()),
        "{said}"
    );
    let logged = said["said_ns"].as_u64().unwrap();
    // The application's time, plus the way to it and back, and a TCP handshake.
    assert!((49_000_000..110_000_000).contains(&logged), "{said}");
    for (name, least) in [("resumed", 20), ("early_data", 10)] {
        let agreement = &log[name];
        assert!(agreement["compared"].as_u64().unwrap() >= 50, "{name}: {said}");
        assert!(agreement["logged_yes"].as_u64().unwrap() >= least, "{name}: {said}");
        assert_eq!(agreement["compared"], agreement["agree"], "{name}: {said}");
    }
}
