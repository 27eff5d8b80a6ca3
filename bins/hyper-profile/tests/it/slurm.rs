//! Runs that are submitted to Slurm: a real one where it is installed, and what is said without.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flopgap_private_slurm::Slurm;
use flopgap_sweep::Manifest;

use crate::support::{contents, fake, fake_program, owner, recorded, records, run, text};

/// 96 networks.
const SIZES: [&str; 9] = ["-n", "1..4", "-d", "32..128:32", "-m", "8..48:8", "--no-plots", "--output", ""];

fn new(run: &Path) -> Command {
    let mut command = fake(&["new"]);
    command.args(&SIZES[..8]).arg(run);
    command
}

/// The configurations that a process measured, by the log that `FAKE_LOG` names.
fn measured(log: &Path, pid: u32) -> usize {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .filter(|line| line.split_once(' ').is_some_and(|(first, _)| first == pid.to_string()))
        .count()
}

/// The first number before a text.
fn before(text: &str, what: &str) -> Option<usize> {
    let (head, _) = text.split_once(what)?;
    head.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[track_caller]
fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_mins(1), "waited in vain for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A figure or a log, for `--nocapture`.
#[expect(clippy::print_stderr, reason = "the log of the test")]
fn show(begin: Instant, what: &str) {
    eprintln!("{:6.2} s  {what}", begin.elapsed().as_secs_f64());
}

#[test]
fn an_array_with_a_requeued_and_a_killed_task_measures_what_one_process_does() {
    let begin = Instant::now();
    let Some(slurm) = Slurm::for_test("flopgap profile --submit slurm").unwrap() else { return };
    show(begin, &format!("{}, its node is idle", slurm.run("sbatch", &["--version"]).unwrap()));
    let dir = tempfile::tempdir().unwrap();
    let single = dir.path().join("single");
    run(&mut new(&single)).expect(0, &["96 configurations in "]);

    // Whatever a path may contain.
    let path = dir.path().join(r#"a "run" that's 50% $HOME #1"#);
    let mut submit = new(&path);
    submit.args(["--submit", "slurm", "--tasks", "4", "--sbatch-arg=--comment=two words"]);
    // Where there is no GPU: this is only a login node's.
    let measurements = dir.path().join("measurements");
    submit.env("FAKE_DELAY_US", "120000").env("FAKE_LOG", &measurements);
    let ended = run(slurm.enter(&mut submit));
    ended.expect(0, &["run directory ", "submitted job array 1 of 4 tasks, and then job "]);
    show(begin, &ended.stderr);

    for lock in ["1-of-4.lock", "2-of-4.lock"] {
        wait_for("four configurations of a task", || {
            owner(&path, lock).is_some_and(|pid| measured(&measurements, pid) >= 4)
        });
    }
    // As the system kills it that runs out of memory: `scancel` would be polite first.
    let pid = owner(&path, "2-of-4.lock").unwrap();
    assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
    show(begin, "task 1 is killed");
    slurm.run("scontrol", &["requeue", "1_0"]).unwrap();
    show(begin, "task 0 is requeued");

    slurm.wait_for_all_jobs(Duration::from_mins(1)).unwrap();
    show(begin, "the aggregation has ended");
    let log = |name: &str| fs::read_to_string(path.join("slurm").join(name)).unwrap();
    for name in ["task-0.log", "task-1.log", "task-2.log", "task-3.log", "aggregate.log"] {
        // Without the tables.
        let lines: Vec<String> =
            log(name).lines().map(str::to_owned).filter(|line| line.contains(": ")).collect();
        show(begin, &format!("{name}:\n          {}", lines.join("\n          ")));
    }

    // The requeued task went on where it had stopped; what the killed one left, the second job did.
    let requeued = log("task-0.log");
    let left = before(&requeued, " configurations left").unwrap();
    assert_eq!(before(&requeued, " of 24 configurations are done"), Some(24 - left), "{requeued}");
    let done = before(&log("aggregate.log"), " of 96 configurations are done").unwrap();
    // The last one that was measured may have been killed before its record was written.
    let killed = measured(&measurements, pid);
    assert!((3..24).contains(&killed) && [killed, killed - 1].contains(&(done - 72)), "{killed} {done}");
    assert!(!log("task-1.log").contains("SIGTERM"), "{}", log("task-1.log"));
    let state = slurm.run("scontrol", &["show", "job", "1_1"]).unwrap();
    assert!(state.contains("JobState=FAILED") && state.contains("ExitCode=0:9"), "{state}");
    let state = slurm.run("scontrol", &["show", "job", "1_0"]).unwrap();
    assert!(state.contains("JobState=COMPLETED") && state.contains("Restarts=1"), "{state}");
    assert_eq!(recorded(&path).len(), 96);
    let times = fs::read_to_string(&measurements).unwrap().lines().count();
    assert!((96..=97).contains(&times), "none is measured twice, but the one at hand of the killed task");

    let table = |run: &Path| fs::read(run.join("processed/metrics.csv")).unwrap();
    assert!(table(&path) == table(&single), "metrics.csv differs from that of one process");
    fs::remove_dir_all(path.join("slurm")).unwrap();
    assert!(contents(&path) == contents(&single), "a file differs from that of one process");
    let manifest = Manifest::read(&path).unwrap().unwrap();
    assert_eq!(manifest.origin.device.as_deref(), Some("FAKE device of a test"));
    show(begin, "metrics.csv, all records and the manifest are those of one process, byte for byte");
}

/// What Slurm does before it kills, to one process and to one with several.
#[test]
fn sigterm_finishes_the_configuration_at_hand() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    run(&mut new(&whole)).expect(0, &[]);
    for devices in ["0", "0,1"] {
        let path = dir.path().join(format!("run{}", devices.len()));
        let mut command = new(&path);
        command.args(["--device", devices]).env("FAKE_DELAY_US", "20000").stderr(Stdio::piped());
        let child = command.stdout(Stdio::null()).spawn().unwrap();
        wait_for("three configurations", || records(&path).len() >= 3);
        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let done = recorded(&path).len();
        let left = 96 - done;
        assert!(
            said.contains(&format!("error: stopped by SIGTERM with {left} configurations left")),
            "{said}"
        );
        assert!(said.contains("  hint: `flopgap profile resume "), "{said}");
        let done = format!("{done} of 96 configurations are done");
        run(&mut fake(&["resume", text(&path), "--no-plots"])).expect(0, &[&done]);
        assert!(contents(&path) == contents(&whole));
    }
}

#[test]
fn a_dry_run_writes_scripts_that_can_be_submitted_later() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let ended =
        run(new(&path).args(["--submit", "slurm", "--dry-run", "--sbatch-arg=-pgpu"]).env("PATH", ""));
    ended.expect(0, &["run directory ", "scripts in "]);
    let script = |name: &str| fs::read_to_string(path.join("slurm").join(name)).unwrap();
    assert_eq!(ended.stdout, script("array.sbatch") + "\n" + &script("aggregate.sbatch"));
    let array = script("array.sbatch");
    assert!(array.contains("#SBATCH --array=0-7\n") && array.contains("#SBATCH -pgpu\n"), "{array}");
    assert!(array.contains(&format!("program='{}'", fake_program().display())), "{array}");
    assert!(script("aggregate.sbatch").ends_with("--no-plots\n"), "{array}");
    assert!(Manifest::read(&path).unwrap().unwrap().is_without_origin());

    // What Slurm would do, without it.
    for (task, script, all) in [(0, "array", 12), (5, "array", 24), (0, "aggregate", 96)] {
        let mut shell = Command::new("bash");
        shell.arg(path.join("slurm").join(script).with_extension("sbatch"));
        run(shell.env("SLURM_ARRAY_TASK_ID", task.to_string())).expect(0, &[]);
        assert_eq!(recorded(&path).len(), all);
    }

    // All is measured; with nothing to do, it can be submitted all the same.
    let resume = ["resume", text(&path), "--submit", "slurm", "--tasks", "2", "--dry-run"];
    let ended = run(&mut fake(&resume));
    assert!(ended.stdout.contains("#SBATCH --array=0-1\n"), "{}", ended.stdout);
}

