//! How active units of the GPUs were, as NVML's GPM samples it beside the programs: a file of the
//! directory, to which lines are added, so that a crash keeps them.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::path::Path;

use crate::RecordError;
use crate::format::GPM;

/// A metric of a GPU between two samples. It is of the whole GPU, with whatever else runs on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpmSample<'a> {
    /// When it began, in nanoseconds since 1970.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// The UUID of the GPU, as CUPTI has it (`01234567-89ab-…`) or as NVML does (`GPU-01234567-…`).
    pub gpu: &'a str,
    /// The metric, by NVML's name without its beginning: `ANY_TENSOR_UTIL`.
    pub metric: &'a str,
    /// Its mean, from 0 to 100.
    pub percent: f64,
}

/// Adds samples to those of a directory.
///
/// # Errors
/// A directory that cannot be written.
pub fn write_gpm(directory: &Path, samples: &[GpmSample<'_>]) -> Result<(), RecordError> {
    let path = directory.join(GPM);
    let mut lines = String::new();
    for GpmSample { start, end, gpu, metric, percent } in samples {
        let gpu = gpu.strip_prefix("GPU-").unwrap_or(gpu);
        // Writing to a string does not fail.
        let _ = writeln!(lines, "{start} {end} {gpu} {metric} {percent}");
    }
    let file = OpenOptions::new().append(true).create(true).open(&path);
    file.and_then(|mut file| file.write_all(lines.as_bytes())).map_err(RecordError::io(&path))
}

/// Calls `take` with all samples of a directory. Returns how many lines are not samples.
pub(crate) fn read<E: From<RecordError>>(
    directory: &Path,
    mut take: impl FnMut(GpmSample<'_>) -> Result<(), E>,
) -> Result<u64, E> {
    let path = directory.join(GPM);
    let io = RecordError::io(&path);
    let mut file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        file => BufReader::new(file.map_err(&io)?),
    };
    let (mut line, mut damaged) = (Vec::new(), 0);
    while file.read_until(b'\n', &mut line).map_err(&io)? > 0 {
        match parse(&line) {
            Some(sample) => take(sample)?,
            None => damaged += 1,
        }
        line.clear();
    }
    Ok(damaged)
}

fn parse(line: &[u8]) -> Option<GpmSample<'_>> {
    // Of a line without an end, the number may lack digits.
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let mut words = line.split(' ');
    let mut word = || words.next().filter(|word| !word.is_empty());
    let sample = GpmSample {
        start: word()?.parse().ok()?,
        end: word()?.parse().ok()?,
        gpu: word()?,
        metric: word()?,
        percent: word()?.parse().ok()?,
    };
    let is_whole = words.next().is_none();
    (is_whole && sample.start < sample.end && (0.0..=100.0).contains(&sample.percent)).then_some(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples that are read, and the number of lines that are not.
    fn read_again(directory: &Path) -> (Vec<(u64, String, f64)>, u64) {
        let mut all = Vec::new();
        let damaged = read(directory, |sample| -> Result<(), RecordError> {
            all.push((sample.start, format!("{} {}", sample.gpu, sample.metric), sample.percent));
            Ok(())
        });
        (all, damaged.unwrap())
    }

    #[test]
    fn samples_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_again(folder.path()), (vec![], 0));
        let of = |start: u64, gpu| GpmSample { start, end: start + 5, gpu, metric: "SM_UTIL", percent: 12.5 };
        write_gpm(folder.path(), &[of(1, "GPU-aa-1"), of(2, "bb-2")]).unwrap();
        write_gpm(folder.path(), &[GpmSample { percent: 100.0 / 3.0, ..of(9, "aa-1") }]).unwrap();
        let expected =
            [(1, "aa-1 SM_UTIL", 12.5), (2, "bb-2 SM_UTIL", 12.5), (9, "aa-1 SM_UTIL", 100.0 / 3.0)];
        let expected = expected.map(|(start, text, percent)| (start, text.to_owned(), percent));
        assert_eq!(read_again(folder.path()), (expected.to_vec(), 0));
    }

    #[test]
    fn damaged_lines_are_left_out_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let whole = "1 2 aa SM_UTIL 3";
        let damaged = [
            "",
            "1 2 aa SM_UTIL",
            "1 2 aa SM_UTIL 3 4",
            "2 2 aa SM_UTIL 3",
            "1 -2 aa SM_UTIL 3",
            "1 2 aa  SM_UTIL 3",
            "1 2 aa SM_UTIL 100.5",
            "1 2 aa SM_UTIL -1",
            "1 2 aa SM_UTIL NaN",
            "1 2 aa SM_UTIL 31 2 aa SM_UTIL 3",
            "\0\0\0",
        ];
        let mut bytes = [&[whole], &damaged[..], &[whole]].concat().join("\n").into_bytes();
        bytes.extend(b"\n\xff\xfe 2 aa SM_UTIL 3\n1 2 aa SM_UTIL 7");
        std::fs::write(folder.path().join(GPM), bytes).unwrap();
        let (samples, count) = read_again(folder.path());
        assert_eq!((samples.len(), count), (2, damaged.len() as u64 + 2));
    }
}
