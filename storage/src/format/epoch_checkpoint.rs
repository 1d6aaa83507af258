//! `leader-epoch-checkpoint`: where each leader epoch began.

use protocol_compat::ids::{LeaderEpoch, Offset};

use super::FormatError;

/// One epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochEntry {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// Offset of its first record.
    pub start_offset: Offset,
}

/// The file of these epochs.
#[must_use]
pub fn encode(entries: &[EpochEntry]) -> String {
    let mut out = format!("0\n{}\n", entries.len());
    for entry in entries {
        out.push_str(&format!("{} {}\n", entry.epoch, entry.start_offset));
    }
    out
}

/// The epochs of a file.
///
/// # Errors
/// Another version, a wrong count, or epochs or offsets that do not rise.
pub fn parse(bytes: &[u8]) -> Result<Vec<EpochEntry>, FormatError> {
    let lines = super::offset_checkpoint::entry_lines(bytes)?;
    let mut entries: Vec<EpochEntry> = Vec::with_capacity(lines.len());
    for line in lines {
        let entry = line
            .split_once(' ')
            .and_then(|(epoch, offset)| {
                Some(EpochEntry {
                    epoch: LeaderEpoch(epoch.parse().ok()?),
                    start_offset: Offset(offset.parse().ok()?),
                })
            })
            .ok_or_else(|| FormatError::new(format!("bad line `{line}`")))?;
        if entries
            .last()
            .is_some_and(|last| last.epoch >= entry.epoch || last.start_offset > entry.start_offset)
        {
            return Err(FormatError::new("epochs do not rise"));
        }
        entries.push(entry);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(epoch: i32, start: i64) -> EpochEntry {
        EpochEntry { epoch: LeaderEpoch(epoch), start_offset: Offset(start) }
    }

    #[test]
    fn the_text_is_kafkas() {
        let entries = [entry(0, 0), entry(3, 120)];
        assert_eq!(encode(&entries), "0\n2\n0 0\n3 120\n");
        assert_eq!(parse(encode(&entries).as_bytes()), Ok(entries.to_vec()));
        assert_eq!(encode(&[]), "0\n0\n");
        assert_eq!(parse(b"0\n0\n"), Ok(vec![]));
    }

    #[test]
    fn broken_files_are_refused() {
        for text in ["", "1\n0\n", "0\n1\n", "0\n1\n0\n", "0\n0\n0 0\n", "0\n2\n1 5\n1 6\n"] {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
