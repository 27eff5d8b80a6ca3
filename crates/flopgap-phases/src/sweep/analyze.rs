//! Analyzes the raw counter files of each configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Analysis, PassAnalysis, PhaseError, Phases, Recording, Strictness, Warning};
use flopgap_flops::ClassFlops;
use flopgap_kernels::Classifier;
use rayon::prelude::*;

use crate::sweep::{
    Config, Manifest, Problem, ProblemKind, RawFiles, Record, RunError, RunFault, Stage, is_record,
};

/// Why a file is skipped whose contents another one has.
const SECOND: &str = "another file has the same configuration, phase and contents";

/// The result of [`analyze`] on a run directory.
#[derive(Debug)]
pub struct RunAnalysis {
    /// The manifest, if the run has one.
    pub manifest: Option<Manifest>,
    /// The analysis of each configuration that is complete.
    pub configs: BTreeMap<Config, Analysis>,
    /// The configurations that are incomplete or damaged, and files that were skipped.
    pub problems: Vec<Problem>,
    /// What is questionable about configurations that were analyzed anyway.
    pub warnings: Vec<Problem>,
    /// The launches in records of the analyzed configurations.
    pub launches: Launches,
}

/// Launches in records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Launches {
    /// All of them.
    pub all: u64,
    /// Those with the counts of an equal launch: see [`Record::taken_over`].
    pub taken_over: u64,
}

impl RunAnalysis {
    /// Every configuration that the manifest or a raw file names: those with an analysis, and
    /// those without, each of which has a [`Problem`].
    pub fn requested(&self) -> BTreeSet<Config> {
        let without = self.problems.iter().filter_map(|problem| problem.config);
        self.configs.keys().copied().chain(without).collect()
    }

    /// How many configurations were refused: what was recorded of them is damaged, or contradicts
    /// them.
    pub fn refused(&self) -> usize {
        self.problems.iter().filter(|problem| problem.is_refusal()).count()
    }

    /// Refuses the analysis of `run` where no configuration is complete.
    ///
    /// # Errors
    /// [`RunFault::NoConfigurations`] or [`RunFault::NothingComplete`].
    pub fn require_complete(&self, run: &Path) -> Result<(), RunError> {
        if !self.configs.is_empty() {
            return Ok(());
        }
        let fault = match self.problems.iter().filter(|problem| problem.config.is_some()).count() {
            0 => RunFault::NoConfigurations,
            configs => RunFault::NothingComplete { configs },
        };
        Err(fault.at(run))
    }
}

