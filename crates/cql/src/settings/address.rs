//! Parses an address into settings, and shows settings as address options.

use super::fields::Settings;
use super::options::{AddressOption, OPTIONS};
use super::values::{self, CONSISTENCIES, name_of, wrong};
use idmatch_store::Result;
use scylla::statement::Consistency;
use std::collections::BTreeMap;

const SCHEME: &str = "cql://";
/// The options that an environment variable can give: `IDMATCH_CQL_` and their names.
const IN_ENVIRONMENT: [&str; 3] = ["tls_ca", "tls_certificate", "tls_key"];

/// The name of a consistency level.
pub(crate) fn name_of_consistency(consistency: Consistency) -> &'static str {
    name_of(&consistency, &CONSISTENCIES)
}

/// A setting from the address, the environment or the defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// Its name in the address.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What it means, and why its default is chosen.
    pub about: &'static str,
}

impl Settings {
    /// Whether a text is an address of this kind.
    pub fn is_address(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Parses `cql://[user[:password]@]host[:port][,host...]/keyspace[?name=value&...]`. The environment
    /// gives values that the address leaves out: `user` and `password`, as `environment` returns them for
    /// `IDMATCH_CQL_USER` and `IDMATCH_CQL_PASSWORD`, and the files of TLS, as `IDMATCH_CQL_TLS_CA`,
    /// `IDMATCH_CQL_TLS_CERTIFICATE` and `IDMATCH_CQL_TLS_KEY`.
    ///
    /// # Errors
    /// `InvalidArgument`, which names the wrong part and never its value: the value may be a secret.
    pub fn parse(address: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Settings> {
        let rest = address.strip_prefix(SCHEME).ok_or_else(|| wrong("it starts with cql://"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        // This comes before the keyspace, so that no error shows a part of a password with `/`.
        let (login, place) = match place.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, place),
        };
        let (hosts, keyspace) =
            place.split_once('/').ok_or_else(|| wrong("the keyspace follows the hosts"))?;
        let mut settings = Settings {
            nodes: hosts.split(',').map(values::node).collect::<Result<_>>()?,
            keyspace: values::keyspace(keyspace)?,
            login: values::login(login, environment)?,
            ..Settings::default()
        };
        let given = given(query)?;
        for option in &OPTIONS {
            let name = option.name;
            let variable = || match IN_ENVIRONMENT.contains(&name) {
                true => environment(&format!("IDMATCH_CQL_{}", name.to_uppercase())),
                false => None,
            };
            let named = given.get(name).filter(|value| !value.is_empty()).cloned();
            let value = named.or_else(variable).unwrap_or_else(|| option.default.to_owned());
            if !value.is_empty() {
                (option.set)(&mut settings, &value)
                    .map_err(|error| wrong(&format!("{name} {error}")))?;
            }
        }
        check_tls(&settings, given.contains_key("tls_verify_hostname"))?;
        Ok(settings)
    }

    /// The longest time that a write may be in flight.
    pub(crate) fn longest_write(&self) -> std::time::Duration {
        self.timeout + self.request_timeout
    }

    /// The address without user, password and options.
    pub fn shown(&self) -> String {
        format!("{SCHEME}{}/{}", self.nodes.join(","), self.keyspace)
    }

    /// Every setting, without the password. The settings of an existing keyspace or table may
    /// differ.
    pub fn effective(&self) -> Vec<Effective> {
        let each = |option: &AddressOption| Effective {
            name: option.name,
            value: (option.show)(self),
            about: option.about,
        };
        OPTIONS.iter().map(each).collect()
    }
}

/// The options of an address, from the text after `?`.
fn given(query: &str) -> Result<BTreeMap<&'static str, String>> {
    let mut given = BTreeMap::new();
    for (at, (name, value)) in form_urlencoded::parse(query.as_bytes()).enumerate() {
        let Some(option) = OPTIONS.iter().find(|option| option.name == name) else {
            if name.contains('@') {
                return Err(wrong("a ? in a password is written as %3F"));
            }
            let names: Vec<&str> = OPTIONS.iter().map(|option| option.name).collect();
            let (number, names) = (at + 1, names.join(", "));
            return Err(wrong(&format!(
                "part {number} after the ? is no option; there are {names}"
            )));
        };
        if given.insert(option.name, value.into_owned()).is_some() {
            return Err(wrong(&format!("{name} is there twice")));
        }
    }
    Ok(given)
}

/// TLS is on where an authority is named. Every other TLS option is refused without it, so that
/// nothing that looks encrypted is sent in the clear.
fn check_tls(settings: &Settings, names_verify_hostname: bool) -> Result<()> {
    let tls = &settings.tls;
    match (&tls.certificate, &tls.key) {
        (Some(_), None) => return Err(wrong("tls_certificate needs its tls_key")),
        (None, Some(_)) => return Err(wrong("tls_key needs its tls_certificate")),
        _ => {}
    }
    if !tls.is_on() && (tls.key.is_some() || names_verify_hostname) {
        return Err(wrong("without tls_ca, which names whom to trust, there is no TLS"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::fields::Tls;
    use std::time::Duration;

    fn parse(address: &str) -> std::result::Result<Settings, String> {
        Settings::parse(address, &|_| None).map_err(|e| e.to_string())
    }

    #[test]
    fn an_address_has_hosts_and_a_keyspace() {
        let settings = parse("cql://10.0.0.1,db.example:9043,[::1]:9044/ids").unwrap();
        assert_eq!(settings.nodes, ["10.0.0.1:9042", "db.example:9043", "[::1]:9044"]);
        assert_eq!((settings.keyspace.as_str(), settings.login), ("ids", None));
        assert_eq!(settings.read_consistency, Consistency::LocalQuorum);
    }

    #[test]
    fn a_password_is_read_and_never_shown() {
        let settings = parse("cql://me:s%40cret@h/ids?in_flight=7&timeout=3s").unwrap();
        let login = settings.login.clone().unwrap();
        assert_eq!((login.user.as_str(), login.password.as_str()), ("me", "s@cret"));
        assert_eq!((settings.in_flight, settings.timeout), (7, Duration::from_secs(3)));
        assert!(!format!("{settings:?}{:?}", settings.effective()).contains("s@cret"));
        for raw in ["se?cret", "9/se?cret"] {
            let wrong = parse(&format!("cql://me:{raw}@h/ids")).unwrap_err();
            assert!(!wrong.contains("cret"), "{wrong}");
        }
        for raw in ["se/cret", "se@cret", "9/cret"] {
            let login = parse(&format!("cql://me:{raw}@h/ids")).unwrap().login.unwrap();
            assert_eq!(login.password, raw);
            let wrong = parse(&format!("cql://me:{raw}@h:x/ids")).unwrap_err();
            assert!(!wrong.contains("cret"), "{wrong}");
        }
        let wrong = parse("cql://me:s%40cret@h/ids?nonsense=1").unwrap_err();
        assert!(wrong.contains("part 1") && !wrong.contains("cret"), "{wrong}");
        let environment = |name: &str| Some(name.to_lowercase());
        let login = Settings::parse("cql://h/ids", &environment).unwrap().login.unwrap();
        assert_eq!(login.password, "idmatch_cql_password");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (address, named) in [
            ("cql://h", "keyspace"),
            ("cql:///ids", "host"),
            ("cql://h:x/ids", "port"),
            ("cql://h/Ids", "keyspace"),
            ("cql://h/ids?timeout=soon", "timeout"),
            ("cql://h/ids?in_flight=0", "in_flight"),
            ("cql://h/ids?in_flight=1&in_flight=2", "twice"),
            ("cql://h/ids?read_consistency=some", "local_quorum"),
            ("cql://h/ids?max_requests_per_second=0", "max_requests_per_second"),
            ("cql://h/ids?in_flight=1.5", "in_flight is no whole number"),
            ("cql://h/ids?tls_ca=a&tls_certificate=b", "tls_key"),
            ("cql://h/ids?tls_ca=a&tls_key=b", "tls_certificate"),
            ("cql://h/ids?tls_certificate=a&tls_key=b", "tls_ca"),
            ("cql://h/ids?tls_verify_hostname=off", "tls_ca"),
            ("cql://h/ids?tls_ca=a&tls_verify_hostname=maybe", "none of on, off"),
        ] {
            let text = parse(address).unwrap_err();
            assert!(text.contains(named), "{address}: {text}");
        }
    }

    #[test]
    fn tls_is_on_where_an_authority_is_named() {
        assert!(!parse("cql://h/ids").unwrap().tls.is_on());
        let tls = parse("cql://h/ids?tls_ca=/etc/ca.pem").unwrap().tls;
        let ca = Some("/etc/ca.pem".into());
        assert_eq!(tls, Tls { ca, certificate: None, key: None, verify_hostname: true });
        let files = "tls_ca=a&tls_certificate=b&tls_key=c&tls_verify_hostname=off";
        let tls = parse(&format!("cql://h/ids?{files}")).unwrap().tls;
        let (ca, certificate, key) = (Some("a".into()), Some("b".into()), Some("c".into()));
        assert_eq!(tls, Tls { ca, certificate, key, verify_hostname: false });
        let environment = |name: &str| name.starts_with("IDMATCH_CQL_TLS").then(|| name.to_owned());
        let tls = Settings::parse("cql://h/ids?tls_ca=a", &environment).unwrap().tls;
        assert_eq!(tls.ca, Some("a".into()));
        assert_eq!(tls.certificate, Some("IDMATCH_CQL_TLS_CERTIFICATE".into()));
        assert_eq!(tls.key, Some("IDMATCH_CQL_TLS_KEY".into()));
    }

    #[test]
    fn every_option_has_an_effect() {
        let effective = parse("cql://h/ids").unwrap().effective();
        assert_eq!(effective.len(), OPTIONS.len());
        assert!(effective.iter().all(|setting| !setting.about.is_empty()));
        let others = "datacenter=dc9&replication=2&read_consistency=one&write_consistency=two&\
             request_timeout=1s&timeout=2s&speculate_after=off&in_flight=3&\
             max_requests_per_second=4&tls_ca=a&tls_certificate=b&tls_key=c&\
             tls_verify_hostname=off&hot_key_rows=6&match_reads=in_queries&\
             match_memory=7&metadata_ttl=6s";
        let changed = parse(&format!("cql://h/ids?{others}")).unwrap().effective();
        for (default, other) in effective.iter().zip(&changed) {
            assert_ne!(default.value, other.value, "{}", default.name);
        }
    }
}
