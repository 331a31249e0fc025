//! The settings of a client, as values.
//!
//! Must not know how an address is written.

use scylla::statement::Consistency;
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// How idmatch connects to a store on ScyllaDB or Cassandra, and how it sends requests.
///
/// `default()` has no contact point and no value of an option: the defaults of the options are
/// values of the address.
#[derive(Debug, Clone, Default, PartialEq)]
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
    /// Speculative delay: the time before a second node is asked too.
    pub speculate_after: Option<Duration>,
    /// Requests in flight at once.
    pub in_flight: usize,
    /// Requests a second.
    pub max_requests_per_second: Option<NonZeroU32>,
    /// TLS.
    pub tls: Tls,
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MatchReads {
    /// The cheaper one.
    #[default]
    Auto,
    /// One key in a request.
    SingleKeys,
    /// IN queries.
    InQueries,
    /// Partition scans.
    PartitionScans,
}

/// The files of TLS. They are read when the client connects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// The certificate authorities of the servers. Without it connections are not encrypted.
    pub ca: Option<PathBuf>,
    /// This client's certificate. It is here if and only if its key is.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate.
    pub key: Option<PathBuf>,
    /// Whether a certificate must name the address of its server.
    pub verify_hostname: bool,
}

impl Tls {
    /// Whether connections are encrypted.
    pub(crate) fn is_on(&self) -> bool {
        self.ca.is_some()
    }
}

/// User and password. `Debug` hides the password.
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
