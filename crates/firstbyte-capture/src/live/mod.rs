//! Live captures: connections from an interface's packets, as they pass.
//!
//! In: an interface and a filter. Out: what [`Analyzer`] makes of the frames, with the kernel's times, and how many
//! frames the kernel dropped. Linux only; elsewhere opening fails with an error that says so. The [`Follower`] decides
//! when to stop, not this module.

#[cfg(target_os = "linux")]
mod sys;

use std::fmt;
use std::io;

use firstbyte_core::pcap::Frame;
use firstbyte_passive::filter::Filter;
use firstbyte_passive::{Analyzer, Observed};

/// Options of a live capture.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the interface; `any` means all interfaces.
    pub interface: String,
    /// Packets to capture.
    pub filter: Filter,
    /// Bytes kept of each packet.
    pub snaplen: u32,
    /// Size in bytes of the buffer that the kernel fills.
    pub buffer_bytes: usize,
    /// Whether to capture packets addressed to other hosts.
    pub promiscuous: bool,
}

/// Why an interface cannot be captured on, or no longer.
#[derive(Debug)]
pub enum LiveError {
    /// This system is not Linux.
    Unsupported,
    /// No interface has this name.
    NoInterface {
        /// The name.
        name: String,
        /// Interfaces that exist.
        known: Vec<String>,
    },
    /// The privilege is missing.
    NotPermitted {
        /// The interface.
        name: String,
    },
    /// It is down, or went away.
    Down {
        /// The interface.
        name: String,
    },
    /// The system refused something.
    Refused {
        /// The interface.
        name: String,
        /// The step that failed.
        step: &'static str,
        /// Why.
        error: io::Error,
    },
}

impl LiveError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unsupported => Some("capture with tcpdump -w FILE and read the file".into()),
            Self::NoInterface { known, .. } => Some(format!(
                "known interfaces: {}; \"any\" captures on all of them",
                known.join(", ")
            )),
            Self::NotPermitted { .. } => Some(
                "capturing needs CAP_NET_RAW: run it with sudo, or once: \
                 sudo setcap cap_net_raw=ep \"$(command -v firstbyte)\""
                    .into(),
            ),
            Self::Down { name } => Some(format!("see: ip link show {name}")),
            Self::Refused { step: "make the buffer", .. } => Some("try a smaller --buffer".into()),
            Self::Refused { .. } => None,
        }
    }
}

impl fmt::Display for LiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str("capturing on an interface works only on Linux"),
            Self::NoInterface { name, .. } => write!(f, "{name}: no such interface"),
            Self::NotPermitted { name } => write!(f, "{name}: not permitted to capture"),
            Self::Down { name } => write!(f, "{name}: the interface is down or was removed"),
            Self::Refused { name, step, error } => {
                write!(f, "{name}: could not {step}: {}", super::reason(error))
            }
        }
    }
}

impl std::error::Error for LiveError {}

/// Receives the results of a live capture.
pub trait Follower {
    /// A connection has ended.
    fn connection(&mut self, observed: &Observed);
    /// A frame was analysed; `owner` is the number of its connection, if known.
    fn frame(&mut self, frame: &Frame<'_>, owner: Option<u64>);
    /// Called several times a second; false ends the capture.
    fn goes_on(&mut self, analyzer: &Analyzer) -> bool;
}

#[cfg(target_os = "linux")]
pub use linux::Live;
#[cfg(not(target_os = "linux"))]
pub use other::Live;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::time::Duration;

    use firstbyte_passive::{Analyzer, Time};
    use nix::errno::Errno;
    use nix::net::if_::{if_nameindex, if_nametoindex};

    use super::sys::{RETIRE_MS, Refused, Ring, Wanted};
    use super::{Follower, LiveError, Options};
    use firstbyte_clock::{Monotonic, Realtime};

    /// All interfaces.
    const ANY: &str = "any";
    /// Blocks read before checking whether other work is due.
    const BLOCKS: usize = 8;
    /// How often to query the follower, and the kernel's drop counter.
    const ASK_EVERY: Duration = Duration::from_millis(100);
    const WAIT_MS: u16 = 50;
    /// Frames not handed over yet by the kernel are younger than this.
    const YOUNGEST_NS: i64 = 1_000_000_000;

    /// A capture that is already receiving frames.
    #[derive(Debug)]
    pub struct Live {
        name: String,
        ring: Ring,
        promiscuous: bool,
        asked: Time,
    }

    impl Live {
        /// Starts capturing.
        ///
        /// # Errors
        /// There is no such interface, or it cannot be captured on.
        pub fn open(options: &Options) -> Result<Self, LiveError> {
            let name = options.interface.clone();
            tracing::debug!(interface = name, snaplen = options.snaplen, "opening a ring");
            let interface = match name.as_str() {
                ANY => None,
                _ => Some(if_nametoindex(name.as_str()).map_err(|_| no_interface(&name))?),
            };
            let wanted = Wanted {
                interface,
                filter: &options.filter,
                snaplen: options.snaplen,
                buffer_bytes: options.buffer_bytes,
                promiscuous: options.promiscuous,
            };
            let asked = now();
            let ring = Ring::open(&wanted).map_err(|refused| error(&name, refused))?;
            // An interface that is down reports it here, before the first frame.
            ring.wait(0).map_err(|errno| error(&name, lost(errno)))?;
            let promiscuous = options.promiscuous && interface.is_some();
            Ok(Self { name, ring, promiscuous, asked })
        }

