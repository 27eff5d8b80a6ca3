//! Workloads for the benches: files as large as anybody records, made of rows that were really
//! recorded.

pub mod calibration;
pub mod division;
pub mod nsys_trace;
pub mod pytorch;

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Runs a program that reads a folder and writes to another place, where one is given.
#[expect(clippy::print_stderr, reason = "what programs end with")]
pub fn run_on_folder(
    program: &str,
    run: impl FnOnce(&Path, Option<&Path>) -> Result<(), Box<dyn Error>>,
) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ([folder] | [folder, _]) = arguments.as_slice() else {
        eprintln!("usage: {program} FOLDER [OUTPUT]");
        return ExitCode::from(2);
    };
    match run(folder.as_ref(), arguments.get(1).map(Path::new)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A recorded forward+backward run of the square MLP with n=10, d=1024, m=128 on an H200 (81
/// launches, 243 rows).
const RECORDED: &[u8] = include_bytes!("../../fixtures/ncu/n10_d1024_m128_forward_backward.csv.zst");

/// The recorded report, decompressed.
///
/// # Errors
/// When the fixture is damaged.
pub fn recorded_report() -> io::Result<Vec<u8>> {
    zstd::decode_all(RECORDED)
}

/// Writes a long-layout ncu CSV with at least `rows` metric rows: the recorded rows over and over,
/// the launches numbered on, the last launch whole.
///
/// # Errors
/// When `out` cannot be written to or the fixture is damaged.
pub fn write_long_csv(rows: u64, out: &mut impl Write) -> io::Result<()> {
    let report = recorded_report()?;
    let mut lines = report.split(|&byte| byte == b'\n').skip_while(|line| !line.starts_with(b"\"ID\""));
    let header = lines.next().ok_or_else(|| io::Error::other("the fixture has no header"))?;
    out.write_all(header)?;
    out.write_all(b"\n")?;

    // Each row without its first field, and whether that field differs from the row before.
    let mut template: Vec<(&[u8], bool)> = Vec::new();
    let mut last_id: &[u8] = b"";
    for line in lines.filter(|line| line.starts_with(b"\"")) {
        let end = line[1..].iter().position(|&byte| byte == b'"').map_or(line.len(), |at| at + 2);
        let (id, rest) = line.split_at(end);
        template.push((rest, id != last_id));
        last_id = id;
    }

    let mut id = 0_u64;
    for (row, &(rest, new_launch)) in (0_u64..).zip(template.iter().cycle()) {
        if new_launch && row >= rows {
            break;
        }
        if new_launch && row > 0 {
            id += 1;
        }
        write!(out, "\"{id}\"")?;
        out.write_all(rest)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_numbered_on() {
        let mut bytes = Vec::new();
        write_long_csv(500, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 501, "the last launch is whole");
        assert!(lines[1].starts_with("\"0\","), "{}", lines[1]);
        assert!(lines[3].starts_with("\"0\","), "three counters a launch");
        assert!(lines[4].starts_with("\"1\","));
        assert!(lines[500].starts_with("\"166\","), "{}", lines[500]);
    }
}
