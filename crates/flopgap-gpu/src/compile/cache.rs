//! Compiled kernels on disk.
//!
//! An entry holds its whole key, so a hash that meets another's is a miss, never a wrong kernel.
//! The format is in `docs/FORMATS.md`.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::path::PathBuf;

use super::Architecture;

/// The first bytes of an entry: name and version of the format.
const MAGIC: &[u8] = b"flopgap-nvrtc 1\n";

/// A directory of compiled kernels. Several processes may share it: entries appear whole or not at
/// all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// A cache in this directory, which is made when the first kernel is stored.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Cache { folder: folder.into() }
    }

    /// `$XDG_CACHE_HOME/flopgap/nvrtc`, or `~/.cache/flopgap/nvrtc`. `None` where neither variable
    /// is set.
    pub fn of_user() -> Option<Self> {
        let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
        Some(Self::new(caches.join("flopgap").join("nvrtc")))
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{:016x}.cubin", hash(key.as_bytes())))
    }

    /// Machine code and log of this key; `None` if it is not there or damaged.
    pub(super) fn get(&self, key: &str) -> Option<(Vec<u8>, String)> {
        decode(&fs::read(self.path(key)).ok()?, key)
    }

    /// Stores an entry. A cache that cannot be written only costs time, so nothing is reported.
    pub(super) fn put(&self, key: &str, image: &[u8], log: &str) {
        if flopgap_files::create_folder(&self.folder).is_ok() {
            let _ = flopgap_files::write_atomic(&self.path(key), &encode(key, image, log));
        }
    }
}

/// Everything that the machine code depends on.
pub(super) fn key(
    name: &str,
    source: &str,
    architecture: Architecture,
    options: &[&str],
    version: (u32, u32),
) -> String {
    let mut key = format!("nvrtc {}.{}\n{architecture}\n{} options\n", version.0, version.1, options.len());
    for option in options {
        key.push_str(option);
        key.push('\n');
    }
    key.push_str(name);
    key.push('\n');
    key.push_str(source);
    key
}

/// Not stable: another Rust version may hash differently, and then everything is compiled again.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// Magic, then key, log and code with their lengths, then a checksum of all that.
fn encode(key: &str, image: &[u8], log: &str) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for part in [key.as_bytes(), log.as_bytes(), image] {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part);
    }
    let checksum = hash(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8], key: &str) -> Option<(Vec<u8>, String)> {
    let (content, checksum) = bytes.split_last_chunk::<8>()?;
    if hash(content) != u64::from_le_bytes(*checksum) {
        return None;
    }
    let mut rest = content.strip_prefix(MAGIC)?;
    let mut part = || {
        let (length, after) = rest.split_first_chunk::<8>()?;
        let (part, after) = after.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        rest = after;
        Some(part)
    };
    let (stored_key, log, image) = (part()?, part()?, part()?);
    if stored_key != key.as_bytes() {
        return None;
    }
    Some((image.to_vec(), String::from_utf8(log.to_vec()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (tempfile::TempDir, Cache, String) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path().join("not").join("yet"));
        let key = key("k.cu", "source", "sm_90".parse().unwrap(), &["-G"], (13, 0));
        (dir, cache, key)
    }

    #[test]
    fn what_was_stored_comes_back() {
        let (_dir, cache, key) = sample();
        assert_eq!(cache.get(&key), None);
        cache.put(&key, b"\x7fELF code", "a warning");
        assert_eq!(cache.get(&key), Some((b"\x7fELF code".to_vec(), "a warning".to_owned())));
    }

    #[test]
    fn every_part_of_the_key_counts() {
        let (_dir, cache, stored) = sample();
        cache.put(&stored, b"code", "");
        let sm_90: Architecture = "sm_90".parse().unwrap();
        for other in [
            key("l.cu", "source", sm_90, &["-G"], (13, 0)),
            key("k.cu", "sourcf", sm_90, &["-G"], (13, 0)),
            key("k.cu", "source", sm_90.specific(), &["-G"], (13, 0)),
            key("k.cu", "source", sm_90, &["-g"], (13, 0)),
            key("k.cu", "source", sm_90, &["-G", "-G"], (13, 0)),
            key("k.cu", "source", sm_90, &["-G"], (13, 1)),
        ] {
            assert_eq!(cache.get(&other), None, "{other}");
        }
    }

    #[test]
    fn a_damaged_entry_is_a_miss_whatever_byte_is_wrong() {
        let (_dir, cache, key) = sample();
        cache.put(&key, b"code", "log");
        let path = cache.path(&key);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x20;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(cache.get(&key), None, "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(cache.get(&key), None, "cut at {at}");
        }
    }

    #[test]
    fn an_entry_of_another_key_under_this_name_is_a_miss() {
        let (_dir, cache, key) = sample();
        cache.put(&key, b"code", "log");
        fs::write(cache.path(&key), encode("another key", b"code", "log")).unwrap();
        assert_eq!(cache.get(&key), None);
    }
}
