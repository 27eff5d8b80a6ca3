//! Two commands that are run in turns on this machine.

use std::process::{Command, Stdio};
use std::time::Instant;

use flopgap_cli::Failure;
use flopgap_timings::diff;

use super::times::Times;

/// Runs two commands in turns, and compares how long they take.
///
/// The order is before, after, after, before: what changes slowly on the machine, such as its
/// temperature, adds the same to both.
pub(super) fn compare(
    commands: [&str; 2],
    repeat: u32,
    fail_if_slower: Option<f64>,
) -> Result<Times, Failure> {
    for command in commands {
        seconds(command)?;
    }
    let mut durations = [Vec::new(), Vec::new()];
    for turn in 0..repeat {
        let order = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
        for at in order {
            durations[at].push(seconds(commands[at])?);
        }
    }
    let judged = diff::runs(&durations[0], &durations[1]);
    Ok(Times::of_runs(judged.into_iter().collect(), fail_if_slower))
}

/// How many nanoseconds a command takes. What it prints is not shown.
fn seconds(command: &str) -> Result<i64, Failure> {
    let begin = Instant::now();
    let mut shell = Command::new("sh");
    let run = shell
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output();
    let taken = begin.elapsed();
    let run = run.map_err(|error| Failure::new(format!("`{command}`: sh did not start: {error}")))?;
    if run.status.success() {
        return Ok(i64::try_from(taken.as_nanos()).unwrap_or(i64::MAX));
    }
    let said = String::from_utf8_lossy(&run.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(Failure::new(format!("`{command}` failed ({}): {last}", run.status))
        .hint("what fails is not timed; run it by itself to see all that it prints"))
}
