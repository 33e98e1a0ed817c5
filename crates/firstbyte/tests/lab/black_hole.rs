//! Path-MTU black holes: a link accepts 1,400 bytes, and the sender ignores the ICMP message that says so.

use crate::support::{NamedLab, PROGRAM, Permits, Scene};

const URL: &str = "https://www.hole.test/";

/// A lab in which large segments of `sender` vanish.
fn black_hole_behind(sender: &str) -> NamedLab {
    let (client, server) = match sender {
        "client" => ("up = { mtu = 1400 }\ndown = { mtu = 1400 }", ""),
        _ => ("", "mtu = 1400, "),
    };
    let scene = Scene::with_hosts(&format!(
        r#"
[[host]]
name = "client"
role = "client"
ipv4 = "192.0.2.10"
{client}
[[host]]
name = "resolver"
role = "resolver"
ipv4 = "192.0.2.53"
[[host]]
name = "web"
role = "server"
ipv4 = "198.51.100.1"
names = ["www.hole.test"]
server = {{ kind = "builtin", chain_bytes = 6000 }}
up = {{ {server}delay = "15ms" }}
down = {{ delay = "15ms" }}
"#
    ));
    let lab = NamedLab::new(scene);
    let (code, _, notes) = lab.lab(&["up", lab.file().to_str().unwrap()]);
    assert_eq!(code, 0, "{notes}");
    // A locked MTU on the route keeps the sender's kernel from learning a smaller one (ip-route(8)).
    let lock = "ip link set eth0 mtu 1500; ip route replace $(ip route show default) mtu lock 1500";
    let (code, _, notes) = lab.exec(sender, &["sh", "-ec", lock]);
    assert_eq!(code, 0, "install ip (iproute2): {notes}");
    lab
}

#[test]
fn a_large_hello_that_vanishes_is_named_with_what_avoids_it() {
    let _permits = Permits::one();
    let lab = black_hole_behind("client");
    let (code, shown, _) = lab.exec("client", &[PROGRAM, "-m", "2", URL]);
    assert_eq!(code, 28, "{shown}");
    assert!(shown.contains("only its end arrived after "), "{shown}");
    assert!(shown.contains("(a path-MTU black hole?)\nhint: "), "{shown}");
    let advice = "try --curves x25519, or find the hop that drops large packets";
    assert!(shown.contains(advice), "{shown}");

    // Once the smaller hello gets through, the server's answers teach it the path's MTU, and larger hellos work too.
    let (code, _, notes) =
        lab.exec("client", &[PROGRAM, "explain", "-s", "-m", "2", "-n", "2", URL]);
    assert_eq!(code, 28, "{notes}");
    assert!(notes.contains("the cause is the size of the ClientHello: with 14"), "{notes}");
    assert!(notes.contains(" bytes it succeeds in "), "{notes}");
}

#[test]
fn large_segments_of_the_server_that_vanish_are_the_networks_fault() {
    let _permits = Permits::one();
    let lab = black_hole_behind("web");
    let (code, sample, notes) = lab.exec("client", &[PROGRAM, "--json", "-m", "2", URL]);
    assert_eq!(code, 28, "{notes}");
    let says =
        "part of the answer arrived, the segments before it never did (a path-MTU black hole?)";
    assert!(sample.contains(says), "{sample}");
    let sample: serde_json::Value = serde_json::from_str(&sample).unwrap();
    assert_eq!(sample["failure"]["fault"], "network", "{sample}");
    assert_eq!(sample["tcp"]["out_of_order"], 1, "{sample}");
}
