//! `flopgap profile compare A B`: two runs launch by launch.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use flopgap_cli::{Console, Exit, Failure, write_answer};
use flopgap_phases::sweep::{Config, RawFiles, Record, RunFault, Stage, is_record};
use flopgap_report::numbers;
use flopgap_report::table::{Format, TextOptions};

use crate::{PROGRAM, configurations};

/// Differences that are printed; all are counted.
const PRINTED: usize = 20;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap profile compare cupti ncu")]
pub(crate) struct Arguments {
    /// Run directory that `new` filled
    a: PathBuf,
    /// Another run directory, for example with another backend, library or driver
    b: PathBuf,
    /// Write to this file instead of standard output, which is `-`
    #[arg(long, short, value_name = "FILE", value_parser = flopgap_cli::file_for(&["txt"]))]
    output: Option<PathBuf>,
}

/// Compares the configurations that both runs have: phase, kernel, grid, block and counts of every
/// launch. Several records of a configuration in one run are compared, too: which of them is the
/// run's cannot be known.
pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let (a, b) = (list(&arguments.a, console)?, list(&arguments.b, console)?);
    let mut text = String::new();
    let (mut configs, mut launches, mut bare, mut different) = (0_usize, 0_u64, 0_u64, 0_u64);
    for (config, files) in &a.configs {
        let (Some(file), Some(other)) = (record(files), b.configs.get(config).and_then(record)) else {
            continue;
        };
        let (one, other) = (read(file)?, read(other)?);
        configs += 1;
        launches += one.launches().len() as u64;
        let comparison = one.compare(&other);
        bare += comparison.bare;
        let mut found = Vec::from_iter(comparison.difference);
        found.extend(second_records(&a, *config, file, &one)?);
        found.extend(second_records(&b, *config, &b.configs[config][&Stage::Whole], &other)?);
        different += u64::from(!found.is_empty());
        if different <= PRINTED as u64 {
            for difference in found {
                let _ = writeln!(text, "{config}: {difference}");
            }
        }
    }
    if configs == 0 {
        let (a, b) = (arguments.a.display(), arguments.b.display());
        let message = format!("{a} and {b} have no recorded configuration in common");
        return Err(Failure::new(message)
            .hint("`flopgap profile new` writes records; reports of ncu are not compared")
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
        let mut text = format!("equal: {compared}, {launches} launches\n");
        if bare > 0 {
            let bare = count(bare);
            let _ = writeln!(text, "by their bare names, since a run has no more: {bare} launches");
        }
        return write_answer(console, file, &text);
    }
    let options = if file.is_some() { TextOptions::default() } else { TextOptions::for_stdout() };
    write_answer(console, file, &Format::Table.sentences(&text, &options))?;
    Err(Failure::new(format!("{} of {} differ", count(different), configurations(configs))))
}

fn list(run: &Path, console: Console) -> Result<RawFiles, Failure> {
    let raw = run.join("raw");
    let error = |source| RunFault::Io { source }.at(&raw);
    let files = RawFiles::list(&raw).map_err(error)?;
    let records = configurations(files.configs.values().filter_map(record).count());
    console.detail(format_args!("{}: run directory, records of {records}", run.display()));
    Ok(files)
}

/// The record of a configuration, if it has one rather than reports of Nsight Compute.
fn record(files: &BTreeMap<Stage, PathBuf>) -> Option<&PathBuf> {
    files.get(&Stage::Whole).filter(|path| is_record(path))
}

/// How other records of a configuration in the same run differ from its first one.
fn second_records(
    run: &RawFiles,
    config: Config,
    first: &Path,
    record: &Record,
) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    for (_, second) in run.seconds.get(&config).into_iter().flatten().filter(|(_, path)| is_record(path)) {
        if let Some(difference) = record.compare(&read(second)?).difference {
            found.push(format!("{} and {} differ: {difference}", first.display(), second.display()));
        }
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Record, Failure> {
    Ok(Record::read(path)?)
}
