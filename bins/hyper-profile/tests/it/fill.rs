//! `new` and `resume` on FAKE counters: sizes, faults, damage, other writers.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use assert_cmd::cargo::CommandCargoExt as _;
use flopgap_phases::sweep::Config;

use crate::support::{assert_kept, contents, fake, owner, recorded, records, run, text};

const SIZES: [&str; 5] = ["-n", "1..3", "-d", "64,128", "-m=16"];

/// `new` with six small configurations.
fn new<'a>(run: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    [&["new"], &SIZES[..], more, &["--no-plots", "--output", text(run)]].concat()
}

fn config(n: u64, d: u64) -> Config {
    Config { n, d, m: 16 }
}

#[test]
fn a_new_run_is_measured_and_analyzed() {
    let (_dir, [path]) = flopgap_testing::paths(["run"]);
    let ended =
        run(&mut fake(&["new", "-n", "2", "-d", "64", "128", "-m", "16..32:16", "--output", text(&path)]));
    ended.expect(0, &["run directory ", "4 configurations in ", "pictures in ", "interactive report in "]);
    ended.prints(&["Overheads over the run"]);
    let table = fs::read_to_string(path.join("processed/metrics.csv")).unwrap();
    assert_eq!(table.lines().count(), 1 + 4 * 2);
    // The fake counts are the closed forms.
    assert!(table.lines().skip(1).all(|line| line.contains(",0.0,0.0,0.0,0.0,")), "{table}");
    assert!(table.contains("2,64,16,forward,262144,0,2048,0,264192,262144,2048,"));
    let before = records(&path);
    assert_eq!(before.len(), 4);
    let manifest = fs::read_to_string(path.join("manifest.json")).unwrap();
    assert!(manifest.contains("\"version\": 1") && manifest.contains("FAKE device of a test"), "{manifest}");

    let ended = run(&mut fake(&["resume", text(&path), "--no-plots"]));
    ended.expect(0, &["4 of 4 configurations are done"]);
    assert_kept(&before, &path);
}

#[test]
fn without_output_the_folder_is_named_after_time_and_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let ended =
        run(fake(&["new", "--layers=2..4:2", "-d", "64", "-m", "8", "--no-plots"]).current_dir(dir.path()));
    ended.expect(0, &[]);
    let name = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().file_name().into_string().unwrap();
    let (time, sizes) = name.split_once('_').unwrap();
    assert_eq!(sizes, "n2-4_d64_m8");
    assert!(time.len() == 15 && time.as_bytes()[8] == b'-', "{time}");
}

#[test]
fn sizes_that_cannot_be_measured_are_named_and_nothing_is_made() {
    let (_dir, [path]) = flopgap_testing::paths(["run"]);
    for (sizes, expected) in [
        (&["-n", "0"][..], "invalid size `0`: a size is at least 1"),
        (&["-n", "-4"], "invalid size `-4`: a size is at least 1"),
        (&["--d=3000000000"], "`3000000000`: the largest size is 2147483647"),
        (&["-d", "64", "128", "64"], "--width: size 64 is given twice (again by `64`)"),
        (&["-m", "64..16:16"], "invalid range `64..16:16`: its end is below its start"),
        (&["-m", "16..64:0"], "invalid range `16..64:0`: a step is at least 1"),
        (&["-n", "two"], "invalid size `two`"),
        (&["-n", "1..2000000"], "more than 1000000 configurations"),
        (&["-n", "9", "-d", "2000000000", "-m", "1"], "its FLOPs exceed 64 bits"),
        (&["--shard", "0/4"], "--shard: invalid shard `0/4`: workers are counted from 1 to 4"),
        (&["--shard", "slurm"], "--shard: not a task of a Slurm job array"),
        (&["--device", "1,1"], "--device: 1 is given twice"),
        (&["--device", "cpu"], "expected a GPU by its number"),
    ] {
        let ended = run(&mut fake(&[&["new", "--output", text(&path)], sizes].concat()));
        ended.expect(2, &[expected]);
        assert!(!path.exists());
    }
    run(&mut fake(&["new", "--shard", "1/2"])).expect(2, &["--shard needs --output"]);
}

