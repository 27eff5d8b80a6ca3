//! Names of a trace that a terminal, a browser or a spreadsheet program would act upon.

use std::fs;

use tempfile::TempDir;

use crate::{run, trace};

const KERNEL: &str = "=HYPERLINK(\"x\")</script><script>alert(1)</script>\u{2028}\u{1b}[2J\u{7}";

/// A trace in which elementwise kernels have a hostile name.
fn hostile() -> (TempDir, String) {
    let (folder, path) = trace("small_forward");
    let mut bytes = fs::read(&path).unwrap();
    // Of the same length, so that the pages of the database stay whole.
    let old = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::";
    let mut new = KERNEL.as_bytes().to_vec();
    new.resize(old.len(), b'_');
    for at in 0..bytes.len() - old.len() {
        if bytes[at..].starts_with(old.as_bytes()) {
            bytes[at..at + old.len()].copy_from_slice(&new);
        }
    }
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn spreadsheets_get_no_formulas_where_that_is_asked_for() {
    let (folder, path) = hostile();
    let is_plain = |csv: &str| csv.contains("\"=HYPERLINK(");
    let is_escaped = |csv: &str| csv.contains("\"'=HYPERLINK(") && !is_plain(csv);
    for command in [&["kernels", &path][..], &["stats", &path, "--report", "cuda_gpu_kern_sum"]] {
        let csv = |format| run(&[command, &["--format", format]].concat()).stdout;
        assert!(is_plain(&csv("csv")), "{}", csv("csv"));
        let escaped = csv("csv-escaped");
        assert!(is_escaped(&escaped), "{escaped}");
        assert_eq!(escaped.replace("\"'=", "\"="), csv("csv"));
    }
    let csv = |to| run(&["export", &path, "--format", to, "--table", "kernels"]).stdout;
    assert!(is_plain(&csv("csv")) && is_escaped(&csv("csv-escaped")));
    let tables = folder.path().join("tables");
    run(&["export", &path, "--format", "csv-escaped", "--output", tables.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(tables.join("kernels.csv")).unwrap(), csv("csv-escaped"));
}

#[test]
fn pages_show_names_as_text() {
    let (folder, path) = hostile();
    let page = folder.path().join("summary.html");
    run(&["summary", &path, "--output", page.to_str().unwrap()]).expect(0, &[]);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("HYPERLINK("), "the kernel is on the page");
    assert!(!page.contains("<script>alert(1)"));
    for script in page.split("<script").skip(1) {
        let script = script.split("</script").next().unwrap();
        assert!(!script.contains(['\u{2028}', '\u{1b}']), "{script}");
    }
}

#[test]
fn terminals_get_no_control_characters() {
    let (_folder, path) = hostile();
    for command in [&["kernels"][..], &["stats", "--report", "cuda_gpu_kern_sum"]] {
        let output = run(&[command, &[&path, "--format", "table"]].concat());
        assert!(output.stdout.contains('\u{FFFD}'), "{}", output.stdout);
        assert!(!output.stdout.contains('\u{1b}') && !output.stderr.contains('\u{1b}'), "{}", output.stdout);
    }
}
