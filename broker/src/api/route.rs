//! From a frame to the function that answers it, and back to bytes.

use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as m;
use kafka_protocol::protocol::{Decodable, Encodable};
use protocol_compat::api_table::{API_VERSIONS, ApiRow};
use protocol_compat::codec::{self, ExpectedNode};
use protocol_compat::{ErrorCode, api_table, frame};

use super::{
    Context, RequestHeader, configs, delete_records, describe_cluster, describe_log_dirs,
    describe_topic_partitions, find_coordinator, groups, init_producer_id, list_offsets, metadata,
    offset_for_leader_epoch, topics,
};
use crate::core::Core;
use crate::metadata::text;
use crate::net::connection::{CloseReason, Connection};

/// Key of Produce.
pub const PRODUCE: i16 = 0;
/// Key of Fetch.
pub const FETCH: i16 = 1;

/// Reads the header of a frame and sees that its API and version are served.
///
/// # Errors
/// A frame that is no request, or of an API or version that is not served.
pub fn open(request: Bytes) -> Result<(RequestHeader, Bytes), CloseReason> {
    let (header, body) = frame::read_header(request)
        .map_err(|error| CloseReason::BadRequest(format!("request header: {error}")))?;
    let served =
        api_table::lookup(header.api_key).is_some_and(|row| row.supports(header.api_version));
    // An ApiVersions request of a version that we do not know is answered: the client then takes an older one.
    if !served && header.api_key != API_VERSIONS {
        return Err(CloseReason::BadRequest(format!(
            "API key {} in version {} is not served",
            header.api_key, header.api_version
        )));
    }
    Ok((header, body))
}

struct Exchange<'a> {
    core: &'a Rc<Core>,
    connection: &'a Rc<Connection>,
    header: &'a RequestHeader,
}

impl Exchange<'_> {
    fn read<T: Decodable>(&self, body: Bytes) -> Result<T, CloseReason> {
        let RequestHeader { api_key, api_version, .. } = *self.header;
        codec::decode_request(api_key, api_version, body).map_err(|error| {
            CloseReason::BadRequest(format!("API key {api_key} version {api_version}: {error}"))
        })
    }

    fn context(&self) -> Context {
        Context {
            version: self.header.api_version,
            client_id: self.header.client_id.clone().unwrap_or_default(),
            peer: self.connection.peer.clone(),
        }
    }

    fn send<T: Encodable>(&self, response: &T) -> Result<(), CloseReason> {
        let RequestHeader { api_key, api_version, correlation_id, .. } = *self.header;
        let place = self.connection.reserve();
        let mut out = BytesMut::new();
        let encoded =
            codec::encode_response(api_key, api_version, correlation_id, response, &mut out);
        if let Err(error) = encoded {
            tracing::error!(api_key, api_version, %error, "an answer cannot be encoded");
            return Err(CloseReason::BadRequest(format!("the answer: {error}")));
        }
        self.connection.complete(self.core, place, |queue| queue.push_bytes(out.freeze()));
        Ok(())
    }
}

/// Answers a request of any API but Produce and Fetch.
///
/// # Errors
/// A body that cannot be read ends the connection.
pub async fn answer(
    core: &Rc<Core>,
    connection: &Rc<Connection>,
    header: RequestHeader,
    body: Bytes,
) -> Result<(), CloseReason> {
    let exchange = Exchange { core, connection, header: &header };
    let context = exchange.context();
    let version = header.api_version;
    // `api!(Request => answer)`: reads the body as that request, makes the answer, sends it.
    macro_rules! api {
        ($request:ident, $response:expr) => {{
            let $request = exchange.read(body)?;
            exchange.send(&$response)
        }};
    }
    match header.api_key {
        API_VERSIONS => api_versions(&exchange, body),
        2 => api!(r, list_offsets::handle(core, &context, r).await),
        3 => api!(r, metadata::handle(core, &context, r).await),
        8 => {
            let ids = codec::topic_ids(8, version, &body);
            api!(r, groups::offset_commit(core, &context, r, &ids).await)
        }
        9 => {
            let ids = codec::topic_ids(9, version, &body);
            api!(r, groups::offset_fetch(core, &context, r, ids).await)
        }
        10 => api!(r, find_coordinator::handle(core, &context, r).await),
        11 => api!(r, groups::join_group(core, &context, r).await),
        12 => api!(r, groups::heartbeat(core, &context, r).await),
        13 => api!(r, groups::leave_group(core, &context, r).await),
        14 => api!(r, groups::sync_group(core, &context, r).await),
        15 => api!(r, groups::describe_groups(core, &context, r).await),
        16 => api!(r, groups::list_groups(core, &context, r).await),
        19 => api!(r, topics::create(core, r).await),
        20 => api!(r, topics::delete(core, version, r).await),
        21 => api!(r, delete_records::handle(core, &context, r).await),
        22 => api!(r, init_producer_id::handle(core, r).await),
        23 => api!(r, offset_for_leader_epoch::handle(core, r).await),
        32 => api!(r, configs::describe(core, &r)),
        33 => api!(r, configs::alter(core, r).await),
        35 => api!(r, describe_log_dirs::handle(core, r).await),
        37 => api!(r, topics::create_partitions(core, r).await),
        42 => api!(r, groups::delete_groups(core, &context, r).await),
        44 => api!(r, configs::incremental_alter(core, r).await),
        60 => api!(r, describe_cluster::handle(core, &context, &r)),
        75 => api!(r, describe_topic_partitions::handle(core, &context, &r)),
        key => Err(CloseReason::BadRequest(format!("API key {key} is not served"))),
    }
}