/// Analyzes every configuration of a run directory, on all cores. `progress` is called with the
/// number of configurations that are done and the number of all, from several threads.
///
/// A configuration that lacks a file, cannot be read, or whose recording is not one of a complete
/// step of it (launches are missing, counts are below theory) becomes a [`Problem`]; the others
/// are not affected. [`Strictness::Forced`] also takes configurations whose recordings cannot be
/// theirs, each with a warning.
///
/// # Errors
/// When the directory is not a run, or its manifest is damaged or of another version. A
/// run without a complete configuration is not an error here, but is one to
/// [`RunAnalysis::require_complete`].
pub fn analyze(
    run: &Path,
    strictness: Strictness,
    progress: impl Fn(usize, usize) + Sync,
) -> Result<RunAnalysis, RunError> {
    let metadata = fs::metadata(run).map_err(RunFault::io(run))?;
    let manifest = if metadata.is_dir() { Manifest::read(run)? } else { None }; // before `raw`, whose place a newer version may change
    let raw = run.join("raw");
    if !is_directory(&raw).map_err(RunFault::io(&raw))? {
        return Err(RunFault::NotARun.at(run));
    }
    let files = RawFiles::list(&raw).map_err(RunFault::io(&raw))?;

    let mut stages = files.configs;
    if let Some(manifest) = &manifest {
        for config in manifest.plan() {
            stages.entry(config).or_default(); // what was planned but has no file is reported as incomplete
        }
    }
    let seconds = |config: &Config| files.seconds.get(config).map_or(&[][..], Vec::as_slice);
    let work: Vec<(Config, BTreeMap<Stage, PathBuf>)> = stages.into_iter().collect();
    let classifier = Classifier::new();
    let done = AtomicUsize::new(0);
    let results: Vec<Outcome> = work
        .par_iter()
        .map(|(config, stages)| {
            let outcome = rivals(&classifier, *config, stages, seconds(config))
                .and_then(|()| analyze_config(&classifier, *config, stages, strictness));
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, work.len());
            outcome
        })
        .collect();

    // What this program records has no raw files by hand.
    let recorded_here = manifest.as_ref().is_some_and(|manifest| manifest.backend.is_some());
    let mut analysis = RunAnalysis {
        manifest,
        configs: BTreeMap::new(),
        problems: Vec::new(),
        warnings: Vec::new(),
        launches: Launches::default(),
    };
    for ((config, stages), result) in work.iter().zip(results) {
        let problem = |kind| Problem::from((*config, kind));
        match result {
            Ok(Analyzed { analysis: one, warnings: of_reports, launches }) => {
                analysis.launches.all += launches.all;
                analysis.launches.taken_over += launches.taken_over;
                let forced = one.contradictions.iter().cloned().map(ProblemKind::Forced);
                let own = one.warnings.iter().cloned().map(ProblemKind::Questionable);
                let of_reports = of_reports.into_iter().map(ProblemKind::Questionable);
                analysis.warnings.extend(of_reports.chain(forced).chain(own).map(problem));
                analysis.configs.insert(*config, one);
            }
            Err(_) if stages.is_empty() && recorded_here => {
                analysis.problems.push(problem(ProblemKind::NotMeasured));
            }
            Err(kind) => analysis.problems.push(problem(kind)),
        }
    }
    let complete = files.seconds.iter().filter(|(config, _)| analysis.configs.contains_key(config));
    let same = complete.flat_map(|(_, seconds)| seconds).map(|(_, path)| (path.clone(), SECOND));
    let ignored = files.ignored.iter().cloned().chain(same);
    let ignored = ignored.map(|(path, reason)| ProblemKind::Ignored { path, reason });
    analysis.problems.extend(ignored.map(|kind| Problem { config: None, kind, alike: None }));
    Ok(analysis)
}

fn is_directory(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(false)
        }
        metadata => Ok(metadata?.is_dir()),
    }
}

/// A configuration that was analyzed.
struct Analyzed {
    analysis: Analysis,
    /// The warnings of its reports.
    warnings: Vec<Warning>,
    launches: Launches,
}

/// The analysis, or the reason for its absence.
type Outcome = Result<Analyzed, ProblemKind>;

/// Refuses a configuration of which two files differ: which of them is right cannot be known.
fn rivals(
    classifier: &Classifier,
    config: Config,
    stages: &BTreeMap<Stage, PathBuf>,
    seconds: &[(Stage, PathBuf)],
) -> Result<(), ProblemKind> {
    for (stage, second) in seconds {
        let Some(first) = stages.get(stage) else { continue };
        if let Some(difference) = files_difference(classifier, first, second)? {
            let (first, second) = (first.clone(), second.clone());
            return Err(ProblemKind::Rivals { first, second, difference });
        }
    }
    let Some(first) = stages.get(&Stage::Whole).filter(|_| stages.len() > 1) else { return Ok(()) };
    // Reports of the stages stand next to a file of all: both must say the same.
    let apart: BTreeMap<Stage, PathBuf> =
        stages.iter().filter(|(stage, _)| **stage != Stage::Whole).map(|(a, b)| (*a, b.clone())).collect();
    let whole = analyze_config(classifier, config, stages, Strictness::Forced)?.analysis;
    let parts = match analyze_config(classifier, config, &apart, Strictness::Forced) {
        // Without all stages there is nothing to compare.
        Err(ProblemKind::Incomplete { .. }) => return Ok(()),
        parts => parts?.analysis,
    };
    for (one, other) in [(&whole.forward, &parts.forward), (&whole.backward, &parts.backward)] {
        let counts = |part: &PassAnalysis| {
            let ClassFlops { gemm, split_k, activation, other } = part.decomposition.measured;
            let pass = part.decomposition.pass;
            format!("{pass} {gemm} GEMM, {split_k} split-K, {activation} activation and {other} other FLOPs")
        };
        let [first_counts, second_counts] = [one, other].map(counts);
        if first_counts != second_counts {
            let difference = format!("{first_counts}, and {second_counts}");
            let second = apart.into_values().next_back().unwrap_or_default();
            return Err(ProblemKind::Rivals { first: first.clone(), second, difference });
        }
    }
    Ok(())
}

