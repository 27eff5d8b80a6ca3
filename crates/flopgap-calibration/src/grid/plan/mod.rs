//! The points of a sweep.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use flopgap_files::{ErrorKind, Hint};
use flopgap_flops::Precision;
use flopgap_graph::{Epilogue, MlpSpec, Mode, Op, ResnetSpec, Step, Workload};
use serde::{Deserialize, Serialize};

use super::random::Random;
use super::request::{Family, Kind, Request, Size, Target};
use super::scenario::{NoSuchLevel, Scenario, working_set};
use super::{conv, gemm, memory, mlp};

/// A point to measure on an engine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Point {
    /// The workload.
    #[serde(flatten)]
    pub workload: Workload,
    /// How it is launched.
    pub mode: Mode,
    /// The precision.
    pub precision: Precision,
}

/// The points that a sweep of one engine measures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The points, in the order in which they are measured.
    pub points: Vec<Point>,
    /// Points that the engine refused, by family.
    pub refused: BTreeMap<Family, Refusal>,
}

/// Points that were drawn but that the engine cannot run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusal {
    /// How many.
    pub points: usize,
    /// The engine's reason for the first.
    pub reason: String,
}

/// The reason for an empty plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The machine lacks a cache.
    #[error(transparent)]
    NoSuchLevel(#[from] NoSuchLevel),
    /// No requested workload has such a working set.
    #[error(
        "{scenario} is empty: no requested workload has a working set of more than {low} and at most {high} bytes"
    )]
    EmptyScenario {
        /// The scenario.
        scenario: Scenario,
        /// Bytes below which it does not begin.
        low: u64,
        /// Bytes up to which it goes.
        high: u64,
    },
    /// The engine supports no requested workload.
    #[error("nothing to measure: {reasons}")]
    Nothing {
        /// Why, by family.
        reasons: String,
    },
}

impl Hint for PlanError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Absent
    }
}

/// Rows of a quick sweep, for each family.
const QUICK: usize = 150;
/// Rows in other modes than the first, in percent, where a full sweep measures steps.
const OTHER_MODES: usize = 10;
/// How many points may be rejected in a row before a part of a plan is abandoned.
const IN_VAIN: usize = 4000;

/// How many rows of each kind, for a precision that counts in full.
struct Amounts {
    /// Networks on the grid.
    on_grid: usize,
    /// Networks off it.
    off_grid: usize,
    /// Networks with working sets of every level of the caches, together.
    by_level: usize,
    tiny: usize,
    batched: usize,
    layers: usize,
    pools: usize,
    convolutions: usize,
    memory: usize,
    attention: usize,
    /// Batches of the residual networks.
    resnet_batches: &'static [u64],
}

impl Amounts {
    const fn new(target: Target, size: Size) -> Amounts {
        match (target, size) {
            (Target::Cuda, Size::Full) => Amounts {
                on_grid: 480,
                off_grid: 60,
                by_level: 0,
                tiny: 10,
                batched: 60,
                layers: 2000,
                pools: 30,
                convolutions: 2000,
                memory: 300,
                attention: 60,
                resnet_batches: &[1, 2, 4, 8, 16, 32, 64],
            },
            (Target::Cpu, Size::Full) => Amounts {
                on_grid: 480,
                off_grid: 60,
                by_level: 60,
                tiny: 10,
                batched: 30,
                layers: 250,
                pools: 20,
                convolutions: 200,
                memory: 80,
                attention: 0,
                resnet_batches: &[1, 2, 4, 8],
            },
            (Target::Cuda, Size::Quick) => Amounts {
                on_grid: 5,
                off_grid: 2,
                by_level: 0,
                tiny: 2,
                batched: 0,
                layers: QUICK,
                pools: 6,
                convolutions: QUICK,
                memory: QUICK,
                attention: 0,
                resnet_batches: &[1, 8, 32],
            },
            (Target::Cpu, Size::Quick) => Amounts {
                on_grid: 40,
                off_grid: 16,
                by_level: 0,
                tiny: 6,
                batched: 0,
                layers: QUICK,
                pools: 10,
                convolutions: QUICK,
                memory: QUICK,
                attention: 0,
                resnet_batches: &[1, 2, 4],
            },
        }
    }
}

