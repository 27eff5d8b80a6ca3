//! Raw counter files to one analysis for each configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use flopgap_flops::{Pass, Plausibility};
use flopgap_kernels::Classifier;
use flopgap_phases::{Analysis, Phases, Recording};
use rayon::prelude::*;

use crate::journal::Journals;
use crate::{Config, Manifest, RawFiles, Record, RunError, Stage, raw};

/// What is wrong with one configuration or one file of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The configuration, where it is known.
    pub config: Option<Config>,
    /// What is wrong, with the file and the place.
    pub message: String,
    /// What to do about it, where there is something.
    pub hint: Option<&'static str>,
}

/// In one line, with the configuration; the hint on a line of its own.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(config) = self.config {
            write!(f, "{config}: ")?;
        }
        f.write_str(&self.message)?;
        match self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// A run directory as [`analyze`] found it.
#[derive(Debug)]
pub struct RunAnalysis {
    /// The manifest, if the run has one.
    pub manifest: Option<Manifest>,
    /// The analysis of each configuration that is complete.
    pub configs: BTreeMap<Config, Analysis>,
    /// The configurations that are incomplete or damaged, and files that were passed over.
    pub problems: Vec<Problem>,
    /// What is questionable about configurations that were analysed all the same.
    pub warnings: Vec<Problem>,
}

/// Analyses every configuration of a run directory, on all cores. `progress` is called with the number of
/// configurations that are done and the number of all, from several threads.
///
/// A configuration that lacks a file or cannot be read becomes a [`Problem`]; the others are not affected.
///
/// # Errors
/// When the directory is not a run, its manifest is damaged or newer, or no configuration is complete.
pub fn analyze(run: &Path, progress: impl Fn(usize, usize) + Sync) -> Result<RunAnalysis, RunError> {
    fs::metadata(run).map_err(|source| RunError::Io { path: run.to_owned(), source })?;
    let manifest = Manifest::read(run)?;
    let raw = run.join("raw");
    if !raw.is_dir() {
        return Err(RunError::NotARun { path: run.to_owned() });
    }
    let files = RawFiles::list(&raw).map_err(|source| RunError::Io { path: raw.clone(), source })?;

    let mut stages = files.configs;
    if let Some(manifest) = &manifest {
        for config in manifest.plan() {
            stages.entry(config).or_default(); // what was planned but has no file is reported as incomplete
        }
    }
    let journals = Journals::read(run)?;
    let warnings = journals.damaged.iter().map(|(path, line)| Problem {
        config: None,
        message: format!("{}:{line}: the line is damaged and ignored", path.display()),
        hint: None,
    });
    let warnings = warnings.collect();
    let work: Vec<(Config, BTreeMap<Stage, PathBuf>)> = stages.into_iter().collect();
    let classifier = Classifier::new();
    let done = AtomicUsize::new(0);
    let results: Vec<Outcome> = work
        .par_iter()
        .map(|(config, stages)| {
            let outcome = analyze_config(&classifier, *config, stages);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, work.len());
            outcome
        })
        .collect();

    let mut analysis = RunAnalysis { manifest, configs: BTreeMap::new(), problems: Vec::new(), warnings };
    for ((config, stages), result) in work.iter().zip(results) {
        let problem = |message, hint| Problem { config: Some(*config), message, hint };
        match result {
            Ok((one, warnings)) => {
                let all = warnings.into_iter().chain(one.warnings.iter().cloned());
                analysis.warnings.extend(all.map(|message| problem(message, None)));
                analysis.configs.insert(*config, one);
            }
            Err(_) if stages.is_empty() && journals.any => {
                let reason = journals.gaps.get(config).cloned();
                let reason = reason.unwrap_or_else(|| "not measured yet".to_owned());
                analysis
                    .problems
                    .push(problem(reason, Some("`hyper-profile resume` measures what is missing")));
            }
            Err(failure) => analysis.problems.push(problem(failure.message, failure.hint)),
        }
    }
    analysis.problems.extend(files.ignored.into_iter().map(|(path, reason)| Problem {
        config: None,
        message: format!("{}: passed over: {reason}", path.display()),
        hint: None,
    }));
    Ok(analysis)
}

