//! Hardware counters: recorded in files or in a run directory, or live.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use flopgap_cli::{Console, Exit, Failure};
use flopgap_flops::FlopError;
use flopgap_kernels::Classifier;
use flopgap_phases::sweep::{
    Backend, Config, Meter, MeterError, Origin, Record, RecordError, RunAnalysis, is_record,
};
use flopgap_phases::{Analysis, PhaseError, Phases, Recording, Strictness};

use crate::validate::compare::{Counts, Kind, Source};

/// What counts within this process, in messages.
const LIVE: &str = "live counters";

/// What counts in a process of its own, in messages.
pub(crate) const NCU: &str = "ncu";

/// An analysis as a source of numbers.
pub(crate) fn source(kind: Kind, origin: String, analysis: &Analysis) -> Result<Source, FlopError> {
    Ok(Source {
        kind,
        origin,
        forward: Counts::all(&analysis.forward.decomposition.measured)?,
        backward: Counts::all(&analysis.backward.decomposition.measured)?,
        uncounted: [None, None],
    })
}

/// The counters of one network from the paths of `--counters`.
pub(crate) fn recorded(
    paths: &[PathBuf],
    config: Config,
    strictness: Strictness,
    console: Console,
) -> Result<Source, Failure> {
    let (analysis, origin) = match paths {
        [run] if run.is_dir() => {
            let run_analysis = of_run(run, strictness, console)?;
            let origin = run_origin(run, &run_analysis);
            (one_of_run(run, run_analysis, config)?, origin)
        }
        [file] => (of_file(file, config, strictness, console)?, format!("recorded in {}", file.display())),
        [setup, forward, whole] => {
            let analysis = of_stages([setup, forward, whole], config, strictness, console)?;
            (analysis, format!("recorded in {} and the reports before it", whole.display()))
        }
        _ => {
            return Err(Failure::new("--counters expects a run directory, one report, or three reports")
                .exit(Exit::Usage)
                .hint(
                    "pass three reports of the program stopped after setup, after forward, and not stopped",
                ));
        }
    };
    console.warn_all(&analysis.contradictions);
    console.warn_all(&analysis.warnings);
    source(Kind::Recorded, origin, &analysis).map_err(|error| Failure::from_error(&error))
}

/// Analyzes a run directory.
pub(crate) fn of_run(run: &Path, strictness: Strictness, console: Console) -> Result<RunAnalysis, Failure> {
    let what = format!("{}: run directory, analyzed", run.display());
    Ok(console.timed(what, || flopgap_phases::sweep::analyze(run, strictness, |_, _| {}))?)
}

/// A description of a run.
pub(crate) fn run_origin(run: &Path, analysis: &RunAnalysis) -> String {
    let origin = analysis.manifest.as_ref().map(|manifest| describe(&manifest.origin));
    let origin = origin.filter(|text| !text.is_empty()).map(|text| format!(": {text}")).unwrap_or_default();
    format!("recorded in {}{origin}", run.display())
}

fn describe(origin: &Origin) -> String {
    let parts = [&origin.device, &origin.framework, &origin.profiler];
    parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn one_of_run(run: &Path, mut analysis: RunAnalysis, config: Config) -> Result<Analysis, Failure> {
    if let Some(one) = analysis.configs.remove(&config) {
        return Ok(one);
    }
    if let Some(problem) = analysis.problems.iter().find(|problem| problem.config == Some(config)) {
        let exit = if problem.is_refusal() { Exit::Failed } else { Exit::Absent };
        return Err(Failure::of(problem).exit(exit));
    }
    Err(Failure::new(format!("{}: the run does not contain {config}", run.display()))
        .hint(sizes(&analysis))
        .exit(Exit::Absent))
}

/// The networks of a run that can be selected.
pub(crate) fn sizes(analysis: &RunAnalysis) -> String {
    if analysis.configs.is_empty() {
        return "no configuration of the run is complete and readable; `flopgap profile analyze` says why"
            .to_owned();
    }
    let span = |of: fn(&Config) -> u64| {
        let sizes: BTreeSet<u64> = analysis.configs.keys().map(of).collect();
        sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
    };
    format!("its sizes are n {}, d {}, m {}", span(|c| c.n), span(|c| c.d), span(|c| c.m))
}

fn of_file(
    path: &Path,
    config: Config,
    strictness: Strictness,
    console: Console,
) -> Result<Analysis, Failure> {
    if !is_record(path) {
        let recording = load(path, console)?;
        return Phases::by_ranges(&recording)
            .and_then(|phases| analysis(config, &phases, strictness))
            .map_err(|error| failure(&error));
    }
    let what = format!("{}: record of flopgap profile, read", path.display());
    let record = console.timed(what, || Record::read(path)).map_err(|error| record_failure(&error))?;
    if record.config() != config {
        return Err(Failure::new(format!("{}: contains {}, not {config}", path.display(), record.config()))
            .exit(Exit::Absent));
    }
    record.analyze(path, &Classifier::new(), strictness).map_err(|error| record_failure(&error))
}

fn record_failure(error: &RecordError) -> Failure {
    match error {
        RecordError::Phases(error) => failure(error),
        error => Failure::of(error),
    }
}

fn of_stages(
    [setup, forward, whole]: [&Path; 3],
    config: Config,
    strictness: Strictness,
    console: Console,
) -> Result<Analysis, Failure> {
    let read = || Recording::load_setup(setup, &Classifier::new());
    let setup = console.timed(of_ncu(setup), read).map_err(|error| failure(&error))?;
    let (forward, whole) = (load(forward, console)?, load(whole, console)?);
    Phases::by_sequence(&setup, &forward, &whole)
        .and_then(|phases| analysis(config, &phases, strictness))
        .map_err(|error| failure(&error))
}

fn load(path: &Path, console: Console) -> Result<Recording, Failure> {
    let read = || Recording::load(path, &Classifier::new());
    let recording = console.timed(of_ncu(path), read).map_err(|error| failure(&error))?;
    console.warn_all(&recording.warnings);
    Ok(recording)
}

/// A report that is read, in messages.
fn of_ncu(path: &Path) -> String {
    format!("{}: report of Nsight Compute, read", path.display())
}

fn analysis(config: Config, phases: &Phases<'_>, strictness: Strictness) -> Result<Analysis, PhaseError> {
    Analysis::new(config.network()?, phases, strictness)
}

/// Converts an error of recorded counters.
fn failure(error: &PhaseError) -> Failure {
    let failure = Failure::of(error);
    if matches!(error, PhaseError::Contradicted { .. }) {
        return failure.hint("`--force` shows the numbers anyway");
    }
    failure
}

/// Counters of this machine's hardware.
pub(crate) struct Live<'a> {
    meter: Box<dyn Meter + 'a>,
    /// A description.
    pub(crate) origin: String,
    console: Console,
}

