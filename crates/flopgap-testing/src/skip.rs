//! Tests that skip themselves.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use flopgap_files::Hint;

/// Skips the calling test for lack of `what`, such as `gpu`: the caller returns.
///
/// # Panics
/// If `FLOPGAP_REQUIRE` names `what`.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub fn skip(what: &str, reason: impl Display) {
    let required = std::env::var("FLOPGAP_REQUIRE").unwrap_or_default();
    assert!(!is_required(what, &required), "{what} is required: {reason}");
    eprintln!("skipped, no {what}: {reason}");
    if let Some(file) = std::env::var_os("FLOPGAP_SKIPPED") {
        let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
        let thread = std::thread::current();
        let test = format!("{package}::{}", thread.name().unwrap_or("?"));
        let line = line(what, &test, &reason.to_string());
        if let Err(error) = append(file.as_ref(), &line) {
            eprintln!("FLOPGAP_SKIPPED: {}: {error}", file.display());
        }
    }
}

/// The same, for a caller that has a value to give or none.
///
/// # Panics
/// As [`skip`].
pub fn none<T>(what: &str, reason: impl Display) -> Option<T> {
    skip(what, reason);
    None
}

/// Opens what only one test of a process may use at a time, such as a GPU, and skips the calling
/// test where it is absent. Other tests wait until the guard is dropped; a test takes one turn.
///
/// # Panics
/// If it is there and cannot be opened; as [`skip`].
pub fn turn<T, E: Hint>(
    what: &str,
    open: impl FnOnce() -> Result<T, E>,
) -> Option<(T, MutexGuard<'static, ()>)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    // A test that failed in its turn says nothing about the next.
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    match open() {
        Ok(opened) => Some((opened, guard)),
        Err(error) => {
            assert!(error.is_absence(), "{}", flopgap_files::chain(&error));
            none(what, error)
        }
    }
}

/// Whether a list such as `nvrtc,gpu` names `what`.
fn is_required(what: &str, required: &str) -> bool {
    required.split(',').any(|entry| entry.trim() == what)
}

/// What is missing, the test and the reason on one line.
fn line(what: &str, test: &str, reason: &str) -> String {
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{what}\t{test}\t{reason}\n")
}

/// In one write, so that lines of several processes do not mix.
fn append(file: &Path, line: &str) -> std::io::Result<()> {
    OpenOptions::new().create(true).append(true).open(file)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use flopgap_files::ErrorKind;

    use super::*;

    #[test]
    fn a_list_names_what_is_required() {
        assert!(is_required("gpu", "nvrtc,gpu"));
        assert!(!is_required("gpu", "gpus,second gpu"));
        assert!(!is_required("gpu", ""));
    }

    #[derive(Debug)]
    struct Refusal(ErrorKind);

    impl std::fmt::Display for Refusal {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("no device")
        }
    }

    impl std::error::Error for Refusal {}

    impl Hint for Refusal {
        fn kind(&self) -> ErrorKind {
            self.0
        }
    }

    #[test]
    fn tests_take_turns_also_after_one_that_failed() {
        let failed = std::thread::spawn(|| drop(turn("device", || Err::<(), _>(Refusal(ErrorKind::Failed)))));
        assert!(failed.join().is_err(), "what is there and cannot be opened fails the test");
        let inside = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let _turn = turn("device", || Ok::<_, Refusal>(())).unwrap();
                    assert!(!inside.swap(true, Ordering::SeqCst));
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    inside.store(false, Ordering::SeqCst);
                });
            }
        });
        assert!(turn("device", || Err::<(), _>(Refusal(ErrorKind::Absent))).is_none());
    }

    #[test]
    fn every_skip_is_one_line_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("skipped");
        append(&file, &line("gpu", "flopgap-gpu::work::x", "no driver\n  in /usr/lib")).unwrap();
        append(&file, &line("nvrtc", "flopgap-mlp::y", "missing")).unwrap();
        assert_eq!(
            std::fs::read_to_string(file).unwrap(),
            "gpu\tflopgap-gpu::work::x\tno driver in /usr/lib\nnvrtc\tflopgap-mlp::y\tmissing\n"
        );
    }
}