/// Why one configuration has no analysis.
struct Failure {
    message: String,
    hint: Option<&'static str>,
}

impl From<flopgap_phases::PhaseError> for Failure {
    fn from(error: flopgap_phases::PhaseError) -> Self {
        Failure { message: error.to_string(), hint: error.hint() }
    }
}

type Outcome = Result<(Analysis, Vec<String>), Failure>;

fn analyze_config(classifier: &Classifier, config: Config, stages: &BTreeMap<Stage, PathBuf>) -> Outcome {
    let network = config.network().map_err(|error| Failure { message: error.to_string(), hint: None })?;
    if let Some(path) = stages.get(&Stage::Whole).filter(|path| raw::is_record(path)) {
        let failure = |error: &dyn fmt::Display| Failure { message: error.to_string(), hint: None };
        let record = Record::read(path).map_err(|error| Failure {
            hint: Some("`hyper-profile resume` measures it again"),
            ..failure(&error)
        })?;
        let recording = record.recording(path, classifier).map_err(|error| failure(&error))?;
        let mut analysis = Analysis::of(network, &Phases::by_ranges(&recording)?)?;
        // A record is complete and names the sizes that ran: what is far above theory is padding, and the table shows it.
        for (pass, part) in [(Pass::Forward, &analysis.forward), (Pass::Backward, &analysis.backward)] {
            if let verdict @ Plausibility::FarAbove { .. } = &part.plausibility {
                let question = format!("{pass}: {verdict}");
                analysis.warnings.retain(|warning| *warning != question);
            }
        }
        return Ok((analysis, Vec::new()));
    }
    if let Some(path) = stages.get(&Stage::Whole) {
        let recording = Recording::load(path, classifier)?;
        let analysis = Analysis::of(network, &Phases::by_ranges(&recording)?)?;
        return Ok((analysis, recording.warnings));
    }
    let needed = [Stage::Setup, Stage::Forward, Stage::ForwardBackward];
    let missing: Vec<_> =
        needed.iter().filter(|stage| !stages.contains_key(stage)).map(|stage| stage.name()).collect();
    if !missing.is_empty() {
        let message = format!("incomplete: no raw file for {}", missing.join(", "));
        return Err(Failure { message, hint: None });
    }
    let setup = Recording::load_setup(&stages[&Stage::Setup], classifier)?;
    let forward = Recording::load(&stages[&Stage::Forward], classifier)?;
    let forward_backward = Recording::load(&stages[&Stage::ForwardBackward], classifier)?;
    let analysis = Analysis::of(network, &Phases::by_sequence(&setup, &forward, &forward_backward)?)?;
    let warnings = [setup, forward, forward_backward].into_iter().flat_map(|recording| recording.warnings);
    Ok((analysis, warnings.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quantity;
    use flopgap_phases::Phase;

    /// What a record of n=1 d=128 m=16 with these multiply-adds in its forward product is warned of.
    fn warnings(forward: u64) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { n: 1, d: 128, m: 16 };
        let mut record = Record::new(config, &Quantity::FP32);
        for (phase, ffma) in [(Phase::Forward, forward), (Phase::Backward, 128 * 128 * 16)] {
            record.push(phase, "sgemm", [1; 3], [128, 1, 1], &[0, 0, ffma]);
            record.push(phase, "sigmoid_forward", [1; 3], [128, 1, 1], &[2048, 0, 0]);
        }
        fs::create_dir(dir.path().join("raw")).unwrap();
        record.write(&dir.path().join("raw").join(record.file_name())).unwrap();
        let analysis = analyze(dir.path(), |_, _| {}).unwrap();
        analysis.warnings.into_iter().map(|warning| warning.message).collect()
    }

    #[test]
    fn padding_of_a_record_is_no_question_and_missing_work_is() {
        assert_eq!(warnings(9 * 128 * 128 * 16), Vec::<String>::new());
        let below = warnings(128 * 128 * 16 - 1);
        assert!(below.len() == 1 && below[0].contains("the stated network needs"), "{below:?}");
    }
}