#[test]
fn without_a_gpu_the_recorded_run_is_pointed_to_and_nothing_is_made() {
    let (_dir, [path]) = flopgap_testing::paths(["run"]);
    let mut command = std::process::Command::cargo_bin("hyper-profile").unwrap();
    let ended = run(command.args(["new", "--output", text(&path)]).env("CUDA_VISIBLE_DEVICES", ""));
    ended.expect(3, &["hint: ", "`flopgap profile analyze fixtures/runs/h200-default`"]);
    let ended = run(&mut fake(&new(&path, &["--device", "7"])));
    ended.expect(
        3,
        &["fake device 7 does not exist", "hint: there are 0 to 3\n  hint: `flopgap profile analyze"],
    );
    assert!(!path.exists());
}

#[test]
fn a_folder_that_is_taken_is_left_alone() {
    let (_dir, [path]) = flopgap_testing::paths(["run"]);
    fs::create_dir(&path).unwrap();
    fs::write(path.join("thesis.tex"), "mine").unwrap();
    run(&mut fake(&new(&path, &[]))).expect(1, &["the directory is not empty, and not a run"]);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
    fs::remove_file(path.join("thesis.tex")).unwrap();
    run(&mut fake(&new(&path, &[]))).expect(0, &[]);
    let before = contents(&path);
    run(&mut fake(&new(&path, &[]))).expect(1, &["there is a run already", "flopgap profile resume"]);
    assert_eq!(contents(&path), before);
}

