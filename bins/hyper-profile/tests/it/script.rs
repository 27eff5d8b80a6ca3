//! The command lines of `hyper_profile.py`. People have them in scripts and notebooks: whatever the
//! options are called in other programs, `--n`, `--d` and `--m` with lists stay accepted here.

use crate::support::{assert_kept, fake, records, run, text};

#[test]
fn its_command_lines_work_unchanged() {
    let (_dir, [path]) = flopgap_testing::paths(["run"]);
    let sizes = ["--n", "2", "4", "--d", "64", "128", "--m", "8", "16"];
    let new = [&["new"], &sizes[..], &["--no-plots", "--output", text(&path)]].concat();
    run(&mut fake(&new)).expect(0, &["8 configurations in "]);
    let before = records(&path);
    assert_eq!(before.len(), 8);
    let resume = [&["resume", text(&path)], &sizes[..], &["--no-plots"]].concat();
    run(&mut fake(&resume)).expect(0, &["8 of 8 configurations are done"]);
    assert_kept(&before, &path);
    run(&mut fake(&["analyze", text(&path), "--no-plots"])).expect(0, &[]);
}
