//! Broker registration, heartbeats, sessions.
//!
//! Sessions are volatile on purpose: a controller that starts has none, so a broker that comes back with it is let in at
//! once, and brokers that do not come back are fenced when the first session time has passed.

use std::collections::BTreeMap;

use crate::records::metadata::{
    BrokerRegistrationChangeRecord, MetadataRecord, RegisterBrokerRecord, register_broker_record,
};
use kafka_protocol::messages::{
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerRegistrationRequest,
    BrokerRegistrationResponse,
};
use protocol_compat::ErrorCode;
use protocol_compat::ids::{BrokerId, Uuid};

use super::partitions::{BrokerEvent, broker_changes};
use super::{Context, Decision, directories};
use crate::error::RequestError;
use crate::image::BrokerRegistration;
use crate::image::features::METADATA_VERSION;

/// First metadata.version whose registrations name their directories.
const DIRECTORIES_SINCE: i16 = 17;
/// Ids below this are reserved by Kafka.
const RESERVED_DIRECTORIES: u128 = 100;

/// What the controller knows of a broker besides its registration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Session {
    epoch: i64,
    /// Monotonic milliseconds until which it counts as alive.
    deadline_ms: u64,
    /// Offset of its registration: it is caught up once it has replayed it.
    registered_at: i64,
    /// Newest metadata offset it has replayed.
    metadata_offset: i64,
    /// Offset of the records that ended its leaderships.
    shutdown_offset: i64,
    /// Whether it was heard of since this controller started.
    heard: bool,
}

/// Sessions of all registered brokers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    timeout_ms: u64,
    sessions: BTreeMap<BrokerId, Session>,
}

impl Sessions {
    /// Sessions of the brokers that stand in the image when the controller starts.
    pub(crate) fn new<'a>(
        timeout_ms: u64,
        brokers: impl Iterator<Item = &'a BrokerRegistration>,
        now_ms: u64,
    ) -> Self {
        let sessions = brokers.map(|broker| {
            let session = Session {
                epoch: broker.epoch.0,
                deadline_ms: now_ms.saturating_add(timeout_ms),
                registered_at: broker.epoch.0,
                metadata_offset: -1,
                shutdown_offset: i64::MAX,
                heard: false,
            };
            (broker.id, session)
        });
        Self { timeout_ms, sessions: sessions.collect() }
    }

    /// When the next unfenced broker must be fenced.
    pub(crate) fn next_deadline_ms(&self, context: &Context<'_>) -> Option<u64> {
        self.unfenced(context).map(|(_, session)| session.deadline_ms).min()
    }

    fn unfenced<'a>(
        &'a self,
        context: &'a Context<'_>,
    ) -> impl Iterator<Item = (BrokerId, &'a Session)> {
        self.sessions.iter().filter_map(|(&id, session)| {
            let broker = context.image.broker(id)?;
            (!broker.fenced && broker.epoch.0 == session.epoch).then_some((id, session))
        })
    }

    fn is_valid(&self, broker: &BrokerRegistration, now_ms: u64) -> bool {
        self.sessions.get(&broker.id).is_some_and(|session| {
            session.heard && session.epoch == broker.epoch.0 && now_ms < session.deadline_ms
        })
    }

    /// Lowest offset that the brokers in service have replayed.
    fn lowest_active_offset(&self, context: &Context<'_>) -> i64 {
        self.unfenced(context)
            .filter(|(id, _)| context.is_active(*id))
            .map(|(_, session)| session.metadata_offset)
            .min()
            .unwrap_or(i64::MAX)
    }
}

/// Checks that a request comes from the incarnation that is registered.
pub(crate) fn check_epoch<'a>(
    context: &Context<'a>,
    id: BrokerId,
    epoch: i64,
) -> Result<&'a BrokerRegistration, RequestError> {
    let stale = |message: String| RequestError::new(ErrorCode::StaleBrokerEpoch, message);
    let broker = context
        .image
        .broker(id)
        .ok_or_else(|| stale(format!("No broker registration found for broker id {id}")))?;
    if broker.epoch.0 != epoch {
        return Err(stale(format!(
            "Expected broker epoch {epoch}, but got broker epoch {}",
            broker.epoch
        )));
    }
    Ok(broker)
}

