//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use flopgap_cli::{Failure, OutputArgs};
use flopgap_gpu::compile::Architecture;
use flopgap_gpu::timing::Repetitions;
use flopgap_mlp::cuda::{Accumulate, Implementation, Options, Reduction};
use flopgap_mlp::{Activation, Network, Precision, Size};
use flopgap_report::table::Format;

use crate::device::Device;
use crate::networks::networks;
use crate::pass::Pass;
use crate::unique;

/// Time one small MLP in several implementations, forward and backward, checked against 64 bits and
/// compared with its floor
///
/// By default: the small network, forward, in half precision, on 256 samples, in the three
/// implementations. Every result is checked before it is timed, and again afterwards.
#[derive(Parser, Debug)]
#[command(version, max_term_width = 110, args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  flopgap bench --timing both --cold
  flopgap bench --sweep -o sweep.json
  flopgap bench --device cpu --widths 32,64,64,8 --batch 256,65536 --pass train")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) bench: Bench,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List registers, spills and shared memory of the kernels for any architecture, without a GPU
    Kernels(crate::kernels::Arguments),
    /// Show the results of --format json as tables
    Show(crate::show::Arguments),
    /// Compare two results of --format json
    Diff(crate::diff::Arguments),
}

/// The measurements to take.
#[derive(Args, Debug, Clone)]
pub(crate) struct Bench {
    /// Networks: small (64-64-16), medium (128-128-32), large (256-256-64), xlarge (512-512-128)
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "small")]
    pub(crate) size: Vec<Size>,
    /// Measure the four networks in fp32 and fp16 with batches of 256, 65536 and 1048576 (on the
    /// CPU the first two), forward, backward and train, unless other options restrict it
    #[arg(long, conflicts_with = "size")]
    pub(crate) sweep: bool,
    /// Widths of another network from inputs to outputs, such as 32,64,64,8 (multiples of 8 are not
    /// padded)
    #[arg(long, value_name = "WIDTHS", value_delimiter = ',', conflicts_with_all = ["size", "sweep"])]
    pub(crate) widths: Vec<usize>,
    /// Activation of the hidden layers: relu, leaky-relu, sigmoid, tanh, gelu, gelu-tanh, silu,
    /// none
    #[arg(long, value_name = "NAME", value_parser = activation, default_value = "leaky-relu")]
    pub(crate) activation: Activation,
    /// Activation of the output, by the same names
    #[arg(long, value_name = "NAME", value_parser = activation, default_value = "leaky-relu")]
    pub(crate) output_activation: Activation,
    /// Implementations: forloop, coopvec, coopmat, naive, auto [default: the first three]
    #[arg(long = "impl", value_name = "IMPL", value_delimiter = ',', conflicts_with = "only")]
    pub(crate) implementation: Vec<Implementation>,
    #[command(flatten)]
    pub(crate) only: Only,
    /// Variant of the for-loop: `naive` is a first attempt, for teaching
    #[arg(long, value_enum, default_value_t = Variant::Fast)]
    pub(crate) variant: Variant,
    /// Passes: forward, backward (after a forward pass that keeps a tape), train (both) [default:
    /// forward]
    #[arg(long, value_enum, value_delimiter = ',', hide_possible_values = true)]
    pub(crate) pass: Vec<Pass>,
    /// Precision of stored numbers: fp32, fp16, bf16; sums are in 32 bits [default: fp16, on the
    /// CPU fp32]
    #[arg(long, value_name = "PRECISION", value_delimiter = ',')]
    pub(crate) precision: Vec<Precision>,
    /// Sum in 16 bits on tensor cores, as some libraries do (fp16 only; no effect on Hopper, where
    /// sums in 32 bits are as fast)
    #[arg(long)]
    pub(crate) accumulate_fp16: bool,
    /// Sum gradients of the parameters by atomic additions, whose bits differ from run to run
    #[arg(long)]
    pub(crate) atomic: bool,
    /// Use the kernels of an older architecture, such as `sm_80` or `sm_89`, with its shared
    /// memory, compiled for this GPU: the code that those GPUs run, not their speed
    #[arg(long, value_name = "ARCH")]
    pub(crate) arch_plan: Option<Architecture>,
    /// Samples in a batch, or several numbers of them, such as 256,65536 [default: 256]
    // `--batch-size` and `--json` are options of `benchmark_neural_mlp.py`.
    #[arg(long, alias = "batch-size")]
    #[arg(value_name = "SAMPLES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: Vec<u32>,
    /// Device: cpu, cuda, vulkan, or one of several by its number (1, cuda:1 or vulkan:1)
    #[arg(long, value_name = "DEVICE", default_value = "cuda")]
    pub(crate) device: Device,
    #[command(flatten)]
    pub(crate) clocks: Clocks,
    /// Seed of parameters and inputs
    #[arg(long, value_name = "SEED", default_value_t = 42)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Peaks from which the floor is computed: TFLOP/s of fp32, TFLOP/s of 16 bits, TB/s of memory
    /// [default: known for the GPU, measured on the CPU]
    #[arg(long, value_name = "FP32,FP16,TBPS", value_parser = peaks)]
    pub(crate) peaks: Option<[f64; 3]>,
}

