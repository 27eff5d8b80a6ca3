//! Holds the convention of errors: `Display` never repeats a source, which the program prints once.

use std::fs;
use std::path::{Path, PathBuf};

/// The Rust sources below a directory.
fn sources(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of the repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The lines, from 1, of attributes of thiserror that print a source.
fn repeated(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut within = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        within |= line.starts_with("#[error(");
        if within && (line.contains("{source}") || line.contains("{source:")) {
            found.push(index + 1);
        }
        within &= !line.ends_with(")]");
    }
    found
}

#[test]
fn no_error_repeats_its_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    for directory in ["crates", "bins"] {
        sources(&root.join(directory), &mut paths);
    }
    assert!(paths.len() > 500, "only {} files were found", paths.len());
    let mut wrong = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let shown = path.strip_prefix(&root).expect("below the root").display().to_string();
        wrong.extend(repeated(&text).into_iter().map(|line| format!("{shown}:{line}")));
    }
    wrong.retain(|place| !place.contains("tests/it/errors.rs"));
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn attributes_of_several_lines_are_read() {
    let wrong = "#[error(\n    \"{}: {source}\",\n    path.display()\n)]\nIo { source: Error }\n// {source}";
    assert_eq!(repeated(wrong), [2]);
    assert_eq!(repeated("#[error(\"{}\", path.display())]\n#[source]\nsource: Error,"), [0; 0]);
}
