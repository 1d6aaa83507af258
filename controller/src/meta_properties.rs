//! `meta.properties`: whose log directory this is.
//!
//! A Java properties file; Kafka writes the keys in any order under comment lines with the date.

use std::collections::BTreeMap;

use protocol_compat::ids::{BrokerId, DirectoryId};

/// The content of version 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MetaProperties {
    pub(crate) cluster_id: String,
    pub(crate) node_id: BrokerId,
    /// Absent in directories that releases before 3.7 wrote.
    pub(crate) directory_id: Option<DirectoryId>,
}

impl MetaProperties {
    /// Reads the file's text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let entries = properties(text);
        let get = |name: &str| entries.get(name).map(String::as_str);
        match get("version") {
            Some("1") => {}
            Some("0") => {
                return Err("version 0 belongs to a ZooKeeper cluster: migrate it with Apache Kafka 3.9 first".into());
            }
            Some(other) => return Err(format!("version {other} is not known; 1 is")),
            None => return Err("`version` is missing".into()),
        }
        let node_id = get("node.id").ok_or("`node.id` is missing")?;
        let node_id = node_id.parse().map_err(|_| format!("node.id={node_id} is not a number"))?;
        let directory_id = match get("directory.id") {
            Some(text) => Some(text.parse().map_err(|error| format!("directory.id: {error}"))?),
            None => None,
        };
        let cluster_id =
            get("cluster.id").filter(|id| !id.is_empty()).ok_or("`cluster.id` is missing")?;
        Ok(Self { cluster_id: cluster_id.to_owned(), node_id: BrokerId(node_id), directory_id })
    }

    /// The file's text.
    pub(crate) fn to_text(&self) -> String {
        let directory =
            self.directory_id.map(|id| format!("directory.id={id}\n")).unwrap_or_default();
        format!(
            "#\nnode.id={}\n{directory}version=1\ncluster.id={}\n",
            self.node_id, self.cluster_id
        )
    }
}

/// Reads Java properties as far as Kafka's file needs: comments, `=` or `:`, escapes of single characters.
fn properties(text: &str) -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    for line in text.lines() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let (name, value) = line.split_once(['=', ':']).unwrap_or((line, ""));
        let plain = |text: &str| text.trim().replace('\\', "");
        entries.insert(plain(name), plain(value));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file that `kafka-storage format` of 4.4.0 wrote.
    #[test]
    fn kafkas_file_is_read_and_ours_is_its_like() {
        let text = "#\n#Tue Dec 01 12:01:48 UTC 2026\nnode.id=1\ndirectory.id=TZibG4C2RHGOcH6JrgIe2A\nversion=1\ncluster.id=5L6g3nShT-eMCtK--X86sw\n";
        let meta = MetaProperties::parse(text).expect("Kafka's file");
        assert_eq!(meta.node_id, BrokerId(1));
        assert_eq!(meta.cluster_id, "5L6g3nShT-eMCtK--X86sw");
        assert_eq!(meta.directory_id.expect("an id").to_string(), "TZibG4C2RHGOcH6JrgIe2A");
        assert_eq!(MetaProperties::parse(&meta.to_text()), Ok(meta));
    }

    #[test]
    fn old_and_broken_files_are_refused() {
        for text in [
            "",
            "version=0\nbroker.id=1\n",
            "version=1\nnode.id=x\ncluster.id=a\n",
            "version=1\nnode.id=1\n",
        ] {
            assert!(MetaProperties::parse(text).is_err(), "{text}");
        }
    }
}
