//! The options of an address: their names, defaults and meanings.
//!
//! Must not know the form of values. The table in `docs/reference/cql-addresses.md` has the same
//! rows; a test compares them.

use super::values::wrong;
use idmatch_store::Result;
use std::collections::BTreeMap;

/// An option of an address.
pub(super) struct Choice {
    /// Its name.
    pub(super) name: &'static str,
    /// Its default; empty for none.
    pub(super) default: &'static str,
    /// What it means, and why its default is chosen.
    pub(super) about: &'static str,
}

const fn choice(name: &'static str, default: &'static str, about: &'static str) -> Choice {
    Choice { name, default, about }
}

/// The options that may follow `?`.
pub(super) const OPTIONS: [Choice; 18] = [
    choice(
        "datacenter",
        "",
        "the datacenter of the coordinators. Required where there are several: LOCAL_QUORUM must \
         be a quorum of the same one each time",
    ),
    choice(
        "replication",
        "",
        "replication factor of a keyspace that is created. Without it a missing keyspace is an \
         error, so that a mistyped name creates nothing",
    ),
    choice(
        "read_consistency",
        "local_quorum",
        "consistency level of reads. With local_quorum on both sides a read sees every \
         acknowledged write",
    ),
    choice(
        "write_consistency",
        "local_quorum",
        "consistency level of writes. With local_quorum, one node of three may be down",
    ),
    choice(
        "request_timeout",
        "6s",
        "timeout of one attempt. Longer than the servers' own timeouts (2 s for writes, 5 s for \
         reads), so that their error is seen",
    ),
    choice(
        "timeout",
        "20s",
        "total timeout of a request with all its retries. While servers are overloaded, requests \
         for many keys or rows have three times as long. Longer than servers take to mark a node \
         as down",
    ),
    choice(
        "speculate_after",
        "50ms",
        "speculative delay: after this time without an answer a second node is asked too. The \
         least delay is 250 ms for requests of many rows, 1 s for conditional writes, and three \
         times the median of such requests; off for never. A node that does not respond costs \
         little, and slow servers seldom get a request twice",
    ),
    choice(
        "in_flight",
        "256",
        "most requests in flight. Enough to keep nodes busy, few enough to bound memory and \
         queues. The limit falls while servers are overloaded",
    ),
    choice(
        "max_requests_per_second",
        "",
        "rate limit of requests; others wait. For servers that other clients use too. None by \
         default: the capacity of the servers is unknown here",
    ),
    choice(
        "tls_ca",
        "",
        "PEM file with the certificate authorities of the servers. It turns TLS on: without it a \
         client cannot tell the servers from an attacker in between",
    ),
    choice(
        "tls_certificate",
        "",
        "PEM file with this client's certificate and its intermediates. For servers that require \
         one",
    ),
    choice(
        "tls_key",
        "",
        "PEM file with the private key of tls_certificate, without a passphrase: that would be \
         stored beside it",
    ),
    choice(
        "tls_verify_hostname",
        "on",
        "whether a server's certificate must name the IP address of the connection. With off, the \
         owner of any certificate of tls_ca can pose as a server",
    ),
    choice(
        "expected_rows",
        "10M",
        "expected rows of a table that is created: four thousand in each partition. Good from a \
         hundredth to 25 times of it",
    ),
    choice(
        "hot_key_rows",
        "10k",
        "rows from which a key is hot and has shards of its own: a tenth of the rows at which \
         servers warn of one partition",
    ),
    choice(
        "match_reads",
        "auto",
        "reads of a match: keys, lists (IN queries), buckets (partition scans), or auto for the \
         cheaper ones. For measurements",
    ),
    choice(
        "match_memory",
        "256M",
        "bytes of a population that a match has in memory at once, about, and of its results \
         before others go to a file in TMPDIR. Sorting takes more for a moment, most where a \
         table has few buckets. Four million ids of up to 64 bytes fit at once: a larger \
         population reads the same partitions again",
    ),
    choice(
        "lease",
        "1s",
        "metadata TTL: how long an erasure waits until every client knows it; fixed when the \
         keyspace is created. Clients read new erasures twice in this time",
    ),
];

/// The options of one address.
pub(super) struct Given(BTreeMap<&'static str, String>);

impl Given {
    /// Parses the text after `?`.
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

    /// The value of an option without a default.
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
