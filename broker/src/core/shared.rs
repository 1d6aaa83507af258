//! What all cores share: immutable after the start, or atomics.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use controller::ControllerHandle;
use protocol_compat::ids::{BrokerId, DirectoryId};
use storage::disk::FileSystem;
use storage::log::DirectoryFailed;
use tokio::sync::watch;

use super::mailbox::Mailbox;
use super::placement::{CoreId, Placement};
use super::pool::Pool;
use crate::config::BrokerConfig;
use crate::directories::Directories;

/// Shared by the cores of a broker.
#[derive(Debug)]
pub struct Shared {
    /// The settings.
    pub config: Arc<BrokerConfig>,
    /// Id of the cluster.
    pub cluster_id: Arc<str>,
    /// Who owns what.
    pub placement: Placement,
    /// The cores' mailboxes.
    pub mailboxes: Vec<Mailbox>,
    /// Threads for what may block.
    pub pool: Pool,
    /// The metadata quorum.
    pub controller: ControllerHandle,
    /// Files.
    pub fs: Arc<dyn FileSystem>,
    /// The log directories.
    pub directories: Arc<Directories>,
    /// Limits on connections.
    pub connections: ConnectionLimits,
    /// For each core, the metadata offset up to which it has applied everything, logs opened.
    pub applied: Vec<watch::Sender<i64>>,
    /// The addresses that the listeners got, with their names.
    pub listening: OnceLock<Vec<(Arc<str>, std::net::SocketAddr)>>,
    /// Set once the broker stops.
    pub stopping: AtomicBool,
    /// The incarnation that the controller gave; -1 before the registration.
    pub broker_epoch: AtomicI64,
}

impl Shared {
    /// This broker.
    #[must_use]
    pub fn node_id(&self) -> BrokerId {
        self.config.node_id
    }

    /// The mailbox of a core.
    #[must_use]
    pub fn mailbox(&self, core: CoreId) -> &Mailbox {
        &self.mailboxes[core.index()]
    }

    /// Whether the broker is about to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// This broker's incarnation.
    #[must_use]
    pub fn broker_epoch(&self) -> i64 {
        self.broker_epoch.load(Ordering::Relaxed)
    }

    /// Takes the incarnation that the controller gave.
    pub fn set_broker_epoch(&self, epoch: i64) {
        self.broker_epoch.store(epoch, Ordering::Relaxed);
    }

    /// The metadata offset that every core has applied.
    #[must_use]
    pub fn applied_everywhere(&self) -> i64 {
        self.applied.iter().map(|applied| *applied.borrow()).min().unwrap_or(-1)
    }

    /// Waits until all cores have applied the metadata up to an offset.
    pub async fn wait_applied(&self, offset: i64) {
        for applied in &self.applied {
            let _ = applied.subscribe().wait_for(|applied| *applied >= offset).await;
        }
    }

    /// Takes a log directory offline on all cores; the first call for a directory logs it.
    pub fn directory_failed(&self, directory: DirectoryId, error: &DirectoryFailed) {
        if !self.directories.fail(directory, error) {
            return;
        }
        tracing::error!(%directory, %error, "a log directory failed and is offline until the broker is restarted");
        for mailbox in &self.mailboxes {
            mailbox.answer(move |core| core.partitions.directory_failed(core, directory));
        }
    }
}

/// `max.connections` and `max.connections.per.ip`.
#[derive(Debug)]
pub struct ConnectionLimits {
    total: AtomicUsize,
    total_max: usize,
    per_ip_max: usize,
    // Touched once for each connection, not on the data path.
    per_ip: Mutex<HashMap<IpAddr, usize>>,
}

impl ConnectionLimits {
    /// Limits; `usize::MAX` for none.
    #[must_use]
    pub fn new(total_max: usize, per_ip_max: usize) -> Self {
        Self { total: AtomicUsize::new(0), total_max, per_ip_max, per_ip: Mutex::default() }
    }

    /// Counts a new connection, or refuses it.
    #[must_use]
    pub fn admit(&self, ip: IpAddr) -> bool {
        if self.total.fetch_add(1, Ordering::Relaxed) >= self.total_max {
            self.total.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        if self.per_ip_max == usize::MAX {
            return true;
        }
        let mut per_ip = self.per_ip.lock().unwrap_or_else(PoisonError::into_inner);
        let count = per_ip.entry(ip).or_default();
        if *count >= self.per_ip_max {
            drop(per_ip);
            self.total.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        *count += 1;
        true
    }

    /// Counts the end of a connection.
    pub fn released(&self, ip: IpAddr) {
        self.total.fetch_sub(1, Ordering::Relaxed);
        if self.per_ip_max == usize::MAX {
            return;
        }
        let mut per_ip = self.per_ip.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = per_ip.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                per_ip.remove(&ip);
            }
        }
    }

    /// Connections that are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_above_a_limit_are_refused_until_one_ends() {
        let limits = ConnectionLimits::new(3, 2);
        let (a, b) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        assert!(limits.admit(a) && limits.admit(a));
        assert!(!limits.admit(a), "two of one address");
        assert!(limits.admit(b));
        assert!(!limits.admit(b), "three in all");
        limits.released(a);
        assert!(limits.admit(b));
        assert_eq!(limits.open(), 3);
    }
}
