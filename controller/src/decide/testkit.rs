//! Small verbs for tests of decisions: an image that decisions change, as the controller would.

use std::collections::BTreeMap;

use protocol_compat::ids::{BrokerEpoch, BrokerId, DirectoryId, LeaderEpoch, Offset, Uuid};

use super::brokers::Sessions;
use super::{Context, Decision, Settings, activation};
use crate::image::replay::Replay;
use crate::image::{BrokerRegistration, MetadataImage};
use crate::records::MetadataRecord;

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
        log_dirs: vec![directory(id)],
        cordoned_log_dirs: None,
    }
}

/// The one directory of a broker.
pub(crate) fn directory(id: i32) -> DirectoryId {
    DirectoryId(Uuid::from_u128(1_000 + u128::from(id.unsigned_abs())))
}

/// A cluster under decisions.
pub(crate) struct Bed {
    pub(crate) replay: Replay,
    pub(crate) sessions: Sessions,
    pub(crate) settings: Settings,
    pub(crate) now_ms: u64,
    next_id: u128,
    offset: i64,
}

impl Bed {
    /// A cluster of 4.4 without brokers; sessions last 100 ms.
    pub(crate) fn new() -> Self {
        let mut bed = Self {
            replay: Replay::default(),
            sessions: Sessions::new(100, std::iter::empty(), 0),
            settings: Settings {
                node_id: BrokerId(1),
                cluster_id: "cluster".to_owned(),
                static_configs: BTreeMap::new(),
            },
            now_ms: 0,
            next_id: 10_000,
            offset: 0,
        };
        bed.commit(&activation::newest_features());
        bed
    }

    pub(crate) fn image(&self) -> &MetadataImage {
        self.replay.image()
    }

    pub(crate) fn commit(&mut self, records: &[MetadataRecord]) {
        for record in records {
            self.replay.apply(Offset(self.offset), record).expect("decisions fit");
            self.replay.advance(Offset(self.offset), LeaderEpoch(1), self.offset);
            self.offset += 1;
        }
    }

    /// Decides and commits; gives the records and the answer.
    pub(crate) fn decide<R>(
        &mut self,
        decide: impl FnOnce(&mut Context<'_>, &mut Sessions, u64) -> Decision<R>,
    ) -> Decision<R> {
        let next_id = &mut self.next_id;
        let mut new_id = || {
            *next_id += 1;
            Uuid::from_u128(*next_id)
        };
        let mut context = Context {
            image: self.replay.image(),
            settings: &self.settings,
            next_offset: self.offset,
            new_id: &mut new_id,
        };
        let decision = decide(&mut context, &mut self.sessions, self.now_ms);
        self.commit(&decision.records);
        decision
    }
}
