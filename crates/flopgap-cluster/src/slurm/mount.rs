//! Whether other machines see a directory, as far as this one can tell.

use std::path::Path;

/// File systems of one machine, apart from servers that export them.
const LOCAL: [&str; 12] =
    ["btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "squashfs", "tmpfs", "vfat", "xfs", "zfs"];

/// The file system of a directory if it is one that usually a single machine sees; `None` where it
/// may be shared, and where this is not Linux.
pub fn local_file_system(directory: &Path) -> Option<String> {
    let directory = directory.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let file_system = file_system(&mounts, &directory)?;
    LOCAL.contains(&file_system).then(|| file_system.to_owned())
}

/// The type of the file system that a directory is on.
fn file_system<'a>(mounts: &'a str, directory: &Path) -> Option<&'a str> {
    // `36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/sda1 rw`; of mounts in the
    // same place, the last is seen.
    let found = mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = unescaped(before.split(' ').nth(4)?);
        let length = Path::new(&point).components().count();
        directory.starts_with(&point).then_some((length, after.split(' ').next()?))
    });
    found.max_by_key(|(length, _)| *length).map(|(_, file_system)| file_system)
}

/// Spaces and such are octal in the file: `\040`.
fn unescaped(point: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(point.to_owned(), |text, (octal, character)| text.replace(octal, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_and_last_mount_counts() {
        let mounts = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:5 / /proc rw - proc proc rw
40 22 0:44 / /scratch rw shared:3 master:7 - lustre 10.0.0.1@o2ib:/fs rw
41 40 0:45 / /scratch/of\\040node rw - xfs /dev/nvme0n1 rw
42 22 0:46 / /home rw - ext4 /dev/sdb rw
43 22 0:47 / /home rw - nfs4 server:/home rw
";
        let of = |path: &str| file_system(mounts, Path::new(path));
        assert_eq!(of("/tmp/run"), Some("ext4"));
        assert_eq!(of("/scratch/run"), Some("lustre"));
        assert_eq!(of("/scratch2/run"), Some("ext4"));
        assert_eq!(of("/scratch/of node/run"), Some("xfs"));
        assert_eq!(of("/home/me/run"), Some("nfs4"));
        assert_eq!(file_system("", Path::new("/")), None);
        assert_eq!(file_system("garbage\n - \na - b", Path::new("/")), None);
    }
}
