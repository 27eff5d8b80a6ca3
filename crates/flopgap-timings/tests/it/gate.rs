//! How often a gate is wrong: equal runs that it calls slower, and slower runs that it lets pass.
//!
//! Runs are generated: steps with the scatter of a kind, each with its work on the GPU, written as
//! `torch.profiler` does. All draws are seeded, so that the rates are the same every time.

#![expect(clippy::print_stderr, reason = "rates and names that documents quote")]

use std::fmt::Write as _;
use std::path::Path;

use flopgap_kernels::Classifier;
use flopgap_kineto::{Job, Trace};
use flopgap_timings::diff::{By, Diff, Judged, LEVEL, Measure, Options, Verdict, diff};
use flopgap_timings::{Ranges, Scope, WarmUp};
use flopgap_trace::Recording;

use crate::support::{BY_PROCESS, Recorded};

fn scope(ranges: Ranges) -> Scope {
    Scope { ranges, warm_up: WarmUp::default(), attribution: BY_PROCESS, pool: false }
}

/// How many pairs of runs each rate is of.
const SPLITS: u64 = 200;

/// Draws of a normal distribution.
struct Draws(u64);

impl Draws {
    fn uniform(&mut self) -> f64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Student's distribution with three degrees of freedom, with a standard deviation of 1: heavy
    /// tails.
    fn heavy(&mut self) -> f64 {
        let squares: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
        self.normal() / squares.sqrt()
    }
}

/// What steps scatter by.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Normal,
    Heavy,
    /// Three steps of warming up and one outlier later.
    WarmingUp,
    /// Neighbors are alike: correlation 0.5.
    Alike,
    /// Every time of a step scatters on its own.
    Apart,
}

const KINDS: [Kind; 5] = [Kind::Normal, Kind::Heavy, Kind::WarmingUp, Kind::Alike, Kind::Apart];

/// The lengths of some steps around 1.
fn lengths(kind: Kind, steps: usize, noise: f64, draws: &mut Draws) -> Vec<f64> {
    let mut before = draws.normal();
    let mut all: Vec<f64> = (0..steps)
        .map(|_| {
            let deviation = match kind {
                Kind::Heavy => draws.heavy(),
                Kind::Alike => {
                    before = 0.5 * before + 0.75_f64.sqrt() * draws.normal();
                    before
                }
                _ => draws.normal(),
            };
            (1.0 + noise * deviation).max(0.2)
        })
        .collect();
    if kind == Kind::WarmingUp {
        for (at, factor) in [4.0, 2.5, 1.8].into_iter().enumerate() {
            all[at] *= factor;
        }
        let later = (3..steps).max_by_key(|_| draws.uniform().to_bits());
        all[later.unwrap_or(0)] *= 3.0;
    }
    all
}

/// A run as it is recorded.
#[derive(Clone, Debug, Default)]
struct Run {
    /// How long each step takes, relative to 10 ms.
    steps: Vec<f64>,
    /// The same of the kernels in it.
    kernels: Vec<f64>,
    /// What is between steps, in microseconds.
    between: Vec<f64>,
    /// The rank of its process, of several.
    rank: Option<(u64, u64)>,
    gpu: Option<&'static str>,
}

impl Run {
    fn new(kind: Kind, steps: usize, noise: f64, draws: &mut Draws) -> Run {
        let all = lengths(kind, steps, noise, draws);
        let kernels = if kind == Kind::Apart { lengths(kind, steps, noise, draws) } else { all.clone() };
        let between = (0..steps).map(|_| 500.0 * (1.0 + noise * draws.normal()).max(0.1)).collect();
        Run { steps: all, kernels, between, ..Run::default() }
    }

    fn slower(mut self, factor: f64) -> Run {
        for length in self.steps.iter_mut().chain(&mut self.kernels) {
            *length *= factor;
        }
        self
    }

