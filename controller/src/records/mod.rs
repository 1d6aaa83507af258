//! Records of the metadata log and of the quorum: their bytes, and which version a cluster writes.

pub(crate) mod codec;
pub(crate) mod control;
#[path = "generated/metadata.rs"]
pub mod metadata;

use codec::{Reader, Writer};

pub use codec::RecordError;
pub use metadata::MetadataRecord;

/// Version of the frame around every metadata record.
const FRAME_VERSION: u32 = 1;

impl MetadataRecord {
    /// Reads the value of a record in the metadata log.
    ///
    /// # Errors
    /// No record, or one that this release does not know.
    pub fn decode(value: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(value);
        if reader.uvarint()? != FRAME_VERSION {
            return Err(RecordError::Malformed("unknown frame version"));
        }
        let number = |value: u32| {
            i16::try_from(value)
                .map_err(|_| RecordError::Malformed("a type or version is too large"))
        };
        let api_key = number(reader.uvarint()?)?;
        let version = number(reader.uvarint()?)?;
        let newest = Self::newest_version(api_key).ok_or(RecordError::UnknownType(api_key))?;
        if version > newest {
            return Err(RecordError::UnknownVersion { api_key, version });
        }
        let record = Self::read_body(api_key, version, &mut reader)?;
        if !reader.is_empty() {
            return Err(RecordError::Malformed("bytes are left behind the record"));
        }
        Ok(record)
    }

    /// The value of a record in the metadata log of a cluster with this `metadata.version`.
    #[must_use]
    pub fn encode(&self, metadata_version: i16) -> Vec<u8> {
        let version = self.version(metadata_version);
        let mut writer = Writer::default();
        writer.uvarint(FRAME_VERSION);
        writer.uvarint(u32::from(self.api_key().unsigned_abs()));
        writer.uvarint(u32::from(version.unsigned_abs()));
        self.write_body(&mut writer, version);
        writer.finish()
    }

    /// The version that a cluster with this `metadata.version` writes.
    #[must_use]
    pub fn version(&self, metadata_version: i16) -> i16 {
        match self {
            Self::RegisterBroker(_) => match metadata_version {
                30.. => 4,
                17.. => 3,
                8.. => 2,
                _ => 1,
            },
            Self::Partition(_) | Self::PartitionChange(_) => match metadata_version {
                23.. => 2,
                17.. => 1,
                _ => 0,
            },
            // As low as its content allows.
            Self::BrokerRegistrationChange(record) => {
                if record.cordoned_log_dirs.is_some() {
                    3
                } else if !record.log_dirs.is_empty() {
                    2
                } else {
                    i16::from(record.in_controlled_shutdown != 0)
                }
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bodies of every record in every version, as the Java classes of 4.4.0 write them.
    #[test]
    fn every_record_and_version_round_trips_byte_for_byte() {
        let table = include_str!("../../testdata/records.tsv");
        let mut seen = std::collections::BTreeSet::new();
        for line in table.lines() {
            let fields: Vec<_> = line.split('\t').collect();
            let api_key: i16 = fields[0].parse().expect("a type");
            let version: i16 = fields[1].parse().expect("a version");
            let body: Vec<u8> = (0..fields[2].len() / 2)
                .map(|at| u8::from_str_radix(&fields[2][2 * at..2 * at + 2], 16).expect("hex"))
                .collect();
            let mut reader = Reader::new(&body);
            let record = MetadataRecord::read_body(api_key, version, &mut reader).expect(line);
            assert!(reader.is_empty(), "{line}");
            let mut writer = Writer::default();
            record.write_body(&mut writer, version);
            assert_eq!(writer.finish(), body, "{line}\n{record:?}");
            seen.insert((api_key, version));
            // Cut off anywhere, it is an error and nothing worse.
            for cut in 0..body.len() {
                let _ = MetadataRecord::read_body(api_key, version, &mut Reader::new(&body[..cut]));
            }
        }
        for api_key in 0..40 {
            if let Some(newest) = MetadataRecord::newest_version(api_key) {
                let oldest = seen.iter().filter(|(key, _)| *key == api_key).map(|(_, v)| *v).min();
                assert_eq!(oldest, Some(0), "type {api_key}");
                assert!((0..=newest).all(|version| seen.contains(&(api_key, version))));
            }
        }
        assert_eq!(seen.len(), 38);
    }

    #[test]
    fn other_releases_records_are_told_from_broken_ones() {
        assert_eq!(MetadataRecord::decode(&[1, 99, 0, 0]), Err(RecordError::UnknownType(99)));
        assert_eq!(
            MetadataRecord::decode(&[1, 20, 1, 0]),
            Err(RecordError::UnknownVersion { api_key: 20, version: 1 })
        );
        assert_eq!(MetadataRecord::decode(&[1, 20, 0, 1, 9, 0]), Err(RecordError::UnknownTag(9)));
        assert_eq!(MetadataRecord::decode(&[1, 20]), Err(RecordError::Short));
    }
}
