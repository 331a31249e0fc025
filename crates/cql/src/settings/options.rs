//! The options of an address: their names, defaults, and what each is for.
//!
//! Must not know what values look like. The table in `docs/reference/cql-addresses.md` has the same rows; a test
//! compares them.

use super::values::wrong;
use idmatch_store::Result;
use std::collections::BTreeMap;

/// An option of an address.
pub(super) struct Choice {
    /// Its name.
    pub(super) name: &'static str,
    /// Its value where the address does not say another; empty for none.
    pub(super) default: &'static str,
    /// What it is, and why its default is what it is.
    pub(super) about: &'static str,
}

const fn choice(name: &'static str, default: &'static str, about: &'static str) -> Choice {
    Choice { name, default, about }
}

/// What an address may say after `?`.
pub(super) const OPTIONS: [Choice; 18] = [
    choice(
        "datacenter",
        "",
        "the datacenter whose nodes are asked. It has to be named where there are several: a quorum \
         of one datacenter is to be the same one each time",
    ),
    choice(
        "replication",
        "",
        "copies of each row in a keyspace that is made. Without it a missing keyspace is an error, so \
         that a mistyped name makes nothing",
    ),
    choice(
        "read_consistency",
        "local_quorum",
        "who answers a read. With local_quorum on both sides a read sees every acknowledged write",
    ),
    choice(
        "write_consistency",
        "local_quorum",
        "who acknowledges a write. One node of three may then be down",
    ),
    choice(
        "request_timeout",
        "6s",
        "how long one request is waited for. Longer than the servers' own limits (2 s for writes, 5 s \
         for reads), so that their reason is seen",
    ),
    choice(
        "timeout",
        "20s",
        "how long a request is repeated before it is an error; one for many keys or rows, as a match \
         has, three times as long while servers have too much to do. Longer than a node needs to be \
         seen as down",
    ),
    choice(
        "speculate_after",
        "50ms",
        "after how long without an answer another node is asked too: at least so long, 250 ms for \
         requests of many rows, 1 s for conditional writes, and three times what such requests take at \
         present; off for never. So a node that hangs costs little, and servers that are slow are \
         seldom sent everything twice",
    ),
    choice(
        "in_flight",
        "256",
        "requests under way at once, at most. Enough to keep nodes busy, few enough to bound memory \
         and queues. Fewer while servers say that they are overloaded",
    ),
    choice(
        "max_requests_per_second",
        "",
        "requests that are sent in a second, at most; what is beyond waits. For servers that others \
         use too. None by default: what servers can do is not known here",
    ),
    choice(
        "tls_ca",
        "",
        "PEM file with the authorities that sign the servers' certificates. It turns TLS on: without \
         it nobody could tell the servers from who sits in between",
    ),
    choice(
        "tls_certificate",
        "",
        "PEM file with this client's certificate, and those between it and its authority. For servers \
         that ask for one",
    ),
    choice(
        "tls_key",
        "",
        "PEM file with the private key of tls_certificate, without a passphrase: that would be kept \
         beside it",
    ),
    choice(
        "tls_verify_hostname",
        "on",
        "whether a server's certificate has to name the IP address that is connected to. With off, \
         whoever has any certificate of tls_ca can pass for a server",
    ),
    choice(
        "expected_rows",
        "10M",
        "rows that a table is made for: four thousand in each partition. Good from a hundredth to \
         25 times of it",
    ),
    choice(
        "hot_key_rows",
        "10k",
        "rows of one key from where on they are kept apart: a tenth of what servers warn of in one \
         partition",
    ),
    choice(
        "match_reads",
        "auto",
        "which reads a match makes: keys, lists, buckets, or auto for those that cost less. For \
         measuring",
    ),
    choice(
        "match_memory",
        "256M",
        "bytes of a population that a match has in memory at once, about, and of its results before \
         others wait in a file in TMPDIR. To order identifiers takes more for a moment, most where a \
         table has few buckets. Four million ids of up to 64 bytes are looked up together: a larger \
         population reads the same partitions again",
    ),
    choice(
        "lease",
        "1s",
        "how long an erasure waits until every client knows of it; set when the keyspace is made. \
         Clients ask twice in it what was erased",
    ),
];

/// What an address says of its options.
pub(super) struct Given(BTreeMap<&'static str, String>);

impl Given {
    /// Reads what follows `?`.
    pub(super) fn parse(query: &str) -> Result<Given> {
        let mut given = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let Some(option) = OPTIONS.iter().find(|option| option.name == name) else {
                if name.contains('@') {
                    return Err(wrong("a ? in a password is written as %3F"));
                }
                let names: Vec<&str> = OPTIONS.iter().map(|option| option.name).collect();
                return Err(wrong(&format!(
                    "{name:?} is no option; there are {}",
                    names.join(", ")
                )));
            };
            if given.insert(option.name, value.into_owned()).is_some() {
                return Err(wrong(&format!("{name} is there twice")));
            }
        }
        Ok(Given(given))
    }

    /// The value of an option, or its default.
    pub(super) fn of(&self, name: &str) -> &str {
        let default = OPTIONS.iter().find(|option| option.name == name).map_or("", |o| o.default);
        self.0.get(name).map_or(default, String::as_str)
    }

    /// The value of an option that may be none.
    pub(super) fn some(&self, name: &str) -> Option<&str> {
        Some(self.of(name)).filter(|value| !value.is_empty())
    }

    /// Whether the address names an option.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::OPTIONS;
    use std::path::Path;

    /// Name, default and text of each row of the document's table.
    fn documented() -> Vec<[String; 3]> {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cql-addresses.md");
        let text = std::fs::read_to_string(file).unwrap();
        let table = text.split("| option |").nth(1).unwrap();
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        rows.map(|row| {
            let plain = row.replace('`', "");
            let cells: Vec<&str> = plain.trim_matches('|').split('|').map(str::trim).collect();
            <[&str; 3]>::try_from(cells).unwrap().map(str::to_owned)
        })
        .collect()
    }

    #[test]
    fn the_document_says_the_same() {
        let here = OPTIONS.map(|option| {
            let default = if option.default.is_empty() { "none" } else { option.default };
            [option.name, default, option.about].map(str::to_owned)
        });
        for (documented, here) in documented().iter().zip(&here) {
            assert_eq!(documented, here);
        }
        assert_eq!(documented().len(), here.len());
    }
}
