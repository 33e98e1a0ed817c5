//! The stored form of marks and clocks: `{"connect_start":[2170000,"k"]}`.

use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::timeline::{Clock, Mark, Marks, Offset, Stamp};

/// A clock as one letter: `k` kernel, `d` derived from the kernel's measurements, `u` user, `s` simulated; `r` with a
/// resolution in nanoseconds is one reported by another program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoredClock(pub Clock);

impl Serialize for StoredClock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let letter = match self.0 {
            Clock::Kernel => "k",
            Clock::KernelDerived => "d",
            Clock::User => "u",
            Clock::Simulated => "s",
            Clock::Reported { resolution_ns } => {
                return serializer.collect_str(&format_args!("r{resolution_ns}"));
            }
        };
        serializer.serialize_str(letter)
    }
}

impl<'de> Deserialize<'de> for StoredClock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Letter;
        impl Visitor<'_> for Letter {
            type Value = StoredClock;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the letter of a clock")
            }
            fn visit_str<E: de::Error>(self, letter: &str) -> Result<StoredClock, E> {
                let reported = letter.strip_prefix('r').and_then(|steps| steps.parse().ok());
                Ok(StoredClock(match (letter, reported) {
                    ("k", _) => Clock::Kernel,
                    ("d", _) => Clock::KernelDerived,
                    ("u", _) => Clock::User,
                    ("s", _) => Clock::Simulated,
                    (_, Some(resolution_ns)) => Clock::Reported { resolution_ns },
                    // The clock determines the value of a time, so an unknown clock cannot be replaced by another.
                    _ => {
                        return Err(E::custom(format_args!(
                            "unknown clock {letter:?}; a later version of firstbyte may have \
                             written it"
                        )));
                    }
                }))
            }
        }
        deserializer.deserialize_str(Letter)
    }
}

/// Marks by name, each with its time and its clock. Unknown names are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StoredMarks(pub Marks);

impl StoredMarks {
    pub(in crate::document) fn is_empty(&self) -> bool {
        self.0.iter().next().is_none()
    }
}

impl Serialize for StoredMarks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (mark, stamp) in self.0.iter() {
            map.serialize_entry(mark.name(), &(stamp.at.as_nanos(), StoredClock(stamp.clock)))?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for StoredMarks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ByName;
        impl<'de> Visitor<'de> for ByName {
            type Value = StoredMarks;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("marks by their names")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StoredMarks, A::Error> {
                let mut marks = Marks::default();
                while let Some(name) = map.next_key::<std::borrow::Cow<'_, str>>()? {
                    let (at, clock) = map.next_value::<(i64, StoredClock)>()?;
                    if let Some(mark) = Mark::named(&name) {
                        marks.set(mark, Stamp { at: Offset::from_nanos(at), clock: clock.0 });
                    }
                }
                Ok(StoredMarks(marks))
            }
        }
        deserializer.deserialize_map(ByName)
    }
}
