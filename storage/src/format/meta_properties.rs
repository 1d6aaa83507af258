//! `meta.properties`: whose a log directory is.

use std::collections::BTreeMap;

use protocol_compat::ids::{BrokerId, DirectoryId};

use super::FormatError;

/// Identity of a log directory, version 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetaProperties {
    /// `cluster.id`.
    pub cluster_id: String,
    /// `node.id`.
    pub node_id: BrokerId,
    /// `directory.id`; absent in directories of Kafka before 3.7.
    pub directory_id: Option<DirectoryId>,
}

impl MetaProperties {
    /// The file.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut out = format!("#\n#\ncluster.id={}\n", escape(&self.cluster_id));
        if let Some(id) = self.directory_id {
            out.push_str(&format!("directory.id={id}\n"));
        }
        out.push_str(&format!("node.id={}\nversion=1\n", self.node_id));
        out
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Version 0 (of the ZooKeeper era) or another, or a field that is absent or malformed.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let text = std::str::from_utf8(bytes).map_err(|_| FormatError::new("not UTF-8"))?;
        let properties = properties(text);
        let get = |name: &str| {
            properties
                .get(name)
                .map(String::as_str)
                .ok_or_else(|| FormatError::new(format!("no `{name}`")))
        };
        match get("version")? {
            "1" => {}
            "0" => {
                return Err(FormatError::new(
                    "version 0, of the ZooKeeper era: migrate it with Apache Kafka 3.9 first",
                ));
            }
            other => return Err(FormatError::new(format!("version `{other}`"))),
        }
        let node_id = get("node.id")?;
        let node_id = node_id
            .parse()
            .ok()
            .filter(|id| *id >= 0)
            .ok_or_else(|| FormatError::new(format!("node.id `{node_id}`")))?;
        let directory_id = match properties.get("directory.id") {
            Some(id) => Some(
                id.parse().map_err(|error| FormatError::new(format!("directory.id: {error}")))?,
            ),
            None => None,
        };
        let cluster_id = get("cluster.id")?.to_owned();
        Ok(Self { cluster_id, node_id: BrokerId(node_id), directory_id })
    }
}

/// A Java properties text, without line continuations: these files have none.
fn properties(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.starts_with(['#', '!']))
        .filter_map(|line| line.split_once(['=', ':']))
        .map(|(name, value)| (name.trim().to_owned(), unescape(value.trim())))
        .collect()
}

fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | '=' | ':' | '#' | '!') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn unescape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_kafka_is_read_and_written_alike() {
        let text = b"#\n#Tue Dec 01 12:00:00 UTC 2026\nnode.id=1\n\
            directory.id=5L6g3nShT-eMCtK--X86sw\nversion=1\ncluster.id=4L6g3nShT-eMCtK--X86sw\n";
        let meta = MetaProperties::parse(text).expect("valid");
        assert_eq!(meta.cluster_id, "4L6g3nShT-eMCtK--X86sw");
        assert_eq!(meta.node_id, BrokerId(1));
        assert_eq!(MetaProperties::parse(meta.encode().as_bytes()), Ok(meta));
    }

    #[test]
    fn odd_cluster_ids_survive() {
        let meta = MetaProperties {
            cluster_id: "a=b:c\\d#e".into(),
            node_id: BrokerId(0),
            directory_id: None,
        };
        assert_eq!(MetaProperties::parse(meta.encode().as_bytes()), Ok(meta));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (text, named) in [
            ("version=0\nbroker.id=1\n", "ZooKeeper"),
            ("version=1\ncluster.id=x\n", "node.id"),
            ("version=1\nnode.id=1\n", "cluster.id"),
            ("version=1\nnode.id=-1\ncluster.id=x\n", "node.id"),
            ("version=1\nnode.id=1\ncluster.id=x\ndirectory.id=zz\n", "directory.id"),
            ("", "version"),
        ] {
            let error = MetaProperties::parse(text.as_bytes()).expect_err(text);
            assert!(error.0.contains(named), "{error}");
        }
    }
}