#[test]
fn nodes_with_another_gpu_are_refused_in_a_planned_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    run(new(&path).args(["--submit", "slurm", "--dry-run"])).expect(0, &[]);
    let task = |shard, device| {
        run(fake(&["resume", text(&path), "--no-analysis", "--shard", shard]).env("FAKE_DEVICE", device))
    };
    task("1/2", "H100").expect(0, &["worker 1/2 is done; the others have 48 configurations left"]);
    let hint = "hint: on a cluster, all tasks need one type of GPU";
    task("2/2", "L40S").expect(1, &["recorded with device `H100`, but here it is `L40S`", hint]);
    task("2/2", "H100").expect(0, &["all configurations are measured; `flopgap profile analyze "]);
}

#[test]
fn a_script_says_what_is_missing_on_its_node() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    run(new(&path).args(["--submit", "slurm", "--dry-run"])).expect(0, &[]);
    let script = path.join("slurm/array.sbatch");
    let task = |script: &Path| {
        let mut shell = Command::new("bash");
        run(shell.arg(script).env("SLURM_ARRAY_TASK_ID", "0").env("SLURMD_NODENAME", "node7"))
    };
    let text = fs::read_to_string(&script).unwrap();
    let elsewhere = dir.path().join("elsewhere.sbatch");
    fs::write(&elsewhere, text.replace(crate::support::text(&fake_program()), "/opt/none")).unwrap();
    let said =
        ["error: node7: /opt/none does not exist", "hint: install it under the same path on all nodes"];
    task(&elsewhere).expect(1, &said);
    fs::write(&elsewhere, text).unwrap();
    fs::remove_dir_all(&path).unwrap();
    let said =
        [" is not the run directory that was submitted", "hint: put the run on a file system that all"];
    task(&elsewhere).expect(1, &said);
    assert!(!path.exists());
}