/// The plan of a sweep of one engine. `accept` decides for each point whether the engine can run
/// it, and gives the reason if it cannot.
///
/// # Errors
/// [`PlanError`], when there is nothing.
pub fn plan(
    request: &Request,
    accept: &mut dyn FnMut(&Point) -> Result<(), String>,
) -> Result<Plan, PlanError> {
    let range = request.scenario.map(|scenario| request.caches.range(scenario)).transpose()?;
    let mut planner =
        Planner { request, range, accept, seen: HashSet::new(), plan: Plan::default(), left: usize::MAX };
    let amounts = Amounts::new(request.target, request.size);
    for &family in request.families() {
        if request.size == Size::Quick {
            planner.left = QUICK;
        }
        match family {
            Family::Mlp => planner.mlp(&amounts),
            Family::Conv => planner.conv(&amounts),
            Family::Resnet => planner.resnet(&amounts),
            Family::Memory => planner.memory(&amounts),
        }
    }
    let mut plan = planner.plan;
    if plan.points.is_empty() {
        return Err(nothing(&plan, request.scenario.zip(range)));
    }
    Random::new(request.seed, "order").shuffle(&mut plan.points);
    Ok(plan)
}

fn nothing(plan: &Plan, scenario: Option<(Scenario, (u64, u64))>) -> PlanError {
    match scenario {
        Some((scenario, (low, high))) if plan.refused.is_empty() => {
            PlanError::EmptyScenario { scenario, low, high }
        }
        _ => {
            let mut reasons = String::new();
            for (family, refusal) in &plan.refused {
                let separator = if reasons.is_empty() { "" } else { "; " };
                let _ = write!(reasons, "{separator}{family}: {}", refusal.reason);
            }
            if reasons.is_empty() {
                reasons.push_str("the engine has none of the modes that are asked for");
            }
            PlanError::Nothing { reasons }
        }
    }
}

/// Some of the points, taken in turn from each kind and precision so that none is missing: their
/// places, at most `count`.
///
/// Which ones does not depend on anything but the points and their order.
pub fn choose(points: &[Point], count: usize) -> Vec<usize> {
    let mut kinds: BTreeMap<(Option<Family>, bool, Precision), Vec<usize>> = BTreeMap::new();
    for (place, point) in points.iter().enumerate() {
        let whole = !matches!(point.workload, Workload::Step(_));
        kinds.entry((Family::of(&point.workload), whole, point.precision)).or_default().push(place);
    }
    let longest = kinds.values().map(Vec::len).max().unwrap_or(0);
    let in_turn = (0..longest).flat_map(|round| kinds.values().filter_map(move |of| of.get(round).copied()));
    in_turn.take(count).collect()
}

/// Fills a plan.
struct Planner<'a> {
    request: &'a Request,
    range: Option<(u64, u64)>,
    accept: &'a mut dyn FnMut(&Point) -> Result<(), String>,
    seen: HashSet<Point>,
    plan: Plan,
    /// Rows that the family may still have.
    left: usize,
}

