//! A machine that is a formula, so that tests know what is true.

use flopgap_flops::{Activation, Precision};
use flopgap_graph::op::Gemm;
use flopgap_graph::{Epilogue, Mode, Op, Step};
use flopgap_roofline::predict::Observation;

/// Seeded numbers.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From 0 to 1.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A size between both, its logarithm uniform.
    pub(crate) fn size(&mut self, least: f64, most: f64) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between positive sizes")]
        let size = (least * (most / least).powf(self.next())).round() as u64;
        size
    }

    /// About 1, off by 1.5 % on average.
    fn noise(&mut self) -> f64 {
        (0.03 * (self.next() + self.next() - 1.0) * 1.5).exp()
    }
}

pub(crate) fn layer(m: u64, n: u64, k: u64, last: bool) -> Step {
    let activation = if last { Activation::Identity } else { Activation::Relu };
    Step {
        op: Op::Gemm(Gemm { batch: 1, m, n, k }),
        epilogue: Epilogue { bias: true, residual: false, activation },
    }
}

/// Nanoseconds of a step without noise: a launch, then whole waves of tiles at 50 or 400 TFLOP/s on
/// 100 multiprocessors, or bytes at 3 TB/s.
fn time(step: &Step, precision: Precision) -> f64 {
    let Op::Gemm(Gemm { m, n, k, .. }) = step.op else { return 1500.0 };
    let bytes = precision.element().bytes();
    let peak = if precision == Precision::Fp32 { 50_000.0 } else { 400_000.0 };
    let tiles = (m.div_ceil(128) * n.div_ceil(128)) as f64;
    let waves = (tiles / 100.0).ceil();
    let compute = waves * 100.0 * 128.0 * 128.0 * 2.0 * k as f64 / peak;
    let memory = (bytes * (m * k + n * k + m * n)) as f64 / 3000.0;
    1500.0 + compute.max(memory) + 0.2 * compute.min(memory)
}

/// What the machine takes for steps: in a graph, launches overlap; on a stream, none is shorter
/// than 6 us.
pub(crate) fn run(steps: &[Step], precision: Precision, mode: Mode) -> f64 {
    let times: Vec<f64> = steps.iter().map(|step| time(step, precision)).collect();
    let sum: f64 = times.iter().sum();
    match mode {
        Mode::Graph => sum - 400.0 * (times.len() - 1) as f64,
        _ => times.iter().map(|time| time.max(6000.0)).sum::<f64>() + 1000.0,
    }
}

/// Bytes that the engine holds: parameters, then the largest two neighbors of what is computed.
pub(crate) fn memory(steps: &[Step], precision: Precision) -> u64 {
    let element = precision.element().bytes();
    let aligned = |elements: u64| (elements * element).next_multiple_of(256);
    let sizes = |step: &Step| match step.op {
        Op::Gemm(Gemm { m, n, k, .. }) => [m, n, k],
        _ => [0; 3],
    };
    let parameters: u64 = steps.iter().map(sizes).map(|[_, n, k]| aligned(n * k) + aligned(n)).sum();
    let most = steps.iter().map(sizes).map(|[m, n, k]| aligned(m * n) + aligned(m * k)).max();
    parameters + most.unwrap_or(0)
}

/// A network's layers.
pub(crate) fn network(numbers: &mut Numbers) -> Vec<Step> {
    let depth = 2 + numbers.size(1.0, 4.0);
    let batch = numbers.size(1.0, 2048.0);
    let widths: Vec<u64> = (0..=depth).map(|_| 8 * numbers.size(2.0, 512.0)).collect();
    let layers = widths.windows(2).enumerate();
    layers.map(|(place, pair)| layer(batch, pair[1], pair[0], place as u64 + 1 == depth)).collect()
}

/// Single layers, and networks if `networks` are requested, in two precisions and two modes.
pub(crate) fn observations(seed: u64, singles: usize, networks: usize) -> Vec<Observation> {
    let mut numbers = Numbers::new(seed);
    let mut rows = Vec::new();
    for place in 0..singles + networks {
        let steps = if place < singles {
            let [m, n, k] = [8192.0, 4096.0, 4096.0].map(|most| numbers.size(4.0, most));
            vec![layer(m, n, k, numbers.next() < 0.5)]
        } else {
            network(&mut numbers)
        };
        for precision in [Precision::Fp32, Precision::Fp16] {
            for mode in [Mode::Stream, Mode::Graph] {
                let nanoseconds = run(&steps, precision, mode) * numbers.noise();
                let mut row = Observation::of_time(steps.clone(), precision, mode, nanoseconds);
                row.bounds = Some([nanoseconds * 0.99, nanoseconds * 1.01]);
                row.memory_bytes = Some(memory(&steps, precision));
                row.joules = Some(300.0 * nanoseconds * 1e-9 * numbers.noise());
                rows.push(row);
            }
        }
    }
    rows
}
