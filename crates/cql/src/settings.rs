//! What `cql://` addresses say: where the servers are, and how they are asked.
//!
//! Must not connect to anything.

use idmatch_store::{Error, ErrorKind, Result};
use percent_encoding::percent_decode_str;
use scylla::statement::Consistency;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const PORT: u16 = 9042;
const SCHEME: &str = "cql://";
const MOST_IN_FLIGHT: usize = 100_000;

/// How a store on ScyllaDB or Cassandra is reached and asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The contact points, each as `host:port`.
    pub nodes: Vec<String>,
    /// The keyspace.
    pub keyspace: String,
    /// User and password.
    pub login: Option<Login>,
    /// The datacenter whose nodes are asked.
    pub datacenter: Option<String>,
    /// How many copies a keyspace has that is made; without it none is made.
    pub replication: Option<u8>,
    /// Who has to answer a read.
    pub read_consistency: Consistency,
    /// Who has to acknowledge a write.
    pub write_consistency: Consistency,
    /// How long one request is waited for.
    pub request_timeout: Duration,
    /// How long a request is repeated that the servers do not answer well.
    pub timeout: Duration,
    /// After how long without an answer a second node is asked too.
    pub speculate_after: Option<Duration>,
    /// Requests that may be under way at once.
    pub in_flight: usize,
    /// How many rows a table is made for.
    pub expected_rows: u64,
    /// How many rows make a key one with very many, which are kept apart.
    pub hot_key_rows: u64,
    /// How long an erasure waits until every client knows of it; chosen when a keyspace is made.
    pub lease: Duration,
}

/// User and password. The password is not shown.
#[derive(Clone, PartialEq)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({:?}, ..)", self.user)
    }
}

/// A setting as it is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// Its name in the address.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What it is, and why its default is what it is.
    pub about: &'static str,
}

/// What an address may say after `?`: name, default, and what it is for.
const OPTIONS: [(&str, &str, &str); 11] = [
    (
        "datacenter",
        "",
        "the datacenter whose nodes are asked; without it the nearest is not known, and all are",
    ),
    (
        "replication",
        "",
        "copies of each row in a keyspace that is made; without it a missing keyspace is an error",
    ),
    (
        "read_consistency",
        "local_quorum",
        "who answers a read; with local_quorum on both sides a read sees every acknowledged write",
    ),
    (
        "write_consistency",
        "local_quorum",
        "who acknowledges a write; one node of three may then be down",
    ),
    (
        "request_timeout",
        "5s",
        "how long one request is waited for: longer than the servers' own limits of 2 to 5 s, so that their reason is seen",
    ),
    (
        "timeout",
        "20s",
        "how long a request is repeated before it is an error: longer than a node needs to be seen as down",
    ),
    (
        "speculate_after",
        "50ms",
        "after how long without an answer another node is asked too; a node that hangs costs this and no more",
    ),
    (
        "in_flight",
        "256",
        "requests under way at once; enough to keep a node busy, few enough to bound memory and queues",
    ),
    (
        "expected_rows",
        "10M",
        "rows that a table is made for: a thousand in each partition; good from a hundredth to a hundred times of it",
    ),
    (
        "hot_key_rows",
        "10k",
        "rows of one key from where on they are kept apart: a tenth of what servers warn of in one partition",
    ),
    (
        "lease",
        "1s",
        "how long an erasure waits so that every client knows of it, and how often clients ask; set when the keyspace is made",
    ),
];

impl Settings {
    /// Whether a text is an address of this kind.
    pub fn is_address(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Reads `cql://[user[:password]@]host[:port][,host...]/keyspace[?name=value&...]`. What the
    /// address leaves out comes from the environment: `user` and `password`, as `environment` gives
    /// them for `IDMATCH_CQL_USER` and `IDMATCH_CQL_PASSWORD`.
    ///
    /// # Errors
    /// `InvalidArgument`, which names the part that is wrong and never the password.
    pub fn parse(address: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Settings> {
        let rest = address.strip_prefix(SCHEME).ok_or_else(|| wrong("it starts with cql://"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, keyspace) =
            place.split_once('/').ok_or_else(|| wrong("the keyspace follows the hosts"))?;
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let nodes = hosts.split(',').map(node).collect::<Result<Vec<_>>>()?;
        let given = options(query)?;
        let option = |name: &str| {
            let default = OPTIONS.iter().find(|option| option.0 == name).map_or("", |o| o.1);
            given.get(name).map_or(default, String::as_str)
        };
        Ok(Settings {
            nodes,
            keyspace: self::keyspace(keyspace)?,
            login: self::login(login, environment)?,
            datacenter: some(option("datacenter")).map(str::to_owned),
            replication: some(option("replication"))
                .map(|text| number("replication", text, 1, 9))
                .transpose()?
                .map(|n| n as u8),
            read_consistency: consistency("read_consistency", option("read_consistency"))?,
            write_consistency: consistency("write_consistency", option("write_consistency"))?,
            request_timeout: duration("request_timeout", option("request_timeout"))?,
            timeout: duration("timeout", option("timeout"))?,
            speculate_after: match option("speculate_after") {
                "off" => None,
                text => Some(duration("speculate_after", text)?),
            },
            in_flight: number("in_flight", option("in_flight"), 1, MOST_IN_FLIGHT as u64)? as usize,
            expected_rows: number("expected_rows", option("expected_rows"), 1, 1 << 50)?,
            hot_key_rows: number("hot_key_rows", option("hot_key_rows"), 1, 1 << 50)?,
            lease: duration("lease", option("lease"))?,
        })
    }

    /// For how long a write may be under way.
    pub(crate) fn longest_write(&self) -> Duration {
        self.timeout + self.request_timeout
    }

    /// The address without user, password and options.
    pub fn shown(&self) -> String {
        format!("{SCHEME}{}/{}", self.nodes.join(","), self.keyspace)
    }

    /// Every setting in force, without the password.
    pub fn effective(&self) -> Vec<Effective> {
        let shown = |duration: Duration| format!("{duration:?}");
        let of = |name| match name {
            "datacenter" => self.datacenter.clone().unwrap_or_default(),
            "replication" => self.replication.map(|n| n.to_string()).unwrap_or_default(),
            "read_consistency" => self.read_consistency.to_string(),
            "write_consistency" => self.write_consistency.to_string(),
            "request_timeout" => shown(self.request_timeout),
            "timeout" => shown(self.timeout),
            "speculate_after" => self.speculate_after.map_or("off".to_owned(), shown),
            "in_flight" => self.in_flight.to_string(),
            "expected_rows" => self.expected_rows.to_string(),
            "hot_key_rows" => self.hot_key_rows.to_string(),
            _ => shown(self.lease),
        };
        OPTIONS.iter().map(|(name, _, about)| Effective { name, value: of(name), about }).collect()
    }
}

fn wrong(what: &str) -> Error {
    let text = format!(
        "an address of servers is wrong: {what}; write it like \
         cql://10.0.0.1,10.0.0.2:9042/keyspace?datacenter=dc1"
    );
    Error::new(ErrorKind::InvalidArgument, text)
}

fn node(text: &str) -> Result<String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && !port.ends_with(']') => (host, port.parse()),
        _ => (text, Ok(PORT)),
    };
    let port = port.map_err(|_| wrong(&format!("{text:?} has no number as its port")))?;
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err(wrong(&format!("{text:?} is no host")));
    }
    Ok(format!("{host}:{port}"))
}

