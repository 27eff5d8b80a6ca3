//! The kernels, without a GPU: NVRTC compiles them for every architecture.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use flopgap_gpu::Device;
use flopgap_gpu::compile::{Architecture, Cache, Compiler};
use flopgap_kernels::{KernelClass, classify};
use flopgap_mlp::MlpError;
use flopgap_mlp::dense::cuda::{Accumulate, Implementation, Options, Reduction, Target, compile_all, train};
use flopgap_mlp::dense::{Network, Precision, Size};

use crate::skip;

/// All that are compiled in continuous integration.
const CAPABILITIES: [&str; 7] = ["sm_90", "sm_80", "sm_75", "sm_86", "sm_120", "sm_100", "sm_89"];
/// Of these, the networks of the benchmark: what is chosen for them, and how many registers there are, is as for one of the others.
const ALIKE: [&str; 3] = ["sm_120", "sm_100", "sm_89"];

/// The kernels of a network, compiled for an architecture.
#[derive(Debug, Clone)]
struct Job {
    network: Network,
    precision: Precision,
    options: Options,
    capability: &'static str,
}

impl std::fmt::Display for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Job { network, precision, options, capability } = self;
        let sums = if options.accumulate == Accumulate::F16 { " fp16 sums" } else { "" };
        let atomic = if options.reduction == Reduction::Atomic { " atomic" } else { "" };
        write!(f, "{} {precision}{sums}{atomic} {network} {capability}", options.implementation)
    }
}

/// How many kernels were compiled, and the most registers of a thread among them.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    kernels: usize,
    registers: u32,
}

impl Tally {
    fn and(self, other: Tally) -> Tally {
        Tally { kernels: self.kernels + other.kernels, registers: self.registers.max(other.registers) }
    }
}

impl Job {
    /// Bytes that a kernel may spill. The networks of the benchmark: none, but for two kernels that have all 255 registers in use.
    /// - Cooperative vectors in 32 bits. A lane has two samples where the sums say that they fit; with one, nothing would be spilled, and every weight
    ///   be read twice as often.
    /// - `mma.sync` gradients of the widest network, added atomically, where there is no `wgmma`: half the tile would read both factors twice as often. Fixed
    ///   sums, which are the default, spill nothing.
    ///
    /// Other networks: a few registers, where widths that tiles divide badly leave sums of ragged pieces. The next smaller tile is not taken for
    /// them.
    fn most_spilled(&self) -> u32 {
        let Options { implementation, reduction, .. } = self.options;
        let widest = self.network == Size::XLarge.network();
        match implementation {
            _ if !Size::ALL.map(Size::network).contains(&self.network) => 48,
            Implementation::Coopvec if self.precision == Precision::F32 => 24,
            Implementation::Coopmat
                if widest && reduction == Reduction::Atomic && self.capability != "sm_90" =>
            {
                128
            }
            _ => 0,
        }
    }
}

/// Reads a log: nothing may be warned of, and no more spilled than that.
fn read_log(source: &str, log: &str, most_spilled: u32) -> Result<Tally, String> {
    if log.contains("warning") {
        return Err(format!("{source}: {log}"));
    }
    // Once another test works on a GPU, NVRTC no longer reports.
    if log.is_empty() && Device::count().is_ok() {
        return Ok(Tally::default());
    }
    let kernels = log.matches("Compiling entry function").count();
    let spilled = |line: &str| -> Option<u32> {
        line.split(" bytes spill stores").next()?.split(' ').next_back()?.parse().ok()
    };
    let spilled: Vec<u32> =
        log.lines().filter(|line| line.contains("spill stores")).filter_map(spilled).collect();
    if kernels == 0 || kernels != spilled.len() || spilled.iter().any(|&bytes| bytes > most_spilled) {
        return Err(format!("{source}: {log}"));
    }
    let registers = log.split("Used ").skip(1).filter_map(|rest| rest.split(' ').next()?.parse().ok());
    Ok(Tally { kernels, registers: registers.max().unwrap_or_default() })
}

