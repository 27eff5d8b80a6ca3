//! Raw counter files to one analysis for each configuration.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use flopgap_flops::{Pass, Plausibility};
use flopgap_kernels::Classifier;
use flopgap_phases::{Analysis, Phases, Recording, Strictness};
use rayon::prelude::*;

use crate::journal::Journals;
use crate::{Config, Manifest, RawFiles, Record, RecordError, RunError, Stage, is_record};

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

impl Problem {
    /// The problems with those in one that several configurations share word for word: of an interrupted run, there may be a thousand.
    pub fn summarised<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> Vec<Problem> {
        let mut groups: Vec<Vec<&Problem>> = Vec::new();
        let mut places = HashMap::new();
        for problem in problems {
            let place = *places.entry((problem.config.is_some(), &problem.message)).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.push(problem),
                None => groups.push(vec![problem]),
            }
        }
        let one = |group: Vec<&Problem>| match group[..] {
            [Problem { config: Some(first), message, hint }, .., Problem { config: Some(last), .. }] => {
                let message = format!("{} configurations, {first} to {last}: {message}", group.len());
                Problem { config: None, message, hint: *hint }
            }
            [problem, ..] => problem.clone(),
            [] => unreachable!("a group begins with a problem"),
        };
        groups.into_iter().map(one).collect()
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

impl RunAnalysis {
    /// Every configuration that was asked for, by the manifest or by a raw file: those with an analysis, and those without, each
    /// of which has a [`Problem`].
    pub fn asked_for(&self) -> BTreeSet<Config> {
        let without = self.problems.iter().filter_map(|problem| problem.config);
        self.configs.keys().copied().chain(without).collect()
    }

