//! Versions of curl used by several tests of this module.

use super::CurlCapabilities;

/// Debian 12's curl.
pub(super) const DEBIAN_12: &str = "curl 7.88.1 (x86_64-pc-linux-gnu) libcurl/7.88.1 OpenSSL/3.0.19 zlib/1.2.13
Release-Date: 2023-02-20, security patched: 7.88.1-10+deb12u14
Features: alt-svc AsynchDNS brotli HSTS HTTP2 HTTPS-proxy IDN IPv6 Largefile libz SSL threadsafe zstd";

/// From documentation and users' posts: a curl with all later features.
pub(super) const EARLY_8_13: &str =
    "curl 8.13.0 (x86_64-pc-linux-gnu) libcurl/8.13.0 OpenSSL/3.5.0 zlib/1.3 ngtcp2/1.11.0
Features: alt-svc AsynchDNS HSTS HTTP2 HTTP3 HTTPS-proxy IPv6 libz SSL SSLS-EXPORT threadsafe";

/// A curl with these options.
pub(super) fn able(version: &str, options: &str) -> CurlCapabilities {
    let help: String = options.split(' ').map(|option| format!("     {option} <x>  y\n")).collect();
    CurlCapabilities::read(version, &help).unwrap()
}

/// A curl that knows all options.
pub(super) fn able_of(version: &str) -> CurlCapabilities {
    able(version, "--curves --http3-only --no-sessionid --ssl-sessions --tls-earlydata")
}
