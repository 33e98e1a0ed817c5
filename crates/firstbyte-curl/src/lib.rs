//! curl's command line: what it asks for, and the exact requests that curl would send.
//!
//! Input: the words after `curl`, and [`files::LineFiles`]. Output: a [`settings::CurlLine`]; for each URL of it a
//! [`journey::Journey`], which gives one request after the other until there is nothing more to ask. Pure: whoever uses
//! it connects, sends and receives. Rules are those of curl 7.88, as measured; `docs/from-curl.md` lists every option.

pub mod address;
pub mod auth;
pub mod config_file;
pub mod cookies;
pub mod data;
pub mod dates;
pub mod files;
pub mod form;
pub mod glob;
pub mod grammar;
pub mod head;
pub mod journey;
pub mod netrc;
pub mod noproxy;
pub mod options;
pub mod problem;
pub mod settings;
pub mod transfers;
