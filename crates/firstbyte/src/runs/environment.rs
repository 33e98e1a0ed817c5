//! The environment of a run: properties of the machine and the software that may affect its times.
//!
//! They are read from Linux's system files; missing ones are absent. Values that would identify the machine are left
//! out: its name, its addresses, its serial numbers.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use firstbyte_core::document::run::{EnvironmentRecord, InterfaceRecord};

/// The environment of this process.
pub fn gather() -> EnvironmentRecord {
    EnvironmentRecord {
        cpus: std::thread::available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok()),
        architecture: Some(std::env::consts::ARCH.into()),
        firstbyte_version: Some(env!("CARGO_PKG_VERSION").into()),
        rustls_version: option_env!("FIRSTBYTE_RUSTLS").map(String::from),
        hyper_version: option_env!("FIRSTBYTE_HYPER").map(String::from),
        quinn_version: option_env!("FIRSTBYTE_QUINN").map(String::from),
        packet_stamps: packet_stamps(),
        ..Files { root: "/".into() }.environment()
    }
}

/// The files of a system.
struct Files {
    root: PathBuf,
}

impl Files {
    fn environment(&self) -> EnvironmentRecord {
        EnvironmentRecord {
            os: self.os().or_else(|| Some(std::env::consts::OS.into())),
            kernel: self.line("proc/sys/kernel/osrelease"),
            cpu_model: self.cpu_field("model name"),
            cpu_governor: self.governor(),
            memory_bytes: self.memory(),
            load_average: self.load(),
            clock_source: self.line(CLOCK_SOURCE),
            virtualisation: self.virtualisation(),
            container: self.container(),
            congestion_control: self.line("proc/sys/net/ipv4/tcp_congestion_control"),
            congestion_controls_available: self
                .line("proc/sys/net/ipv4/tcp_available_congestion_control")
                .map(|names| names.split_whitespace().map(String::from).collect())
                .unwrap_or_default(),
            interfaces: self.interfaces(),
            ..EnvironmentRecord::default()
        }
    }

    fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    /// Contents of a one-line file, if it is not empty.
    fn line(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = self.text(path)?;
        Some(text.trim().to_owned()).filter(|line| !line.is_empty())
    }

    fn os(&self) -> Option<String> {
        let text = self.text("etc/os-release").or_else(|| self.text("usr/lib/os-release"))?;
        let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
        Some(name.trim_matches('"').to_owned())
    }

    fn cpu_field(&self, name: &str) -> Option<String> {
        let text = self.text("proc/cpuinfo")?;
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    }

    /// The active governors, each once.
    fn governor(&self) -> Option<String> {
        let processors = fs::read_dir(self.root.join("sys/devices/system/cpu")).ok()?;
        let governors: BTreeSet<String> = processors
            .flatten()
            .filter_map(|cpu| self.line(cpu.path().join("cpufreq/scaling_governor")))
            .collect();
        let names: Vec<String> = governors.into_iter().collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    fn memory(&self) -> Option<u64> {
        let text = self.text("proc/meminfo")?;
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kibibytes: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kibibytes * 1024)
    }

    fn load(&self) -> Option<[f64; 3]> {
        let text = self.text("proc/loadavg")?;
        let mut values = text.split_whitespace().map_while(|value| value.parse().ok());
        Some([values.next()?, values.next()?, values.next()?])
    }

    /// Name of the virtual machine's product, if the processor reports a hypervisor.
    fn virtualisation(&self) -> Option<String> {
        let flags = self.cpu_field("flags")?;
        if !flags.split(' ').any(|flag| flag == "hypervisor") {
            return Some("none".into());
        }
        let product = self.line("sys/class/dmi/id/product_name");
        let vendor = self.line("sys/class/dmi/id/sys_vendor");
        product.or(vendor).or_else(|| self.line("sys/hypervisor/type")).or(Some("unnamed".into()))
    }

    fn container(&self) -> Option<String> {
        if self.root.join(".dockerenv").exists() {
            return Some("docker".into());
        }
        if self.root.join("run/.containerenv").exists() {
            return Some("podman".into());
        }
        let groups = self.text("proc/1/cgroup")?;
        ["kubepods", "docker", "lxc", "containerd"]
            .into_iter()
            .find(|name| groups.contains(name))
            .map(String::from)
    }

