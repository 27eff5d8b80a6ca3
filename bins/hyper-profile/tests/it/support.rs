//! Runs the built programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flopgap_phases::sweep::Config;
use flopgap_testing::Ended;

/// `hyper-profile` on FAKE counters (`examples/fake_counters.rs`), which `cargo test` builds next
/// to this program.
pub(crate) fn fake_program() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let path = this.parent().and_then(Path::parent).unwrap().join("examples/fake_counters");
    assert!(
        path.exists(),
        "{} is missing: run `cargo test -p hyper-profile`, which builds it",
        path.display()
    );
    path
}

/// A command on fake counters without delay and without faults.
pub(crate) fn fake(arguments: &[&str]) -> Command {
    let mut command = Command::new(fake_program());
    command.args(arguments);
    command
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Ended {
    Ended::of(command)
}

/// Path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Every file of a run with its bytes, apart from what must differ between two runs: the locks,
/// and the time in the manifest.
#[track_caller]
pub(crate) fn contents(run: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![run.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(!name.starts_with('.'), "{} was left behind", path.display());
            if path.is_dir() {
                if name != "locks" {
                    folders.push(path);
                }
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let bytes = if name == "manifest.json" { without_time(&bytes) } else { bytes };
            files.insert(path.strip_prefix(run).unwrap().to_owned(), bytes);
        }
    }
    files
}

fn without_time(manifest: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(manifest).unwrap();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("\"created\""));
    lines.collect::<Vec<_>>().join("\n").into_bytes()
}

/// The record files of a run, each with its number in the file system: a record that is written
/// again gets another one.
pub(crate) fn records(run: &Path) -> BTreeMap<PathBuf, u64> {
    let Ok(entries) = fs::read_dir(run.join("raw")) else { return BTreeMap::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let records =
        paths.filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] != b'.'));
    records.map(|path| (path.clone(), fs::metadata(&path).unwrap().ino())).collect()
}

/// Fails if a configuration was measured again although its record was there.
#[track_caller]
pub(crate) fn assert_kept(before: &BTreeMap<PathBuf, u64>, run: &Path) {
    let now = records(run);
    for (path, number) in before {
        assert_eq!(now.get(path), Some(number), "{} was measured again", path.display());
    }
}

/// The process whose name is in a lock of a run.
pub(crate) fn owner(run: &Path, lock: &str) -> Option<u32> {
    let text = fs::read_to_string(run.join("locks").join(lock)).ok()?;
    let owner: serde_json::Value = serde_json::from_str(&text).ok()?;
    owner["pid"].as_u64()?.try_into().ok()
}

/// The configurations that have a file below `raw/`.
pub(crate) fn recorded(run: &Path) -> BTreeSet<Config> {
    flopgap_phases::sweep::RawFiles::list(&run.join("raw")).unwrap().configs.into_keys().collect()
}