/// One implementation alone.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct Only {
    /// Only the for-loop
    #[arg(long = "forloop-only", group = "only")]
    pub(crate) forloop: bool,
    /// Only cooperative vectors
    #[arg(long = "coopvec-only", group = "only")]
    pub(crate) coopvec: bool,
    /// Only cooperative matrices
    #[arg(long = "coopmat-only", group = "only")]
    pub(crate) coopmat: bool,
}

/// Repetitions and clocks.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct Clocks {
    /// Measurements [default: 100, or as many as fit in a second, at least 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: Option<u32>,
    /// Leave out the first N measurements [default: 10, or fewer in the same way]
    #[arg(long, value_name = "N")]
    pub(crate) warmup: Option<u32>,
    /// Clocks: gpu (in a graph, and a launch between two events), cpu (how long a program waits),
    /// both [default: gpu]
    #[arg(long, value_enum, hide_possible_values = true)]
    pub(crate) timing: Option<Timing>,
    /// Of the GPU's times, only the one in a graph: the work without launch overhead
    #[arg(long)]
    pub(crate) graph: bool,
    /// Also measure with an empty second-level cache before every pass
    #[arg(long)]
    pub(crate) cold: bool,
}

/// The output.
#[derive(Args, Debug, Clone)]
pub(crate) struct Output {
    #[command(flatten)]
    pub(crate) answer: OutputArgs,
    /// The same as `--format json`
    #[arg(long, hide = true, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Write plots to this directory: the fraction of the floor over the batch, for each network,
    /// precision and pass
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
    /// Measurements of other programs to compare with: lines of JSON as the scripts in
    /// benches/peers print them
    #[arg(long, value_name = "FILE")]
    pub(crate) peers: Option<PathBuf>,
}

impl Output {
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.answer.format() }
    }
}

/// The clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Timing {
    /// The GPU's.
    Gpu,
    /// The host's.
    Cpu,
    /// Both.
    Both,
}

/// The for-loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Variant {
    /// The optimized one.
    Fast,
    /// The first attempt.
    Naive,
}

fn activation(text: &str) -> Result<Activation, String> {
    match text.replace('-', "_").as_str() {
        "none" => Ok(Activation::Identity),
        name => name.parse().map_err(|error: flopgap_flops::FlopError| error.to_string()),
    }
}

/// Default numbers of measurements, and of discarded ones before them.
const ITERATIONS: usize = 100;
const WARMUP: usize = 10;
/// The batches of a sweep.
const SWEPT: [usize; 3] = [256, 65_536, 1_048_576];
/// The most nanoseconds that one clock's measurements of one thing should take.
const LONGEST: f64 = 1e9;
/// The least number of measurements, however long they take.
const FEWEST: usize = 5;

