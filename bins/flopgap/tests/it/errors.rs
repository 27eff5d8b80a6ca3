//! What cannot be answered.

use std::fs;

use flopgap_testing::Ended;

use crate::{command, flopgap};

#[test]
fn what_is_not_recognized_is_named_with_what_could_be() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for (path, what) in [
        (write("notes.txt", b"buy milk\n"), "first line is"),
        (write("tool", b"\x7fELF\x02\x01\x01"), "a program or library"),
        (write("model.pkl", b"\x80\x04\x95"), "a Python pickle"),
        (write("package.json", b"{\"name\": 1}"), "JSON"),
        (write("empty", b""), "empty"),
        (write("data.bin", &[1, 0, 2, 0]), "a binary file of an unknown format"),
    ] {
        let answer = flopgap(&[&path]);
        answer.expect(
            3,
            &[&format!("flopgap: error: {path}: not recognized: "), what, "hint: flopgap reads exports"],
        );
        assert!(answer.stdout.is_empty());
    }
    let only = tempfile::tempdir().unwrap();
    flopgap(&[only.path().to_str().unwrap()]).expect(3, &["a directory without any file that flopgap reads"]);
    flopgap(&["fixtures/nsys"]).expect(3, &["a directory of traces", "flopgap nsys batch fixtures/nsys"]);
    flopgap(&["fixtures/models"]).expect(3, &["name the files, such as fixtures/models/"]);
    let table = write("kernels.parquet", b"PAR1");
    flopgap(&[&table]).expect(3, &["a table in a Parquet file", "flopgap table collect"]);
}

#[test]
fn nothing_is_answered_unless_every_file_is_recognized() {
    let answer = flopgap(&["fixtures/ncu/n4_d512_m64_forward.csv", "missing.csv"]);
    answer.expect(1, &["flopgap: error: missing.csv: cannot be read"]);
    assert!(answer.stdout.is_empty());
}

#[test]
fn a_recording_needs_nsys() {
    let (folder, [path]) = flopgap_testing::paths(["step.nsys-rep"]);
    fs::write(&path, "NVIDIA Tegra Profiler").unwrap();
    let answer = Ended::of(command(&[path.to_str().unwrap()]).env("PATH", folder.path()));
    assert_ne!(answer.code, 0);
    answer.says(&["`flopgap nsys gap --export ", "nsys is not on this machine"]);
}

#[test]
fn a_wrong_command_line() {
    flopgap(&[]).expect(2, &["Usage: flopgap"]);
    flopgap(&["--no-such"]).expect(2, &["--no-such"]);
    flopgap(&["nsyss"]).expect(1, &["no such command", "flopgap --help"]);
    flopgap(&["completions", "tcsh"]).expect(2, &["bash"]);
    flopgap(&["man"]).expect(2, &["--output"]);
}