impl Planner<'_> {
    fn mlp(&mut self, amounts: &Amounts) {
        let request = self.request;
        let batches = &request.batches[..];
        let empty = Workload::Step(Step { op: Op::Empty, epilogue: Epilogue::default() });
        self.listed(Kind::Step, usize::MAX, std::slice::from_ref(&empty));
        self.drawn("tiny", Kind::Step, amounts.tiny, |random| gemm::tiny(random, batches));
        let mut networks: Vec<Workload> = mlp::on_grid(batches).into_iter().map(Workload::Mlp).collect();
        // The text decides the order: with another one, plans would differ from recorded ones.
        Random::new(request.seed, "seed grid").shuffle(&mut networks);
        self.listed(Kind::Network, amounts.on_grid, &networks);
        if let Some((low, high)) = self.range {
            // The grid fits few scenarios: the rest is drawn to fit.
            let rows = (amounts.on_grid + amounts.off_grid).max(QUICK);
            self.drawn_networks("scenario", rows, |random| of_range(random, low, high, batches));
            return;
        }
        self.drawn_networks("off the grid", amounts.off_grid, |random| mlp::off_grid(random, batches));
        for scenario in Scenario::ALL {
            if let Ok((low, high)) = request.caches.range(scenario) {
                let rows = amounts.by_level / Scenario::ALL.len();
                self.drawn_networks(scenario.name(), rows, |random| of_range(random, low, high, batches));
            }
        }
        self.drawn("batched", Kind::Step, amounts.batched, gemm::batched);
        self.drawn("layers", Kind::Step, amounts.layers, |random| gemm::layer(random, batches));
    }

    fn conv(&mut self, amounts: &Amounts) {
        let batches = &self.request.batches[..];
        self.drawn("pools", Kind::Step, amounts.pools, |random| conv::pooling(random, batches));
        self.drawn("convolutions", Kind::Step, amounts.convolutions, |random| {
            conv::convolution(random, batches)
        });
    }

    fn resnet(&mut self, amounts: &Amounts) {
        let asked = &self.request.batches[..];
        let batches = if asked.is_empty() { amounts.resnet_batches } else { asked };
        let mut all = Vec::new();
        for depth in [18, 34, 50, 101, 152] {
            for &batch in batches {
                all.push(Workload::Resnet(ResnetSpec { depth, batch, image: 224 }));
            }
        }
        Random::new(self.request.seed, "residual networks").shuffle(&mut all);
        self.listed(Kind::Resnet, usize::MAX, &all);
    }

    fn memory(&mut self, amounts: &Amounts) {
        self.drawn("attention", Kind::Memory, amounts.attention, memory::attention);
        self.drawn("memory", Kind::Memory, amounts.memory, memory::step);
    }

    /// Networks from a sequence of numbers.
    fn drawn_networks(&mut self, what: &str, rows: usize, mut draw: impl FnMut(&mut Random) -> MlpSpec) {
        for (precision, mode, rows) in self.shares(Kind::Network, rows) {
            // The same networks in every precision and mode.
            let mut random = Random::new(self.request.seed, what);
            self.fill(rows, precision, mode, |_| Some(Workload::Mlp(draw(&mut random))));
        }
    }

    /// Steps from two sequences of numbers: one that all precisions share, so that they can be
    /// compared, and one of each precision's own, so that more sizes come up.
    fn drawn(&mut self, what: &str, kind: Kind, rows: usize, mut draw: impl FnMut(&mut Random) -> Step) {
        for (precision, mode, rows) in self.shares(kind, rows) {
            let mut shared = Random::new(self.request.seed, what);
            let mut own = Random::new(self.request.seed, &format!("{what} {precision}"));
            self.fill(rows, precision, mode, |index| {
                let random = if index % 2 == 0 { &mut shared } else { &mut own };
                Some(Workload::Step(gemm::aligned(draw(random), precision)))
            });
        }
    }

    /// The first of a list.
    fn listed(&mut self, kind: Kind, rows: usize, all: &[Workload]) {
        let rows = rows.min(all.len());
        for (precision, mode, rows) in self.shares(kind, rows) {
            self.fill(rows, precision, mode, |index| all.get(index).cloned());
        }
    }

    /// How many rows each precision and mode gets.
    fn shares(&self, kind: Kind, rows: usize) -> Vec<(Precision, Mode, usize)> {
        let request = self.request;
        let Some((first, others)) = request.modes() else { return Vec::new() };
        if rows == 0 {
            return Vec::new();
        }
        let mut precisions = request.precisions(kind);
        if kind == Kind::Memory {
            // Without a product, TF32 is fp32, and nothing else than a conversion has 8-bit
            // integers.
            precisions.retain(|(precision, _)| !matches!(precision, Precision::Tf32 | Precision::Int8));
        }
        let mut shares = Vec::new();
        let percent = |rows: usize, part: usize| rows.saturating_mul(part).div_ceil(100).max(1);
        let whole = matches!(kind, Kind::Network | Kind::Resnet) || rows == 1;
        for (precision, part) in precisions {
            let rows = percent(rows, part);
            for &mode in &others {
                shares.push((precision, mode, if whole { rows } else { percent(rows, OTHER_MODES) }));
            }
            shares.push((precision, first, rows));
        }
        if request.size == Size::Quick && rows >= QUICK {
            // What fills up the rest: all of it divided, other modes first.
            let (precisions, all) = (shares.len() / (1 + others.len()), self.left);
            let of_others = (all / (8 * precisions.max(1))).max(1);
            let of_first =
                all.saturating_sub(of_others * others.len() * precisions).div_ceil(precisions.max(1));
            for share in &mut shares {
                share.2 = if share.1 == first { of_first } else { of_others };
            }
        }
        shares
    }

    /// Takes points until there are enough, or the source has no more, or too many in a row do not
    /// fit.
    fn fill(
        &mut self,
        rows: usize,
        precision: Precision,
        mode: Mode,
        mut next: impl FnMut(usize) -> Option<Workload>,
    ) {
        let mut in_vain = 0;
        let mut rows = rows;
        for index in 0.. {
            if rows == 0 || self.left == 0 || in_vain > IN_VAIN {
                return;
            }
            let Some(workload) = next(index) else { return };
            if self.take(Point { workload, mode, precision }) {
                rows -= 1;
                in_vain = 0;
            } else {
                in_vain += 1;
            }
        }
    }

    /// Takes a point that is within bounds, new, and that the engine accepts.
    fn take(&mut self, point: Point) -> bool {
        if self.seen.contains(&point) || !self.is_within(&point) {
            return false;
        }
        if let Err(reason) = (self.accept)(&point) {
            if let Some(family) = Family::of(&point.workload) {
                let refusal = self.plan.refused.entry(family).or_default();
                refusal.points += 1;
                if refusal.reason.is_empty() {
                    refusal.reason = reason;
                }
            }
            return false;
        }
        self.seen.insert(point.clone());
        self.plan.points.push(point);
        self.left = self.left.saturating_sub(1);
        true
    }

    /// Whether it takes neither too long nor too much memory, and belongs to the scenario.
    fn is_within(&self, point: &Point) -> bool {
        let whole = !matches!(point.workload, Workload::Step(_));
        let most = self.request.most_multiply_adds(point.precision, whole);
        let multiply_adds = point.workload.steps().ok().and_then(|steps| {
            steps.iter().try_fold(0_u64, |sum, step| sum.checked_add(step.op.multiply_adds().ok()?))
        });
        let bytes = working_set(&point.workload, point.precision).ok().flatten();
        let (Some(multiply_adds), Some(bytes)) = (multiply_adds, bytes) else { return false };
        let in_range = self.range.is_none_or(|(low, high)| low < bytes && bytes <= high);
        multiply_adds <= most && bytes <= self.request.most_bytes() && in_range
    }
}

/// A network whose working set may lie in the range.
fn of_range(random: &mut Random, low: u64, high: u64, batches: &[u64]) -> MlpSpec {
    let octave = |bytes: u64| u64::from(bytes.max(1).ilog2());
    // Below 4 KiB there are hardly two networks.
    let lowest = octave(low).max(12).min(octave(high));
    let octave = random.between(lowest, octave(high));
    mlp::of_bytes(random, octave, batches)
}

#[cfg(test)]
mod tests;
