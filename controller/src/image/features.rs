//! Finalised feature levels.

use std::sync::Arc;

use imbl::OrdMap;

/// The feature that names the record and RPC versions in use.
pub const METADATA_VERSION: &str = "metadata.version";
/// The feature that says whether the voter set lives in the log; kept in control records, not here.
pub const KRAFT_VERSION: &str = "kraft.version";

/// Finalised levels, by feature name. A feature at level 0 is absent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FeaturesImage {
    pub(crate) levels: OrdMap<Arc<str>, i16>,
    pub(crate) kraft_version: i16,
}

impl FeaturesImage {
    /// The finalised level of a feature; 0 when it is not finalised.
    #[must_use]
    pub fn level(&self, feature: &str) -> i16 {
        if feature == KRAFT_VERSION {
            return self.kraft_version;
        }
        self.levels.get(feature).copied().unwrap_or(0)
    }

    /// The finalised `metadata.version`; 0 before the first election of a cluster.
    #[must_use]
    pub fn metadata_version(&self) -> i16 {
        self.level(METADATA_VERSION)
    }

    /// Finalised features as ApiVersions lists them, in order of names, `kraft.version` included
    /// when it is above 0.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i16)> {
        let kraft = (self.kraft_version > 0).then_some((KRAFT_VERSION, self.kraft_version));
        let at: Arc<str> = KRAFT_VERSION.into();
        let before = self.levels.range(..Arc::clone(&at));
        let after = self.levels.range(at..);
        before.map(pair).chain(kraft).chain(after.map(pair))
    }
}

fn pair<'a>((name, &level): (&'a Arc<str>, &i16)) -> (&'a str, i16) {
    (name, level)
}
