//! Something between client and node that delays, loses and answers requests by rule.

use crate::common::{contact_points, settings_of};
use idmatch_cql::CqlStore;
use scylla_proxy::{
    Condition, Node, Proxy, RequestRule, ResponseRule, RunningProxy, ShardAwareness,
};
use std::net::{IpAddr, SocketAddr, TcpListener};
use tokio::runtime::Runtime;

/// A proxy for the first contact point, on another port of the same address.
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
        let first = points.split([',', ':']).next().unwrap();
        let ip: IpAddr = first.parse().unwrap();
        let free = TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap();
        let node = Node::builder()
            .real_address(SocketAddr::new(ip, 9042))
            .proxy_address(free)
            .shard_awareness(ShardAwareness::Unaware)
            .build();
        let runtime = Runtime::new().unwrap();
        let running = runtime.block_on(Proxy::new([node]).run()).unwrap();
        Between { running, address: free, _runtime: runtime }
    }

    /// A store of its own that is reached through this.
    pub(crate) fn open(&self, keyspace: &str, options: &str) -> CqlStore {
        let settings = settings_of(&self.address.to_string(), keyspace, options);
        CqlStore::open(settings).unwrap()
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Does with requests and answers as these say; what no rule is for passes.
    pub(crate) fn rules(&mut self, requests: Vec<RequestRule>, answers: Vec<ResponseRule>) {
        let node = &mut self.running.running_nodes[0];
        node.change_request_rules(Some(requests));
        node.change_response_rules(Some(answers));
    }
}

/// Requests with this text among their values.
pub(crate) fn naming(text: &str) -> Condition {
    Condition::BodyContainsCaseSensitive(text.as_bytes().into())
}