    /// As `torch.profiler` writes it.
    fn trace(&self) -> Trace {
        let mut events = String::new();
        let (mut start, mut correlation) = (100.0, 0);
        for (number, ((step, kernels), between)) in
            self.steps.iter().zip(&self.kernels).zip(&self.between).enumerate()
        {
            let (wall, busy) = (10_000.0 * step, 10_000.0 * kernels);
            let mut range = |name: &str, from: f64, lasts: f64| {
                let _ = write!(
                    events,
                    r#"{{"ph":"X","cat":"user_annotation","name":"{name}","pid":7,"tid":7,"ts":{from:.3},"dur":{lasts:.3}}},"#
                );
            };
            range(&format!("ProfilerStep#{number}"), start, wall);
            range("forward", start + 1.0, wall * 0.3);
            range("backward", start + 2.0 + wall * 0.3, wall * 0.6);
            for (from, share) in [(0.01, 0.25), (0.32, 0.5)] {
                correlation += 1;
                let call = start + wall * from;
                let _ = write!(
                    events,
                    r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":7,"ts":{call:.3},"dur":3,"args":{{"correlation":{correlation}}}}},
                    {{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":3,"ts":{:.3},"dur":{:.3},"args":{{"device":0,"stream":3,"correlation":{correlation}}}}},"#,
                    call + 5.0,
                    busy * share
                );
            }
            start += wall + between;
        }
        let gpu = self
            .gpu
            .map_or(String::new(), |name| format!(r#""deviceProperties":[{{"id":0,"name":"{name}"}}],"#));
        let rank = self.rank.map_or(String::new(), |(rank, of)| {
            format!(r#""distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":{of}}},"#)
        });
        let json = format!(r#"{{{gpu}{rank}"traceEvents":[{}]}}"#, events.trim_end_matches(','));
        Trace::options().without_shapes(true).read(json.as_bytes(), "run.json").unwrap()
    }

    fn job(&self) -> Job {
        Job::of(vec![self.trace()]).unwrap()
    }
}

fn compared(before: &dyn Recording, after: &dyn Recording) -> Diff {
    let steps = scope(Ranges::Steps);
    diff((before, &steps), (after, &steps), Options::default(), &Classifier::new()).unwrap()
}

fn gate(before: &Run, after: &Run, percent: f64) -> Verdict {
    compared(&before.job(), &after.job()).gate(percent / 100.0, By::Any)
}

/// Of so many pairs of runs, how many the gate calls slower, and how many it cannot judge.
fn rate(splits: u64, percent: f64, mut pair: impl FnMut(&mut Draws) -> [Run; 2]) -> [usize; 2] {
    let mut found = [0; 2];
    for seed in 0..splits {
        let [before, after] = pair(&mut Draws(seed * 7919 + 1));
        let verdict = gate(&before, &after, percent);
        found[0] += usize::from(!verdict.slower.is_empty());
        found[1] += usize::from(verdict.blind);
    }
    found
}

/// The steps of one run, each second one, as two.
fn alternate(run: &Run) -> [Run; 2] {
    [0, 1].map(|first| {
        let half = |all: &[f64]| all.iter().skip(first).step_by(2).copied().collect();
        Run {
            steps: half(&run.steps),
            kernels: half(&run.kernels),
            between: half(&run.between),
            ..run.clone()
        }
    })
}

#[test]
fn equal_runs_are_rarely_called_slower() {
    for kind in KINDS {
        for steps in [8, 20] {
            let two = |draws: &mut Draws| [(); 2].map(|()| Run::new(kind, steps, 0.1, draws));
            let [wrong, blind] = rate(SPLITS, 5.0, two);
            eprintln!("{kind:?}, {steps} steps, 10 %: {wrong} of {SPLITS} called slower, {blind} not judged");
            // That neighbors are alike, few of them do not show.
            let most = if kind == Kind::Alike && steps < 20 { 6 } else { 2 };
            assert!(wrong <= most, "{kind:?}, {steps}: {wrong}");
        }
    }
    let halves = |draws: &mut Draws| alternate(&Run::new(Kind::Heavy, 40, 0.1, draws));
    let [wrong, blind] = rate(SPLITS, 5.0, halves);
    eprintln!("alternate steps of 40, 10 %: {wrong} of {SPLITS} called slower, {blind} not judged");
    assert!(wrong <= 2, "{wrong}");
}

#[test]
fn a_true_slowdown_is_found() {
    for (kind, steps, percent) in [
        (Kind::Normal, 12, 5.0),
        (Kind::Normal, 20, 3.0),
        (Kind::Normal, 20, 5.0),
        (Kind::Heavy, 20, 5.0),
        (Kind::WarmingUp, 20, 5.0),
    ] {
        let slower = |draws: &mut Draws| {
            let [before, after] = [(); 2].map(|()| Run::new(kind, steps, 0.02, draws));
            [before, after.slower(1.05)]
        };
        let [found, _] = rate(SPLITS, percent, slower);
        eprintln!("{kind:?}, {steps} steps, 2 %, gate {percent}: {found} of {SPLITS} found");
        assert!(found >= 190, "{kind:?}, {steps}, {percent}: {found}");
    }
    // One below half of the threshold is none of it, however exactly it is known.
    let little = |draws: &mut Draws| {
        let [before, after] = [(); 2].map(|()| Run::new(Kind::Normal, 40, 0.02, draws));
        [before, after.slower(1.02)]
    };
    assert_eq!(rate(50, 5.0, little)[0], 0);
}

/// What is between steps is in no step, and in their period.
#[test]
fn what_is_added_between_steps_is_seen() {
    let mut draws = Draws(5);
    let [before, mut after] = [(); 2].map(|()| Run::new(Kind::Normal, 20, 0.02, &mut draws));
    for between in &mut after.between {
        *between += 10_000.0;
    }
    let verdict = gate(&before, &after, 5.0);
    let by: Vec<Measure> = verdict.slower.iter().map(|judged| judged.by).collect();
    assert_eq!(by, [Measure::Period]);
    let change = verdict.slower[0].shift.unwrap().change;
    // 10 ms and a half become 20 and a half.
    assert!((change - 10.0 / 10.5).abs() < 0.03, "{change}");
    let found = compared(&before.job(), &after.job());
    assert!(found.gate(0.05, By::Wall).slower.is_empty() && !found.gate(0.05, By::Wall).blind);
    assert_eq!(found.gate(0.05, By::Period).slower.len(), 1);
}

#[test]
fn the_slowest_of_several_ranks_counts() {
    let job = |factors: &[f64], draws: &mut Draws| {
        let ranks = factors.iter().zip(0..).map(|(factor, rank)| {
            let run = Run::new(Kind::Normal, 20, 0.02, draws).slower(*factor);
            Run { rank: Some((rank, factors.len() as u64)), ..run }.trace()
        });
        Job::of(ranks.collect()).unwrap()
    };
    let mut draws = Draws(11);
    let even = job(&[1.0; 4], &mut draws);
    let late = job(&[1.0, 1.0, 1.08, 1.0], &mut draws);
    let found = compared(&even, &late).gate(0.05, By::Busy);
    let scope = |judged: &&Judged| judged.pass.is_none();
    let slow = found.slower.iter().find(scope).unwrap();
    assert_eq!(slow.samples[1].place.unwrap().rank, Some(2), "{slow:?}");
    // That one was slow before, too, and is another one: the job is not slower.
    let other = job(&[1.08, 1.0, 1.0, 1.0], &mut draws);
    assert!(compared(&other, &late).gate(0.05, By::Any).slower.is_empty());
    // As is a job of one, against one of four.
    let alone = job(&[1.0], &mut draws);
    let found = compared(&alone, &late);
    assert!(
        found.unmatched.is_some()
            && found.gate(0.05, By::Wall).slower.iter().any(|judged| judged.pass.is_none())
    );
    assert!(compared(&alone, &even).gate(0.05, By::Any).slower.is_empty());
}

#[test]
fn other_gpus_are_said() {
    let mut draws = Draws(3);
    let run = Run::new(Kind::Normal, 8, 0.02, &mut draws);
    let on = |gpu| Run { gpu, ..run.clone() }.job();
    let (h100, h200) = (on(Some("NVIDIA H100")), on(Some("NVIDIA H200")));
    let found = compared(&h100, &h200);
    assert!(found.other_gpus());
    assert_eq!(found.gpus.concat(), ["NVIDIA H100", "NVIDIA H200"]);
    assert!(!compared(&h100, &h100).other_gpus() && !compared(&h100, &on(None)).other_gpus());
}

#[test]
fn too_little_to_judge_by_is_no_verdict() {
    let mut draws = Draws(9);
    // The first is warming up, so that one is left.
    let two = Run::new(Kind::Normal, 2, 0.02, &mut draws);
    let verdict = gate(&two, &two.clone().slower(3.0), 5.0);
    assert!(verdict.blind && verdict.slower.is_empty());
    let many = Run::new(Kind::Normal, 20, 0.02, &mut draws);
    assert!(!gate(&many, &many, 5.0).blind);
    let whole = Scope::all();
    let (before, after) = (many.job(), many.clone().slower(3.0).job());
    let found = diff((&before, &whole), (&after, &whole), Options::default(), &Classifier::new()).unwrap();
    let verdict = found.gate(0.05, By::Any);
    assert!(verdict.blind && found.judged.is_empty());
}

/// All that is judged together keeps within the level.
#[test]
fn levels_add_up() {
    let mut draws = Draws(1);
    let run = Run::new(Kind::Normal, 12, 0.02, &mut draws).job();
    let found = compared(&run, &run);
    let sum: f64 = found.judged.iter().map(|judged| judged.level).sum();
    assert!((sum - LEVEL).abs() < 1e-12, "{sum}");
    // Four of the step, three of forward and backward each.
    assert_eq!(found.judged.len(), 10);
    let period = &found.judged[0];
    assert_eq!((period.by, period.samples[0].count), (Measure::Period, 10));
}

/// Each second step of a recording against the others, by the names of steps.
fn halves(trace: &dyn Recording) -> Option<Verdict> {
    let nvtx = trace.ranges().ok()?;
    let mut steps: Vec<(i64, String)> = Vec::new();
    for range in &nvtx.ranges {
        let name = nvtx.names.get(range.name).text.to_string();
        let is_step = ["ProfilerStep#", "step_"].iter().any(|begin| name.starts_with(begin));
        if is_step && !steps.iter().any(|(_, known)| *known == name) {
            steps.push((range.start, name));
        }
    }
    steps.sort();
    let half = |first: usize| {
        let named = steps.iter().skip(first).step_by(2).map(|(_, name)| name.parse().unwrap()).collect();
        let warm_up = WarmUp { keep: true, ..WarmUp::default() };
        Scope { warm_up, ..scope(Ranges::Named(named)) }
    };
    (steps.len() > 1).then(|| {
        let (one, other) = (half(0), half(1));
        let found = diff((trace, &one), (trace, &other), Options::default(), &Classifier::new()).unwrap();
        found.gate(0.05, By::Any)
    })
}

/// One recording against itself: real ones of the fixtures, and of a folder of public traces where
/// `FLOPGAP_TRACES` names one.
#[test]
fn a_recording_is_not_slower_than_itself() {
    let mut judged = 0;
    let mut check = |name: &str, verdict: Option<Verdict>| {
        let Some(verdict) = verdict else { return };
        let what = if verdict.blind { "cannot tell" } else { "judged" };
        eprintln!("{name}: {} called slower, {what}", verdict.slower.len());
        assert!(verdict.slower.is_empty(), "{name}: {:?}", verdict.slower);
        judged += 1;
    };
    for name in ["small_forward", "small_forward_backward", "small_training_step", "two_ranks_nccl"] {
        check(name, halves(&Recorded::new(name).trace()));
    }
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/kineto");
    let folders = [Some(fixtures), std::env::var_os("FLOPGAP_TRACES").map(Into::into)];
    for folder in folders.into_iter().flatten() {
        let mut files: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files.iter().filter(|file| file.to_string_lossy().ends_with(".json.gz")) {
            let read = Trace::options().without_shapes(true).open(file);
            let Ok(job) = read.and_then(|trace| Job::of(vec![trace])) else { continue };
            check(&file.file_name().unwrap().to_string_lossy(), halves(&job));
        }
    }
    assert!(judged >= 4, "{judged}");
}