/// Why a client that names the node it means is wrong here: it names half of it, or has come to another (KIP-1242).
fn meant_for_another(core: &Core, body: &Bytes) -> Option<ErrorCode> {
    let ExpectedNode { cluster_id, node_id } = ExpectedNode::read(body)?;
    match cluster_id {
        None if node_id == -1 => None,
        Some(id) if node_id != -1 => {
            let here =
                id == core.shared.cluster_id.as_bytes() && node_id == core.shared.node_id().0;
            (!here).then_some(ErrorCode::RebootstrapRequired)
        }
        _ => Some(ErrorCode::InvalidRequest),
    }
}

/// ApiVersions v0 to v5. KIP-35, KIP-511 (client software), KIP-584 (features).
fn api_versions(exchange: &Exchange<'_>, body: Bytes) -> Result<(), CloseReason> {
    use m::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
    let own = api_table::lookup(API_VERSIONS).map_or(0, |row| row.max);
    let version = exchange.header.api_version;
    let range = |row: &ApiRow| {
        ApiVersion::default()
            .with_api_key(row.key)
            .with_min_version(row.advertised_min)
            .with_max_version(row.max)
    };
    if !(0..=own).contains(&version) {
        // In the oldest version, which every client reads: it then asks again in one that is served.
        let keys = api_table::TABLE.iter().filter(|row| row.key == API_VERSIONS).map(range);
        let answer = m::ApiVersionsResponse::default()
            .with_error_code(ErrorCode::UnsupportedVersion as i16)
            .with_api_keys(keys.collect());
        let header = RequestHeader { api_version: 0, ..exchange.header.clone() };
        return Exchange { header: &header, ..*exchange }.send(&answer);
    }
    let answer = m::ApiVersionsResponse::default();
    let request: m::ApiVersionsRequest = exchange.read(body.clone())?;
    if version >= 5
        && let Some(error) = meant_for_another(exchange.core, &body)
    {
        return exchange.send(&answer.with_error_code(error as i16));
    }
    let named = [&request.client_software_name, &request.client_software_version];
    if version >= 3 && !named.iter().all(|name| is_software_name(name)) {
        return exchange.send(&answer.with_error_code(ErrorCode::InvalidRequest as i16));
    }
    let answer = answer.with_api_keys(api_table::TABLE.iter().map(range).collect());
    if version < 3 {
        return exchange.send(&answer);
    }
    let image = exchange.core.image();
    // Before v4 clients take a least level of 0 for a mistake (KAFKA-17011).
    let supported = controller::SUPPORTED_FEATURES
        .iter()
        .filter(|(_, min, _)| version >= 4 || *min > 0)
        .map(|&(name, min, max)| {
            SupportedFeatureKey::default()
                .with_name(text(name))
                .with_min_version(min)
                .with_max_version(max)
        });
    let finalized = image.features().iter().map(|(name, level)| {
        FinalizedFeatureKey::default()
            .with_name(text(name))
            .with_max_version_level(level)
            .with_min_version_level(level)
    });
    exchange.send(
        &answer
            .with_supported_features(supported.collect())
            .with_finalized_features_epoch(image.offset().0)
            .with_finalized_features(finalized.collect()),
    )
}

/// Kafka's rule for the names and versions by which clients call themselves.
fn is_software_name(name: &str) -> bool {
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    ends(name.bytes().next())
        && ends(name.bytes().last())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_names_follow_kafkas_rule() {
        assert!(is_software_name("apache-kafka-java") && is_software_name("4.4.0"));
        for bad in ["", "-a", "a-", "a b"] {
            assert!(!is_software_name(bad), "{bad}");
        }
    }
}
