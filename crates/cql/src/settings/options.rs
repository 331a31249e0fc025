//! The options of an address: the name, default, meaning and setting of each one.
//!
//! Must not know how an address is split, nor the form of values. The table in
//! `docs/reference/cql-addresses.md` has the same rows; a test compares them.

use super::fields::{MatchReads, Settings};
use super::values::{CONSISTENCIES, SWITCH, duration, name_of, number, one_of};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

const MOST_IN_FLIGHT: u64 = 100_000;
const MOST_PER_SECOND: u64 = 10_000_000;

const MATCH_READS: [(&str, MatchReads); 4] = [
    ("auto", MatchReads::Auto),
    ("single_keys", MatchReads::SingleKeys),
    ("in_queries", MatchReads::InQueries),
    ("partition_scans", MatchReads::PartitionScans),
];

/// An option of an address.
pub(super) struct AddressOption {
    /// Its name.
    pub(super) name: &'static str,
    /// Its default; empty for none.
    pub(super) default: &'static str,
    /// What it means, and why its default is chosen.
    pub(super) about: &'static str,
    /// Parses its value into the settings; the error goes on after `name=value`.
    pub(super) set: fn(&mut Settings, &str) -> Result<(), String>,
    /// Its value in the settings; empty for none.
    pub(super) show: fn(&Settings) -> String,
}

fn given<T: for<'t> From<&'t str>>(text: &str) -> Result<T, String> {
    Ok(T::from(text))
}

