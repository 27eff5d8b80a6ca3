//! `flopgap gap`: a step taken apart.

use std::path::{Path, PathBuf};

use crate::run;

/// The recorded traces of some folders of `fixtures/`.
pub(crate) fn traces(folders: &[&str]) -> Vec<PathBuf> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let all = folders.iter().flat_map(|folder| std::fs::read_dir(fixtures.join(folder)).unwrap());
    let is_trace = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with("json.gz") || name.ends_with("sqlite.zst")
    };
    let mut all: Vec<PathBuf> = all.map(|entry| entry.unwrap().path()).filter(is_trace).collect();
    all.sort();
    all
}

#[test]
fn a_trace_fits_a_terminal_and_a_pipe_gets_no_colors() {
    let mut shown = 0;
    for path in traces(&["advice", "kineto", "nsys"]) {
        let answer = run(&["gap", path.to_str().unwrap()]);
        if answer.code == 3 {
            continue;
        }
        assert_eq!(answer.code, 0, "{}: {}", path.display(), answer.stderr);
        let lines: Vec<&str> = answer.stdout.lines().collect();
        assert!(lines.len() <= 40, "{}: {} lines", path.display(), lines.len());
        let wide = lines.iter().find(|line| line.chars().count() > 100);
        assert_eq!(wide, None, "{}", path.display());
        assert!(!answer.stdout.contains('\u{1b}'), "{}", path.display());
        assert!(lines.last().unwrap().starts_with("More: flopgap "), "{}", answer.stdout);
        shown += 1;
    }
    assert!(shown >= 30, "{shown}");
}
