//! `flopgap nsys capture` with a stand-in for nsys: a script that records how it was called and
//! hands out a recorded trace, or fails in one of the ways in which nsys does.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use flopgap_testing::Ended;
use tempfile::TempDir;

use crate::trace;

/// `FAKE_MODE` says how it fails: `none` records nothing, `raw` leaves a recording that was not
/// imported, `export` cannot export. `FAKE_EXIT` is the exit code of the program that it would have
/// run.
const FAKE_NSYS: &str = r#"#!/bin/sh
for word in "$@"; do printf '%s\n' "$word"; done >> "$FAKE_LOG"
command="$1"; output=
while [ $# -gt 0 ] && [ -z "$output" ]; do [ "$1" = --output ] && output="$2"; shift; done
echo "the program's own output"
case "$command-$FAKE_MODE" in
  profile-none) exit 1 ;;
  profile-raw) echo raw > "$output.qdstrm"; exit 1 ;;
  profile-*) echo report > "$output.nsys-rep"; exit "${FAKE_EXIT:-0}" ;;
  export-export) exit 1 ;;
  export-*) cp "$FAKE_TRACE" "$output" ;;
esac
"#;

struct Fake {
    folder: TempDir,
    _kept: TempDir,
    trace: String,
}

fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

impl Fake {
    fn new() -> Fake {
        let folder = tempfile::tempdir().unwrap();
        script(&folder.path().join("target-linux-x64/nsys"), FAKE_NSYS);
        let (kept, trace) = trace("small_forward");
        Fake { folder, _kept: kept, trace }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, mode: &str, exit: &str, arguments: &[&str]) -> Ended {
        let found = std::env::var_os("PATH").unwrap_or_default();
        let mut path = vec![self.path("target-linux-x64")];
        path.extend(std::env::split_paths(&found));
        Ended::of(
            Command::new(cargo_bin("nsys-analyze"))
                .current_dir(self.folder.path())
                .env("PATH", std::env::join_paths(path).unwrap())
                .env("FAKE_LOG", self.path("log"))
                .env("FAKE_TRACE", &self.trace)
                .env("FAKE_MODE", mode)
                .env("FAKE_EXIT", exit)
                .arg("capture")
                .args(arguments),
        )
    }
}

#[test]
fn records_exports_and_summarizes() {
    let fake = Fake::new();
    let done = fake.run("", "0", &["--output", "runs/a.b", "--", "python3", "my model.py", "--steps", "2"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let called = fs::read_to_string(fake.path("log")).unwrap();
    let expected = "profile\n--trace=cuda,nvtx\n--sample=none\n--cpuctxsw=none\n--cuda-graph-trace=node\n--force-overwrite=true\n\
                    --output\nruns/a.b\npython3\nmy model.py\n--steps\n2\n\
                    export\n--type=sqlite\n--force-overwrite=true\n--output\nruns/a.b.sqlite\nruns/a.b.nsys-rep\n";
    assert_eq!(called, expected);
    assert_eq!(fs::read(fake.path("runs/a.b.sqlite")).unwrap(), fs::read(&fake.trace).unwrap());
    assert!(done.stdout.starts_with("a.b\n═══\n"), "{}", done.stdout);
    done.prints(&["sm80_xmma_gemm fp32 tn 128x128x8"]);
    // Standard output is the summary alone; the command line can be run again.
    assert!(
        !done.stdout.contains("the program's own output") && done.stderr.contains("the program's own output")
    );
    done.says(&[
        "--output runs/a.b python3 'my model.py' --steps 2\n",
        "the profiled program ended with exit code 0",
    ]);
}

#[test]
fn options_reach_nsys() {
    let fake = Fake::new();
    let done = fake.run(
        "",
        "0",
        &[
            "--trace",
            "cuda,nvtx,osrt",
            "--graph-trace",
            "graph",
            "--python-backtrace",
            "--nsys-arg=--delay=5",
            "--format",
            "json",
            "--",
            "x",
        ],
    );
    assert_eq!(done.code, 0, "{}", done.stderr);
    let called = fs::read_to_string(fake.path("log")).unwrap();
    let expected = "profile\n--trace=cuda,nvtx,osrt\n--sample=none\n--cpuctxsw=none\n--cuda-graph-trace=graph\n--python-backtrace=cuda\n\
                    --delay=5\n--force-overwrite=true\n--output\ncapture\nx\n";
    assert!(called.starts_with(expected), "{called}");
    assert!(serde_json::from_str::<serde_json::Value>(&done.stdout).is_ok());
}

#[test]
fn a_program_that_fails_is_reported_and_summarized_all_the_same() {
    let done = Fake::new().run("", "7", &["--", "x"]);
    assert_eq!(done.code, 1);
    assert!(done.stdout.starts_with("capture\n═══════\n"), "{}", done.stdout);
    assert!(done.stderr.ends_with("error: the profiled program ended with exit code 7\n"), "{}", done.stderr);
}

#[test]
fn every_way_to_fail_has_its_message() {
    let fake = Fake::new();
    fake.run("none", "0", &["--", "x"])
        .refuses(1, &["ended with exit code 1, and wrote no capture.nsys-rep"]);

    let raw = fake.run("raw", "0", &["--", "x"]);
    raw.refuses(3, &["capture.qdstrm: recorded, but not imported: the importer of ", "QdstrmImporter -i"]);

    // An importer that is there and fails, as for want of a library.
    script(&fake.path("host-linux-x64/QdstrmImporter"), "#!/bin/sh\nexit 127\n");
    fs::remove_file(fake.path("capture.qdstrm")).unwrap();
    let raw = fake.run("raw", "0", &["--", "x"]);
    raw.expect(3, &["QdstrmImporter ended with exit code 127; it may lack a library"]);

    // And one that works.
    script(&fake.path("host-linux-x64/QdstrmImporter"), "#!/bin/sh\nmv \"$2\" \"$4\"\n");
    let imported = fake.run("raw", "0", &["--output", "other", "--", "x"]);
    assert!(
        fake.path("other.nsys-rep").exists() && fake.path("other.sqlite").exists(),
        "{}",
        imported.stderr
    );
    assert!(imported.stdout.starts_with("other\n═════\n"));
    imported.expect(0, &["how the profiled program ended is not known"]);

    fake.run("export", "0", &["--output", "third", "--", "x"])
        .refuses(1, &["third.nsys-rep: nsys could not export it: it ended with exit code 1"]);
    assert!(fake.path("third.nsys-rep").exists(), "the recording is kept");
}

#[test]
fn without_nsys_or_a_command() {
    crate::run(&["capture", "--nsys", "/no/such/nsys", "--", "x"])
        .expect(3, &["/no/such/nsys: there is no such program"]);
    assert_eq!(crate::run(&["capture"]).code, 2);
}
