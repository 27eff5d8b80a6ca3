//! `nsys-analyze batch` over a folder of recorded traces.

use std::fs;
use std::path::Path;

use crate::{golden, run, trace};

#[test]
fn a_folder_becomes_pages_reports_and_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    fs::create_dir_all(input.join("part_b")).unwrap();
    for (name, to) in [("small_forward", "part_b/"), ("nvtx_only", ""), ("streams_domains", "")] {
        let (_folder, path) = trace(name);
        fs::copy(path, input.join(format!("{to}{name}.sqlite"))).unwrap();
    }
    fs::write(input.join("later.nsys-rep"), "a recording").unwrap();
    fs::write(input.join("nvtx_only.nsys-rep"), "a recording that was exported").unwrap();
    let paths = [input.to_str().unwrap(), output.to_str().unwrap()];
    let done = run(&["batch", paths[0], "--output", paths[1]]);
    assert_eq!((done.code, done.stdout.as_str()), (0, ""), "{}", done.stderr);
    assert!(done.stderr.contains("SKIPPED: later.nsys-rep: not exported yet"), "{}", done.stderr);
    assert!(!done.stderr.contains("nvtx_only.nsys-rep"));

    // The reports are nsys's own; what it did not record has none.
    for report in ["cuda_gpu_kern_sum", "nvtx_sum", "cuda_api_sum", "nvtx_gpu_proj_sum"] {
        let ours = fs::read_to_string(output.join(format!("part_b/small_forward_{report}.csv"))).unwrap();
        assert_eq!(ours.trim_end(), golden(&format!("small_forward/{report}.csv")).trim_end(), "{report}");
    }
    assert!(
        output.join("nvtx_only_nvtx_sum.csv").exists()
            && !output.join("nvtx_only_cuda_gpu_kern_sum.csv").exists()
    );
    let page = fs::read_to_string(output.join("part_b/small_forward_summary.html")).unwrap();
    assert!(page.contains("<svg ") && page.contains("sm80_xmma_gemm fp32 tn 128x128x8"));

    let index = fs::read_to_string(output.join("index.html")).unwrap().replace("&#x2f;", "/");
    for wanted in [
        "<a href=\"part_b/small_forward_summary.html\">",
        "<a href=\"nvtx_only_summary.html\">",
        "SKIPPED: cuda_gpu_kern_sum: ",
        "SKIPPED: later.nsys-rep: not exported yet",
    ] {
        assert!(index.contains(wanted), "{wanted}: {index}");
    }
}

#[test]
fn a_broken_trace_stops_nothing_and_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    fs::create_dir(&input).unwrap();
    let (_folder, path) = trace("small_forward");
    let whole = fs::read(&path).unwrap();
    fs::write(input.join("a_cut.sqlite"), &whole[..whole.len() / 2]).unwrap();
    fs::write(input.join("b_whole.sqlite"), &whole).unwrap();
    let paths = [input.to_str().unwrap(), output.to_str().unwrap()];
    let done = run(&[
        "batch",
        paths[0],
        "--output",
        paths[1],
        "--format",
        "json",
        "--report",
        "cuda_gpu_kern_sum:base",
    ]);
    assert_eq!(done.code, 1);
    assert!(done.stderr.contains("a_cut.sqlite: truncated"), "{}", done.stderr);
    assert!(done.stderr.contains("error: 1 of 2 traces could not be analyzed"), "{}", done.stderr);
    assert!(output.join("b_whole_cuda_gpu_kern_sum_base.csv").exists());
    let index: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(output.join("index.json")).unwrap()).unwrap();
    let rows = index["sections"][0]["tables"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert!(rows[0]["kernels"].is_null() && rows[1]["kernels"] == 838, "{rows:?}");
    // The inputs are as they were, and alone.
    assert_eq!(fs::read(input.join("b_whole.sqlite")).unwrap(), whole);
    assert_eq!(fs::read_dir(&input).unwrap().count(), 2);
}

#[test]
fn a_folder_without_traces_is_exit_3() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out");
    let none = run(&["batch", folder.path().to_str().unwrap(), "--output", output.to_str().unwrap()]);
    assert_eq!(none.code, 3, "{}", none.stderr);
    assert!(!Path::new(&output).exists());
    let missing = run(&["batch", "/no/such/folder", "--output", "x"]);
    assert_eq!(missing.code, 1);
    assert!(missing.stderr.contains("/no/such/folder: No such file"), "{}", missing.stderr);
    assert_eq!(run(&["batch", "."]).code, 2);
}