fn keyspace(text: &str) -> Result<String> {
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.len() <= 48
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_name {
        Ok(text.to_owned())
    } else {
        Err(wrong(&format!("{text:?} is no keyspace: 1 to 48 of a-z 0-9 _, a letter first")))
    }
}

fn login(
    text: Option<&str>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Login>> {
    let decode = |text: &str| {
        let decoded = percent_decode_str(text).decode_utf8();
        decoded.map(String::from).map_err(|_| wrong("user or password is not UTF-8"))
    };
    let (user, password) = match text.map(|text| text.split_once(':').unwrap_or((text, ""))) {
        Some((user, password)) => (Some(decode(user)?), some(password).map(decode).transpose()?),
        None => (None, None),
    };
    let Some(user) = user.or_else(|| environment("IDMATCH_CQL_USER")) else { return Ok(None) };
    let password = password.or_else(|| environment("IDMATCH_CQL_PASSWORD")).unwrap_or_default();
    Ok(Some(Login { user, password }))
}

fn options(query: &str) -> Result<BTreeMap<String, String>> {
    let mut options = BTreeMap::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if !OPTIONS.iter().any(|option| option.0 == name) {
            let names: Vec<&str> = OPTIONS.iter().map(|option| option.0).collect();
            return Err(wrong(&format!("{name:?} is no option; there are {}", names.join(", "))));
        }
        if options.insert(name.to_string(), value.to_string()).is_some() {
            return Err(wrong(&format!("{name} is there twice")));
        }
    }
    Ok(options)
}

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn number(name: &str, text: &str, least: u64, most: u64) -> Result<u64> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k')) => (text.get(..at), 1_000),
        Some((at, 'M')) => (text.get(..at), 1_000_000),
        Some((at, 'G')) => (text.get(..at), 1_000_000_000),
        _ => (Some(text), 1),
    };
    let number = digits.and_then(|digits| digits.parse::<u64>().ok()?.checked_mul(factor));
    number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
        wrong(&format!("{name}={text:?} is no number from {least} to {most}, such as 100 or 5M"))
    })
}

fn duration(name: &str, text: &str) -> Result<Duration> {
    let parsed = jiff::SignedDuration::from_str(text).ok().and_then(|d| Duration::try_from(d).ok());
    parsed.filter(|d| !d.is_zero() && *d <= Duration::from_secs(86_400)).ok_or_else(|| {
        wrong(&format!("{name}={text:?} is no length of time, such as 50ms, 10s or 2m"))
    })
}

fn consistency(name: &str, text: &str) -> Result<Consistency> {
    let all = [
        ("one", Consistency::One),
        ("local_one", Consistency::LocalOne),
        ("two", Consistency::Two),
        ("three", Consistency::Three),
        ("quorum", Consistency::Quorum),
        ("local_quorum", Consistency::LocalQuorum),
        ("each_quorum", Consistency::EachQuorum),
        ("all", Consistency::All),
    ];
    let found = all.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
    found.map(|(_, consistency)| *consistency).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        wrong(&format!("{name}={text:?} is none of {}", names.join(", ")))
    })
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
        ] {
            let text = parse(address).unwrap_err();
            assert!(text.contains(named), "{address}: {text}");
        }
    }

    #[test]
    fn every_option_has_an_effect() {
        let effective = parse("cql://h/ids").unwrap().effective();
        assert_eq!(effective.len(), OPTIONS.len());
        assert!(effective.iter().all(|setting| !setting.about.is_empty()));
    }
}
