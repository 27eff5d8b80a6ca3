//! How large the second-level cache is.

use std::fs;
use std::sync::OnceLock;

/// Where the system does not say.
const USUAL: usize = 512 * 1024;

/// Bytes of the second-level cache that a core of this machine has.
pub(super) fn second_level() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let caches = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").into_iter().flatten().flatten();
        let read = |cache: &fs::DirEntry, name: &str| fs::read_to_string(cache.path().join(name)).ok();
        caches
            .filter(|cache| read(cache, "level").is_some_and(|level| level.trim() == "2"))
            .find_map(|cache| parse(&read(&cache, "size")?))
            .unwrap_or(USUAL)
    })
}

/// `512K` or `2M`.
fn parse(size: &str) -> Option<usize> {
    let size = size.trim();
    let unit = match size.chars().last()? {
        'K' => 1024,
        'M' => 1024 * 1024,
        _ => return size.parse().ok(),
    };
    size[..size.len() - 1].parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!(parse("512K\n"), Some(512 * 1024));
        assert_eq!(parse("2M"), Some(2 << 20));
        assert_eq!(parse("4096"), Some(4096));
        assert_eq!(parse("K"), None);
        assert_eq!(parse(""), None);
        assert!(second_level() > 0);
    }
}