/// Three positive numbers.
fn peaks(text: &str) -> Result<[f64; 3], String> {
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|number| number.trim().parse()).collect();
    match <[f64; 3]>::try_from(numbers.unwrap_or_default()) {
        Ok(peaks) if peaks.iter().all(|peak| peak.is_finite() && *peak > 0.0) => Ok(peaks),
        _ => Err("expected three positive numbers, such as 60,790,4.3".to_owned()),
    }
}

impl Clocks {
    /// Whether the GPU's clock is requested.
    pub(crate) fn of_gpu(&self) -> bool {
        self.timing != Some(Timing::Cpu)
    }

    /// Whether the host's clock is requested.
    pub(crate) fn of_host(&self) -> bool {
        matches!(self.timing, Some(Timing::Cpu | Timing::Both))
    }

    /// How often something is measured that takes so many nanoseconds: as often as was requested,
    /// and without a requested number, for at most a second.
    pub(crate) fn repetitions(&self, nanoseconds: f64) -> Repetitions {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cut off at both ends")]
        let most = (LONGEST / nanoseconds.max(1.0)) as usize;
        Repetitions {
            warmup: self.warmup.map_or(WARMUP.min(most), |asked| asked as usize),
            measured: self.iterations.map_or(ITERATIONS.min(most.max(FEWEST)), |asked| asked as usize),
        }
    }
}

impl Bench {
    /// The networks and their names.
    ///
    /// # Errors
    /// Widths that no network has.
    pub(crate) fn networks(&self) -> Result<Vec<(String, Network)>, Failure> {
        let sizes = if self.sweep { &Size::ALL[..] } else { &self.size };
        networks(sizes, &self.widths, self.activation, self.output_activation)
    }

    /// The implementations, as the options about them together say.
    pub(crate) fn implementations(&self) -> Vec<Implementation> {
        let asked = if self.only.forloop {
            vec![Implementation::Forloop]
        } else if self.only.coopvec {
            vec![Implementation::Coopvec]
        } else if self.only.coopmat {
            vec![Implementation::Coopmat]
        } else if self.implementation.is_empty() {
            vec![Implementation::Forloop, Implementation::Coopvec, Implementation::Coopmat]
        } else {
            unique(self.implementation.iter().copied())
        };
        let variant = |implementation| match (implementation, self.variant) {
            (Implementation::Forloop, Variant::Naive) => Implementation::Naive,
            _ => implementation,
        };
        unique(asked.into_iter().map(variant))
    }

    /// How an implementation computes.
    pub(crate) fn options(&self, implementation: Implementation) -> Options {
        let accumulate = if self.accumulate_fp16 { Accumulate::F16 } else { Accumulate::F32 };
        let reduction = if self.atomic { Reduction::Atomic } else { Reduction::Deterministic };
        let plan = self.arch_plan.map(|plan| plan.capability);
        Options { accumulate, reduction, plan, ..Options::new(implementation) }
    }

    /// The numbers of samples.
    pub(crate) fn batch_sizes(&self, device: Device) -> Vec<usize> {
        match (&self.batch[..], device) {
            ([], Device::Cpu) if self.sweep => SWEPT[..2].to_vec(),
            ([], Device::Cuda(_) | Device::Vulkan(_)) if self.sweep => SWEPT.to_vec(),
            ([], _) => vec![SWEPT[0]],
            (asked, _) => unique(asked.iter().copied()).into_iter().map(|batch| batch as usize).collect(),
        }
    }

    /// The passes.
    pub(crate) fn passes(&self) -> Vec<Pass> {
        match &self.pass[..] {
            [] if self.sweep => Pass::ALL.to_vec(),
            [] => vec![Pass::Forward],
            asked => unique(asked.iter().copied()),
        }
    }

    /// The precisions.
    pub(crate) fn precisions(&self, device: Device) -> Vec<Precision> {
        match (&self.precision[..], device) {
            ([], Device::Cpu) => vec![Precision::F32],
            ([], _) if self.sweep => vec![Precision::F32, Precision::F16],
            ([], _) => vec![Precision::F16],
            (asked, _) => unique(asked.iter().copied()),
        }
    }

