//! `--backend ncu` over a FAKE `ncu`: a script that prints what `ncu` would print for a program
//! with marked phases.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::{fake, run, text};

/// Finds the program behind its own options, runs it as `ncu` would, and prints three launches.
const SCRIPT: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then echo "Version 2099.1.0.0 (FAKE)"; exit 0; fi
[ "$LC_ALL" = C ] || exit 9
while [ "$1" != --log-file ]; do shift; done
log=$2; shift 2
"$@" || { echo "==ERROR== The application returned an error code (1)." > "$log"; exit 1; }
metric() {
  printf '"%s","%s","(128, 1, 1)","(2, 1, 1)","smsp__sass_thread_inst_executed_op_%s_pred_on.sum","inst","%s"\n' "$1" "$2" "$3" "$4"
}
launch() { metric "$1" "$2" fadd "$3"; metric "$1" "$2" fmul 0; metric "$1" "$2" ffma "$4"; }
{
  echo "==PROF== Connected to process 7"
  echo '"ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value"'
  launch 0 "flopgap_mark_setup()" 0 0
  launch 1 "flopgap_mark_forward()" 0 0
  launch 2 "fake_sgemm_nn" 0 65536
  launch 3 "fake_sigmoid_elementwise_kernel" 1024 0
  launch 4 "flopgap_mark_backward()" 0 0
  launch 5 "fake_sigmoid_elementwise_kernel" 1024 0
  launch 6 "fake_sgemm_nn" 0 65536
} > "$log"
"#;

fn script(folder: &Path) -> String {
    let path = folder.join("ncu");
    fs::write(&path, SCRIPT).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

#[test]
fn reports_of_ncu_become_records() {
    let dir = tempfile::tempdir().unwrap();
    let path_variable = script(dir.path());
    let path = dir.path().join("run");
    let new =
        ["new", "-n", "1", "-d", "64", "-m", "16", "--backend", "ncu", "--no-plots", "--output", text(&path)];
    // As a subcommand, as of `flopgap`: that is what `ncu` must be given, too.
    let mut command = fake(&[&["profile"], &new[..]].concat());
    command.env("FAKE_SUBCOMMAND", "profile").env("PATH", &path_variable);
    run(&mut command).expect(0, &["1 configuration in "]);
    let table = fs::read_to_string(path.join("processed/metrics.csv")).unwrap();
    assert!(table.contains("1,64,16,forward,131072,0,1024,0,132096,131072,1024,0.0,0.0,0.0,0.0"), "{table}");
    let manifest = fs::read_to_string(path.join("manifest.json")).unwrap();
    assert!(manifest.contains("\"backend\": \"ncu\""), "{manifest}");
    assert!(manifest.contains("\"profiler\": \"Nsight Compute 2099.1.0.0\""), "{manifest}");

    // A run goes on with the backend that it was begun with.
    let resume = ["resume", text(&path), "-n", "1", "2", "--no-plots"];
    let ended = run(fake(&resume).env("PATH", &path_variable).env("FAKE_MEMORY", "40000"));
    ended.expect(0, &["n2_d64_m16: does not fit: it needs 48.0 KiB on the device, which has 39.1 KiB"]);
    let ended = run(fake(&resume).env("PATH", &path_variable).env("FAKE_FAIL", "n2_d64_m16"));
    ended.expect(1, &["n2_d64_m16: no fake kernel for this shape"]);
}

#[test]
fn without_ncu_the_places_are_named() {
    let (dir, [path]) = flopgap_testing::paths(["run"]);
    let new = ["new", "-n", "1", "-d", "64", "-m", "16", "--backend", "ncu", "--output", text(&path)];
    if !Path::new("/usr/local/cuda/bin/ncu").exists() && !Path::new("/opt/nvidia/nsight-compute").exists() {
        let ended = run(fake(&new).env("PATH", dir.path()));
        ended.expect(
            3,
            &["ncu is not in PATH, at /usr/local/cuda/bin/ncu or below /opt/nvidia/nsight-compute"],
        );
    }
    fs::write(dir.path().join("ncu"), "#!/bin/sh\necho broken\n").unwrap();
    fs::set_permissions(dir.path().join("ncu"), fs::Permissions::from_mode(0o755)).unwrap();
    run(fake(&new).env("PATH", dir.path())).expect(3, &["ncu --version printed no version"]);
    assert!(!path.exists());
}
