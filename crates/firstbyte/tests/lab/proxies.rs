//! Connections through proxies: Squid (CONNECT, plain and in TLS) and Dante (SOCKS5), compared with curl and captures.

use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use firstbyte_core::document::SampleRecord;

use crate::support::{
    NamedLab, PROGRAM, Permits, Scene, assert_within, firstbyte, phase, samples, sum,
};
use crate::wire;

const URL: &str = "https://www.far.test/";
const MS: Duration = Duration::from_millis(1);
/// Kernel timestamps and those of a capture differ by less than this.
const SAME: Duration = Duration::from_micros(100);
const ATTEMPTS: usize = 8;

/// A lab with both proxies on its host `proxy`, 10 ms away; the server is 40 ms behind it.
struct ProxyLab {
    lab: NamedLab,
    proxies: Child,
    /// The name of this lab's Squid service, which names its shared memory.
    service: String,
}

impl ProxyLab {
    fn start() -> Self {
        let scene = Scene::with_servers(
            r#"
[[host]]
name = "proxy"
role = "server"
ipv4 = "203.0.113.1"
names = ["proxy.test"]
server = { kind = "builtin" }
up = { delay = "5ms" }
down = { delay = "5ms" }
[[host]]
name = "web"
role = "server"
ipv4 = "198.51.100.1"
names = ["www.far.test"]
server = { kind = "builtin", page_bytes = 2000 }
up = { delay = "20ms" }
down = { delay = "20ms" }
"#,
        );
        let made = rcgen::generate_simple_self_signed(["proxy.test".to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let place = |name: &str| scene.path(name).display().to_string();
        let write = |name: &str, text: &str| std::fs::write(scene.path(name), text).unwrap();
        write("proxy.pem", &certificate);
        write("proxy.key", &key);
        write(
            "squid.conf",
            &format!(
                "http_port 3128\nhttps_port 3129 tls-cert={} tls-key={}\nhttp_access allow all\n\
                 pid_filename none\naccess_log none\ncache_log stdio:/dev/stderr\ncache_store_log none\n\
                 cache_mem 0\ncache deny all\nnetdb_filename none\ncoredump_dir none\n\
                 pinger_enable off\nshutdown_lifetime 0 seconds\n",
                place("proxy.pem"),
                place("proxy.key")
            ),
        );
        write(
            "danted.conf",
            "logoutput: stderr\ninternal: eth0 port = 1080\nexternal: eth0\nclientmethod: none\n\
             socksmethod: none\nuser.privileged: root\nuser.unprivileged: root\n\
             client pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }\nsocks pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }\n",
        );
        let (squid, danted) = (place("squid.conf"), place("danted.conf"));
        let lab = NamedLab::new(scene);
        let captures = lab.scene.captures().display().to_string();
        let (code, _, notes) =
            lab.lab(&["up", lab.file().to_str().unwrap(), "--capture", &captures]);
        assert_eq!(code, 0, "{notes}");
        // Squid refuses to run as root, and the lab of an ordinary user has no other users.
        let service = lab.name.replace('-', "");
        let script = format!(
            "danted -f {danted} & exec unshare --user --map-user=1000 --map-group=1000 \
             squid -n {service} -N -f {squid}"
        );
        let mut command = firstbyte(&["lab", "exec", &lab.name, "--host", "proxy", "--"]);
        command.args(["sh", "-c", &script]).stdout(Stdio::null()).stderr(Stdio::null());
        let proxies = command.spawn().unwrap();
        Self { lab, proxies, service }
    }

    fn curl(&self, arguments: &[&str]) -> (i32, String, String) {
        let fixed = ["curl", "-sS", "-m", "10", "-o", "/dev/null", "-w", "%{time_total}"];
        self.lab.exec("client", &[&fixed[..], arguments].concat())
    }

    /// curl's fastest total, measured once the proxy answers.
    fn fastest_of_curl(&self, arguments: &[&str]) -> Duration {
        let is_up = (0..100).any(|_| {
            sleep(Duration::from_millis(50));
            self.curl(arguments).0 == 0
        });
        assert!(is_up, "install squid (squid-openssl) and danted (dante-server): {arguments:?}");
        let total = |_| {
            let (code, total, notes) = self.curl(arguments);
            assert_eq!(code, 0, "{notes}");
            Duration::from_secs_f64(total.parse().unwrap())
        };
        (0..ATTEMPTS).map(total).min().unwrap()
    }

    fn measure(&self, arguments: &[&str]) -> Vec<SampleRecord> {
        let fixed = [PROGRAM, "--json", "-n", "8", "--warmup", "0", "-m", "10"];
        let (code, samples_text, notes) =
            self.lab.exec("client", &[&fixed[..], arguments].concat());
        assert_eq!(code, 0, "{notes}{samples_text}");
        samples(samples_text.as_bytes())
    }
}

impl Drop for ProxyLab {
    fn drop(&mut self) {
        let _ = self.lab.lab(&["down", &self.lab.name]);
        let _ = self.proxies.wait();
        for file in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            if file.file_name().to_string_lossy().starts_with(&format!("{}-", self.service)) {
                let _ = std::fs::remove_file(file.path());
            }
        }
    }
}

/// The phases of a sample; asserts that they add up to the total.
fn phases(sample: &SampleRecord) -> Vec<&str> {
    let split = &sample.connection.split;
    let durations = split.phases.iter().map(|phase| phase.duration_ns).sum::<u64>();
    assert_eq!(durations, sample.connection.total_ns);
    assert_eq!(sum(&split.parts), sample.connection.total_ns);
    split.phases.iter().map(|phase| phase.name.as_str()).collect()
}

fn duration(sample: &SampleRecord, name: &str) -> Duration {
    Duration::from_nanos(phase(sample, name).unwrap().duration_ns)
}

#[test]
fn ways_through_proxies_are_phases_of_their_own() {
    let _permits = Permits::all();
    let lab = ProxyLab::start();
    let issuer = lab.lab.scene.path("proxy.pem").display().to_string();
    let secure = ["-x", "https://proxy.test:3129", "--proxy-cacert", &issuer, URL];
    let kinds: [(&[&str], &[&str], u32); 4] = [
        (&["-x", "http://proxy.test:3128", URL], &["connect", "tunnel", "tls"], 1),
        (&secure, &["connect", "proxy_tls", "tunnel", "tls"], 1),
        // SOCKS5 needs two round trips: a greeting, and a request.
        (&["-x", "socks5h://proxy.test:1080", URL], &["connect", "tunnel", "tls"], 2),
        // The proxy forwards a request without TLS; there is no tunnel.
        (&["-x", "http://proxy.test:3128", "http://www.far.test/"], &["connect"], 0),
    ];
    let mut measured = Vec::new();
    for (flags, names, tunnel_round_trips) in kinds {
        let theirs = lab.fastest_of_curl(flags);
        let taken = lab.measure(flags);
        let expected = [&["resolve"], names, &["send", "wait", "receive"]].concat();
        for sample in &taken {
            assert_eq!(phases(sample), expected, "{flags:?}");
            let tunnel = phase(sample, "tunnel").map_or(0, |tunnel| tunnel.round_trips);
            assert_eq!(tunnel, tunnel_round_trips, "{flags:?}");
            let tls = phase(sample, "tls").map(|tls| tls.round_trips);
            assert_eq!(tls, names.contains(&"tls").then_some(1), "{flags:?}");
        }
        let fastest = taken.iter().min_by_key(|sample| sample.connection.total_ns).unwrap();
        // To the proxy and back, then from there to the server and back. Squid keeps its connections to servers.
        assert_within(duration(fastest, "connect"), 10 * MS, 2 * MS, "connect");
        let round_trips = 10 * tunnel_round_trips.max(1) + 50;
        let first = if names.contains(&"tunnel") { "tunnel" } else { "wait" };
        assert_within(duration(fastest, first), round_trips * MS, 6 * MS, first);
        // curl's time includes its own work: 2 ms for its TLS context, more on a slow machine. The check against packets
        // below ensures that ours is not too short.
        let ours = Duration::from_nanos(fastest.connection.total_ns);
        assert!(ours < theirs + MS, "{flags:?}: {ours:?}, curl {theirs:?}");
        measured.push(taken);
    }

    // A tunnel without TLS, by curl's option for it. The lower bound is that of the path: DNS 20 ms, connect 10, tunnel
    // and request 60 each.
    let plain = ["-p", "-x", "http://proxy.test:3128", "http://www.far.test/"];
    let theirs = lab.fastest_of_curl(&plain);
    let format = ["-s", "-o", "/dev/null", "-w", "%{time_total}"];
    let ours = (0..ATTEMPTS).map(|_| {
        let words = [&[PROGRAM, "curl"], &format[..], &plain].concat();
        let (code, total, notes) = lab.lab.exec("client", &words);
        assert_eq!(code, 0, "{notes}");
        Duration::from_secs_f64(total.parse().unwrap())
    });
    let ours = ours.min().unwrap();
    assert!((150 * MS..theirs + MS).contains(&ours), "{ours:?}, curl {theirs:?}");

    let captures = lab.lab.scene.captures().join("client.pcapng");
    assert_eq!(lab.lab.lab(&["down", &lab.lab.name]).0, 0);
    let connections = wire::connections(&captures);
    for samples in measured {
        let compared = samples.iter().map(|sample| compare_with_wire(sample, &connections));
        let (totals, tunnels): (Vec<_>, Vec<_>) = compared.unzip();
        assert_close(&totals, 2 * MS, "from the connect to the last byte");
        // Inside TLS to the proxy, the capture cannot tell the proxy's answers apart.
        let tunnels: Vec<_> = tunnels.into_iter().flatten().collect();
        if !tunnels.is_empty() {
            assert_close(&tunnels, MS, "tunnel");
        }
    }
}

/// A duration as measured in a sample, and the same duration in a capture.
#[derive(Clone, Copy, Debug)]
struct MeasuredAndCaptured {
    measured: Duration,
    captured: Duration,
}

/// From the connect to the last byte; also the tunnel, unless it is inside TLS to the proxy.
fn compare_with_wire(
    sample: &SampleRecord,
    connections: &[Vec<wire::Segment>],
) -> (MeasuredAndCaptured, Option<MeasuredAndCaptured>) {
    let until_connect = u64::try_from(phase(sample, "connect").unwrap().start_ns).unwrap();
    let begun = sample.connection.started_unix_ns.unwrap() + until_connect;
    let seen = connections.iter().min_by_key(|seen| seen[0].at_ns.abs_diff(begun)).unwrap();
    let measured = Duration::from_nanos(sample.connection.total_ns - until_connect);
    let runs = wire::runs(seen);
    // After that the proxy closes its side.
    let end = begun + (measured + 2 * MS).as_nanos() as u64;
    let received = runs.iter().rfind(|run| !run.sent && run.first_ns <= end).unwrap();
    let captured = Duration::from_nanos(received.last_ns - seen[0].at_ns);
    let total = MeasuredAndCaptured { measured, captured };
    let tunnel = phase(sample, "tunnel").filter(|_| phase(sample, "proxy_tls").is_none());
    let Some(tunnel) = tunnel else { return (total, None) };
    // The last of the proxy's answers.
    let answered = runs[2 * tunnel.round_trips as usize - 1];
    let captured = Duration::from_nanos(answered.last_ns - runs[0].first_ns);
    (total, Some(MeasuredAndCaptured { measured: duration(sample, "tunnel"), captured }))
}

/// Asserts that no sample is shorter than on the wire. On a busy machine the client reads late, so only the closest
/// sample has an upper bound.
fn assert_close(compared: &[MeasuredAndCaptured], limit: Duration, what: &str) {
    let least = |pair: &MeasuredAndCaptured| pair.measured + SAME >= pair.captured;
    assert!(compared.iter().all(least), "{what}: {compared:?}");
    let excess = |pair: &MeasuredAndCaptured| pair.measured.saturating_sub(pair.captured);
    let closest = compared.iter().map(excess).min().unwrap();
    assert!(closest < limit, "{what}: {compared:?}");
}
