//! Records of control batches: the quorum's own, and the first and last of a snapshot.

use protocol_compat::ids::{BrokerId, DirectoryId};

use super::codec::{Reader, RecordError, Tags, Writer};

/// One control record of the metadata log or of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ControlRecord {
    /// A leader opens its epoch.
    LeaderChange { leader: BrokerId, voters: Vec<BrokerId> },
    /// First record of a snapshot.
    SnapshotHeader { last_contained_log_timestamp_ms: i64 },
    /// Last record of a snapshot.
    SnapshotFooter,
    /// Level of `kraft.version`.
    KRaftVersion(i16),
    /// The voter set.
    Voters(Vec<Voter>),
}

/// A member of the voter set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Voter {
    pub(crate) id: BrokerId,
    pub(crate) directory: DirectoryId,
    /// Listener name, host, port.
    pub(crate) endpoints: Vec<(String, String, u16)>,
    /// Levels of `kraft.version` that it supports.
    pub(crate) kraft_versions: (i16, i16),
}

const LEADER_CHANGE: i16 = 2;
const SNAPSHOT_HEADER: i16 = 3;
const SNAPSHOT_FOOTER: i16 = 4;
const KRAFT_VERSION: i16 = 5;
const VOTERS: i16 = 6;

impl ControlRecord {
    /// Key and value.
    pub(crate) fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        let mut value = Writer::default();
        value.int16(0);
        let kind = match self {
            Self::LeaderChange { leader, voters } => {
                value.int32(leader.0);
                // Voters, and those who granted their vote: with one voter the same.
                for list in [voters, voters] {
                    value.array(list, |w, id| {
                        w.int32(id.0);
                        w.tags(Tags::default());
                    });
                }
                LEADER_CHANGE
            }
            Self::SnapshotHeader { last_contained_log_timestamp_ms } => {
                value.int64(*last_contained_log_timestamp_ms);
                SNAPSHOT_HEADER
            }
            Self::SnapshotFooter => SNAPSHOT_FOOTER,
            Self::KRaftVersion(level) => {
                value.int16(*level);
                KRAFT_VERSION
            }
            Self::Voters(voters) => {
                value.array(voters, |w, voter| {
                    w.int32(voter.id.0);
                    w.uuid(voter.directory.0);
                    w.array(&voter.endpoints, |w, (name, host, port)| {
                        w.string(name);
                        w.string(host);
                        w.uint16(*port);
                        w.tags(Tags::default());
                    });
                    w.int16(voter.kraft_versions.0);
                    w.int16(voter.kraft_versions.1);
                    w.tags(Tags::default());
                    w.tags(Tags::default());
                });
                VOTERS
            }
        };
        value.tags(Tags::default());
        let mut key = Writer::default();
        key.int16(0);
        key.int16(kind);
        (key.finish(), value.finish())
    }

    /// Reads key and value.
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Self, RecordError> {
        let mut key = Reader::new(key);
        let _version = key.int16()?;
        let kind = key.int16()?;
        let mut r = Reader::new(value);
        let version = r.int16()?;
        let newest = if kind == LEADER_CHANGE { 1 } else { 0 };
        if !(0..=newest).contains(&version) {
            return Err(RecordError::UnknownVersion { api_key: kind, version });
        }
        let record = match kind {
            LEADER_CHANGE => {
                let leader = BrokerId(r.int32()?);
                let voters = |r: &mut Reader<'_>| {
                    r.array(|r| {
                        let id = BrokerId(r.int32()?);
                        if version >= 1 {
                            let _directory = r.uuid()?;
                        }
                        r.tags(|_, _| Ok(false))?;
                        Ok(id)
                    })
                };
                let all = voters(&mut r)?;
                let _granting = voters(&mut r)?;
                Self::LeaderChange { leader, voters: all }
            }
            SNAPSHOT_HEADER => Self::SnapshotHeader { last_contained_log_timestamp_ms: r.int64()? },
            SNAPSHOT_FOOTER => Self::SnapshotFooter,
            KRAFT_VERSION => Self::KRaftVersion(r.int16()?),
            VOTERS => Self::Voters(r.array(|r| {
                let id = BrokerId(r.int32()?);
                let directory = DirectoryId(r.uuid()?);
                let endpoints = r.array(|r| {
                    let endpoint = (r.string()?, r.string()?, r.uint16()?);
                    r.tags(|_, _| Ok(false))?;
                    Ok(endpoint)
                })?;
                let kraft_versions = (r.int16()?, r.int16()?);
                r.tags(|_, _| Ok(false))?;
                r.tags(|_, _| Ok(false))?;
                Ok(Voter { id, directory, endpoints, kraft_versions })
            })?),
            other => return Err(RecordError::UnknownType(other)),
        };
        r.tags(|_, _| Ok(false))?;
        if !r.is_empty() {
            return Err(RecordError::Malformed("bytes are left behind the control record"));
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<_> = text.chars().filter(char::is_ascii_hexdigit).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hex"))
            .collect()
    }

    /// Bytes out of the log that Apache Kafka 4.4.0 wrote after `kafka-storage format --standalone`.
    #[test]
    fn kafkas_control_records_round_trip() {
        let voter = Voter {
            id: BrokerId(1),
            directory: "TZibG4C2RHGOcH6JrgIe2A".parse().expect("an id"),
            endpoints: vec![("CONTROLLER".to_owned(), "127.0.0.1".to_owned(), 23_011)],
            kraft_versions: (0, 1),
        };
        for (record, key, value) in [
            (
                ControlRecord::LeaderChange { leader: BrokerId(1), voters: vec![BrokerId(1)] },
                "00000002",
                "0000 00000001 02 00000001 00 02 00000001 00 00",
            ),
            (ControlRecord::KRaftVersion(1), "00000005", "0000 0001 00"),
            (
                ControlRecord::Voters(vec![voter]),
                "00000006",
                "0000 02 00000001 4d989b1b80b644718e707e89ae021ed8 02 0b434f4e54524f4c4c4552 0a3132372e302e302e31 59e3 00 0000 0001 00 00 00",
            ),
            (
                ControlRecord::SnapshotHeader {
                    last_contained_log_timestamp_ms: 0x0000_01a2_317b_86d2,
                },
                "00000003",
                "0000 000001a2317b86d2 00",
            ),
            (ControlRecord::SnapshotFooter, "00000004", "0000 00"),
        ] {
            assert_eq!(record.encode(), (hex(key), hex(value)), "{record:?}");
            assert_eq!(ControlRecord::decode(&hex(key), &hex(value)), Ok(record));
        }
    }
}