/// BrokerRegistration: the incarnation gets its epoch; it stays fenced until it has caught up.
pub(crate) fn register(
    context: &Context<'_>,
    sessions: &mut Sessions,
    now_ms: u64,
    request: &BrokerRegistrationRequest,
) -> Decision<BrokerRegistrationResponse> {
    let id = BrokerId(request.broker_id.0);
    let before = context.image.broker(id);
    if let Err(error) = check_registration(context, sessions, now_ms, request, before) {
        tracing::debug!(broker = %id, %error, "broker registration refused");
        let response = BrokerRegistrationResponse::default()
            .with_error_code(error.code().code())
            .with_broker_epoch(-1);
        return Decision::answer(response);
    }
    let mut records = Vec::new();
    let same = before.filter(|before| before.incarnation_id == request.incarnation_id);
    if let Some(before) = before
        && same.is_none()
    {
        // A clean stop leaves a file with the last epoch; without it the end of its logs may be lost.
        let event = if request.previous_broker_epoch == before.epoch.0 || !context.elr_enabled() {
            BrokerEvent::Leaves(id)
        } else {
            BrokerEvent::UncleanShutdown(id)
        };
        broker_changes(context, event, &mut records);
    }
    let offset =
        context.next_offset.saturating_add(i64::try_from(records.len()).unwrap_or(i64::MAX));
    let epoch = same.map_or(offset, |same| same.epoch.0);
    let session = Session {
        epoch,
        deadline_ms: now_ms.saturating_add(sessions.timeout_ms),
        registered_at: offset,
        metadata_offset: -1,
        shutdown_offset: i64::MAX,
        heard: true,
    };
    sessions.sessions.insert(id, session);
    records.push(MetadataRecord::RegisterBroker(registration(context, request, epoch)));
    Decision { records, response: BrokerRegistrationResponse::default().with_broker_epoch(epoch) }
}

fn registration(
    context: &Context<'_>,
    request: &BrokerRegistrationRequest,
    epoch: i64,
) -> RegisterBrokerRecord {
    let endpoints =
        request.listeners.iter().map(|listener| register_broker_record::BrokerEndpoint {
            name: listener.name.to_string(),
            host: listener.host.to_string(),
            port: listener.port,
            security_protocol: listener.security_protocol,
        });
    let features = request.features.iter().map(|feature| register_broker_record::BrokerFeature {
        name: feature.name.to_string(),
        min_supported_version: feature.min_supported_version,
        max_supported_version: feature.max_supported_version,
    });
    let with_directories = context.image.features().metadata_version() >= DIRECTORIES_SINCE;
    RegisterBrokerRecord {
        broker_id: request.broker_id.0,
        is_migrating_zk_broker: false,
        incarnation_id: request.incarnation_id,
        broker_epoch: epoch,
        end_points: endpoints.collect(),
        features: features.collect(),
        rack: request.rack.as_ref().map(ToString::to_string),
        fenced: true,
        in_controlled_shutdown: false,
        log_dirs: if with_directories { request.log_dirs.clone() } else { Vec::new() },
        ..RegisterBrokerRecord::default()
    }
}

fn check_registration(
    context: &Context<'_>,
    sessions: &Sessions,
    now_ms: u64,
    request: &BrokerRegistrationRequest,
    before: Option<&BrokerRegistration>,
) -> Result<(), RequestError> {
    let refuse = |code, message: String| Err(RequestError::new(code, message));
    let id = request.broker_id.0;
    if request.cluster_id.as_str() != context.settings.cluster_id {
        return refuse(
            ErrorCode::InconsistentClusterId,
            format!(
                "Expected cluster ID {}, but got cluster ID {}",
                context.settings.cluster_id, request.cluster_id
            ),
        );
    }
    if let Some(before) = before
        && before.incarnation_id != request.incarnation_id
        && !before.in_controlled_shutdown
        && sessions.is_valid(before, now_ms)
    {
        return refuse(
            ErrorCode::DuplicateBrokerRegistration,
            "Another broker is registered with that broker id. If the broker was recently restarted this should \
             self-resolve once the heartbeat manager expires the broker's session."
                .to_owned(),
        );
    }
    if request.is_migrating_zk_broker {
        return refuse(ErrorCode::InvalidRegistration, format!("broker {id} runs with ZooKeeper"));
    }
    check_features(context, request)?;
    if context.image.features().metadata_version() >= DIRECTORIES_SINCE {
        check_directories(context, request)?;
    }
    Ok(())
}