    /// Options without effect, and why.
    pub(crate) fn without_meaning(&self, device: Device) -> Vec<(&'static str, &'static str)> {
        let of_gpu = [("--graph", self.clocks.graph), ("--cold", self.clocks.cold)];
        let naive = ("--variant", self.variant == Variant::Naive);
        let (atomic, accumulate) = (("--atomic", self.atomic), ("--accumulate-fp16", self.accumulate_fp16));
        let plan = ("--arch-plan", self.arch_plan.is_some());
        let given = |options: &[(&'static str, bool)], place: &'static str| -> Vec<_> {
            options.iter().filter(|(_, given)| *given).map(|&(name, _)| (name, place)).collect()
        };
        if device == Device::Cpu {
            let of_kernels = [
                ("--timing", matches!(self.clocks.timing, Some(Timing::Gpu | Timing::Both))),
                ("--impl", !self.implementation.is_empty()),
                ("--forloop-only", self.only.forloop),
                ("--coopvec-only", self.only.coopvec),
                ("--coopmat-only", self.only.coopmat),
                naive,
                atomic,
                accumulate,
                plan,
            ];
            return given(&[&of_gpu[..], &of_kernels].concat(), "on the CPU");
        }
        let mut all = Vec::new();
        if matches!(device, Device::Vulkan(_)) {
            all = given(&[of_gpu[1], atomic, accumulate, plan], "on Vulkan");
        }
        if !self.clocks.of_gpu() {
            all.extend(given(&of_gpu, "with the host's clock alone"));
        }
        if !self.implementations().contains(&Implementation::Naive) {
            all.extend(given(&[naive], "without the for-loop"));
        }
        let cooperative = [Implementation::Coopvec, Implementation::Coopmat];
        if !self.implementations().iter().any(|asked| cooperative.contains(asked)) {
            all.extend(given(&[accumulate], "without coopvec or coopmat"));
        }
        if self.passes() == [Pass::Forward] {
            all.extend(given(&[atomic], "without a backward pass"));
        }
        // One reason each.
        let mut named = Vec::new();
        all.retain(|(option, _)| {
            !named.contains(option) && {
                named.push(*option);
                true
            }
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_mean_nothing_are_named() {
        let without = |place, options: &[&str]| {
            let arguments = Arguments::parse_from([&["mlp-bench"], options].concat());
            arguments.bench.without_meaning(place)
        };
        let gpu = Device::Cuda(0);
        assert_eq!(without(gpu, &["--graph", "--cold", "--timing", "both"]), []);
        assert_eq!(without(gpu, &["--atomic"]), [("--atomic", "without a backward pass")]);
        assert_eq!(without(gpu, &["--atomic", "--accumulate-fp16", "--pass", "forward,train"]), []);
        let scalar = ["--accumulate-fp16", "--impl", "forloop,naive"];
        assert_eq!(without(gpu, &scalar), [("--accumulate-fp16", "without coopvec or coopmat")]);
        assert_eq!(without(gpu, &["--cold", "--timing", "cpu"]), [("--cold", "with the host's clock alone")]);
        assert_eq!(without(gpu, &["--variant", "naive", "--impl", "forloop,coopmat"]), []);
        let coopmat = ["--variant", "naive", "--coopmat-only"];
        assert_eq!(without(gpu, &coopmat), [("--variant", "without the for-loop")]);
        assert_eq!(without(gpu, &["--arch-plan", "sm_80"]), []);
        let vulkan = Device::Vulkan(0);
        let of_cuda = ["--graph", "--cold", "--atomic", "--arch-plan", "sm_80"];
        let on_vulkan = ["--cold", "--atomic", "--arch-plan"].map(|option| (option, "on Vulkan"));
        assert_eq!(without(vulkan, &of_cuda), on_vulkan);
        assert_eq!(without(Device::Cpu, &["--arch-plan", "sm_80"]), [("--arch-plan", "on the CPU")]);
        let on_cores = [("--coopmat-only", "on the CPU"), ("--variant", "on the CPU")];
        assert_eq!(without(Device::Cpu, &coopmat), on_cores);
        assert_eq!(without(Device::Cpu, &["--timing", "cpu"]), []);
    }
}