impl Job {
    /// Compiles, and holds that nothing spills. What there is no kernel for says so.
    fn run(&self, compiler: &Compiler) -> Result<Tally, String> {
        let architecture: Architecture = self.capability.parse().unwrap();
        let target = Target::nominal(architecture.capability);
        match compile_all(compiler, &self.network, self.precision, self.options, target) {
            Ok(logs) if logs.is_empty() => Err("no kernels".to_owned()),
            Ok(logs) => logs.iter().try_fold(Tally::default(), |tally, (source, log)| {
                Ok(tally.and(read_log(source, log, self.most_spilled())?))
            }),
            Err(MlpError::Unsupported { reason, .. }) => {
                eprintln!("{self}: not there: {reason}");
                Ok(Tally::default())
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// What `FLOPGAP_COMPILE` asks for. All networks in all precisions for all architectures take long: `all` asks for them. Names of
/// implementations, precisions or architectures beside it (`all,coopvec,fp16,sm_90`) ask for those alone.
fn jobs(asked: &[&str]) -> Vec<Job> {
    let all = asked.contains(&"all");
    let wanted = |name: &str, among: &[&str]| {
        asked.contains(&name) || !among.iter().any(|other| asked.contains(other))
    };
    let some = [Size::Small.network(), Size::Large.network()];
    let (of_benchmark, networks) = (Size::ALL.map(Size::network), super::networks());
    let precisions: &[Precision] = if all { &Precision::ALL } else { &[Precision::F32, Precision::F16] };
    let mut jobs = Vec::new();
    for capability in CAPABILITIES.into_iter().filter(|name| wanted(name, &CAPABILITIES)) {
        let alike = ALIKE.contains(&capability);
        let networks: &[Network] = match (all, alike) {
            (false, _) => &some,
            (true, true) => &of_benchmark,
            (true, false) => &networks,
        };
        for implementation in Implementation::ALL {
            for &precision in precisions {
                if !wanted(implementation.name(), &Implementation::ALL.map(Implementation::name))
                    || !wanted(precision.name(), &Precision::ALL.map(Precision::name))
                {
                    continue;
                }
                let options = Options::new(implementation);
                let job = |network: &Network, options| Job {
                    network: network.clone(),
                    precision,
                    options,
                    capability,
                };
                jobs.extend(networks.iter().map(|network| job(network, options)));
                if all && !alike {
                    // Other sums: the networks of the benchmark.
                    for size in Size::ALL {
                        jobs.push(job(&size.network(), Options { reduction: Reduction::Atomic, ..options }));
                        if precision == Precision::F16 {
                            let half = Options { accumulate: Accumulate::F16, ..options };
                            jobs.push(job(&size.network(), half));
                        }
                    }
                }
            }
        }
    }
    jobs
}

#[test]
fn every_kernel_compiles_for_every_architecture_without_spills() {
    let compiler = match Compiler::without_cache() {
        Ok(compiler) => compiler,
        Err(error) => return skip("nvrtc", &error).unwrap_or_default(),
    };
    let asked = std::env::var("FLOPGAP_COMPILE").unwrap_or_default();
    let asked: Vec<&str> = asked.split(',').collect();
    // A source that two jobs share is compiled once. `cached` takes, too, what earlier runs have compiled.
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::of_user().filter(|_| asked.contains(&"cached"));
    let compiler = compiler.with_cache(Some(cache.unwrap_or_else(|| Cache::new(folder.path()))));

    let (jobs, next) = (jobs(&asked), AtomicUsize::new(0));
    let found = Mutex::new((Tally::default(), Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let start = Instant::now();
                    let result = job.run(&compiler);
                    let seconds = start.elapsed().as_secs_f64();
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    match result {
                        Ok(tally) => {
                            let Tally { kernels, registers } = tally;
                            eprintln!(
                                "{job}: {kernels} kernels, up to {registers} registers, {seconds:.1} s"
                            );
                            found.0 = found.0.and(tally);
                        }
                        Err(problem) => {
                            eprintln!("{job}: FAILED: {problem}");
                            found.1.push(format!("{job}: {problem}"));
                        }
                    }
                }
            });
        }
    });
    let (Tally { kernels, registers }, failures) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    eprintln!("{} networks, {kernels} kernels, up to {registers} registers", jobs.len());
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), jobs.len(), failures.join("\n"));
}

#[test]
fn loss_and_optimiser_compile_for_every_architecture_without_spills() {
    let compiler = match Compiler::without_cache() {
        Ok(compiler) => compiler,
        Err(error) => return skip("nvrtc", &error).unwrap_or_default(),
    };
    let network = Size::Small.network();
    for capability in CAPABILITIES {
        let architecture: flopgap_gpu::compile::Architecture = capability.parse().unwrap();
        for precision in Precision::ALL {
            let target = Target::nominal(architecture.capability);
            for (source, log) in train::compile_all(&compiler, &network, precision, target).unwrap() {
                if let Err(problem) = read_log(&source, &log, 0) {
                    panic!("{precision} {capability}, {problem}");
                }
            }
        }
    }
}

#[test]
fn kernels_have_the_class_that_their_work_has() {
    for (name, class) in [
        ("naive_mlp_forward", KernelClass::Matmul),
        ("forloop_mlp_backward", KernelClass::Matmul),
        ("coopvec_mlp_forward_sliced_train", KernelClass::Matmul),
        ("coopvec_mlp_backward_deltas_dx", KernelClass::Matmul),
        ("coopvec_mlp_backward_add", KernelClass::Reduction),
        ("coopmat_simt_mlp_forward", KernelClass::Matmul),
        ("coopmat_simt_mlp_forward_terms", KernelClass::Matmul),
        ("coopmat_simt_mlp_backward_terms", KernelClass::Matmul),
        ("coopmat_simt_mlp_transpose", KernelClass::Copy),
        ("coopmat_mlp_forward_mma_latency", KernelClass::Matmul),
        ("coopmat_mlp_forward_few", KernelClass::Matmul),
        ("coopmat_mlp_backward_mma_fused", KernelClass::Matmul),
        ("coopmat_mlp_backward_wgmma_sum", KernelClass::Reduction),
        ("coopmat_mlp_backward_wgmma_fused_dx", KernelClass::Matmul),
        ("coopmat_mlp_backward_wgmma_pair", KernelClass::Matmul),
        ("coopmat_mlp_backward_wgmma_pair_sum", KernelClass::Reduction),
        ("scalar_mlp_gradients", KernelClass::Matmul),
        ("scalar_mlp_gradients_sum", KernelClass::Reduction),
    ] {
        assert_eq!(classify(name).class, class, "{name}");
    }
}
