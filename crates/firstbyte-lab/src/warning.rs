//! Warnings about a lab: properties that it should have, but that the machine does not allow.

use std::fmt;

/// A warning about a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabWarning {
    /// Programs cannot be made to use the lab's DNS server.
    NoResolvConf,
    /// TCP uses the machine's own congestion control.
    NoCubic,
    /// TCP may keep metrics of one connection for the next.
    LearnsFromConnections,
    /// Receive windows cannot be made as large as they should be.
    SmallReceiveMemory,
    /// Servers that do not run as root cannot use the ports that they should.
    PrivilegedPorts,
}

impl LabWarning {
    /// All warnings.
    pub const ALL: [Self; 5] = [
        Self::NoResolvConf,
        Self::NoCubic,
        Self::LearnsFromConnections,
        Self::SmallReceiveMemory,
        Self::PrivilegedPorts,
    ];

    /// Code for programs; it never changes.
    pub const fn code(self) -> &'static str {
        match self {
            Self::NoResolvConf => "lab-no-resolv-conf",
            Self::NoCubic => "lab-no-cubic",
            Self::LearnsFromConnections => "lab-learns-from-connections",
            Self::SmallReceiveMemory => "lab-small-receive-memory",
            Self::PrivilegedPorts => "lab-privileged-ports",
        }
    }

    /// What to do about it.
    pub const fn advice(self) -> Option<&'static str> {
        match self {
            Self::NoResolvConf => Some("create an empty /etc/resolv.conf"),
            Self::NoCubic => Some("load the module: modprobe tcp_cubic"),
            Self::PrivilegedPorts => Some("run the lab as root"),
            Self::LearnsFromConnections | Self::SmallReceiveMemory => None,
        }
    }
}

impl fmt::Display for LabWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoResolvConf => {
                "/etc/resolv.conf does not exist: programs cannot resolve the lab's names"
            }
            Self::NoCubic => {
                "the kernel has no CUBIC: TCP uses the kernel's default congestion control"
            }
            Self::LearnsFromConnections => {
                "/proc/sys/net/ipv4/tcp_no_metrics_save cannot be set: TCP connections may learn from \
                 earlier ones"
            }
            Self::SmallReceiveMemory => {
                "/proc/sys/net/ipv4/tcp_rmem cannot be set: large responses may wait for the \
                 client's receive window"
            }
            Self::PrivilegedPorts => {
                "/proc/sys/net/ipv4/ip_unprivileged_port_start cannot be set: servers that do \
                 not run as root cannot listen on port 443"
            }
        })
    }
}