    /// Refuses the analysis of `run` where no configuration is complete.
    ///
    /// # Errors
    /// [`RunError::NoConfigurations`] or [`RunError::NothingComplete`].
    pub fn require_complete(&self, run: &Path) -> Result<(), RunError> {
        if !self.configs.is_empty() {
            return Ok(());
        }
        let path = run.to_owned();
        Err(match self.problems.iter().filter(|problem| problem.config.is_some()).count() {
            0 => RunError::NoConfigurations { path },
            configs => RunError::NothingComplete { path, configs },
        })
    }
}

/// Analyses every configuration of a run directory, on all cores. `progress` is called with the number of
/// configurations that are done and the number of all, from several threads.
///
/// A configuration that lacks a file, cannot be read, or whose recording is not one of a complete step of it (launches are missing,
/// counts are below theory) becomes a [`Problem`]; the others are not affected.
///
/// # Errors
/// When the directory is not a run, or its manifest or a journal is damaged or newer. A run without a complete configuration is no
/// error here, but is one to [`RunAnalysis::require_complete`].
pub fn analyze(run: &Path, progress: impl Fn(usize, usize) + Sync) -> Result<RunAnalysis, RunError> {
    analyze_with(run, Strictness::Strict, progress)
}

/// Like [`analyze`]; [`Strictness::Forced`] also takes configurations whose recordings cannot be theirs, each with a warning.
///
/// # Errors
/// As [`analyze`].
pub fn analyze_with(
    run: &Path,
    strictness: Strictness,
    progress: impl Fn(usize, usize) + Sync,
) -> Result<RunAnalysis, RunError> {
    let metadata = fs::metadata(run).map_err(|source| RunError::Io { path: run.to_owned(), source })?;
    let not_a_run = || RunError::NotARun { path: run.to_owned() };
    if !metadata.is_dir() {
        return Err(not_a_run());
    }
    let manifest = Manifest::read(run)?; // before `raw`, whose place a newer version may change
    let raw = run.join("raw");
    match fs::metadata(&raw) {
        Ok(metadata) if metadata.is_dir() => {}
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            return Err(RunError::Io { path: raw, source });
        }
        _ => return Err(not_a_run()),
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
            let outcome = analyze_config(&classifier, *config, stages, strictness);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, work.len());
            outcome
        })
        .collect();

    // What this program records has no raw files by hand, whether or not its journals are still there.
    let recorded_here = journals.any || manifest.as_ref().is_some_and(|manifest| manifest.backend.is_some());
    let mut analysis = RunAnalysis { manifest, configs: BTreeMap::new(), problems: Vec::new(), warnings };
    for ((config, stages), result) in work.iter().zip(results) {
        let problem = |message, hint| Problem { config: Some(*config), message, hint };
        match result {
            Ok((one, warnings)) => {
                let all = warnings.into_iter().chain(one.contradictions.iter().chain(&one.warnings).cloned());
                analysis.warnings.extend(all.map(|message| problem(message, None)));
                analysis.configs.insert(*config, one);
            }
            Err(_) if stages.is_empty() && recorded_here => {
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

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        Failure { message: error.to_string(), hint: error.hint() }
    }
}

type Outcome = Result<(Analysis, Vec<String>), Failure>;

fn analyze_config(
    classifier: &Classifier,
    config: Config,
    stages: &BTreeMap<Stage, PathBuf>,
    strictness: Strictness,
) -> Outcome {
    let network = config.network().map_err(|error| Failure { message: error.to_string(), hint: None })?;
    if let Some(path) = stages.get(&Stage::Whole).filter(|path| is_record(path)) {
        let mut analysis = Record::read(path)?.analyze(path, classifier, strictness)?;
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
        let analysis = Analysis::with(network, &Phases::by_ranges(&recording)?, strictness)?;
        return Ok((analysis, recording.warnings));
    }
    let needed = [Stage::Setup, Stage::Forward, Stage::ForwardBackward];
    let missing: Vec<_> =
        needed.iter().filter(|stage| !stages.contains_key(stage)).map(|stage| stage.name()).collect();
    if !missing.is_empty() {
        let message = format!("incomplete: no raw file for {}", missing.join(", "));
        let hint = "the files of a configuration are named like raw/n2_d256_m16_setup.csv, …_forward.csv and …_forward_backward.csv; \
                    .ncu-rep, .gz and .zst are read, too";
        return Err(Failure { message, hint: Some(hint) });
    }
    let setup = Recording::load_setup(&stages[&Stage::Setup], classifier)?;
    let forward = Recording::load(&stages[&Stage::Forward], classifier)?;
    let forward_backward = Recording::load(&stages[&Stage::ForwardBackward], classifier)?;
    let phases = Phases::by_sequence(&setup, &forward, &forward_backward)?;
    let analysis = Analysis::with(network, &phases, strictness)?;
    let warnings = [setup, forward, forward_backward].into_iter().flat_map(|recording| recording.warnings);
    Ok((analysis, warnings.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quantity;
    use flopgap_phases::{Cause, Phase};

    /// The record of n=1 d=128 m=16 with these multiply-adds in its forward product, analysed.
    fn analyzed(forward: u64, strictness: Strictness) -> RunAnalysis {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { n: 1, d: 128, m: 16 };
        let mut record = Record::new(config, &Quantity::FP32);
        for (phase, ffma) in [(Phase::Forward, forward), (Phase::Backward, 128 * 128 * 16)] {
            record.push(phase, "sgemm", [1; 3], [128, 1, 1], &[0, 0, ffma]);
            record.push(phase, "sigmoid_forward", [1; 3], [128, 1, 1], &[2048, 0, 0]);
        }
        fs::create_dir(dir.path().join("raw")).unwrap();
        record.write(&dir.path().join("raw").join(record.file_name())).unwrap();
        analyze_with(dir.path(), strictness, |_, _| {}).unwrap()
    }

    #[test]
    fn padding_of_a_record_is_no_question_and_missing_work_is_a_problem() {
        let padded = analyzed(9 * 128 * 128 * 16, Strictness::Strict);
        assert_eq!((padded.configs.len(), &padded.problems[..], &padded.warnings[..]), (1, &[][..], &[][..]));
        let below = 128 * 128 * 16 / 2;
        let refused = analyzed(below, Strictness::Strict);
        assert_eq!((refused.configs.len(), refused.problems.len()), (0, 1));
        let message = refused.problems[0].to_string();
        assert!(
            message.starts_with("n1_d128_m16: ") && message.contains("the stated network needs"),
            "{message}"
        );
        let forced = analyzed(below, Strictness::Forced);
        assert_eq!((forced.configs.len(), forced.problems.len(), forced.warnings.len()), (1, 0, 1));
    }

    /// The smallest shapes that cuBLAS computes: matrices of one element, one column, sizes that no tile divides. Each is a whole step.
    #[test]
    fn networks_of_any_shape_are_whole() {
        let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/h200-small");
        let analysis = analyze(&run, |_, _| {}).unwrap();
        assert_eq!((analysis.configs.len(), &analysis.problems[..]), (7, &[][..]));
    }

    /// The total is what was counted, the reconstruction what the overheads give: each keeps to its own source.
    #[test]
    fn a_broken_reconstruction_changes_no_total() {
        let analysis = analyzed(128 * 128 * 16, Strictness::Strict);
        let (&config, one) = analysis.configs.iter().next().unwrap();
        let mut broken = one.clone();
        broken.forward.decomposition.reconstructed -= 7;
        let [whole, wrong] = [one, &broken].map(|one| crate::MetricsRow::of(config, one).unwrap()[0].clone());
        assert_eq!(whole.total, whole.gemm + whole.split_k + whole.activation + whole.other);
        assert_eq!((wrong.total, whole.reconstructed), (whole.total, Some(whole.total)));
        assert_eq!(wrong.reconstructed, Some(whole.total - 7));
    }

    /// The record says: two products of a 128x64 tile in four slices, each 2·2,097,152 + 65,536; two reductions of 8,192 + 2,048; two
    /// sigmoids of 4,096 + 2·14,336.
    #[test]
    fn a_recorded_network_kernel_by_kernel() {
        let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/h200-default");
        let analysis = analyze(&run, |_, _| {}).unwrap();
        let forward = &analysis.configs[&Config { n: 2, d: 128, m: 16 }].forward;
        let breakdown = forward.breakdown().unwrap();
        let line = |step: &flopgap_phases::Step| {
            let tile = step.tile.map(|tile| format!(" [{tile}]")).unwrap_or_default();
            let kernel = step.kernel.as_deref().unwrap_or("-");
            format!("{}: {kernel}{tile} {}x {:+}", step.cause.name(), step.launches, step.flops)
        };
        let lines: Vec<String> = breakdown.steps.iter().map(line).collect();
        assert_eq!(
            lines,
            [
                "matrix products in theory: - 0x +1048576",
                "activations in theory: - 0x +4096",
                "padding and epilogue: cutlass_80_simt_sgemm_128x64_8x5_nn_align1 [128x64x8] 2x +7471104",
                "split-K and loss reduction: splitKreduce_kernel 2x +20480",
                "activations beyond theory: sigmoid_forward 2x +61440",
            ]
        );
        assert_eq!(breakdown.total, 8_605_696);
    }

    /// What "which kernels" is answered with adds up, for every pass of both recorded runs.
    #[test]
    fn breakdowns_of_recorded_runs_sum_to_the_counted_total() {
        for (run, passes) in [("h200-default", 2560), ("h200-pytorch", 72)] {
            let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(run);
            let analysis = analyze(&run, |_, _| {}).unwrap();
            let mut seen = 0;
            for (config, one) in &analysis.configs {
                for part in [&one.forward, &one.backward] {
                    let breakdown = part.breakdown().unwrap();
                    let sum: i128 = breakdown.steps.iter().map(|step| step.flops).sum();
                    assert_eq!(sum, i128::from(breakdown.total), "{config}");
                    assert_eq!(breakdown.total, part.decomposition.measured.total().unwrap(), "{config}");
                    // Each launch of a product is attributed to its kernel and tile.
                    let padding = breakdown.steps.iter().filter(|step| step.cause == Cause::Padding);
                    assert!(padding.clone().count() > 0, "{config}");
                    assert!(padding.clone().all(|step| step.tile.is_some() && step.flops >= 0), "{config}");
                    seen += 1;
                }
            }
            assert_eq!(seen, passes);
        }
    }
}
