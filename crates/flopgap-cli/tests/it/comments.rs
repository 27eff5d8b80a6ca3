//! Holds comments within the columns that `docs/STYLE.md` allows.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Columns of a comment, with what stands before it.
const COLUMNS: usize = 100;

/// Directories of the repository whose sources are read.
const READ: [&str; 4] = ["bins", "benches", "crates", "fuzz"];

fn sources(directory: &Path, into: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(directory).expect("a directory of the repository");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            if !path.ends_with("target") {
                sources(&path, into);
            }
        } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "cu" || kind == "cuh") {
            into.push(path);
        }
    }
}

/// Lines of comments that are too wide, from 1. Tables and code in a comment are as wide as they
/// are, and so is a word that cannot be broken.
fn too_wide(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_code = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim();
        if comment.starts_with("```") {
            is_code = !is_code;
        } else if !is_code
            && line.chars().count() > COLUMNS
            && !comment.starts_with('|')
            && comment.split_whitespace().count() > 1
        {
            found.push(index + 1);
        }
    }
    found
}

#[test]
fn wide_comments_are_found() {
    let long = "word ".repeat(30);
    let text = format!("/// {long}\n/// ```\n/// {long}\n/// ```\n// | {long} |\n// {}\n", "x".repeat(120));
    assert_eq!(too_wide(&text), [1]);
}

#[test]
fn no_comment_is_wider_than_the_guide_allows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for directory in READ {
        sources(&root.join(directory), &mut files);
    }
    assert!(files.len() > 500, "{} files", files.len());
    let mut report = String::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a source file");
        for line in too_wide(&text) {
            let file = file.strip_prefix(&root).unwrap_or(&file).display();
            writeln!(report, "{file}:{line}").expect("a String takes it");
        }
    }
    assert!(report.is_empty(), "comments wider than {COLUMNS} columns:\n{report}");
}
