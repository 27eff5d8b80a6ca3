//! Killing the program at random moments, and what is then still true.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use flopgap_phases::sweep::Record;

use crate::support::{assert_kept, contents, fake, recorded, records, run, text};

/// At least so many kills, over at least so many runs that come to their end.
const KILLS: usize = 200;
const RUNS: usize = 8;

/// Pseudo-random numbers (`SplitMix64`), so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

const SIZES: [&str; 9] = ["-n", "1", "2", "-d", "64", "128", "-m", "16..96:16", "--no-plots"];

/// Goes on with a run, or begins it where nothing is there yet.
fn go_on(path: &Path, more: &[&str]) -> Command {
    let mut command = if path.join("manifest.json").exists() {
        fake(&["resume", text(path)])
    } else {
        fake(&["new", "--output", text(path)])
    };
    let sizes = if path.join("manifest.json").exists() { &SIZES[8..] } else { &SIZES[..] };
    command.args(sizes).args(more).env("FAKE_DELAY_US", "300");
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Kills the child after a while unless it has come to its end, which must be a good one; whether
/// it was killed.
fn kill_after(mut child: Child, micros: u64) -> bool {
    thread::sleep(Duration::from_micros(micros));
    let _ = child.kill();
    let output = child.wait_with_output().unwrap();
    let killed = output.status.signal() == Some(9);
    assert!(killed || output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    killed
}

/// What must hold at every instant: whatever has its name is whole.
fn check_in_between(path: &Path) {
    for folder in ["raw", "processed"] {
        let Ok(entries) = fs::read_dir(path.join(folder)) else { continue };
        for entry in entries {
            let file = entry.unwrap().path();
            let name = file.file_name().unwrap().to_str().unwrap();
            if name.ends_with(".counts.json.zst") && !name.starts_with('.') {
                Record::read(&file).unwrap();
            } else if name == "metrics.csv" {
                assert_eq!(flopgap_phases::sweep::read_metrics(&file).unwrap().len(), 24 * 2);
            }
        }
    }
}

#[test]
fn killed_at_random_moments_a_run_ends_as_if_nothing_had_happened() {
    let (dir, [whole]) = flopgap_testing::paths(["whole"]);
    run(&mut go_on(&whole, &[])).expect(0, &[]);
    let expected = contents(&whole);
    assert_eq!(recorded(&whole).len(), 24);

    let mut random = Random(20_261_121);
    let (mut kills, mut runs) = (0, 0);
    while kills < KILLS || runs < RUNS {
        let path = dir.path().join(format!("run{runs}"));
        let devices: &[&str] = if runs % 2 == 0 { &[] } else { &["--device", "0,1"] };
        let mut kept = BTreeMap::new();
        for patience in 1.. {
            // Longer with every attempt, so that a slow machine gets to the end, too.
            let child = go_on(&path, devices).spawn().unwrap();
            let killed = kill_after(child, random.below(10_000 + 4_000 * patience));
            assert_kept(&kept, &path);
            if !killed {
                break;
            }
            kills += 1;
            check_in_between(&path);
            kept = records(&path);
        }
        assert_eq!(contents(&path), expected, "run {runs} after {kills} kills");
        runs += 1;
    }
    #[expect(clippy::print_stderr, reason = "a figure for --nocapture")]
    {
        eprintln!("{kills} kills over {runs} runs");
    }
}

#[test]
fn killed_workers_that_share_a_run_fill_it_all_the_same() {
    let (_dir, [whole, path]) = flopgap_testing::paths(["whole", "run"]);
    run(&mut go_on(&whole, &[])).expect(0, &[]);

    let shards = ["1/3", "2/3", "3/3"];
    let mut random = Random(3);
    let mut open = shards.to_vec();
    for patience in 1.. {
        let mut start = |shard: &&'static str| {
            // `new` joins what another worker may have made a moment ago.
            let mut command = fake(&["new", "--output", text(&path), "--shard", shard]);
            command.args(SIZES).env("FAKE_DELAY_US", "300").stdout(Stdio::null()).stderr(Stdio::piped());
            (*shard, command.spawn().unwrap(), random.below(10_000 + 4_000 * patience))
        };
        let children: Vec<_> = open.iter().map(&mut start).collect();
        open = children
            .into_iter()
            .filter_map(|(shard, child, micros)| kill_after(child, micros).then_some(shard))
            .collect();
        check_in_between(&path);
        if open.is_empty() {
            break;
        }
    }
    // The last worker may have been killed while it analyzed.
    run(&mut go_on(&path, &[])).expect(0, &["24 of 24 configurations are done"]);
    assert_eq!(contents(&path), contents(&whole));
}
