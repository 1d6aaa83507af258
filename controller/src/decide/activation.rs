//! The records with which a controller that was just elected begins.

use std::sync::Arc;

use crate::records::MetadataRecord;
use crate::records::metadata::{
    AbortTransactionRecord, BeginTransactionRecord, ConfigRecord, EndTransactionRecord,
    FeatureLevelRecord, RegisterControllerRecord, register_controller_record,
};
use protocol_compat::ids::{BrokerId, Uuid};

use super::{Context, ELR_FEATURE};
use crate::error::ControllerError;
use crate::image::Endpoint;
use crate::image::features::METADATA_VERSION;

/// `metadata.version` of a new cluster: 4.4-IV2.
pub(crate) const NEWEST_METADATA_VERSION: i16 = 33;
/// Lowest `metadata.version` that is served: 3.3-IV3.
const OLDEST_METADATA_VERSION: i16 = 7;
/// First `metadata.version` with metadata transactions.
const TRANSACTIONS_SINCE: i16 = 13;
/// First `metadata.version` with controller registrations.
const CONTROLLER_REGISTRATION_SINCE: i16 = 15;
/// Resource type of broker configs.
const BROKER: i8 = 4;

/// Levels that this release supports, as Kafka 4.4 lists them in registrations: name, lowest, highest.
pub const SUPPORTED: &[(&str, i16, i16)] = &[
    ("group.version", 0, 1),
    ("kraft.version", 0, 1),
    (METADATA_VERSION, OLDEST_METADATA_VERSION, NEWEST_METADATA_VERSION),
    ("share.version", 0, 2),
    ("streams.version", 0, 1),
    ("transaction.version", 0, 2),
    (ELR_FEATURE, 0, 1),
];

/// Feature levels of a new cluster, in the order of `kafka-storage format`.
pub(crate) fn newest_features() -> Vec<MetadataRecord> {
    [
        (METADATA_VERSION, NEWEST_METADATA_VERSION),
        (ELR_FEATURE, 1),
        ("group.version", 1),
        ("share.version", 2),
        ("streams.version", 1),
        ("transaction.version", 2),
    ]
    .map(|(name, level)| {
        MetadataRecord::FeatureLevel(FeatureLevelRecord {
            name: name.to_owned(),
            feature_level: level,
        })
    })
    .to_vec()
}

/// First records of a cluster: the feature levels that the format chose, in one metadata transaction.
pub(crate) fn first(context: &Context<'_>, bootstrap: &[MetadataRecord]) -> Vec<MetadataRecord> {
    let level = |wanted: &str| {
        bootstrap.iter().find_map(|record| match record {
            MetadataRecord::FeatureLevel(record) if record.name == wanted => {
                Some(record.feature_level)
            }
            _ => None,
        })
    };
    let mut records = bootstrap.to_vec();
    if level(ELR_FEATURE).is_some_and(|level| level > 0) {
        // Who is eligible depends on it: it must be the same for all brokers, whatever their files say.
        let value = context.settings.number("min.insync.replicas", 1_i32);
        records.push(MetadataRecord::Config(ConfigRecord {
            resource_type: BROKER,
            resource_name: String::new(),
            name: "min.insync.replicas".to_owned(),
            value: Some(value.to_string()),
        }));
    }
    if level(METADATA_VERSION).is_some_and(|level| level >= TRANSACTIONS_SINCE) {
        let begin = BeginTransactionRecord { name: Some("Bootstrap records".to_owned()) };
        records.insert(0, MetadataRecord::BeginTransaction(begin));
        records.push(MetadataRecord::EndTransaction(EndTransactionRecord::default()));
    }
    records
}

/// Ends a metadata transaction that the controller before left open.
pub(crate) fn abort_transaction() -> MetadataRecord {
    MetadataRecord::AbortTransaction(AbortTransactionRecord {
        reason: Some("Controller failover".to_owned()),
    })
}

/// Registration of this controller, where the cluster has them.
pub(crate) fn register_controller(
    metadata_version: i16,
    id: BrokerId,
    incarnation: Uuid,
    endpoints: &[Endpoint],
) -> Option<MetadataRecord> {
    if metadata_version < CONTROLLER_REGISTRATION_SINCE {
        return None;
    }
    let endpoints =
        endpoints.iter().map(|endpoint| register_controller_record::ControllerEndpoint {
            name: endpoint.name.clone(),
            host: endpoint.host.clone(),
            port: endpoint.port,
            security_protocol: endpoint.security_protocol,
        });
    let features =
        SUPPORTED.iter().map(|&(name, min, max)| register_controller_record::ControllerFeature {
            name: name.to_owned(),
            min_supported_version: min,
            max_supported_version: max,
        });
    Some(MetadataRecord::RegisterController(RegisterControllerRecord {
        controller_id: id.0,
        incarnation_id: incarnation,
        zk_migration_ready: false,
        end_points: endpoints.collect(),
        features: features.collect(),
    }))
}

/// Refuses a cluster whose finalised features this release cannot serve.
pub(crate) fn check_features<'a>(
    levels: impl Iterator<Item = (&'a Arc<str>, &'a i16)>,
) -> Result<(), ControllerError> {
    for (name, &level) in levels {
        let supported = SUPPORTED.iter().find(|(known, ..)| *known == name.as_ref());
        let (min, max) = supported.map_or((0, 0), |&(_, min, max)| (min, max));
        if !(min..=max).contains(&level) {
            return Err(ControllerError::Refused(format!(
                "the cluster has {name} at level {level}; this release supports {min} to {max}"
            )));
        }
    }
    Ok(())
}
