//! Addresses that clients are told.
//!
//! With `advertised.listeners` a broker's addresses are what its registration says. Without, a client that reached us is
//! told the address that it reached us by, which is right inside and outside of a container alike.

use std::sync::Arc;

use controller::image::BrokerRegistration;

use crate::core::Core;
use crate::net::connection::Peer;

/// Where a broker can be reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// Host name or address.
    pub host: Arc<str>,
    /// Port.
    pub port: u16,
}

/// The address of a broker for a client, on the listener that the client came by; `None` where the broker has no such listener.
#[must_use]
pub fn of_broker(core: &Core, broker: &BrokerRegistration, peer: &Peer) -> Option<Address> {
    let is_self = broker.id == core.shared.node_id();
    if is_self && !core.config().has_advertised_listeners {
        return Some(Address { host: peer.local.ip().to_string().into(), port: peer.local.port() });
    }
    let endpoint = broker.endpoint(&peer.listener)?;
    Some(Address { host: endpoint.host.as_str().into(), port: endpoint.port })
}
