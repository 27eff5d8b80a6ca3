//! Runs the built programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flopgap_sweep::{Config, Entry, read_journal};

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

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Ended {
    let Output { status, stdout, stderr } = command.output().unwrap();
    Ended {
        code: status.code(),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

impl Ended {
    /// Fails the test unless the program ended with this code, having said all of this on standard
    /// error.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, said: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        for text in said {
            assert!(self.stderr.contains(text), "`{text}` is not in\n{}", self.stderr);
        }
        for ours in ["crates/", "bins/hyper-profile/src"] {
            assert!(!self.stderr.contains(&format!("panicked at {ours}")), "{}", self.stderr);
        }
    }
}

/// Path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Every file of a run with its bytes, apart from what must differ between two runs: the journals,
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
                if name != "journal" {
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

/// The configurations that the journals of a run call done, in their order; fails for a damaged
/// line.
#[track_caller]
pub(crate) fn journaled(run: &Path) -> Vec<Config> {
    let mut journals: Vec<PathBuf> =
        fs::read_dir(run.join("journal")).unwrap().map(|entry| entry.unwrap().path()).collect();
    journals.sort();
    let mut done = Vec::new();
    for path in journals.iter().filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")) {
        let contents = read_journal(path).unwrap();
        assert!(contents.damaged.is_empty(), "{}: {:?}", path.display(), contents.damaged);
        done.extend(contents.entries.into_iter().filter_map(|entry| match entry {
            Entry::Done { config, .. } => Some(config),
            _ => None,
        }));
    }
    done
}

/// The configurations that have a file below `raw/`.
pub(crate) fn recorded(run: &Path) -> BTreeSet<Config> {
    flopgap_sweep::RawFiles::list(&run.join("raw")).unwrap().configs.into_keys().collect()
}