#[test]
fn a_lost_device_stops_and_what_is_done_is_kept() {
    let (_dir, [whole, path]) = flopgap_testing::paths(["whole", "run"]);
    run(&mut fake(&new(&whole, &[]))).expect(0, &[]);
    for fault in ["FAKE_LOST", "FAKE_PANIC"] {
        let ended = run(fake(&new(&path, &[])).env(fault, "n2_d128_m16"));
        let hint =
            format!("what was measured is kept; `flopgap profile resume {}` continues", path.display());
        ended.expect(1, &["counting on device 0 failed\n  caused by: the ", &hint]);
        assert_eq!(
            recorded(&path).into_iter().collect::<Vec<_>>(),
            [config(1, 64), config(1, 128), config(2, 64)]
        );
        let before = records(&path);
        run(&mut fake(&["resume", text(&path), "--no-plots"])).expect(0, &["3 of 6 configurations are done"]);
        assert_eq!(contents(&path), contents(&whole));
        assert_kept(&before, &path);
        fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn what_fails_or_does_not_fit_is_named_and_tried_again() {
    let (_dir, [whole, path]) = flopgap_testing::paths(["whole", "run"]);
    run(&mut fake(&new(&whole, &[]))).expect(0, &[]);
    let failing = ("FAKE_FAIL", "n2_d64_m16");
    let ended = run(fake(&new(&path, &[])).env(failing.0, failing.1).env("FAKE_MEMORY", "200000"));
    ended.expect(
        1,
        &[
            "n2_d64_m16: no fake kernel for this shape",
            "n3_d128_m16: does not fit: it needs 240.0 KiB on the device, which has 195.3 KiB",
            "4 configurations in ",
            "1 configuration could not be measured",
        ],
    );
    for reason in ["no fake kernel for this shape", "n3_d128_m16: does not fit"] {
        assert_eq!(ended.stderr.matches(reason).count(), 1, "said once: {}", ended.stderr);
    }
    // A configuration that does not fit does not fail the run.
    let ended = run(fake(&["resume", text(&path), "--no-plots"]).env("FAKE_MEMORY", "200000"));
    ended.expect(0, &["4 of 6 configurations are done", "n3_d128_m16: does not fit"]);
    let ended = run(&mut fake(&["analyze", text(&path), "--no-plots"]));
    ended.expect(0, &["n3_d128_m16: not measured yet\n  hint: `flopgap profile resume`"]);
    run(&mut fake(&["resume", text(&path), "--no-plots"])).expect(0, &["5 of 6 configurations are done"]);
    assert_eq!(contents(&path), contents(&whole));
}

/// Its manifest says that this program recorded it: what is missing is measured, not looked for in
/// files with other names.
#[test]
fn what_an_interrupted_run_lacks_is_measured_by_resuming_it() {
    let (_dir, [path]) = flopgap_testing::paths(["run"]);
    run(fake(&new(&path, &[])).env("FAKE_LOST", "n2_d64_m16")).expect(1, &[]);
    fs::remove_dir_all(path.join("locks")).unwrap();
    let ended = run(&mut fake(&["analyze", text(&path), "--no-plots"]));
    ended.expect(0, &["not measured yet", "`flopgap profile resume` measures what is missing"]);
    assert!(!ended.stderr.contains("_forward.csv"), "{}", ended.stderr);
}

#[test]
fn only_what_counts_alike_goes_on() {
    let (_dir, [path]) = flopgap_testing::paths(["run"]);
    run(fake(&new(&path, &[])).env("FAKE_LOST", "n2_d64_m16")).expect(1, &[]);
    let before = contents(&path);
    let resume = ["resume", text(&path), "--no-plots"];
    let other = run(fake(&resume).env("FAKE_DEVICE", "FAKE other device"));
    other.expect(
        1,
        &[
            "recorded with device `FAKE device of a test`, but here it is `FAKE other device`",
            "hint: start a new run for this hardware",
        ],
    );
    let other =
        run(fake(&[&resume[..], &["--accept-driver"]].concat()).env("FAKE_DEVICE", "FAKE other device"));
    other.expect(1, &["recorded with device"]);
    run(fake(&resume).env("FAKE_DRIVER", "600"))
        .expect(1, &["recorded with driver `no driver`", "--accept-driver"]);
    assert_eq!(contents(&path), before);
    run(fake(&[&resume[..], &["--accept-driver"]].concat()).env("FAKE_DRIVER", "600")).expect(0, &[]);
    assert_eq!(recorded(&path).len(), 6);
}

#[test]
fn runs_that_cannot_be_resumed_say_why() {
    let (_dir, [path]) = flopgap_testing::paths(["run"]);
    let resume = |path: &Path| run(&mut fake(&["resume", text(path), "--no-plots"]));
    resume(&path).expect(1, &["it has no manifest.json"]);
    resume(&crate::recorded_run()).expect(1, &["its raw files were recorded by another program"]);
    run(&mut fake(&new(&path, &[]))).expect(0, &[]);
    let manifest = fs::read_to_string(path.join("manifest.json")).unwrap();
    let with = |from: &str, to: &str| {
        let changed = manifest.replacen(from, to, 1);
        assert_ne!(changed, manifest);
        fs::write(path.join("manifest.json"), changed).unwrap();
        resume(&path)
    };
    with("\"version\": 1", "\"version\": 2")
        .expect(1, &["unsupported format `flopgap-run` version 2; supported: flopgap-run version 1"]);
    with("\"cupti\"", "\"telepathy\"")
        .expect(1, &["recorded with the backend `telepathy`, which this program does not have"]);
    with("\"m\"", "\"q\"").expect(1, &["manifest.json: not a manifest\n  caused by: missing field `m`"]);
    with("      64,", "      0,").expect(2, &["invalid size `0`: a size is at least 1"]);
    fs::write(path.join("manifest.json"), &manifest).unwrap();
    let record = path.join("raw/n1_d64_m16.counts.json.zst");
    fs::write(&record, r#"{"format":"flopgap-counts","version":2}"#).unwrap();
    resume(&path).expect(1, &["n1_d64_m16.counts.json.zst: unsupported format `flopgap-counts` version 2"]);
    assert_eq!(fs::read(&record).unwrap().len(), 39, "the newer record is kept");
}

#[test]
fn damaged_locks_and_records_cost_only_what_is_damaged() {
    let (_dir, [whole, path]) = flopgap_testing::paths(["whole", "run"]);
    run(&mut fake(&new(&whole, &[]))).expect(0, &[]);
    run(fake(&new(&path, &[])).env("FAKE_LOST", "n3_d128_m16")).expect(1, &[]);
    fs::write(path.join("locks/1-of-1.lock"), "{\"pid\":").unwrap();
    let record = path.join("raw/n2_d64_m16.counts.json.zst");
    let bytes = fs::read(&record).unwrap();
    fs::write(&record, &bytes[..bytes.len() / 2]).unwrap();
    fs::write(path.join("raw/.flopgap-Xy12Zw"), "killed while writing").unwrap();
    let ended = run(&mut fake(&["resume", text(&path), "--no-plots"]));
    ended.expect(
        0,
        &["n2_d64_m16.counts.json.zst: ", "it is measured again", "4 of 6 configurations are done"],
    );
    assert_eq!(contents(&path), contents(&whole));
}

#[test]
fn other_sizes_extend_a_run() {
    let (_dir, [path]) = flopgap_testing::paths(["run"]);
    run(&mut fake(&new(&path, &[]))).expect(0, &[]);
    let before = records(&path);
    let ended = run(&mut fake(&["resume", text(&path), "-d", "128", "256", "--no-plots"]));
    ended.expect(0, &["3 of 6 configurations are done", "9 configurations in "]);
    assert_kept(&before, &path);
    assert!((1..=3).all(|n| recorded(&path).contains(&config(n, 256))));
    assert_eq!(records(&path).len(), 9);
    // Sizes of which none is new change nothing; later, all of them belong to the plan.
    run(&mut fake(&["resume", text(&path), "-n", "2", "--no-plots"]))
        .expect(0, &["2 of 2 configurations are done"]);
    fs::remove_file(path.join("raw/n1_d256_m16.counts.json.zst")).unwrap();
    run(&mut fake(&["resume", text(&path), "--no-plots"])).expect(0, &["8 of 9 configurations are done"]);
}

/// A child that is killed when the test ends, however it does.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a worker that takes an hour for each configuration, and waits until it is at work.
fn busy_worker(path: &Path, shard: &str) -> Killed {
    let mut command = fake(&new(path, &["--shard", shard]));
    let child =
        command.env("FAKE_DELAY_US", "3600000000").stderr(Stdio::null()).stdout(Stdio::null()).spawn();
    let child = Killed(child.unwrap());
    let lock = format!("{}.lock", shard.replace('/', "-of-"));
    while owner(path, &lock) != Some(child.0.id()) {
        thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn two_writers_are_distinguished_and_a_dead_ones_lock_is_free() {
    let (_dir, [path]) = flopgap_testing::paths(["run"]);
    let child = busy_worker(&path, "1/1");
    let resume = ["resume", text(&path), "--no-plots"];
    let holder = format!("process {} on ", child.0.id());
    run(&mut fake(&resume)).expect(1, &[&holder, "is filling it", "hint: wait until it ends"]);
    run(&mut fake(&[&resume[..], &["--shard", "2/3"]].concat())).expect(1, &[&holder]);
    drop(child);
    run(&mut fake(&resume)).expect(0, &["6 configurations in "]);
    assert_eq!(recorded(&path).len(), 6);
}

#[test]
fn workers_share_a_run_without_meeting() {
    let (dir, [whole, path]) = flopgap_testing::paths(["whole", "run"]);
    run(&mut fake(&new(&whole, &[]))).expect(0, &[]);
    let child = busy_worker(&path, "1/3");
    // At the same time, the second and third task of a job array.
    let slurm = |id: &str| {
        let mut command = fake(&new(&path, &["--shard", "slurm"]));
        command.env("SLURM_ARRAY_TASK_ID", id).env("SLURM_ARRAY_TASK_COUNT", "3");
        run(command.env("SLURM_ARRAY_TASK_MIN", "0"))
    };
    slurm("1").expect(0, &["worker 2/3 is done; the others have 4 configurations left"]);
    slurm("2").expect(0, &["worker 3/3 is done; the others have 2 configurations left"]);
    slurm("0").expect(1, &["is filling it"]);
    let ended = run(&mut fake(&["analyze", text(&path), "--no-plots", "--output", text(dir.path())]));
    ended.expect(
        0,
        &["2 configurations, n3_d64_m16 to n3_d128_m16: not measured yet\n  hint: `flopgap profile resume`"],
    );
    assert!(!path.join("processed").exists());
    drop(child);
    let before = records(&path);
    // The worker that measures the last one analyzes the run.
    slurm("0").expect(0, &["6 configurations in "]);
    assert_eq!(contents(&path), contents(&whole));
    assert_kept(&before, &path);
    slurm("3").expect(2, &["--shard: invalid shard `4/3`: workers are counted from 1 to 3"]);
    let other = ["new", "-n", "5", "-d", "8", "-m", "8", "--shard", "1/3", "--output", text(&path)];
    run(&mut fake(&other)).expect(1, &["another grid or backend"]);
}

/// Several devices are counted by a process each, which this program starts.
#[test]
fn several_devices_fill_a_run_as_one_does() {
    let (dir, [whole, path]) = flopgap_testing::paths(["whole", "run"]);
    run(&mut fake(&new(&whole, &[]))).expect(0, &[]);
    run(fake(&new(&path, &["--device", "0,2,3"])).env("FAKE_DELAY_US", "2000")).expect(0, &[]);
    assert_eq!(contents(&path), contents(&whole));

    // What goes wrong in such a process is reported as if it had gone wrong here.
    let (lost, other) = (dir.path().join("lost"), dir.path().join("other"));
    let ended = run(fake(&new(&lost, &["--device", "0,1"])).env("FAKE_LOST", "n2_d64_m16"));
    ended.expect(1, &["the fake device fell off the bus", "what was measured is kept"]);
    let ended = run(fake(&new(&lost, &["--device", "0,1"])).env("FAKE_LOST", "n2_d64_m16"));
    ended.expect(1, &["there is a run already"]);
    let ended =
        run(fake(&["resume", text(&lost), "--device", "0,1", "--no-plots"]).env("FAKE_PANIC", "n2_d64_m16"));
    ended.expect(1, &["the process that counts: it ended (exit status: 101)"]);
    run(&mut fake(&["resume", text(&lost), "--device", "0,1", "--no-plots"])).expect(0, &[]);
    assert_eq!(contents(&lost), contents(&whole));
    let ended = run(fake(&new(&other, &["--device", "0,1"]))
        .env("FAKE_FAIL", "n2_d64_m16")
        .env("FAKE_MEMORY", "200000"));
    ended.expect(1, &["n2_d64_m16: no fake kernel for this shape", "n3_d128_m16: does not fit"]);
    run(&mut fake(&new(&dir.path().join("none"), &["--device", "1,7"])))
        .expect(3, &["fake device 7 does not exist"]);
}

/// As `flopgap profile`, it starts such processes as `flopgap profile`.
#[test]
fn a_subcommand_starts_itself_again() {
    let (_dir, [whole, path]) = flopgap_testing::paths(["whole", "run"]);
    run(&mut fake(&new(&whole, &[]))).expect(0, &[]);
    let within = |arguments: &[&str]| {
        let mut command = fake(&[&["profile"], arguments].concat());
        command.env("FAKE_SUBCOMMAND", "profile");
        run(&mut command)
    };
    within(&new(&path, &["--device", "0,1"])).expect(0, &[]);
    assert_eq!(contents(&path), contents(&whole));
}

#[test]
fn runs_are_compared_launch_by_launch() {
    let (dir, [a, b]) = flopgap_testing::paths(["a", "b"]);
    run(&mut fake(&new(&a, &[]))).expect(0, &[]);
    run(&mut fake(&new(&b, &["--device", "1,2"]))).expect(0, &[]);
    let compare = |a: &Path, b: &Path| run(&mut fake(&["compare", text(a), text(b)]));
    let ended = compare(&a, &b);
    ended.expect(0, &[]);
    assert_eq!(ended.stdout, "equal: 6 configurations, 66 launches\n");

    // One instruction more in one launch.
    let file = b.join("raw/n2_d64_m16.counts.json.zst");
    let json = flopgap_phases::sweep::Record::read(&file).unwrap().to_json();
    let changed = json.replacen(",65536]", ",65537]", 1);
    assert_ne!(changed, json);
    fs::write(&file, changed).unwrap();
    let ended = compare(&a, &b);
    ended.expect(1, &["1 of 6 configurations differ"]);
    assert_eq!(ended.stdout, "n2_d64_m16: launch 1, forward `fake_sgemm_nn`: ffma 65536 and 65537\n");
    compare(&a, &crate::recorded_run()).expect(3, &["have no recorded configuration in common"]);
    compare(&a, dir.path())
        .expect(1, &["raw: cannot be accessed", "No such file", "hint: pass the directory of a run"]);

    // What only one of them has is said, not passed over.
    fs::remove_file(file).unwrap();
    let ended = compare(&a, &b);
    ended.expect(0, &[&format!("not compared: 1 configuration that only {} has", a.display())]);
    assert!(ended.stdout.starts_with("equal: 5 configurations, "), "{}", ended.stdout);
}

#[test]
fn counters_in_use_say_what_to_do() {
    let (dir, [path]) = flopgap_testing::paths(["run"]);
    let ended = run(fake(&new(&path, &[])).env("FAKE_BUSY", "all"));
    ended.expect(
        3,
        &["the fake counters are in use", "hint: end the other fake\n  hint: `flopgap profile analyze"],
    );
    // Nothing was begun, so nothing is left; but a run that others may join is not taken away from
    // them.
    assert!(!path.exists());
    let ended = run(fake(&new(&path, &["--device", "0,1"])).env("FAKE_BUSY", "all"));
    ended.expect(3, &["the fake counters are in use"]);
    assert!(!path.exists());
    fs::create_dir(&path).unwrap();
    run(fake(&new(&path, &[])).env("FAKE_BUSY", "all")).expect(3, &["the fake counters are in use"]);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    let shared = dir.path().join("shared");
    let ended = run(fake(&new(&shared, &["--shard", "1/2"])).env("FAKE_BUSY", "all"));
    ended.expect(3, &["the fake counters are in use"]);
    assert!(shared.join("manifest.json").exists());

    let ended = run(fake(&new(&path, &[])).env("FAKE_BUSY", "n2_d64_m16"));
    ended
        .expect(3, &["hint: end the other fake\n  hint: what was measured is kept; `flopgap profile resume"]);
    assert_eq!(recorded(&path).len(), 2);
    // A run that was begun stays.
    let ended = run(fake(&["resume", text(&path), "--no-plots"]).env("FAKE_BUSY", "all"));
    ended.expect(3, &["the fake counters are in use"]);
    assert_eq!(recorded(&path).len(), 2);
}

/// A kill takes the processes that count along, in the middle of a configuration, too.
#[cfg(target_os = "linux")]
#[test]
fn processes_that_count_end_with_the_one_that_asks() {
    let (_dir, [path]) = flopgap_testing::paths(["run"]);
    // Longer than anyone waits.
    let mut asking =
        fake(&new(&path, &["--device", "0,1"])).env("FAKE_DELAY_US", "600000000").spawn().unwrap();
    let children = || {
        let of = format!("/proc/{}/task", asking.id());
        let threads = fs::read_dir(of).unwrap().map(|thread| thread.unwrap().path().join("children"));
        let lists = threads.filter_map(|list| fs::read_to_string(list).ok()).collect::<Vec<_>>();
        lists.iter().flat_map(|list| list.split_whitespace().map(str::to_owned)).collect::<Vec<_>>()
    };
    // Once they count, they know which process to end with.
    let locked = || owner(&path, "1-of-1.lock").is_some();
    let counting = wait_until(|| (locked() && children().len() == 2).then(children));
    std::thread::sleep(std::time::Duration::from_millis(300));
    asking.kill().unwrap();
    asking.wait().unwrap();
    let lives = |child: &String| {
        let status = fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
        !status.is_empty() && !status.contains("State:\tZ")
    };
    wait_until(|| (!counting.iter().any(lives)).then_some(()));
}

/// Asks until there is an answer, for a minute.
#[cfg(target_os = "linux")]
#[track_caller]
fn wait_until<T>(mut answer: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6_000 {
        if let Some(answer) = answer() {
            return answer;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("not within a minute");
}