fn check_features(
    context: &Context<'_>,
    request: &BrokerRegistrationRequest,
) -> Result<(), RequestError> {
    if !request.features.iter().any(|feature| feature.name.as_str() == METADATA_VERSION) {
        return Err(RequestError::new(
            ErrorCode::InvalidRegistration,
            "Request features do not contain 'metadata.version'",
        ));
    }
    for (name, level) in context.image.features().iter() {
        let supported = request.features.iter().find(|feature| feature.name.as_str() == name);
        let (min, max) =
            supported.map_or((0, 0), |f| (f.min_supported_version, f.max_supported_version));
        if !(min..=max).contains(&level) {
            return Err(RequestError::new(
                ErrorCode::UnsupportedVersion,
                format!(
                    "Unable to register because the broker does not support finalized version {level} of {name}. \
                     The broker wants a version between {min} and {max}, inclusive."
                ),
            ));
        }
    }
    Ok(())
}

fn check_directories(
    context: &Context<'_>,
    request: &BrokerRegistrationRequest,
) -> Result<(), RequestError> {
    let refuse = |message: String| Err(RequestError::new(ErrorCode::InvalidRegistration, message));
    if request.log_dirs.is_empty() {
        return refuse("No directories specified in request".to_owned());
    }
    let mut sorted: Vec<Uuid> = request.log_dirs.clone();
    sorted.sort_unstable();
    if sorted.iter().any(|id| id.as_u128() < RESERVED_DIRECTORIES) {
        return refuse("Reserved directory ID in request".to_owned());
    }
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return refuse("Duplicate directory ID in request".to_owned());
    }
    for broker in context.image.brokers().filter(|broker| broker.id.0 != request.broker_id.0) {
        if let Some(id) = broker.log_dirs.iter().find(|id| sorted.contains(&id.0)) {
            return refuse(format!(
                "Broker {} is already registered with directory {id}",
                broker.id
            ));
        }
    }
    Ok(())
}

/// Where a broker stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Fenced,
    Unfenced,
    ControlledShutdown,
    ShutdownNow,
}

/// BrokerHeartbeat: renews the session and moves the broker between its states.
pub(crate) fn heartbeat(
    context: &Context<'_>,
    sessions: &mut Sessions,
    now_ms: u64,
    request: &BrokerHeartbeatRequest,
) -> Decision<BrokerHeartbeatResponse> {
    let id = BrokerId(request.broker_id.0);
    let broker = match check_epoch(context, id, request.broker_epoch) {
        Ok(broker) => broker,
        Err(error) => {
            let response = BrokerHeartbeatResponse::default().with_error_code(error.code().code());
            return Decision::answer(response);
        }
    };
    let known =
        sessions.sessions.get(&id).copied().filter(|session| session.epoch == broker.epoch.0);
    let mut session = known.unwrap_or(Session {
        epoch: broker.epoch.0,
        deadline_ms: 0,
        registered_at: broker.epoch.0,
        metadata_offset: -1,
        shutdown_offset: i64::MAX,
        heard: false,
    });
    let lowest = sessions.lowest_active_offset(context);
    let next = next_state(context, broker, &session, lowest, request);
    let mut records = Vec::new();
    if next != state_of(broker) {
        enter(context, broker, next, &mut records);
    }
    if next == State::ControlledShutdown && state_of(broker) != next {
        session.shutdown_offset =
            context.next_offset.saturating_add(i64::try_from(records.len()).unwrap_or(i64::MAX));
    }
    directories::offline(context, broker, &request.offline_log_dirs, &mut records);
    session.heard = true;
    session.deadline_ms = now_ms.saturating_add(sessions.timeout_ms);
    session.metadata_offset = session.metadata_offset.max(request.current_metadata_offset);
    let registered_at = session.registered_at;
    sessions.sessions.insert(id, session);
    let response = BrokerHeartbeatResponse::default()
        .with_is_caught_up(request.current_metadata_offset >= registered_at)
        .with_is_fenced(matches!(next, State::Fenced | State::ShutdownNow))
        .with_should_shut_down(next == State::ShutdownNow);
    Decision { records, response }
}

