//! Access control entries, SCRAM credentials, delegation tokens and quotas.
//!
//! This release replays and keeps them, so that nothing of a log is lost; the parts that use them come later.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;
use protocol_compat::ids::Uuid;

/// One access control entry, fields as in `AccessControlEntryRecord`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessControlEntry {
    /// Wire number of the resource type.
    pub resource_type: i8,
    /// Resource name or prefix.
    pub resource_name: String,
    /// Wire number of the pattern type.
    pub pattern_type: i8,
    /// As in `User:alice`.
    pub principal: String,
    /// Host, range, or `*`.
    pub host: String,
    /// Wire number of the operation.
    pub operation: i8,
    /// Wire number of the permission type.
    pub permission_type: i8,
}

/// All access control entries, by their ids.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AclImage {
    pub(crate) entries: OrdMap<Uuid, Arc<AccessControlEntry>>,
}

impl AclImage {
    /// Entries in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (Uuid, &AccessControlEntry)> {
        self.entries.iter().map(|(&id, entry)| (id, entry.as_ref()))
    }
}

/// A stored SCRAM credential.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramCredential {
    /// Salt.
    pub salt: Bytes,
    /// Stored key.
    pub stored_key: Bytes,
    /// Server key.
    pub server_key: Bytes,
    /// Iterations of the hash.
    pub iterations: i32,
}

impl std::fmt::Debug for ScramCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScramCredential")
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

/// All SCRAM credentials, by mechanism number (1 SHA-256, 2 SHA-512) and user.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ScramImage {
    pub(crate) credentials: OrdMap<(i8, Arc<str>), Arc<ScramCredential>>,
}

impl ScramImage {
    /// The credential of a user for one mechanism.
    #[must_use]
    pub fn get(&self, mechanism: i8, user: &str) -> Option<&ScramCredential> {
        self.credentials.get(&(mechanism, Arc::from(user))).map(AsRef::as_ref)
    }

    /// Credentials by mechanism, then user.
    pub fn iter(&self) -> impl Iterator<Item = (i8, &str, &ScramCredential)> {
        self.credentials
            .iter()
            .map(|((mechanism, user), credential)| (*mechanism, user.as_ref(), credential.as_ref()))
    }
}

/// A delegation token, fields as in `DelegationTokenRecord`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DelegationToken {
    /// Owner, as in `User:alice`.
    pub owner: String,
    /// Who asked for it.
    pub requester: String,
    /// Who may renew it.
    pub renewers: Vec<String>,
    /// Milliseconds since the Unix epoch.
    pub issue_timestamp_ms: i64,
    /// Milliseconds since the Unix epoch.
    pub max_timestamp_ms: i64,
    /// Milliseconds since the Unix epoch.
    pub expiration_timestamp_ms: i64,
}

/// All delegation tokens, by token id.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DelegationTokenImage {
    pub(crate) tokens: OrdMap<Arc<str>, Arc<DelegationToken>>,
}

impl DelegationTokenImage {
    /// Tokens in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &DelegationToken)> {
        self.tokens.iter().map(|(id, token)| (id.as_ref(), token.as_ref()))
    }
}

/// Whom a quota binds: entity type (`user`, `client-id`, `ip`) to name, `None` for the default entity.
pub type QuotaEntity = BTreeMap<String, Option<String>>;

/// All quotas, by entity and then quota name.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClientQuotasImage {
    pub(crate) quotas: OrdMap<QuotaEntity, OrdMap<Arc<str>, f64>>,
}

impl ClientQuotasImage {
    /// Quotas by entity.
    pub fn iter(&self) -> impl Iterator<Item = (&QuotaEntity, &OrdMap<Arc<str>, f64>)> {
        self.quotas.iter()
    }
}
