//! Which proxies the flags and the environment name, read as curl reads them.

use std::path::PathBuf;

use firstbyte_curl::address::CurlUrl;
use firstbyte_curl::files::{LineFiles, MemoryFiles};
use firstbyte_curl::noproxy::find_proxy;
use firstbyte_curl::settings::ProxySettings;
use firstbyte_probe::probe::options::{ProxyOptions, ProxyRules};
use firstbyte_report::warning::Warning;

use crate::cli::args::VisitArgs;
use crate::cli::exit::Problem;
use crate::cli::terminal;

/// Variables that name proxies, or hosts that bypass them.
///
/// `HTTP_PROXY` is missing because a CGI program's client can set it.
const VARIABLES: [&str; 7] =
    ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"];

/// The proxies for visits with these flags.
pub(super) fn proxies(args: &VisitArgs) -> Result<Option<ProxyRules>, Problem> {
    let settings = ProxySettings {
        url: args.proxy.as_ref().map(|text| text.0.clone()),
        user: args.proxy_user.as_ref().map(|text| text.0.clone()),
        insecure: args.proxy_insecure,
        noproxy: args.noproxy.clone(),
        ..ProxySettings::default()
    };
    find_rules(&settings, args.proxy_cacert.clone(), &environment())
}

/// The proxies for one operation of curl's command line.
pub(super) fn proxies_of_curl(settings: &ProxySettings) -> Result<Option<ProxyRules>, Problem> {
    let ca_file = settings.cacert.clone().map(PathBuf::from);
    find_rules(settings, ca_file, &environment())
}

/// Warns of proxy variables that a command ignores.
pub(super) fn warn_of_ignored() {
    let files = environment();
    let is_proxy = |name: &&str| !name.eq_ignore_ascii_case("no_proxy");
    let mut names = VARIABLES.into_iter().filter(is_proxy);
    if let Some(variable) = names.find(|name| files.variable(name).is_some()) {
        terminal::warn(&Warning::ProxyIgnored { variable: variable.to_owned() });
    }
}

/// Which hosts are reached directly is decided per target at each visit, because a redirect may lead to one.
fn find_rules(
    settings: &ProxySettings,
    ca_file: Option<PathBuf>,
    files: &dyn LineFiles,
) -> Result<Option<ProxyRules>, Problem> {
    let everywhere = ProxySettings { noproxy: Some(String::new()), ..settings.clone() };
    let find = |url: &str| {
        let url = CurlUrl::parse(url, None, false)?;
        find_proxy(&everywhere, &url, files)
    };
    let find = |url: &str| match find(url) {
        Ok(proxy) => Ok(proxy.map(ProxyOptions::from)),
        Err(problem) => Err(Problem::new(problem.code, problem.message)),
    };
    let (http, https) = (find("http://localhost/")?, find("https://localhost/")?);
    if http.is_none() && https.is_none() && !settings.insecure && ca_file.is_none() {
        return Ok(None);
    }
    let direct_hosts = settings.noproxy.clone();
    let direct_hosts = direct_hosts.or_else(|| files.variable("no_proxy"));
    let direct_hosts = direct_hosts.or_else(|| files.variable("NO_PROXY")).unwrap_or_default();
    let ProxySettings { tunnel, http10, insecure, .. } = *settings;
    Ok(Some(ProxyRules { http, https, direct_hosts, tunnel, http10, insecure, ca_file }))
}

fn environment() -> MemoryFiles {
    let set = VARIABLES.into_iter().filter_map(|name| {
        let text = std::env::var(name).ok()?;
        Some((name.to_owned(), text))
    });
    MemoryFiles { variables: set.collect(), ..MemoryFiles::default() }
}

#[cfg(test)]
mod tests {
    use firstbyte_probe::probe::Target;

    use super::*;

    fn rules(settings: &ProxySettings, variables: &[(&str, &str)]) -> Option<ProxyRules> {
        let variables = variables.iter().map(|(name, text)| ((*name).into(), (*text).into()));
        let files = MemoryFiles { variables: variables.collect(), ..MemoryFiles::default() };
        find_rules(settings, None, &files).unwrap()
    }

    fn proxy_for(rules: Option<&ProxyRules>, url: &str) -> Option<String> {
        let proxy = rules?.proxy_for(&Target::parse(url).unwrap())?;
        Some(proxy.authority())
    }

    #[test]
    fn variables_count_for_their_scheme_and_flags_for_both() {
        let none = ProxySettings::default();
        assert_eq!(rules(&none, &[]), None);
        assert_eq!(rules(&none, &[("HTTP_PROXY", "a:1")]), None);
        let found = rules(&none, &[("HTTPS_PROXY", "a:1"), ("no_proxy", ".b.test")]);
        assert_eq!(proxy_for(found.as_ref(), "https://c.test").as_deref(), Some("a:1"));
        assert_eq!(proxy_for(found.as_ref(), "https://x.b.test"), None);
        assert_eq!(proxy_for(found.as_ref(), "http://c.test"), None);

        let typed = ProxySettings {
            url: Some("socks5://d:2".into()),
            user: Some("me:s3cret".into()),
            noproxy: Some("e.test".into()),
            ..ProxySettings::default()
        };
        let found = rules(&typed, &[("http_proxy", "a:1"), ("no_proxy", "c.test")]);
        assert_eq!(proxy_for(found.as_ref(), "http://c.test").as_deref(), Some("d:2"));
        assert_eq!(proxy_for(found.as_ref(), "https://e.test"), None);
        let user = found.unwrap().https.unwrap().user.unwrap();
        assert_eq!(
            (user.name.reveal().as_str(), user.password.reveal().as_str()),
            ("me", "s3cret")
        );

        let off = ProxySettings { url: Some(String::new()), ..ProxySettings::default() };
        assert_eq!(rules(&off, &[("all_proxy", "a:1")]), None);
    }

    #[test]
    fn what_is_no_proxy_is_told_by_where_it_stands() {
        let variables = [("all_proxy".to_owned(), "ftp://me:s3cret@a".to_owned())].into();
        let files = MemoryFiles { variables, ..MemoryFiles::default() };
        let problem = find_rules(&ProxySettings::default(), None, &files).unwrap_err();
        let message = problem.message();
        assert!(message.starts_with("all_proxy: ") && !message.contains("s3cret"), "{message}");
    }
}
