//! Parses an address into settings, and shows settings as address options.

use super::login::Login;
use super::options::{Given, OPTIONS};
use super::values::{CONSISTENCIES, consistency, duration, name_of, number, one_of, switch, wrong};
use idmatch_store::Result;
use scylla::statement::Consistency;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

const SCHEME: &str = "cql://";
const MOST_IN_FLIGHT: u64 = 100_000;
const MOST_PER_SECOND: u64 = 10_000_000;

/// The name of a consistency level.
pub(crate) fn name_of_consistency(consistency: Consistency) -> String {
    name_of(&consistency, &CONSISTENCIES)
}

/// How idmatch connects to a store on ScyllaDB or Cassandra, and how it sends requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The contact points, each as `host:port`.
    pub nodes: Vec<String>,
    /// The keyspace.
    pub keyspace: String,
    /// User and password.
    pub login: Option<Login>,
    /// The datacenter whose nodes are coordinators.
    pub datacenter: Option<String>,
    /// The replication factor of a keyspace that is created; without it none is created.
    pub replication: Option<u8>,
    /// Consistency of reads.
    pub read_consistency: Consistency,
    /// Consistency of writes.
    pub write_consistency: Consistency,
    /// Timeout of one attempt.
    pub request_timeout: Duration,
    /// How long a request is retried.
    pub timeout: Duration,
    /// Speculative delay: the least time before a second node is asked too.
    pub speculate_after: Option<Duration>,
    /// Requests in flight at once.
    pub in_flight: usize,
    /// Requests a second.
    pub max_requests_per_second: Option<NonZeroU32>,
    /// TLS; without it connections are not encrypted.
    pub tls: Option<Tls>,
    /// Expected rows of a table.
    pub expected_rows: u64,
    /// Rows from which a key is hot.
    pub hot_key_rows: u64,
    /// The reads of a match.
    pub match_reads: MatchReads,
    /// Bytes of a population that are in memory at once, and of its matches.
    pub match_memory: usize,
    /// Metadata TTL: how long an erasure waits until every client knows it; fixed when a keyspace
    /// is created.
    pub metadata_ttl: Duration,
}

/// The reads of a match, where there is a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchReads {
    /// The cheaper one.
    Auto,
    /// One key in a request.
    Keys,
    /// IN queries.
    Lists,
    /// Partition scans.
    Buckets,
}

const MATCH_READS: [(&str, MatchReads); 4] = [
    ("auto", MatchReads::Auto),
    ("keys", MatchReads::Keys),
    ("lists", MatchReads::Lists),
    ("buckets", MatchReads::Buckets),
];

