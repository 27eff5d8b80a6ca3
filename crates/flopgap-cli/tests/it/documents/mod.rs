//! Runs the commands in the documents, with the programs that `cargo test` has built,
//! and compares what they print with what the documents show.

mod blocks;
mod links;
mod not_run;

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use blocks::{Shown, shown};
use not_run::NOT_RUN;

/// Where documents are, with all that is below.
const READ: [&str; 7] = ["README.md", "bins", "crates", "docs", "python", "fuzz", "fixtures"];

/// Directories whose documents are not the repository's own.
const FOREIGN: [&str; 3] = ["target", "node_modules", "corpus"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn documents(path: &Path, into: &mut Vec<PathBuf>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if path.is_dir() {
        if !FOREIGN.contains(&&*name) && !name.starts_with('.') {
            let entries = fs::read_dir(path).expect("a directory of the repository");
            for entry in entries {
                documents(&entry.expect("an entry").path(), into);
            }
        }
    } else if name.ends_with(".md") {
        into.push(path.to_owned());
    }
}

/// A copy of the fixtures to run in, since some programs write next to their input.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("fixtures") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a copy");
        }
    }
}

/// What is wrong with the commands of one document.
#[derive(Default)]
struct Findings {
    wrong: String,
    ran: usize,
    excused: BTreeSet<usize>,
    /// Programs that were not built.
    missing: BTreeSet<String>,
}

fn check(document: &str, text: &str, programs: &Path, place: &Path) -> Findings {
    let mut findings = Findings::default();
    let fixtures = place.join("fixtures");
    for block in shown(text) {
        let mut directory = place.to_owned();
        for Shown { line, command, output } in block {
            if command.contains(",\\\n ") {
                let what = "the next line is another argument: it begins with spaces";
                writeln!(findings.wrong, "{document}:{line}: `{command}`: {what}").expect("a string grows");
            }
            let excuse = NOT_RUN.iter().position(|not_run| {
                document.starts_with(not_run.document) && command.starts_with(not_run.command)
            });
            if let Some(excuse) = excuse {
                findings.excused.insert(excuse);
                continue;
            }
            if let Some(to) = command.strip_prefix("cd ") {
                directory = directory.join(to);
                continue;
            }
            // A newcomer compiles the program first.
            let compiled = "cargo run --release -p flopgap --no-default-features -- ";
            let command = command.replace(compiled, "flopgap ");
            let mut program = command.split_whitespace().next().unwrap_or_default();
            // The one command of `flopgap` that is another program.
            if command.starts_with("flopgap table ") {
                program = "run-table";
            }
            if !programs.join(program).with_extension(env::consts::EXE_EXTENSION).exists() {
                findings.missing.insert(program.to_owned());
                continue;
            }
            if !fixtures.exists() {
                copy(&root().join("fixtures"), &fixtures);
                // Nothing is written there.
                std::os::unix::fs::symlink(root().join("bins"), place.join("bins")).expect("a link");
            }
            let found = run(&command, programs, &directory, place);
            findings.ran += 1;
            let mut say = |what: &str| {
                writeln!(findings.wrong, "{document}:{line}: `{command}`: {what}").expect("a string grows");
            };
            match (found, output) {
                (Err(code), None) => say(&format!("ended with {code}")),
                (Err(code), Some(output)) if !output.contains("error: ") => {
                    say(&format!("ended with {code}"));
                }
                (Ok(found) | Err(Ended { text: found, .. }), Some(output)) => {
                    if let Err(what) = blocks::compare(&output, &found) {
                        say(&what);
                    }
                }
                (Ok(_), None) => {}
            }
        }
    }
    findings
}

/// How a command ended that did not succeed.
struct Ended {
    code: Option<i32>,
    text: String,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, after\n{}", self.code, self.text)
    }
}

/// What a command of a shell prints, on both streams.
fn run(command: &str, programs: &Path, directory: &Path, place: &Path) -> Result<String, Ended> {
    let paths = env::var_os("PATH").unwrap_or_default();
    let paths = env::join_paths([programs.to_owned()].into_iter().chain(env::split_paths(&paths)));
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .current_dir(directory)
        .env("PATH", paths.expect("paths"))
        // What is shown is of any width.
        .env_remove("COLUMNS")
        // Nothing that an earlier run has cached, and nothing left in the user's caches.
        .env("XDG_CACHE_HOME", place.join("cache"))
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(Ended { code: output.status.code(), text }) }
}

#[test]
fn commands_print_what_the_documents_show() {
    let root = root();
    let mut paths = Vec::new();
    for read in READ {
        documents(&root.join(read), &mut paths);
    }
    paths.sort();
    assert!(paths.len() > 40, "only {} documents were found", paths.len());

    let programs = env::current_exe().expect("this program");
    let programs = programs.parent().and_then(Path::parent).expect("the directory of the profile");
    let place = tempfile::tempdir().expect("a temporary directory");
    let check_one = |number: usize, path: &Path| {
        let text = fs::read_to_string(path).expect("a document");
        let document = path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
        check(&document, &text, programs, &place.path().join(number.to_string()))
    };
    let findings: Vec<Findings> = thread::scope(|scope| {
        let all: Vec<_> = paths.iter().enumerate().collect();
        // Two at a time: most documents have no command.
        let halves = [0, 1].map(|half| {
            let mine: Vec<_> = all.iter().copied().filter(|(number, _)| number % 2 == half).collect();
            let check_one = &check_one;
            scope.spawn(move || -> Vec<Findings> {
                mine.into_iter().map(|(number, path)| check_one(number, path)).collect()
            })
        });
        halves.into_iter().flat_map(|half| half.join().expect("no panic")).collect()
    });

    let wrong: String = findings.iter().map(|findings| findings.wrong.as_str()).collect();
    assert!(wrong.is_empty(), "with the programs in {} (built last by you?):\n{wrong}", programs.display());

    let excused: BTreeSet<usize> = findings.iter().flat_map(|findings| findings.excused.clone()).collect();
    for (number, not_run) in NOT_RUN.iter().enumerate() {
        assert!(excused.contains(&number), "{}: no command `{}…`", not_run.document, not_run.command);
        assert!(!not_run.reason.is_empty(), "{}", not_run.command);
    }

    let missing: BTreeSet<String> = findings.iter().flat_map(|findings| findings.missing.clone()).collect();
    if missing.is_empty() {
        let ran: usize = findings.iter().map(|findings| findings.ran).sum();
        assert!(ran > 25, "only {ran} commands ran");
    } else {
        let missing: Vec<String> = missing.into_iter().collect();
        let unknown = missing.iter().find(|program| !root.join("bins").join(program).exists());
        assert_eq!(unknown, None, "not of this repository: say in not_run.rs why it is not run");
        flopgap_testing::skip(
            "built programs",
            format!("`cargo test --workspace` builds {}", missing.join(", ")),
        );
    }
}
