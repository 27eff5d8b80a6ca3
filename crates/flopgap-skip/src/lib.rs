#![doc = include_str!("../README.md")]

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

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
    use super::*;

    #[test]
    fn a_list_names_what_is_required() {
        assert!(is_required("gpu", "nvrtc,gpu"));
        assert!(!is_required("gpu", "gpus,second gpu"));
        assert!(!is_required("gpu", ""));
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
