//! Something between client and node that delays, loses and answers requests by rule.

use crate::common::{contact_points, settings_with_copies};
use idmatch_cql::CqlStore;
use scylla_proxy::{
    Condition, Node, Proxy, RequestRule, ResponseRule, RunningProxy, ShardAwareness,
};
use std::net::{IpAddr, SocketAddr, TcpListener};
use tokio::runtime::Runtime;

/// A proxy for all nodes, each on its node's address. They have one port, because a driver asks all nodes
/// on the port of the contact point, so that it does not get past them.
pub(crate) struct Between {
    running: RunningProxy,
    address: SocketAddr,
    // What ends the proxy: `RunningProxy::finish` panics now and then, because its workers say that they
    // have finished before they let go of the channel whose end it then expects.
    _runtime: Runtime,
}

impl Between {
    /// Starts one that lets everything pass.
    pub(crate) fn start() -> Between {
        let points = contact_points();
        let ips: Vec<IpAddr> = points.split(',').map(|ip| ip.parse().unwrap()).collect();
        let free = std::iter::repeat_with(|| TcpListener::bind((ips[0], 0)).unwrap().local_addr());
        let is_free = |port| ips.iter().all(|ip| TcpListener::bind((*ip, port)).is_ok());
        let free = free.map(Result::unwrap).find(|address| is_free(address.port())).unwrap();
        let nodes = ips.iter().map(|ip| {
            Node::builder()
                .real_address(SocketAddr::new(*ip, 9042))
                .proxy_address(SocketAddr::new(*ip, free.port()))
                .shard_awareness(ShardAwareness::Unaware)
                .build()
        });
        let runtime = Runtime::new().unwrap();
        let running = runtime.block_on(Proxy::new(nodes).run()).unwrap();
        Between { running, address: free, _runtime: runtime }
    }

    /// A store of its own that is reached through this.
    pub(crate) fn open(&self, keyspace: &str, options: &str) -> CqlStore {
        let settings = settings_with_copies(&self.address.to_string(), keyspace, options);
        CqlStore::open(settings).unwrap()
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Does with requests and answers as these say; what no rule is for passes. A limit of times is one for
    /// each node.
    pub(crate) fn rules(&mut self, requests: Vec<RequestRule>, answers: Vec<ResponseRule>) {
        for node in &mut self.running.running_nodes {
            node.change_request_rules(Some(requests.clone()));
            node.change_response_rules(Some(answers.clone()));
        }
    }

    /// The same for requests to one of the nodes; all else passes.
    pub(crate) fn rules_of_one(&mut self, requests: Vec<RequestRule>) {
        self.rules(vec![], vec![]);
        self.running.running_nodes[0].change_request_rules(Some(requests));
    }
}

/// Requests with this text among their values.
pub(crate) fn naming(text: &str) -> Condition {
    Condition::BodyContainsCaseSensitive(text.as_bytes().into())
}