/// The files of TLS. They are read when the client connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate authorities of the servers.
    pub ca: PathBuf,
    /// This client's certificate, and its private key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// Whether a certificate must name the address of its server.
    pub verify_hostname: bool,
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

    /// Parses `cql://[user[:password]@]host[:port][,host...]/keyspace[?name=value&...]`. The
    /// environment gives what the address leaves out: `user` and `password`, as `environment`
    /// returns them for `IDMATCH_CQL_USER` and `IDMATCH_CQL_PASSWORD`, and the files of TLS, as
    /// `IDMATCH_CQL_TLS_CA`, `IDMATCH_CQL_TLS_CERTIFICATE` and `IDMATCH_CQL_TLS_KEY`.
    ///
    /// # Errors
    /// `InvalidArgument`, which names the wrong part and never the password.
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
        let nodes = hosts.split(',').map(super::values::node).collect::<Result<Vec<_>>>()?;
        let given = Given::parse(query)?;
        let read = |name: &str, least, most| number(name, given.of(name), least, most);
        let read_some =
            |name: &str, most| given.some(name).map(|text| number(name, text, 1, most)).transpose();
        let period = |name: &str| duration(name, given.of(name));
        Ok(Settings {
            nodes,
            keyspace: super::values::keyspace(keyspace)?,
            login: super::values::login(login, environment)?,
            datacenter: given.some("datacenter").map(str::to_owned),
            replication: read_some("replication", 9)?.map(|copies| copies as u8),
            read_consistency: consistency("read_consistency", given.of("read_consistency"))?,
            write_consistency: consistency("write_consistency", given.of("write_consistency"))?,
            request_timeout: period("request_timeout")?,
            timeout: period("timeout")?,
            speculate_after: match given.of("speculate_after") {
                "off" => None,
                _ => Some(period("speculate_after")?),
            },
            in_flight: read("in_flight", 1, MOST_IN_FLIGHT)? as usize,
            max_requests_per_second: read_some("max_requests_per_second", MOST_PER_SECOND)?
                .and_then(|most| NonZeroU32::new(most as u32)),
            tls: tls(&given, environment)?,
            expected_rows: read("expected_rows", 1, 1 << 50)?,
            hot_key_rows: read("hot_key_rows", 1, 1 << 50)?,
            match_reads: one_of("match_reads", given.of("match_reads"), &MATCH_READS)?,
            match_memory: read("match_memory", 1, 1 << 40)? as usize,
            metadata_ttl: period("lease")?,
        })
    }

    /// The longest time that a write may be in flight.
    pub(crate) fn longest_write(&self) -> Duration {
        self.timeout + self.request_timeout
    }

    /// The address without user, password and options.
    pub fn shown(&self) -> String {
        format!("{SCHEME}{}/{}", self.nodes.join(","), self.keyspace)
    }

    /// Every setting, without the password. The settings of an existing keyspace or table may
    /// differ.
    pub fn effective(&self) -> Vec<Effective> {
        let shown = |duration: Duration| format!("{duration:?}");
        let client = self.tls.as_ref().and_then(|tls| tls.client.as_ref());
        let path = |path: Option<&PathBuf>| path.map(|p| p.display().to_string());
        let of = |name| match name {
            "datacenter" => self.datacenter.clone().unwrap_or_default(),
            "replication" => self.replication.map(|n| n.to_string()).unwrap_or_default(),
            "read_consistency" => name_of(&self.read_consistency, &CONSISTENCIES),
            "write_consistency" => name_of(&self.write_consistency, &CONSISTENCIES),
            "request_timeout" => shown(self.request_timeout),
            "timeout" => shown(self.timeout),
            "speculate_after" => self.speculate_after.map_or("off".to_owned(), shown),
            "in_flight" => self.in_flight.to_string(),
            "max_requests_per_second" => {
                self.max_requests_per_second.map(|n| n.to_string()).unwrap_or_default()
            }
            "tls_ca" => path(self.tls.as_ref().map(|tls| &tls.ca)).unwrap_or_default(),
            "tls_certificate" => path(client.map(|client| &client.0)).unwrap_or_default(),
            "tls_key" => path(client.map(|client| &client.1)).unwrap_or_default(),
            "tls_verify_hostname" => {
                let verifies = self.tls.as_ref().is_none_or(|tls| tls.verify_hostname);
                if verifies { "on".to_owned() } else { "off".to_owned() }
            }
            "expected_rows" => self.expected_rows.to_string(),
            "hot_key_rows" => self.hot_key_rows.to_string(),
            "match_reads" => name_of(&self.match_reads, &MATCH_READS),
            "match_memory" => self.match_memory.to_string(),
            _ => shown(self.metadata_ttl),
        };
        let each = |o: &super::options::Choice| Effective {
            name: o.name,
            value: of(o.name),
            about: o.about,
        };
        OPTIONS.iter().map(each).collect()
    }
}

