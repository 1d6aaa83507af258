//! Small files read and replaced as a whole.

use std::io;
use std::path::Path;

use bytes::Bytes;

use crate::disk::{FileSystem, OpenMode};
use crate::format::names::TMP_SUFFIX;

/// Largest file that is taken into memory as a whole.
const SMALL_FILE_BYTES_MAX: u64 = 1 << 30;

/// The bytes of a file.
pub(crate) fn read(fs: &dyn FileSystem, path: &Path) -> io::Result<Vec<u8>> {
    let file = fs.open(path, OpenMode::Read)?;
    let size = file.size()?;
    if size > SMALL_FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{size} bytes")));
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    let count = file.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// The bytes of a file, `None` when there is none.
pub(crate) fn read_if_present(fs: &dyn FileSystem, path: &Path) -> io::Result<Option<Vec<u8>>> {
    match read(fs, path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces a file: on return the new bytes, and nothing else, survive a power cut.
pub(crate) fn replace(fs: &dyn FileSystem, path: &Path, bytes: Vec<u8>) -> io::Result<()> {
    let mut tmp = path.as_os_str().to_owned();
    tmp.push(TMP_SUFFIX);
    let tmp = Path::new(&tmp);
    write_new(fs, tmp, bytes)?;
    fs.rename(tmp, path)?;
    sync_parent(fs, path)
}

/// Writes and syncs a file; its name is durable only once its directory is synced.
pub(crate) fn write_new(fs: &dyn FileSystem, path: &Path, bytes: Vec<u8>) -> io::Result<()> {
    let file = fs.open(path, OpenMode::Truncate)?;
    file.write_all_at(&[Bytes::from(bytes)], 0)?;
    file.sync_data()
}

/// Syncs the directory that holds `path`.
pub(crate) fn sync_parent(fs: &dyn FileSystem, path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => fs.sync_dir(parent),
        None => Ok(()),
    }
}

/// Removes a file; absent is fine.
pub(crate) fn remove_if_present(fs: &dyn FileSystem, path: &Path) -> io::Result<()> {
    match fs.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes a directory and its missing parents. Durable on return.
pub(crate) fn create_dir(fs: &dyn FileSystem, dir: &Path) -> io::Result<()> {
    let mut missing = Vec::new();
    for ancestor in dir.ancestors().filter(|ancestor| !ancestor.as_os_str().is_empty()) {
        if fs.exists(ancestor)? {
            break;
        }
        missing.push(ancestor);
    }
    fs.create_dir_all(dir)?;
    for made in missing.into_iter().rev() {
        match made.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => fs.sync_dir(parent)?,
            _ => {}
        }
    }
    Ok(())
}