    /// Interfaces with a default route; without any, all that are up.
    fn interfaces(&self) -> Vec<InterfaceRecord> {
        let mut names = BTreeSet::new();
        for line in self.text("proc/net/route").unwrap_or_default().lines().skip(1) {
            let mut fields = line.split_whitespace();
            if let (Some(name), Some("00000000")) = (fields.next(), fields.next()) {
                names.insert(name.to_owned());
            }
        }
        for line in self.text("proc/net/ipv6_route").unwrap_or_default().lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let to_all = fields.get(1) == Some(&"00") && fields[0].bytes().all(|b| b == b'0');
            if let (true, Some(name)) = (to_all, fields.get(9)) {
                names.insert((*name).to_owned());
            }
        }
        names.remove("lo");
        if names.is_empty()
            && let Ok(all) = fs::read_dir(self.root.join("sys/class/net"))
        {
            let all = all.flatten().filter_map(|entry| entry.file_name().into_string().ok());
            names.extend(all.filter(|name| {
                self.line(format!("sys/class/net/{name}/operstate")).as_deref() == Some("up")
            }));
        }
        names.into_iter().map(|name| self.interface(name)).collect()
    }

    fn interface(&self, name: String) -> InterfaceRecord {
        let value = |file: &str| {
            let text = self.line(format!("sys/class/net/{name}/{file}"));
            text.and_then(|text| text.parse().ok())
        };
        // A device without a speed reports -1 or nothing.
        InterfaceRecord { mtu_bytes: value("mtu"), speed_mbit: value("speed"), name }
    }
}

const CLOCK_SOURCE: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Whether the kernel supports packet timestamps (`SO_TIMESTAMPING`).
#[cfg(target_os = "linux")]
fn packet_stamps() -> Option<bool> {
    use nix::sys::socket::{TimestampingFlag, setsockopt, sockopt};
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").ok()?;
    let flags = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE;
    Some(setsockopt(&socket, sockopt::Timestamping, &flags).is_ok())
}

/// Only Linux has packet timestamps.
#[cfg(not(target_os = "linux"))]
fn packet_stamps() -> Option<bool> {
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> (tempfile::TempDir, Files) {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = directory.path().to_owned();
        (directory, Files { root })
    }

    #[test]
    fn nothing_is_known_of_a_system_that_says_nothing() {
        let (_directory, files) = files(&[]);
        let record = files.environment();
        assert_eq!(
            record,
            EnvironmentRecord {
                os: Some(std::env::consts::OS.into()),
                ..EnvironmentRecord::default()
            }
        );
        let text = serde_json::to_string(&record).unwrap();
        assert!(!text.contains("null") && !text.contains(":0"), "{text}");
    }

    #[test]
    fn what_the_files_say() {
        let (_directory, files) = files(&[
            ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            ("proc/sys/kernel/osrelease", "6.18.5\n"),
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: EPYC 7B13\nflags\t\t: fpu hypervisor x\n",
            ),
            ("sys/class/dmi/id/product_name", "Standard PC\n"),
            ("proc/meminfo", "MemTotal:       24686600 kB\nMemFree: 1 kB\n"),
            ("proc/loadavg", "0.20 1.50 3.00 1/200 4242\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
            (CLOCK_SOURCE, "tsc\n"),
            ("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n"),
            ("proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic bbr\n"),
            ("proc/net/route", "Iface\tDestination\neth0\t00000000\t0100000A\neth1\t0000000A\t0\n"),
            (
                "proc/net/ipv6_route",
                "00000000000000000000000000000000 00 0 00 0 1 0 0 1 wlan0\n\
                 00000000000000000000000000000000 00 0 00 0 1 0 0 1 lo\n\
                 20010db8000000000000000000000000 40 0 00 0 1 0 0 1 eth2\n",
            ),
            ("sys/class/net/eth0/mtu", "1460\n"),
            ("sys/class/net/eth0/speed", "-1\n"),
            ("proc/1/cgroup", "0::/kubepods/x\n"),
        ]);
        let record = files.environment();
        assert_eq!(record.os.as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        assert_eq!(record.cpu_model.as_deref(), Some("EPYC 7B13"));
        assert_eq!(record.cpu_governor.as_deref(), Some("performance, powersave"));
        assert_eq!(record.memory_bytes, Some(24_686_600 * 1024));
        assert_eq!(record.load_average, Some([0.2, 1.5, 3.0]));
        assert_eq!(record.virtualisation.as_deref(), Some("Standard PC"));
        assert_eq!(record.container.as_deref(), Some("kubepods"));
        assert_eq!(record.congestion_controls_available, ["reno", "cubic", "bbr"]);
        let names: Vec<&str> = record.interfaces.iter().map(|i| i.name.as_str()).collect();
        assert_eq!(names, ["eth0", "wlan0"]);
        let eth0 = &record.interfaces[0];
        assert_eq!((eth0.mtu_bytes, eth0.speed_mbit), (Some(1460), None));
    }

    #[test]
    fn this_machine() {
        let record = gather();
        assert_eq!(record.firstbyte_version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
        assert!(record.rustls_version.is_some_and(|version| version.starts_with("0.23.")));
        assert!(record.cpus.is_some_and(|n| n > 0));
        #[cfg(target_os = "linux")]
        assert!(record.kernel.is_some() && record.packet_stamps == Some(true));
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        if let Some(host) = Some(host.trim()).filter(|host| host.len() > 4) {
            let text = serde_json::to_string(&gather()).unwrap();
            assert!(!text.contains(host), "{text}");
        }
    }
}
