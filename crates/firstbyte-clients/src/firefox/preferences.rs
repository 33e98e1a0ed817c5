//! The profile's preferences (`user.js`). A comment next to each one explains it.
//!
//! Input: options, and the origin to visit. Output: the file's text. Names and defaults are those of Firefox 153.

use firstbyte_probe::probe::Target;
use firstbyte_probe::probe::options::Family;
use serde_json::{Value, json};

use crate::browser::{BrowserHttp, BrowserOptions, BrowserSession, BrowserTls};

/// Preferences for every visit.
fn common() -> Vec<(&'static str, Value)> {
    vec![
        // Do not apply WebDriver's recommended preferences in addition.
        ("remote.prefs.recommended", json!(false)),
        // Take every response from the server.
        ("browser.cache.disk.enable", json!(false)),
        ("browser.cache.memory.enable", json!(false)),
        // No connections and lookups in advance, so that all of them belong to the visit.
        ("network.http.speculative-parallel-limit", json!(0)),
        ("network.dns.disablePrefetch", json!(true)),
        ("network.dns.disablePrefetchFromHTTPS", json!(true)),
        ("network.prefetch-next", json!(false)),
        ("network.predictor.enabled", json!(false)),
        ("network.early-hints.preconnect.enabled", json!(false)),
        ("browser.urlbar.speculativeConnect.enabled", json!(false)),
        ("browser.places.speculativeConnect.enabled", json!(false)),
        // Take the URL as it is: do not try https:// instead of http://.
        ("dom.security.https_first", json!(false)),
        ("dom.security.https_first_schemeless", json!(false)),
        ("dom.security.https_only_mode", json!(false)),
        // Connect directly, and resolve names through the system: use neither the environment's proxy nor DNS over
        // HTTPS (5: off by choice).
        ("network.proxy.type", json!(0)),
        ("network.trr.mode", json!(5)),
        // No traffic of its own: updates, reports, lists, icons, network checks, pings.
        ("app.normandy.enabled", json!(false)),
        ("app.update.auto", json!(false)),
        ("app.update.disabledForTesting", json!(true)),
        ("browser.aboutwelcome.enabled", json!(false)),
        ("browser.chrome.site_icons", json!(false)),
        // These are fetched at startup, before anything is observed.
        ("browser.newtabpage.activity-stream.discoverystream.enabled", json!(false)),
        ("browser.newtabpage.activity-stream.feeds.section.topstories", json!(false)),
        ("browser.newtabpage.activity-stream.feeds.topsites", json!(false)),
        ("browser.newtabpage.activity-stream.showSponsored", json!(false)),
        ("browser.newtabpage.activity-stream.showSponsoredTopSites", json!(false)),
        ("browser.newtabpage.activity-stream.unifiedAds.endpoint", json!("")),
        ("browser.newtabpage.activity-stream.unifiedAds.spocs.enabled", json!(false)),
        ("browser.newtabpage.activity-stream.unifiedAds.tiles.enabled", json!(false)),
        ("browser.newtabpage.enabled", json!(false)),
        ("browser.topsites.contile.enabled", json!(false)),
        ("browser.region.network.url", json!("")),
        ("browser.region.update.enabled", json!(false)),
        ("browser.safebrowsing.blockedURIs.enabled", json!(false)),
        ("browser.safebrowsing.downloads.enabled", json!(false)),
        ("browser.safebrowsing.downloads.remote.enabled", json!(false)),
        ("browser.safebrowsing.malware.enabled", json!(false)),
        ("browser.safebrowsing.phishing.enabled", json!(false)),
        ("browser.search.update", json!(false)),
        ("browser.send_pings", json!(false)),
        ("browser.shell.checkDefaultBrowser", json!(false)),
        ("browser.startup.homepage", json!("about:blank")),
        ("browser.startup.page", json!(0)),
        ("datareporting.healthreport.uploadEnabled", json!(false)),
        ("datareporting.policy.dataSubmissionEnabled", json!(false)),
        ("datareporting.usage.uploadEnabled", json!(false)),
        ("dom.push.connection.enabled", json!(false)),
        ("dom.push.enabled", json!(false)),
        ("extensions.getAddons.cache.enabled", json!(false)),
        ("extensions.systemAddon.update.enabled", json!(false)),
        ("extensions.systemAddon.update.url", json!("")),
        ("extensions.update.enabled", json!(false)),
        ("geo.provider.network.url", json!("")),
        ("media.gmp-manager.updateEnabled", json!(false)),
        ("media.gmp-manager.url", json!("")),
        ("network.captive-portal-service.enabled", json!(false)),
        ("network.connectivity-service.enabled", json!(false)),
        ("network.manage-offline-status", json!(false)),
        ("security.OCSP.enabled", json!(0)),
        ("security.certerrors.mitm.priming.enabled", json!(false)),
        ("security.remote_settings.crlite_filters.enabled", json!(false)),
        ("security.remote_settings.intermediates.enabled", json!(false)),
        // Only effective if the environment contains MOZ_REMOTE_SETTINGS_DEVTOOLS.
        ("services.settings.server", json!("data:,#remote-settings-dummy/v1")),
        ("toolkit.telemetry.enabled", json!(false)),
        ("toolkit.telemetry.server", json!("")),
        ("toolkit.telemetry.unified", json!(false)),
    ]
}

