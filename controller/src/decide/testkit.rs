//! Small verbs for tests of decisions.

use std::collections::BTreeMap;

use protocol_compat::ids::{BrokerEpoch, BrokerId, DirectoryId, Uuid};

use crate::image::BrokerRegistration;

/// A registered, unfenced broker with one directory.
pub(crate) fn broker(id: i32) -> BrokerRegistration {
    BrokerRegistration {
        id: BrokerId(id),
        epoch: BrokerEpoch(0),
        incarnation_id: Uuid::from_u128(1_000),
        endpoints: Vec::new(),
        features: BTreeMap::new(),
        rack: None,
        fenced: false,
        in_controlled_shutdown: false,
        is_migrating_zk_broker: false,
        log_dirs: vec![DirectoryId(Uuid::from_u128(1_000 + u128::from(id.unsigned_abs())))],
        cordoned_log_dirs: None,
    }
}