        /// Describes the captured interface.
        pub fn describe(&self) -> String {
            let kind = match (self.ring.is_loopback(), self.ring.is_cooked()) {
                (true, _) => "loopback, each packet once",
                (false, true) => "without link headers",
                (false, false) if self.promiscuous => "Ethernet, promiscuous",
                (false, false) => "Ethernet",
            };
            format!("{} ({kind})", self.name)
        }

        /// Feeds frames to `analyzer` and its results to `follower`, until `follower` ends the capture. Everything that
        /// had passed by then is still read.
        ///
        /// # Errors
        /// The interface went away. `analyzer` keeps everything captured before that.
        pub fn follow(
            &mut self,
            analyzer: &mut Analyzer,
            follower: &mut dyn Follower,
        ) -> Result<(), LiveError> {
            let mut looked_after = Monotonic::now();
            loop {
                let mut drained = false;
                for _ in 0..BLOCKS {
                    drained = self.block(analyzer, follower).is_none();
                    if drained {
                        break;
                    }
                }
                if Monotonic::now().since(looked_after) >= ASK_EVERY {
                    looked_after = Monotonic::now();
                    self.ask_what_was_dropped(analyzer)?;
                    if drained {
                        let to = Time::from_unix_ns(now().unix_ns() - YOUNGEST_NS);
                        analyzer.advance(to, &mut |observed| follower.connection(observed));
                    }
                    if !follower.goes_on(analyzer) {
                        break;
                    }
                }
                if drained {
                    self.wait()?;
                }
            }
            self.drain(analyzer, follower)
        }

        /// Reads the frames that the kernel has not handed over yet.
        fn drain(
            &mut self,
            analyzer: &mut Analyzer,
            follower: &mut dyn Follower,
        ) -> Result<(), LiveError> {
            let (ended, begun) = (now(), Monotonic::now());
            let long_enough = Duration::from_millis(2 * u64::from(RETIRE_MS));
            loop {
                match self.block(analyzer, follower) {
                    Some(last) if last > ended => break,
                    Some(_) => {}
                    None if Monotonic::now().since(begun) > long_enough => break,
                    None => self.wait()?,
                }
            }
            self.ask_what_was_dropped(analyzer)
        }

        fn block(&mut self, analyzer: &mut Analyzer, follower: &mut dyn Follower) -> Option<Time> {
            self.ring.next_block(&mut |frame| {
                analyzer.frame(frame, &mut |observed| follower.connection(observed));
                follower.frame(frame, analyzer.latest());
            })
        }

        fn ask_what_was_dropped(&mut self, analyzer: &mut Analyzer) -> Result<(), LiveError> {
            let dropped = self.ring.take_drops();
            let dropped = dropped.map_err(|errno| error(&self.name, lost(errno)))?;
            let asked = now();
            analyzer.dropped(dropped, self.asked, asked);
            self.asked = asked;
            Ok(())
        }

        fn wait(&self) -> Result<(), LiveError> {
            self.ring.wait(WAIT_MS).map_err(|errno| error(&self.name, lost(errno)))
        }
    }

    fn now() -> Time {
        Time::from_unix_ns(i64::try_from(Realtime::now().unix_nanos()).unwrap_or(i64::MAX))
    }

    const fn lost(error: Errno) -> Refused {
        Refused { step: "continue", error }
    }

    fn no_interface(name: &str) -> LiveError {
        let known = if_nameindex().map_or_else(
            |_| Vec::new(),
            |all| all.iter().map(|one| one.name().to_string_lossy().into_owned()).collect(),
        );
        LiveError::NoInterface { name: name.to_owned(), known }
    }

    fn error(name: &str, Refused { step, error }: Refused) -> LiveError {
        let name = name.to_owned();
        match error {
            Errno::EPERM | Errno::EACCES => LiveError::NotPermitted { name },
            Errno::ENETDOWN | Errno::ENODEV | Errno::ENXIO => LiveError::Down { name },
            error => LiveError::Refused { name, step, error: io::Error::from(error) },
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use firstbyte_passive::Analyzer;

    use super::{Follower, LiveError, Options};

    /// Uninhabited: this system does not support live captures.
    #[derive(Debug)]
    pub struct Live(std::convert::Infallible);

    impl Live {
        /// Reports that this system does not support live captures.
        ///
        /// # Errors
        /// Always.
        pub fn open(_: &Options) -> Result<Self, LiveError> {
            Err(LiveError::Unsupported)
        }

        /// Never called: this type has no values.
        pub fn describe(&self) -> String {
            match self.0 {}
        }

        /// Never called: this type has no values.
        ///
        /// # Errors
        /// Never.
        pub fn follow(&mut self, _: &mut Analyzer, _: &mut dyn Follower) -> Result<(), LiveError> {
            match self.0 {}
        }
    }
}
