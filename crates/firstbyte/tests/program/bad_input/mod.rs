//! The table of bad input: the exact message and exit code for each case, from the program itself.
//!
//! The cases in `usage`, `files` and `lab` are refused before anything is measured. Those in `dns`, `tcp`, `tls`,
//! `certificates` and `http` fail during the measurement, at servers on loopback, and keep the results up to the
//! failure. Their rows also say how curl ends in the same situation, which is compared with curl.

mod certificates;
mod dns;
mod documented;
mod files;
mod http;
mod lab;
mod large_hello;
mod measured;
mod refused;
mod stalled;
mod tcp;
mod tls;
mod usage;