/// TLS is on where an authority is named. Every other TLS option is refused without it, so that
/// nothing that looks encrypted is sent in the clear.
fn tls(given: &Given, environment: &dyn Fn(&str) -> Option<String>) -> Result<Option<Tls>> {
    let file = |option: &str, variable: &str| {
        let named = given.some(option).map(str::to_owned).or_else(|| environment(variable));
        named.map(PathBuf::from)
    };
    let certificate = file("tls_certificate", "IDMATCH_CQL_TLS_CERTIFICATE");
    let key = file("tls_key", "IDMATCH_CQL_TLS_KEY");
    let verify_hostname = switch("tls_verify_hostname", given.of("tls_verify_hostname"))?;
    let client = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) => return Err(wrong("tls_certificate needs its tls_key")),
        (None, Some(_)) => return Err(wrong("tls_key needs its tls_certificate")),
    };
    let Some(ca) = file("tls_ca", "IDMATCH_CQL_TLS_CA") else {
        if client.is_some() || given.has("tls_verify_hostname") {
            return Err(wrong("without tls_ca, which names whom to trust, there is no TLS"));
        }
        return Ok(None);
    };
    Ok(Some(Tls { ca, client, verify_hostname }))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(wrong.contains("nonsense") && !wrong.contains("cret"), "{wrong}");
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
            ("cql://h/Ids", "\"Ids\""),
            ("cql://h/ids?timeout=soon", "timeout"),
            ("cql://h/ids?in_flight=0", "in_flight"),
            ("cql://h/ids?in_flight=1&in_flight=2", "twice"),
            ("cql://h/ids?read_consistency=some", "local_quorum"),
            ("cql://h/ids?max_requests_per_second=0", "max_requests_per_second"),
            ("cql://h/ids?tls_ca=a&tls_certificate=b", "tls_key"),
            ("cql://h/ids?tls_ca=a&tls_key=b", "tls_certificate"),
            ("cql://h/ids?tls_certificate=a&tls_key=b", "tls_ca"),
            ("cql://h/ids?tls_verify_hostname=off", "tls_ca"),
            ("cql://h/ids?tls_ca=a&tls_verify_hostname=maybe", "neither on nor off"),
        ] {
            let text = parse(address).unwrap_err();
            assert!(text.contains(named), "{address}: {text}");
        }
    }

    #[test]
    fn tls_is_on_where_an_authority_is_named() {
        assert_eq!(parse("cql://h/ids").unwrap().tls, None);
        let tls = parse("cql://h/ids?tls_ca=/etc/ca.pem").unwrap().tls.unwrap();
        assert_eq!(tls, Tls { ca: "/etc/ca.pem".into(), client: None, verify_hostname: true });
        let files = "tls_ca=a&tls_certificate=b&tls_key=c&tls_verify_hostname=off";
        let tls = parse(&format!("cql://h/ids?{files}")).unwrap().tls.unwrap();
        let client = Some(("b".into(), "c".into()));
        assert_eq!(tls, Tls { ca: "a".into(), client, verify_hostname: false });
        let environment = |name: &str| name.starts_with("IDMATCH_CQL_TLS").then(|| name.to_owned());
        let tls = Settings::parse("cql://h/ids?tls_ca=a", &environment).unwrap().tls.unwrap();
        let client = ("IDMATCH_CQL_TLS_CERTIFICATE".into(), "IDMATCH_CQL_TLS_KEY".into());
        assert_eq!((tls.ca, tls.client), ("a".into(), Some(client)));
    }

    #[test]
    fn every_option_has_an_effect() {
        let effective = parse("cql://h/ids").unwrap().effective();
        assert_eq!(effective.len(), OPTIONS.len());
        assert!(effective.iter().all(|setting| !setting.about.is_empty()));
        let others = "datacenter=dc9&replication=2&read_consistency=one&write_consistency=two&\
             request_timeout=1s&timeout=2s&speculate_after=off&in_flight=3&\
             max_requests_per_second=4&tls_ca=a&tls_certificate=b&tls_key=c&\
             tls_verify_hostname=off&expected_rows=5&hot_key_rows=6&match_reads=lists&\
             match_memory=7&lease=6s";
        let changed = parse(&format!("cql://h/ids?{others}")).unwrap().effective();
        for (default, other) in effective.iter().zip(&changed) {
            assert_ne!(default.value, other.value, "{}", default.name);
        }
    }
}
