//! Disks that are full or read-only. Both take a superuser to arrange; where there is none, the
//! tests say so and pass.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flopgap_testing::skip;

use crate::support::{contents, fake, fake_program, recorded, run, text};

const NEW: [&str; 9] = ["new", "-n", "1..8", "-d", "64", "-m", "16..256:16", "--no-plots", "--output"];

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// A file system of its own that goes when the test ends.
struct Mounted(PathBuf);

impl Mounted {
    fn new(path: &Path, options: &str) -> Option<Mounted> {
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(path).output();
        mount.is_ok_and(|output| output.status.success()).then(|| Mounted(path.to_owned()))
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        assert!(Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_stops_and_what_is_done_is_kept() {
    let (_dir, [disk, whole]) = flopgap_testing::paths(["disk", "whole"]);
    fs::create_dir(&disk).unwrap();
    let Some(mounted) = Mounted::new(&disk, "size=256k") else {
        return skip("mount", "a small file system cannot be mounted here");
    };
    run(&mut fake(&[&NEW[..], &[text(&whole)]].concat())).expect(0, &[]);
    let path = disk.join("run");
    let ended = run(&mut fake(&[&NEW[..], &[text(&path)]].concat()));
    ended.expect(
        1,
        &[
            "No space left on device",
            "hint: free space on the disk: every file written before is complete",
            "continues",
        ],
    );
    let done = recorded(&path).len();
    assert!((1..128).contains(&done), "{done} records fit");
    run(&mut fake(&["resume", text(&path), "--no-plots"])).expect(1, &["No space left on device"]);
    mounted.remount("size=4m");
    run(&mut fake(&["resume", text(&path), "--no-plots"])).expect(0, &["128 configurations in "]);
    assert_eq!(contents(&path), contents(&whole));
}

#[test]
fn a_read_only_disk_is_named() {
    let (_dir, [disk]) = flopgap_testing::paths(["disk"]);
    fs::create_dir(&disk).unwrap();
    let Some(mounted) = Mounted::new(&disk, "size=4m") else {
        return skip("mount", "a file system cannot be mounted here");
    };
    let path = disk.join("run");
    run(&mut fake(&[&NEW[..], &[text(&path)]].concat())).expect(0, &[]);
    mounted.remount("ro");
    run(&mut fake(&["resume", text(&path)])).expect(1, &["Read-only file system", "hint: "]);
    let other = disk.join("other");
    let ended = run(&mut fake(&[&NEW[..], &[text(&other)]].concat()));
    ended.expect(
        1,
        &["other: cannot create the directory\n  caused by: Read-only file system", "--output DIR"],
    );
}

#[test]
fn a_folder_without_permission_is_named() {
    if !is_root() {
        return skip("superuser", "only the superuser can run the program as somebody without permission");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Where everybody can reach it.
    let program = dir.path().join("fake_counters");
    fs::copy(fake_program(), &program).unwrap();
    let path = dir.path().join("run");
    run(&mut fake(&[&NEW[..], &[text(&path)]].concat())).expect(0, &[]);
    let before = contents(&path);
    let as_nobody = |arguments: &[&str]| run(Command::new(&program).args(arguments).uid(65_534).gid(65_534));
    as_nobody(&["resume", text(&path)])
        .expect(1, &["cannot write\n  caused by: Permission denied", "hint: "]);
    let other = dir.path().join("other");
    as_nobody(&[&NEW[..], &[text(&other)]].concat())
        .expect(1, &["other: cannot create the directory\n  caused by: Permission denied", "--output DIR"]);
    assert_eq!(contents(&path), before);
}
