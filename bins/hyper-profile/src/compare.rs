//! `hyper-profile compare A B`: two runs launch by launch.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use flopgap_cli::{Console, Exit, Failure, write_answer};
use flopgap_kernels::base_name;
use flopgap_report::numbers;
use flopgap_sweep::{RawFiles, Record, RecordedLaunch, RunError, Stage, is_record};

use crate::{PROGRAM, configurations};

/// Differences that are printed; all are counted.
const PRINTED: usize = 20;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  hyper-profile compare cupti ncu")]
pub(crate) struct Arguments {
    /// Run directory that `new` filled
    a: PathBuf,
    /// Another run directory, for example with another backend, library or driver
    b: PathBuf,
    /// Write to this file instead of standard output, which is `-`
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Compares the configurations that both runs have: phase, kernel, grid, block and counts of every
/// launch.
pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let (a, b) = (list(&arguments.a, console)?, list(&arguments.b, console)?);
    let mut text = String::new();
    let (mut configs, mut launches, mut different) = (0_usize, 0_u64, 0_u64);
    for (config, files) in &a.configs {
        let (Some(file), Some(other)) = (record(files), b.configs.get(config).and_then(record)) else {
            continue;
        };
        let (one, other) = (read(file)?, read(other)?);
        configs += 1;
        launches += one.launches().len() as u64;
        if let Some(difference) = difference(&one, &other) {
            different += 1;
            if different <= PRINTED as u64 {
                let _ = writeln!(text, "{config}: {difference}");
            }
        }
    }
    if configs == 0 {
        let (a, b) = (arguments.a.display(), arguments.b.display());
        let message = format!("{a} and {b} have no recorded configuration in common");
        return Err(Failure::new(message)
            .hint("`hyper-profile new` writes records; reports of ncu are not compared")
            .exit(Exit::Absent));
    }
    for (run, one, other) in [(&arguments.a, &a, &b), (&arguments.b, &b, &a)] {
        let missing = |config| other.configs.get(config).and_then(record).is_none();
        let alone =
            one.configs.iter().filter(|(config, files)| record(files).is_some() && missing(config)).count();
        if alone > 0 {
            let alone = configurations(alone);
            // What is left out is said in any case.
            flopgap_cli::note(PROGRAM, format_args!("not compared: {alone} that only {} has", run.display()));
        }
    }
    let count = numbers::group_thousands;
    let file = arguments.output.as_deref().filter(|path| *path != Path::new("-"));
    if different == 0 {
        let (compared, launches) = (configurations(configs), count(launches));
        return write_answer(console, file, &format!("equal: {compared}, {launches} launches\n"));
    }
    write_answer(console, file, &text)?;
    Err(Failure::new(format!("{} of {} differ", count(different), configurations(configs))))
}

fn list(run: &Path, console: Console) -> Result<RawFiles, Failure> {
    let raw = run.join("raw");
    let error = |source| RunError::Io { path: raw.clone(), source };
    let files = RawFiles::list(&raw).map_err(error)?;
    let records = configurations(files.configs.values().filter_map(record).count());
    console.detail(format_args!("{}: run directory, records of {records}", run.display()));
    Ok(files)
}

/// The record of a configuration, if it has one rather than reports of Nsight Compute.
fn record(files: &BTreeMap<Stage, PathBuf>) -> Option<&PathBuf> {
    files.get(&Stage::Whole).filter(|path| is_record(path))
}

fn read(path: &Path) -> Result<Record, Failure> {
    Ok(Record::read(path)?)
}

/// The first difference of two records. Kernels are compared by their bare names, since profilers
/// spell the rest differently.
fn difference(a: &Record, b: &Record) -> Option<String> {
    if a.quantities() != b.quantities() {
        return Some(format!("{:?} and {:?} were counted", a.quantities(), b.quantities()));
    }
    let same = |a: &RecordedLaunch<'_>, b: &RecordedLaunch<'_>| {
        a.phase == b.phase
            && a.grid == b.grid
            && a.block == b.block
            && a.values == b.values
            && base_name(a.kernel) == base_name(b.kernel)
    };
    let pairs = a.launches().zip(b.launches());
    if let Some((index, (a, b))) = pairs.enumerate().find(|(_, (a, b))| !same(a, b)) {
        return Some(format!("launch {index}: {} and {}", line(a), line(b)));
    }
    let (a, b) = (a.launches().len(), b.launches().len());
    (a != b).then(|| format!("{a} and {b} launches"))
}

fn line(launch: RecordedLaunch<'_>) -> String {
    let RecordedLaunch { phase, kernel, grid, block, values, .. } = launch;
    format!("{phase} `{}` {grid:?} {block:?} {values:?}", base_name(kernel))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopgap_phases::Phase;
    use flopgap_sweep::{Config, Quantity};

    fn record(launches: &[(&str, u64)]) -> Record {
        let mut record = Record::new(Config { n: 1, d: 8, m: 8 }, &Quantity::FP32);
        for (name, ffma) in launches {
            record.push(Phase::Forward, name, [4, 1, 1], [32, 1, 1], &[0, 0, *ffma]);
        }
        record
    }

    #[test]
    fn names_may_be_spelled_differently_and_nothing_else() {
        let a = record(&[("void lib::gemm<float>(T1 *)", 7), ("sigmoid", 1)]);
        assert_eq!(difference(&a, &record(&[("lib::gemm<float>(float*)", 7), ("sigmoid()", 1)])), None);
        assert_eq!(
            difference(&a, &record(&[("gemm", 8), ("sigmoid", 1)])).unwrap(),
            "launch 0: forward `gemm` [4, 1, 1] [32, 1, 1] [0, 0, 7] and forward `gemm` [4, 1, 1] [32, 1, 1] [0, 0, 8]"
        );
        assert!(difference(&a, &record(&[("gemm", 7), ("tanh", 1)])).unwrap().starts_with("launch 1"));
        assert_eq!(difference(&a, &record(&[("gemm", 7)])).unwrap(), "2 and 1 launches");
    }
}