/// The difference of two files of one stage, as far as an analysis reads them.
fn files_difference(
    classifier: &Classifier,
    first: &Path,
    second: &Path,
) -> Result<Option<String>, ProblemKind> {
    match (is_record(first), is_record(second)) {
        (true, true) => Ok(Record::read(first)?.compare(&Record::read(second)?).difference),
        (false, false) => {
            let [first, second] = [first, second].map(|path| Recording::load_setup(path, classifier));
            Ok(first?.difference(&second?))
        }
        _ => Ok(Some("one is a record, the other a report of Nsight Compute".to_owned())),
    }
}

fn analyze_config(
    classifier: &Classifier,
    config: Config,
    stages: &BTreeMap<Stage, PathBuf>,
    strictness: Strictness,
) -> Outcome {
    let network = config.network().map_err(PhaseError::from)?;
    if let Some(path) = stages.get(&Stage::Whole).filter(|path| is_record(path)) {
        let record = Record::read(path)?;
        let launches = Launches { all: record.launches().len() as u64, taken_over: record.taken_over() };
        let analysis = record.analyze(path, classifier, strictness)?;
        return Ok(Analyzed { analysis, warnings: Vec::new(), launches });
    }
    if let Some(path) = stages.get(&Stage::Whole) {
        let recording = Recording::load(path, classifier)?;
        let analysis = Analysis::new(network, &Phases::by_ranges(&recording)?, strictness)?;
        return Ok(Analyzed { analysis, warnings: recording.warnings, launches: Launches::default() });
    }
    let needed = [Stage::Setup, Stage::Forward, Stage::ForwardBackward];
    let missing: Vec<Stage> = needed.into_iter().filter(|stage| !stages.contains_key(stage)).collect();
    if !missing.is_empty() {
        return Err(ProblemKind::Incomplete { missing });
    }
    let setup = Recording::load_setup(&stages[&Stage::Setup], classifier)?;
    let forward = Recording::load(&stages[&Stage::Forward], classifier)?;
    let forward_backward = Recording::load(&stages[&Stage::ForwardBackward], classifier)?;
    let phases = Phases::by_sequence(&setup, &forward, &forward_backward)?;
    let analysis = Analysis::new(network, &phases, strictness)?;
    let warnings = [setup, forward, forward_backward].into_iter().flat_map(|recording| recording.warnings);
    Ok(Analyzed { analysis, warnings: warnings.collect(), launches: Launches::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Quantity;
    use crate::{Cause, Contradiction, Phase, Share};

    /// The record of n=1 d=128 m=16 with these multiply-adds in its forward product, analyzed.
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
        analyze(dir.path(), strictness, |_, _| {}).unwrap()
    }

    /// As by every other program that analyzes recordings: what no tile explains is questioned, up
    /// to what the largest tiles could be, and refused beyond.
    #[test]
    fn far_more_work_than_theory_is_questioned_and_missing_work_is_a_problem() {
        let padded = analyzed(9 * 128 * 128 * 16, Strictness::Strict);
        let warnings: Vec<String> = padded.warnings.iter().map(ToString::to_string).collect();
        assert_eq!((padded.configs.len(), padded.problems.len(), warnings.len()), (1, 0, 1), "{warnings:?}");
        let message = padded.warnings[0].to_string();
        assert!(message.contains("more than 8 times the 524288"), "{message}");
        let beyond = analyzed(32 * 1000 * 128 * 128 * 16, Strictness::Strict);
        assert_eq!((beyond.configs.len(), beyond.problems.len()), (0, 1));
        let message = beyond.problems[0].to_string();
        assert!(message.contains("more than padding to whole tiles can explain"), "{message}");
        let below = 128 * 128 * 16 / 2;
        let refused = analyzed(below, Strictness::Strict);
        assert_eq!((refused.configs.len(), refused.problems.len()), (0, 1));
        let message = refused.problems[0].to_string();
        assert!(
            message.starts_with("n1_d128_m16: ") && message.contains("the stated network needs"),
            "{message}"
        );
        let forced = analyzed(below, Strictness::Forced);
        // The sums, and sizes that they would fit.
        assert_eq!((forced.configs.len(), forced.problems.len(), forced.warnings.len()), (1, 0, 2));
    }

    /// The smallest shapes that cuBLAS computes: matrices of one element, one column, sizes that
    /// no tile divides. Each is a whole step.
    #[test]
    fn networks_of_any_shape_are_whole() {
        let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/h200-small");
        let analysis = analyze(&run, Strictness::Strict, |_, _| {}).unwrap();
        assert_eq!((analysis.configs.len(), analysis.problems.len()), (7, 0));
    }

    /// Where the same kernel computes the next number of columns, its work grows with the tiles
    /// that its grid shows, and nowhere else.
    #[test]
    fn the_work_of_products_grows_where_another_tile_is_needed() {
        let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/h200-default");
        let analysis = analyze(&run, Strictness::Strict, |_, _| {}).unwrap();
        let products = |one: &Analysis| {
            let kernels = one.forward.kernels.iter().filter(|kernel| kernel.share == Share::Gemm);
            kernels.map(|kernel| (kernel.kernel.clone(), kernel.launches)).collect::<Vec<_>>()
        };
        let (mut same, mut steps, mut wrong) = (0, 0, Vec::new());
        for (config, one) in &analysis.configs {
            let next = Config { m: config.m + 16, ..*config };
            let Some(other) = analysis.configs.get(&next) else { continue };
            if products(one) != products(other) {
                continue;
            }
            let [few, more] = [one, other].map(|one| one.forward.decomposition.measured.gemm as f64);
            let step = one.forward.needs_another_tile(config.m, next.m);
            same += 1;
            steps += usize::from(step);
            // Less is in the epilogues of other slices.
            if step != (more > 1.05 * few) {
                wrong.push(format!("{config}: {step} {few} {more}"));
            }
        }
        assert_eq!(wrong, [] as [String; 0]);
        assert_eq!((same, steps), (890, 165));
    }

    /// A run whose directory has these files, each a copy of what stands next to it.
    fn run_of(files: &[(&str, &Path)]) -> RunAnalysis {
        let dir = tempfile::tempdir().unwrap();
        let raw = dir.path().join("raw");
        fs::create_dir(&raw).unwrap();
        for (name, source) in files {
            fs::copy(source, raw.join(name)).unwrap();
        }
        analyze(dir.path(), Strictness::Strict, |_, _| {}).unwrap()
    }

    /// Two records of one configuration: what they have in common counts once, and where they
    /// differ, neither is taken.
    #[test]
    fn records_of_one_configuration_that_differ_are_refused() {
        let packed = flopgap_testing::fixture("runs/h200-default/raw/n2_d128_m16.counts.json.zst");
        let dir = tempfile::tempdir().unwrap();
        let json = flopgap_testing::unpacked_text(&packed);
        let plain = dir.path().join("plain");
        let of = |json: &str| {
            fs::write(&plain, json).unwrap();
            run_of(&[("n2_d128_m16.counts.json", &plain), ("n2_d128_m16.counts.json.zst", &packed)])
        };
        let equal = of(&json);
        assert_eq!((equal.configs.len(), equal.problems.len(), equal.refused()), (1, 1, 0));
        assert!(equal.problems[0].to_string().ends_with("same configuration, phase and contents"));
        let other = json.replacen("14336", "14337", 1);
        assert_ne!(other, json);
        let differ = of(&other);
        assert_eq!((differ.configs.len(), differ.problems.len(), differ.refused()), (0, 1, 1));
        let message = differ.problems[0].to_string();
        assert!(message.contains("differ: launch ") && message.contains("ffma 14337 and 14336"), "{message}");
    }

    /// Reports, too: a setup in two files, and a report of the whole program next to its stages.
    #[test]
    fn reports_of_one_configuration_that_differ_are_refused() {
        let stage = |m: u64, stage: &str| {
            flopgap_testing::fixture(format!("runs/h200-pytorch/raw/n4_d512_m{m}_{stage}.csv.zst"))
        };
        let [setup, forward, both] = ["setup", "forward", "forward_backward"].map(|name| stage(64, name));
        let (_dir, [plain]) = flopgap_testing::paths(["plain"]);
        flopgap_testing::unpack(stage(256, "setup"), &plain);
        let stages = [
            ("n4_d512_m64_setup.csv.zst", setup.as_path()),
            ("n4_d512_m64_forward.csv.zst", &forward),
            ("n4_d512_m64_forward_backward.csv.zst", &both),
        ];
        let analysis = run_of(&[&stages[..], &[("n4_d512_m64_setup.csv", &plain)]].concat());
        assert_eq!((analysis.configs.len(), analysis.refused()), (0, 1));
        assert!(
            analysis.problems[0].to_string().contains("differ: launch 4 is "),
            "{}",
            analysis.problems[0]
        );

        let whole = flopgap_testing::fixture("ncu/phases_nvtx.ncu-rep.zst");
        let analysis = run_of(&[&stages[..], &[("n4_d512_m64.ncu-rep.zst", &whole)]].concat());
        assert_eq!((analysis.configs.len(), analysis.problems.len()), (1, 0));
        let mut others = stages;
        for (place, name) in others.iter_mut().zip(["setup", "forward", "forward_backward"]) {
            let source = stage(256, name);
            place.1 = Box::leak(source.into_boxed_path());
        }
        let analysis = run_of(&[&others[..], &[("n4_d512_m64.ncu-rep.zst", &whole)]].concat());
        assert_eq!((analysis.configs.len(), analysis.refused()), (0, 1));
        assert!(analysis.problems[0].to_string().contains(" GEMM, "), "{}", analysis.problems[0]);
    }

    /// Each record of the default grid, as one with other sizes whose names it could have.
    #[test]
    fn sizes_that_a_record_does_not_have_are_refused() {
        let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/h200-default/raw");
        let classifier = Classifier::new();
        let (mut tried, mut refused, mut named) = (0, 0, 0);
        for config in RawFiles::list(&run).unwrap().configs.into_keys().step_by(7) {
            let Config { n, d, m } = config;
            let record = Record::read(&run.join(crate::sweep::record::file_name(config))).unwrap();
            let recording = record.recording(Path::new("record"), &classifier).unwrap();
            let phases = Phases::by_ranges(&recording).unwrap();
            let contradictions = |d, m| {
                let network = Config { n, d, m }.network().unwrap();
                Analysis::new(network, &phases, Strictness::Forced).unwrap().contradictions
            };
            assert_eq!(contradictions(d, m), [], "{config}");
            let others = [(d, m + 1), (d - 1, m), (d, m / 2), (d / 2, m), (d / 2, 2 * m), (d - 7, m + 3)];
            for (other_d, other_m) in others {
                tried += 1;
                let found = contradictions(other_d, other_m);
                refused += usize::from(!found.is_empty());
                let Some(Contradiction::OtherSizes { fits, .. }) = found.first() else { continue };
                assert!(
                    fits.is_empty() || fits.contains(&(d, m)),
                    "{config} as {other_d} {other_m}: {fits:?}"
                );
                named += usize::from(fits.len() == 1);
            }
        }
        // Padding hides five networks of half the width and twice the columns.
        assert_eq!((tried, refused, named), (1098, 1093, 797));
    }

    /// The total is what was counted, the reconstruction what the overheads give: each keeps to
    /// its own source.
    #[test]
    fn a_broken_reconstruction_changes_no_total() {
        let analysis = analyzed(128 * 128 * 16, Strictness::Strict);
        let (&config, one) = analysis.configs.iter().next().unwrap();
        let mut broken = one.clone();
        broken.forward.decomposition.reconstructed -= 7;
        let [whole, wrong] =
            [one, &broken].map(|one| crate::sweep::MetricsRow::of(config, one).unwrap()[0].clone());
        assert_eq!(whole.total, whole.gemm + whole.split_k + whole.activation + whole.other);
        assert_eq!((wrong.total, whole.reconstructed), (whole.total, whole.total));
        assert_eq!(wrong.reconstructed, whole.total - 7);
    }

    /// The record says: two products of a 128x64 tile in four slices, each 2·2,097,152 + 65,536;
    /// two reductions of 8,192 + 2,048; two sigmoids of 4,096 + 2·14,336.
    #[test]
    fn a_recorded_network_kernel_by_kernel() {
        let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/h200-default");
        let analysis = analyze(&run, Strictness::Strict, |_, _| {}).unwrap();
        let forward = &analysis.configs[&Config { n: 2, d: 128, m: 16 }].forward;
        let breakdown = forward.breakdown().unwrap();
        let line = |step: &crate::Step| {
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

    /// The kernels of every pass of both recorded runs add up to the pass.
    #[test]
    fn breakdowns_of_recorded_runs_sum_to_the_counted_total() {
        for (run, passes) in [("h200-default", 2560), ("h200-pytorch", 72)] {
            let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(run);
            let analysis = analyze(&run, Strictness::Strict, |_, _| {}).unwrap();
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
