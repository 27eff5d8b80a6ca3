//! `flopgap nsys batch` over a folder of recorded traces.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use flopgap_testing::Ended;

use crate::{fixtures, golden, run, trace};

#[test]
fn a_folder_becomes_pages_reports_and_an_index() {
    let (_folder, [input, output]) = flopgap_testing::paths(["in", "out"]);
    fs::create_dir_all(input.join("part_b")).unwrap();
    for (name, to) in [("small_forward", "part_b/"), ("nvtx_only", ""), ("streams_domains", "")] {
        let (_folder, path) = trace(name);
        fs::copy(path, input.join(format!("{to}{name}.sqlite"))).unwrap();
    }
    fs::write(input.join("later.nsys-rep"), "a recording").unwrap();
    fs::write(input.join("nvtx_only.nsys-rep"), "a recording that was exported").unwrap();
    let paths = [input.to_str().unwrap(), output.to_str().unwrap()];
    let done = run(&["batch", paths[0], "--output", paths[1]]);
    done.refuses(0, &["SKIPPED: later.nsys-rep: not exported yet"]);
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
    let (_folder, [input, output]) = flopgap_testing::paths(["in", "out"]);
    fs::create_dir(&input).unwrap();
    let (_folder, path) = trace("small_forward");
    let whole = fs::read(&path).unwrap();
    fs::write(input.join("a_cut.sqlite"), &whole[..whole.len() / 2]).unwrap();
    fs::write(input.join("b_whole.sqlite"), &whole).unwrap();
    let paths = [input.to_str().unwrap(), output.to_str().unwrap()];
    run(&["batch", paths[0], "--output", paths[1], "--format", "json", "--report", "cuda_gpu_kern_sum:base"])
        .expect(1, &["a_cut.sqlite: truncated", "error: 1 of 2 traces could not be analyzed"]);
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
fn compressed_traces_of_any_profiler_are_found_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let [input, output, temporary] = ["in", "out", "temporary"].map(|name| folder.path().join(name));
    for folder in [&input, &temporary] {
        fs::create_dir(folder).unwrap();
    }
    let (_folder, path) = trace("small_forward");
    let whole = fs::read(&path).unwrap();
    fs::write(input.join("a.sqlite"), &whole).unwrap();
    let packed = fs::read(fixtures().join("small_forward.sqlite.zst")).unwrap();
    fs::write(input.join("a.sqlite.zst"), &packed).unwrap();
    fs::write(input.join("cut.sqlite.zst"), &packed[..packed.len() / 2]).unwrap();
    fs::write(input.join("notes.zst"), zstd::encode_all(&b"notes"[..], 3).unwrap()).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&whole).unwrap();
    fs::write(input.join("b.backup.gz"), encoder.finish().unwrap()).unwrap();
    fs::write(input.join("b.nsys-rep"), "not exported").unwrap();
    fs::write(input.join("cut.nsys-rep"), "exported").unwrap();
    fs::copy(fixtures().join("../kineto/graph.json.gz"), input.join("graph.json.gz")).unwrap();

    let mut command = Command::new(cargo_bin("nsys-analyze"));
    command.env("TMPDIR", &temporary).arg("batch").args([&input, &PathBuf::from("--output"), &output]);
    let done = Ended::of(&mut command);
    let said = &done.stderr;
    done.expect(
        1,
        &[
            "error: 1 of 5 traces could not be analyzed",
            "cut.sqlite.zst: cannot be unpacked",
            "SKIPPED: b.nsys-rep",
        ],
    );
    assert!(!said.contains("cut.nsys-rep"), "{said}");
    for name in ["a.sqlite", "a.sqlite.zst", "b.backup", "graph"] {
        assert!(output.join(format!("{name}_summary.html")).exists(), "{name}: {said}");
    }
    let report =
        |name: &str| fs::read_to_string(output.join(format!("{name}_cuda_gpu_kern_sum.csv"))).unwrap();
    assert_eq!(report("a.sqlite").trim_end(), golden("small_forward/cuda_gpu_kern_sum.csv").trim_end());
    assert_eq!(report("a.sqlite"), report("a.sqlite.zst"));
    assert_eq!(report("a.sqlite"), report("b.backup"));
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "what was unpacked is gone");
}

#[test]
fn a_folder_without_traces_is_exit_3() {
    let (folder, [output]) = flopgap_testing::paths(["out"]);
    run(&["batch", folder.path().to_str().unwrap(), "--output", output.to_str().unwrap()]).expect(3, &[]);
    assert!(!Path::new(&output).exists());
    run(&["batch", "/no/such/folder", "--output", "x"]).expect(1, &["/no/such/folder: No such file"]);
    assert_eq!(run(&["batch", "."]).code, 2);
}

#[cfg(unix)]
#[test]
fn an_output_that_cannot_be_a_folder_is_refused_and_one_within_the_input_is_no_input() {
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(path("in")).unwrap();
    let (_folder, from) = trace("small_forward");
    fs::copy(from, path("in/a.sqlite")).unwrap();
    let whole = fs::read(path("in/a.sqlite")).unwrap();
    fs::write(path("file"), "x").unwrap();
    symlink(path("nothing"), path("to_nothing")).unwrap();
    symlink(path("circle"), path("circle")).unwrap();
    for (output, hint) in [
        ("file", "a file has this name"),
        ("file/below", "a file has this name"),
        ("to_nothing", "the path is a link that leads nowhere"),
        ("circle", "the path is a link that leads nowhere"),
    ] {
        run(&["batch", &path("in"), "--output", &path(output)]).expect(1, &[hint]);
    }
    // Beside the traces and below them, twice: what was written is no trace.
    symlink(path("in"), path("to_in")).unwrap();
    for output in ["in", "in/pages", "to_in"] {
        for _ in 0..2 {
            let done = run(&["batch", &path("in"), "--output", &path(output), "--format", "json"]);
            assert_eq!(done.code, 0, "{output}: {}", done.stderr);
            assert_eq!(done.stderr.matches(": done").count(), 1, "{output}: {}", done.stderr);
        }
    }
    assert_eq!(fs::read(path("in/a.sqlite")).unwrap(), whole);
}
