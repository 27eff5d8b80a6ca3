//! What a fit to a calibration led to, kept in the user's cache: fits take seconds, estimates
//! milliseconds.
//!
//! Everything that a fit depends on is in the key, and the key is in the file, so that a hash that
//! meets another's is a miss and never a wrong predictor. The format is in `docs/FORMATS.md`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};

/// The first bytes of an entry: name and version of the format.
const MAGIC: &[u8] = b"flopgap-fit 1\n";
/// The extension of entries.
const ENDING: &str = "fit";
/// The most bytes that all entries take: a fit to 6,000 rows takes 24 MB, with kernels twice that.
const MOST: u64 = 512 << 20;

/// A directory of fits; without one, nothing is stored. Several processes may share it: entries are
/// written atomically.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cache {
    folder: Option<PathBuf>,
    /// The program that fits: another build may fit differently.
    program: String,
}

impl Cache {
    /// `$XDG_CACHE_HOME/flopgap/fits`, or `~/.cache/flopgap/fits`; none where neither variable is
    /// set, or where it is not known which program this is.
    pub(super) fn of_user() -> Self {
        let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        match (caches, program()) {
            (Some(caches), Some(program)) => {
                Self { folder: Some(caches.join("flopgap").join("fits")), program }
            }
            _ => Self::none(),
        }
    }

    /// Stores nothing.
    pub(super) fn none() -> Self {
        Self { folder: None, program: String::new() }
    }

    fn key(&self, key: &str) -> String {
        format!("{}\n{key}", self.program)
    }

    /// The entry of this key; `None` if it is missing, damaged, or from another program.
    pub(super) fn get(&self, key: &str) -> Option<Vec<u8>> {
        let key = self.key(key);
        decode(fs::read(path(self.folder.as_ref()?, &key)).ok()?, &key)
    }

    /// Stores an entry. A cache that cannot be written only costs time, so errors are ignored.
    pub(super) fn put(&self, key: &str, bytes: &[u8]) {
        let Some(folder) = &self.folder else { return };
        let key = self.key(key);
        if flopgap_files::create_folder(folder).is_ok()
            && flopgap_files::write_atomic(&path(folder, &key), &encode(&key, bytes)).is_ok()
        {
            forget(folder, MOST);
        }
    }
}

/// Version, length and time of the program's file.
fn program() -> Option<String> {
    let file = fs::metadata(env::current_exe().ok()?).ok()?;
    let modified = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{} {} {}", env!("CARGO_PKG_VERSION"), file.len(), modified.as_nanos()))
}

/// A digest in hexadecimal digits.
pub(super) fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn path(folder: &Path, key: &str) -> PathBuf {
    folder.join(format!("{}.{ENDING}", &digest(key.as_bytes())[..16]))
}

/// Removes the oldest entries until all fit in the limit. The newest is always kept.
fn forget(folder: &Path, most: u64) {
    let Ok(files) = fs::read_dir(folder) else { return };
    let mut entries: Vec<(SystemTime, PathBuf, u64)> = files
        .filter_map(|file| {
            let path = file.ok()?.path();
            let is_entry = path.extension().is_some_and(|ending| ending == ENDING);
            let file = is_entry.then(|| fs::metadata(&path)).transpose().ok()??;
            Some((file.modified().ok()?, path, file.len()))
        })
        .collect();
    entries.sort_unstable();
    let mut all = 0;
    for (place, (_, path, bytes)) in entries.iter().rev().enumerate() {
        all += bytes;
        if place > 0 && all > most {
            // Another process may have removed it meanwhile.
            let _ = fs::remove_file(path);
        }
    }
}

/// Magic, length of the key, key, value, and a checksum of all that.
fn encode(key: &str, kept: &[u8]) -> Vec<u8> {
    let length = (key.len() as u64).to_le_bytes();
    let mut bytes = [MAGIC, &length, key.as_bytes(), kept].concat();
    let checksum = crc32fast::hash(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

fn decode(mut bytes: Vec<u8>, key: &str) -> Option<Vec<u8>> {
    let (content, checksum) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let (length, rest) = content.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (stored, kept) = rest.split_at_checked(length)?;
    if stored != key.as_bytes() {
        return None;
    }
    let (begin, end) = (content.len() - kept.len(), content.len());
    bytes.truncate(end);
    bytes.drain(..begin);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (tempfile::TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        let folder = Some(dir.path().join("not").join("yet"));
        (dir, Cache { folder, program: "1 2 3".to_owned() })
    }

    #[test]
    fn what_is_put_comes_back_to_the_same_program_alone() {
        let (_dir, cache) = sample();
        assert_eq!(cache.get("key"), None);
        cache.put("key", b"a fit");
        assert_eq!(cache.get("key"), Some(b"a fit".to_vec()));
        assert_eq!(cache.get("another"), None);
        assert_eq!(Cache { program: "1 2 4".to_owned(), ..cache.clone() }.get("key"), None);
        cache.put("key", b"");
        assert_eq!(cache.get("key"), Some(Vec::new()));
        let none = Cache::none();
        none.put("key", b"a fit");
        assert_eq!(none.get("key"), None);
    }

    #[test]
    fn damaged_and_foreign_entries_are_not_there() {
        let (_dir, cache) = sample();
        cache.put("key", b"a fit");
        let path = path(cache.folder.as_ref().unwrap(), &cache.key("key"));
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(cache.get("key"), None, "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(cache.get("key"), None, "cut at {at}");
        }
        // Stored under the name of the key, but with another key inside.
        fs::write(&path, encode("1 2 3\nanother key", b"a fit")).unwrap();
        assert_eq!(cache.get("key"), None);
        cache.put("key", b"a new fit");
        assert_eq!(cache.get("key"), Some(b"a new fit".to_vec()));
    }

    #[test]
    fn the_oldest_entries_are_forgotten() {
        let (_dir, cache) = sample();
        for index in 0..4_u64 {
            cache.put(&index.to_string(), b"a fit");
            let path = path(cache.folder.as_ref().unwrap(), &cache.key(&index.to_string()));
            let time = UNIX_EPOCH + std::time::Duration::from_secs(1000 + index);
            fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        }
        let folder = cache.folder.clone().unwrap();
        fs::write(folder.join("of the user"), "").unwrap();
        let bytes = fs::metadata(path(&folder, &cache.key("3"))).unwrap().len();
        forget(&folder, 2 * bytes);
        assert!(cache.get("0").is_none() && cache.get("1").is_none());
        assert!(cache.get("2").is_some() && cache.get("3").is_some());
        forget(&folder, 0);
        assert!(cache.get("2").is_none() && cache.get("3").is_some(), "the newest stays");
        assert!(folder.join("of the user").exists());
    }
}