fn state_of(broker: &BrokerRegistration) -> State {
    match (broker.fenced, broker.in_controlled_shutdown) {
        (true, _) => State::Fenced,
        (false, true) => State::ControlledShutdown,
        (false, false) => State::Unfenced,
    }
}

fn next_state(
    context: &Context<'_>,
    broker: &BrokerRegistration,
    session: &Session,
    lowest_active_offset: i64,
    request: &BrokerHeartbeatRequest,
) -> State {
    match state_of(broker) {
        State::Fenced if request.want_shut_down => State::ShutdownNow,
        State::Fenced if request.want_fence => State::Fenced,
        State::Fenced if request.current_metadata_offset >= session.registered_at => {
            State::Unfenced
        }
        State::Fenced => State::Fenced,
        State::Unfenced => match (request.want_fence, request.want_shut_down) {
            (true, true) => State::ShutdownNow,
            (true, false) => State::Fenced,
            (false, true) if leads_any(context, broker.id) => State::ControlledShutdown,
            (false, true) => State::ShutdownNow,
            (false, false) => State::Unfenced,
        },
        State::ControlledShutdown if leads_any(context, broker.id) => State::ControlledShutdown,
        // The others must know that it leads nothing any more before it goes.
        State::ControlledShutdown
            if session.shutdown_offset != i64::MAX
                && session.shutdown_offset > lowest_active_offset =>
        {
            State::ControlledShutdown
        }
        State::ControlledShutdown | State::ShutdownNow => State::ShutdownNow,
    }
}

fn leads_any(context: &Context<'_>, id: BrokerId) -> bool {
    context.image.topics().iter().any(|topic| topic.partitions().any(|(_, p)| p.leader == Some(id)))
}

fn enter(
    context: &Context<'_>,
    broker: &BrokerRegistration,
    next: State,
    records: &mut Vec<MetadataRecord>,
) {
    let change = BrokerRegistrationChangeRecord {
        broker_id: broker.id.0,
        broker_epoch: broker.epoch.0,
        ..BrokerRegistrationChangeRecord::default()
    };
    match next {
        State::Fenced | State::ShutdownNow => {
            if !broker.fenced {
                fence(context, broker, records);
            }
        }
        State::Unfenced => {
            records.push(MetadataRecord::BrokerRegistrationChange(
                BrokerRegistrationChangeRecord { fenced: -1, ..change },
            ));
            broker_changes(context, BrokerEvent::Returns(broker.id), records);
        }
        State::ControlledShutdown => {
            records.push(MetadataRecord::BrokerRegistrationChange(
                BrokerRegistrationChangeRecord { in_controlled_shutdown: 1, ..change },
            ));
            broker_changes(context, BrokerEvent::Leaves(broker.id), records);
        }
    }
}

fn fence(context: &Context<'_>, broker: &BrokerRegistration, records: &mut Vec<MetadataRecord>) {
    broker_changes(context, BrokerEvent::Leaves(broker.id), records);
    records.push(MetadataRecord::BrokerRegistrationChange(BrokerRegistrationChangeRecord {
        broker_id: broker.id.0,
        broker_epoch: broker.epoch.0,
        fenced: 1,
        ..BrokerRegistrationChangeRecord::default()
    }));
}

/// Fences the first broker whose session has ended; call again until there is none.
pub(crate) fn fence_stale(
    context: &Context<'_>,
    sessions: &Sessions,
    now_ms: u64,
) -> Option<(BrokerId, Vec<MetadataRecord>)> {
    let (id, _) = sessions.unfenced(context).find(|(_, session)| session.deadline_ms <= now_ms)?;
    let mut records = Vec::new();
    fence(context, context.image.broker(id)?, &mut records);
    Some((id, records))
}

#[cfg(test)]
#[path = "brokers_tests.rs"]
mod tests;