impl<'a> Live<'a> {
    pub(crate) fn open(
        backend: &'a dyn Backend,
        device: u32,
        console: Console,
    ) -> Result<Live<'a>, MeterError> {
        let origin = describe(&backend.origin(device)?);
        console.detail(format_args!("counting on device {device}: {origin}"));
        Ok(Live { meter: backend.open(device)?, origin: format!("counted now: {origin}"), console })
    }

    /// Runs a network and counts it.
    pub(crate) fn count(&mut self, config: Config) -> Result<Analysis, Failure> {
        let record = self.measure(config).map_err(|error| live_failure(&error))?;
        live_analysis(LIVE, &record, self.console)
    }

    fn measure(&mut self, config: Config) -> Result<Record, MeterError> {
        let Live { meter, console, .. } = self;
        console.timed(format_args!("{config}: counted"), || meter.measure(config))
    }

    /// The record of a network, and where it comes from.
    pub(crate) fn try_count(mut self, config: Config) -> Result<(Record, String), MeterError> {
        Ok((self.measure(config)?, self.origin))
    }

    /// Like [`Live::count`], but skips a network that cannot be counted, while others may be, with
    /// a warning.
    pub(crate) fn count_or_skip(&mut self, config: Config) -> Result<Option<Analysis>, Failure> {
        match self.measure(config) {
            Ok(record) => live_analysis(&config.to_string(), &record, self.console).map(Some),
            Err(error @ (MeterError::DoesNotFit { .. } | MeterError::Failed { .. })) => {
                self.console.warn(format_args!("{config}: {error}"));
                Ok(None)
            }
            Err(error) => Err(live_failure(&error)),
        }
    }
}

/// The analysis of a record that was counted just now. Its warnings begin with `of`: what counted,
/// or which network if there are several.
pub(crate) fn live_analysis(of: &str, record: &Record, console: Console) -> Result<Analysis, Failure> {
    let analysis = record.analyze(Path::new(of), &Classifier::new(), Strictness::Strict);
    let analysis = analysis.map_err(|error| record_failure(&error))?;
    console.warn_all(warnings(of, &analysis));
    Ok(analysis)
}

/// The warnings of an analysis, each with what it is of.
fn warnings(of: &str, analysis: &Analysis) -> Vec<String> {
    analysis.warnings.iter().map(|warning| format!("{of}: {warning}")).collect()
}

/// Converts an error of requested live counters.
pub(crate) fn live_failure(error: &MeterError) -> Failure {
    let MeterError::Unavailable { what, hint } = error else { return Failure::of(error) };
    let failure = Failure::new(format!("no live counters: {what}")).exit(Exit::Absent);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use flopgap_phases::Phase;
    use flopgap_phases::sweep::Quantity;

    use super::*;

    #[test]
    fn a_warning_says_whose_it_is() {
        let config = Config { n: 1, d: 64, m: 64 };
        let mut record = Record::new(config, &Quantity::FP32);
        // A product of 64 × 64 × 64, of which far more is counted than its size needs.
        for (phase, ffma) in [(Phase::Forward, 9 * 262_144), (Phase::Backward, 262_144)] {
            record.push(phase, "sgemm", [4, 1, 1], [32, 1, 1], &[0, 0, ffma]);
            record.push(phase, "sigmoid", [4, 1, 1], [32, 1, 1], &[4096, 0, 0]);
        }
        for of in [LIVE, NCU, "n1_d64_m64"] {
            let analysis = live_analysis(of, &record, "test".into()).unwrap();
            let warnings = warnings(of, &analysis);
            assert!(warnings[0].starts_with(&format!("{of}: forward: ")), "{warnings:?}");
            assert_eq!(warnings.len(), analysis.warnings.len());
        }
    }
}