#[test]
fn what_cannot_be_submitted_is_said_before_a_folder_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let cases: [(&[&str], i32, &str); 6] = [
        (&["--submit", "slurm"], 3, "`sbatch`: not found"),
        (&["--submit", "slurm", "--sbatch-arg", "gpu"], 2, "invalid option for sbatch `gpu`"),
        (&["--submit", "slurm", "--sbatch-arg=--array=0-3"], 2, "the number of tasks sets the array"),
        (&["--submit", "slurm", "--device", "1"], 2, "cannot be used with"),
        (&["--submit", "slurm", "--shard", "1/2"], 2, "cannot be used with"),
        (&["--tasks", "3"], 2, "--submit"),
    ];
    for (options, code, said) in cases {
        run(new(&path).args(options).env("PATH", "")).expect(code, &[said]);
        assert!(!path.exists(), "{options:?}");
    }
}

#[test]
fn what_sbatch_rejects_can_be_submitted_again() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let sbatch = dir.path().join("sbatch");
    let accept = "#!/bin/sh\n[ \"$1\" = --version ] && exit\n";
    // Replaced and never rewritten, since another thread may be starting a program at this moment.
    let stub = |text: &str| {
        let new = dir.path().join("new");
        fs::write(&new, format!("{accept}{text}\n")).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&new, &sbatch).unwrap();
        thread::sleep(Duration::from_millis(200));
    };
    stub("echo 'sbatch: error: invalid partition specified: gpuu' >&2; exit 1");
    let submit = |command: &mut Command| run(command.args(["--submit", "slurm"]).env("PATH", dir.path()));
    let ended = submit(&mut new(&path));
    let again =
        format!("hint: `flopgap profile resume {} --submit slurm` submits the run again", path.display());
    ended.expect(1, &["sbatch: error: invalid partition specified: gpuu", &again]);
    submit(&mut new(&path)).expect(1, &["there is a run already"]);
    stub("echo 77");
    submit(&mut fake(&["resume", text(&path)]))
        .expect(0, &["submitted job array 77 of 8 tasks, and then job 77"]);
}