fn some(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn path(value: &Option<PathBuf>) -> String {
    some(value.as_ref().map(|path| path.display()))
}

fn time(value: Duration) -> String {
    format!("{value:?}")
}

/// The options that may follow `?`.
pub(super) const OPTIONS: [AddressOption; 17] = [
    AddressOption {
        name: "datacenter",
        default: "",
        about: "the datacenter of the coordinators. Required if the cluster has several: every \
         LOCAL_QUORUM must be in the same datacenter",
        set: |s, text| given(text).map(|value| s.datacenter = Some(value)),
        show: |s| s.datacenter.clone().unwrap_or_default(),
    },
    AddressOption {
        name: "replication",
        default: "",
        about: "replication factor of a keyspace that is created. Without it a missing keyspace is an \
         error, so that a mistyped name creates nothing",
        set: |s, text| number(text, 1, 9).map(|n| s.replication = Some(n as u8)),
        show: |s| some(s.replication),
    },
    AddressOption {
        name: "read_consistency",
        default: "local_quorum",
        about: "consistency level of reads. With local_quorum for reads and writes, a read sees \
         every acknowledged write",
        set: |s, text| one_of(text, &CONSISTENCIES).map(|value| s.read_consistency = value),
        show: |s| name_of(&s.read_consistency, &CONSISTENCIES).to_owned(),
    },
    AddressOption {
        name: "write_consistency",
        default: "local_quorum",
        about: "consistency level of writes. With local_quorum, one node of three may be down",
        set: |s, text| one_of(text, &CONSISTENCIES).map(|value| s.write_consistency = value),
        show: |s| name_of(&s.write_consistency, &CONSISTENCIES).to_owned(),
    },
    AddressOption {
        name: "request_timeout",
        default: "6s",
        about: "timeout of one attempt. Longer than the servers' own timeouts (2 s for writes, 5 s for \
         reads), so that their error is seen",
        set: |s, text| duration(text).map(|value| s.request_timeout = value),
        show: |s| time(s.request_timeout),
    },
    AddressOption {
        name: "timeout",
        default: "20s",
        about: "total timeout of a request with all its retries. While servers are overloaded, requests \
         for many keys or rows have three times as long. Longer than servers take to mark a node \
         as down",
        set: |s, text| duration(text).map(|value| s.timeout = value),
        show: |s| time(s.timeout),
    },
    AddressOption {
        name: "speculate_after",
        default: "50ms",
        about: "speculative delay: a request without an answer after this time also goes to another \
         node, and after the same time to a third. The delay is at least 250 ms for requests of \
         many rows, and 1 s for conditional writes. So a hung node costs little. Choose a longer \
         one where servers often take that long. off disables it",
        set: |s, text| {
            (text != "off")
                .then(|| duration(text))
                .transpose()
                .map(|value| s.speculate_after = value)
        },
        show: |s| s.speculate_after.map_or("off".to_owned(), time),
    },
    AddressOption {
        name: "in_flight",
        default: "256",
        about: "most requests in flight. Enough to keep nodes busy, few enough to bound memory and \
         queues. The limit falls while servers are overloaded",
        set: |s, text| number(text, 1, MOST_IN_FLIGHT).map(|n| s.in_flight = n as usize),
        show: |s| s.in_flight.to_string(),
    },
    AddressOption {
        name: "max_requests_per_second",
        default: "",
        about: "rate limit of requests; others wait. For servers that other clients use too. None by \
         default: the capacity of the servers is unknown here",
        set: |s, text| {
            let most = number(text, 1, MOST_PER_SECOND);
            most.map(|n| s.max_requests_per_second = NonZeroU32::new(n as u32))
        },
        show: |s| some(s.max_requests_per_second),
    },
    AddressOption {
        name: "tls_ca",
        default: "",
        about: "PEM file with the certificate authorities of the servers. It turns TLS on: without it a \
         client cannot tell the servers from an attacker in between",
        set: |s, text| given(text).map(|value| s.tls.ca = Some(value)),
        show: |s| path(&s.tls.ca),
    },
    AddressOption {
        name: "tls_certificate",
        default: "",
        about: "PEM file with this client's certificate and its intermediates. For servers that require \
         one",
        set: |s, text| given(text).map(|value| s.tls.certificate = Some(value)),
        show: |s| path(&s.tls.certificate),
    },
    AddressOption {
        name: "tls_key",
        default: "",
        about: "PEM file with the private key of tls_certificate, without a passphrase: that would be \
         stored beside it",
        set: |s, text| given(text).map(|value| s.tls.key = Some(value)),
        show: |s| path(&s.tls.key),
    },
    AddressOption {
        name: "tls_verify_hostname",
        default: "on",
        about: "whether a server's certificate must name the IP address of the connection. With off, the \
         owner of any certificate of tls_ca can pose as a server",
        set: |s, text| one_of(text, &SWITCH).map(|value| s.tls.verify_hostname = value),
        show: |s| name_of(&s.tls.verify_hostname, &SWITCH).to_owned(),
    },
    AddressOption {
        name: "hot_key_rows",
        default: "10k",
        about: "rows from which a key is hot and has shards of its own: a tenth of the rows at which \
         servers warn of one partition",
        set: |s, text| number(text, 1, 1 << 50).map(|value| s.hot_key_rows = value),
        show: |s| s.hot_key_rows.to_string(),
    },
    AddressOption {
        name: "match_reads",
        default: "auto",
        about: "reads of a match: single_keys, in_queries, partition_scans, or auto for the \
         cheaper ones. For measurements",
        set: |s, text| one_of(text, &MATCH_READS).map(|value| s.match_reads = value),
        show: |s| name_of(&s.match_reads, &MATCH_READS).to_owned(),
    },
    AddressOption {
        name: "match_memory",
        default: "256M",
        about: "approximate bytes of a population in memory, and of buffered results; further results go \
         to a file in TMPDIR. Sorting briefly takes more, most in a table with few buckets. The \
         default holds four million ids of up to 64 bytes. A larger population reads the same \
         partitions several times",
        set: |s, text| number(text, 1, 1 << 40).map(|n| s.match_memory = n as usize),
        show: |s| s.match_memory.to_string(),
    },
    AddressOption {
        name: "metadata_ttl",
        default: "1s",
        about: "metadata TTL: how long an erasure waits until every client knows it; fixed when the \
         keyspace is created. Clients read new erasures twice in this time",
        set: |s, text| duration(text).map(|value| s.metadata_ttl = value),
        show: |s| time(s.metadata_ttl),
    },
];

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "reads the document")]
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