/// The text of `user.js` for visits to `target`.
pub(super) fn user_js(options: &BrowserOptions, target: &Target) -> String {
    let mut preferences = common();
    let mut set = |name, value| preferences.push((name, value));
    let http3 = match options.http {
        // Over QUIC, Firefox resumes sessions only together with early data.
        BrowserHttp::Negotiated => options.session != BrowserSession::Resumed,
        BrowserHttp::Http1 => {
            set("network.http.http2.enabled", json!(false));
            false
        }
        BrowserHttp::Http2 => false,
        BrowserHttp::Http3 => true,
    };
    set("network.http.http3.enable", json!(http3));
    if options.http == BrowserHttp::Http3 {
        let mapping = format!("{};h3=:{}", target.host, target.port);
        set("network.http.http3.alt-svc-mapping-for-testing", json!(mapping));
        set("network.http.http3.force-use-alt-svc-mapping-for-testing", json!(true));
        // Otherwise Firefox silently avoids QUIC if a root was added to the database.
        set("network.http.http3.disable_when_third_party_roots_found", json!(false));
        // Otherwise Firefox also tries HTTP/2 after 100 ms (0 means at once), and falls back to it after an error.
        set("network.http.http3.backup_timer_delay", json!(600_000));
        set("network.http.http3.fallback_to_h2_on_error", json!(false));
        set("network.dns.httpssvc.http3_fast_fallback_timeout", json!(0));
    }
    if options.http != BrowserHttp::Negotiated || !options.pins.is_empty() {
        // HTTPS records could replace the requested version or address.
        set("network.dns.native_https_query", json!(false));
    }
    // 3 is TLS 1.2, 4 is TLS 1.3.
    let (min, max) = match options.tls {
        BrowserTls::Both => (3, 4),
        BrowserTls::Tls12 => (3, 3),
        BrowserTls::Tls13 => (4, 4),
    };
    set("security.tls.version.min", json!(min));
    set("security.tls.version.max", json!(max));
    let early = options.session == BrowserSession::EarlyData;
    set("security.tls.enable_0rtt_data", json!(early));
    // Without it, Firefox resumes no session over QUIC.
    let quic_early = early || options.session == BrowserSession::Resumed;
    set("network.http.http3.enable_0rtt", json!(quic_early));
    set("network.dns.disableIPv6", json!(options.family == Family::V4));
    let mut text = String::new();
    for (name, value) in preferences {
        text.push_str(&format!("user_pref({}, {value});\n", json!(name)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_are_those_of_the_options() {
        let target = Target::parse("https://site.test:8443/").unwrap();
        let text = |options: BrowserOptions| user_js(&options, &target);
        let plain = text(BrowserOptions::default());
        let has = |text: &str, line: &str| text.lines().any(|l| l == format!("user_pref({line});"));
        assert!(has(&plain, r#""network.proxy.type", 0"#), "{plain}");
        assert!(has(&plain, r#""security.tls.enable_0rtt_data", false"#), "{plain}");
        assert!(!plain.contains("alt-svc-mapping"), "{plain}");
        let http3 = text(BrowserOptions { http: BrowserHttp::Http3, ..Default::default() });
        let mapping = r#""network.http.http3.alt-svc-mapping-for-testing", "site.test;h3=:8443""#;
        assert!(has(&http3, mapping), "{http3}");
        let old = text(BrowserOptions { tls: BrowserTls::Tls12, ..Default::default() });
        assert!(has(&old, r#""security.tls.version.max", 3"#), "{old}");
        let session = BrowserSession::EarlyData;
        let early = text(BrowserOptions { session, ..Default::default() });
        assert!(has(&early, r#""security.tls.enable_0rtt_data", true"#), "{early}");
    }

    #[test]
    fn no_preference_is_named_twice() {
        let target = Target::parse("https://site.test/").unwrap();
        let options = BrowserOptions { http: BrowserHttp::Http3, ..Default::default() };
        let text = user_js(&options, &target);
        let mut names: Vec<_> = text.lines().filter_map(|line| line.split(',').next()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
