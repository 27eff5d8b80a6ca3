//! The kernels, without a GPU: NVRTC compiles them for every architecture.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use flopgap_gpu::Device;
use flopgap_gpu::compile::{Architecture, Cache, Compiler};
use flopgap_kernels::{KernelClass, classify};
use flopgap_mlp::cuda::{
    Accumulate, Gradients, Implementation, Options, Reduction, Source, Target, encoding, sources, tangent,
    train,
};
use flopgap_mlp::{Activation, MlpError, Network, Precision, Size};
use rayon::iter::Either;
use rayon::prelude::*;

/// All that kernels are compiled for.
pub(crate) const CAPABILITIES: [&str; 7] = ["sm_90", "sm_80", "sm_75", "sm_86", "sm_120", "sm_100", "sm_89"];
/// Of these, the networks of the benchmark: what is chosen for them, and how many registers there
/// are, is as for one of the others.
const ALIKE: [&str; 3] = ["sm_120", "sm_100", "sm_89"];

/// What `FLOPGAP_COMPILE` names, with commas between.
fn asked() -> Vec<String> {
    let asked = std::env::var("FLOPGAP_COMPILE").unwrap_or_default();
    asked.split(',').map(str::to_owned).collect()
}

/// NVRTC; nothing where it is missing, which is reported. With `FLOPGAP_COMPILE=cached` it takes
/// what an earlier run compiled: the same text, options and version of NVRTC.
pub(crate) fn compiler() -> Option<Compiler> {
    match Compiler::without_cache() {
        Ok(compiler) => {
            let is_cached = asked().iter().any(|name| name == "cached");
            Some(compiler.with_cache(is_cached.then(Cache::of_user).flatten()))
        }
        Err(error) => {
            flopgap_testing::skip("nvrtc", error);
            None
        }
    }
}

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
pub(crate) struct Tally {
    kernels: usize,
    registers: u32,
}

impl Tally {
    fn and(self, other: Tally) -> Tally {
        Tally { kernels: self.kernels + other.kernels, registers: self.registers.max(other.registers) }
    }
}

impl Job {
    /// Bytes that a kernel may spill. The networks of the benchmark: none, but for two kernels that
    /// have all 255 registers in use.
    /// - Cooperative vectors in 32 bits. A lane has two samples where the sums say that they fit;
    ///   with one, nothing would be spilled, and every weight be read twice as often.
    /// - `mma.sync` gradients of the widest network, added atomically, where there is no `wgmma`:
    ///   half the tile would read both factors twice as often. Fixed sums, which are the default,
    ///   spill nothing.
    ///
    /// Other networks: a few registers, where widths that tiles divide badly leave sums of ragged
    /// pieces. The next smaller tile is not taken for them.
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
pub(crate) fn read_log(source: &str, log: &str, most_spilled: u32) -> Result<Tally, String> {
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
    /// The sources of its kernels. A network without a kernel is reported.
    fn sources(&self) -> Vec<Source> {
        let architecture: Architecture = self.capability.parse().unwrap();
        let target = Target::nominal(architecture.capability);
        match sources(&self.network, self.precision, self.options, target) {
            Ok(sources) => {
                assert!(!sources.is_empty(), "{self}: no kernels");
                sources
            }
            Err(MlpError::Unsupported { reason, .. }) => {
                eprintln!("{self}: not there: {reason}");
                Vec::new()
            }
            Err(error) => panic!("{self}: {error}"),
        }
    }

    /// Compiles one of them, and checks that it does not spill more than that.
    fn compile(&self, source: &Source, compiler: &Compiler) -> Result<Tally, String> {
        let start = Instant::now();
        let binary = source.compile(compiler).map_err(|error| format!("{self}: {error}"))?;
        let tally = read_log(source.name(), binary.log(), self.most_spilled());
        let Tally { kernels, registers } = tally.map_err(|problem| format!("{self}: {problem}"))?;
        let (name, seconds) = (source.name(), start.elapsed().as_secs_f64());
        eprintln!("{self}: {name}: {kernels} kernels, up to {registers} registers, {seconds:.1} s");
        Ok(Tally { kernels, registers })
    }
}

/// What is compiled without being asked for: small and large in fp32 and fp16 for every
/// architecture, and for Ampere and Hopper, of which every source of kernels is for one, what those
/// leave out: bf16, other sums, and networks whose kernels are others.
fn jobs_of_every_run() -> Vec<Job> {
    let of = |widths: &[usize]| Network::new(widths).unwrap();
    let sizes = [Size::Small.network(), Size::Large.network()];
    let mut jobs = Vec::new();
    let mut push = |network: &Network, precision, options, capability| {
        jobs.push(Job { network: network.clone(), precision, options, capability });
    };
    for capability in CAPABILITIES {
        for implementation in Implementation::ALL {
            for network in &sizes {
                for precision in [Precision::F32, Precision::F16] {
                    push(network, precision, Options::new(implementation), capability);
                }
            }
        }
    }
    for capability in ["sm_80", "sm_90"] {
        for implementation in Implementation::ALL {
            let options = Options::new(implementation);
            let atomic = Options { reduction: Reduction::Atomic, ..options };
            push(&sizes[0], Precision::Bf16, options, capability);
            push(&sizes[0], Precision::F32, atomic, capability);
            push(&sizes[0], Precision::F16, atomic, capability);
            let has_tensor_cores =
                matches!(implementation, Implementation::Coopvec | Implementation::Coopmat);
            if has_tensor_cores && capability == "sm_80" {
                let half = Options { accumulate: Accumulate::F16, ..options };
                push(&sizes[0], Precision::F16, half, capability);
            }
        }
        // Padding, and gradients that are added.
        let add = Options { gradients: Gradients::Add, ..Options::new(Implementation::Naive) };
        for precision in Precision::ALL {
            push(&of(&[3, 20, 3]).with_biases(&[false, true]).unwrap(), precision, add, capability);
        }
        // Code for each layer that would be too much, and gradients through sums that the tape
        // keeps.
        let deep = of(&[64; 25]);
        push(&deep, Precision::F32, Options::new(Implementation::Forloop), capability);
        push(&deep, Precision::F16, Options::new(Implementation::Coopvec), capability);
        // Weights that are streamed; chains of several layers and the gradients after them, as they
        // are and streamed.
        let coopmat = Options::new(Implementation::Coopmat);
        push(&Size::XLarge.network(), Precision::F16, coopmat, capability);
        push(&of(&[16, 32, 32, 32, 32, 16]), Precision::F16, coopmat, capability);
        push(
            &of(&[64, 320, 320, 64]).with_activation(Activation::Gelu),
            Precision::Bf16,
            coopmat,
            capability,
        );
    }
    jobs
}

/// What `FLOPGAP_COMPILE` asks for. All networks in all precisions for all architectures take long:
/// `all` asks for them. Names of implementations, precisions or architectures beside it
/// (`all,coopvec,fp16,sm_90`) ask for those alone.
fn jobs() -> Vec<Job> {
    let asked = asked();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let mut jobs = if asked.contains(&"all") { jobs_of_all() } else { jobs_of_every_run() };
    let wanted = |name: &str, among: &[&str]| {
        asked.contains(&name) || !among.iter().any(|other| asked.contains(other))
    };
    jobs.retain(|job| {
        wanted(job.capability, &CAPABILITIES)
            && wanted(job.options.implementation.name(), &Implementation::ALL.map(Implementation::name))
            && wanted(job.precision.name(), &Precision::ALL.map(Precision::name))
    });
    jobs
}

fn jobs_of_all() -> Vec<Job> {
    let (of_benchmark, networks) = (Size::ALL.map(Size::network), super::networks());
    let mut jobs = jobs_of_every_run();
    for capability in CAPABILITIES {
        let alike = ALIKE.contains(&capability);
        let networks: &[Network] = if alike { &of_benchmark } else { &networks };
        for implementation in Implementation::ALL {
            for precision in Precision::ALL {
                let options = Options::new(implementation);
                let job = |network: &Network, options| Job {
                    network: network.clone(),
                    precision,
                    options,
                    capability,
                };
                jobs.extend(networks.iter().map(|network| job(network, options)));
                if !alike {
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

/// The files below a folder that define kernels: names and texts.
fn files_of_kernels(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_of_kernels(&path));
        } else if path.extension().is_some_and(|extension| extension == "cu" || extension == "cuh") {
            let text = fs::read_to_string(&path).unwrap();
            if text.contains("__global__") {
                // A source has other files in place of the lines that include them.
                let own = text.rsplit_once("#include").and_then(|(_, rest)| rest.split_once('\n'));
                let text = own.map_or(text.as_str(), |(_, own)| own).to_owned();
                files.push((path, text));
            }
        }
    }
    files
}

/// A file of kernels that no network here is compiled with is one that nothing compiles before a
/// user does.
#[test]
fn every_run_compiles_every_file_of_kernels() {
    let mut texts: Vec<String> = Vec::new();
    for Job { network, precision, options, capability } in jobs_of_every_run() {
        let target = Target::nominal(capability.parse::<Architecture>().unwrap().capability);
        let of_job = sources(&network, precision, options, target).unwrap_or_default();
        texts.extend(of_job.iter().map(|source| source.text().to_owned()));
        let beside = beside(&network, precision, target);
        texts.extend(beside.iter().map(|source| source.text().to_owned()));
    }
    for encoding in crate::encoding::encodings() {
        let target = Target::nominal("sm_80".parse::<Architecture>().unwrap().capability);
        texts.push(encoding::source(&encoding, Precision::F16, target).text().to_owned());
    }
    let files = files_of_kernels(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(files.len() > 25, "{} files of kernels", files.len());
    let left_out: Vec<&PathBuf> = files
        .iter()
        .filter(|(_, text)| !texts.iter().any(|source| source.contains(text.as_str())))
        .map(|(path, _)| path)
        .collect();
    assert!(left_out.is_empty(), "no network of `jobs_of_every_run` has the kernels of {left_out:#?}");
}

/// Every implementation in every precision with every kind of sums that it has.
#[test]
fn every_run_compiles_every_kind_of_sums() {
    let jobs = jobs_of_every_run();
    let target = Target::nominal("sm_80".parse::<Architecture>().unwrap().capability);
    for implementation in Implementation::ALL {
        for precision in Precision::ALL {
            assert!(
                jobs.iter()
                    .any(|job| job.options.implementation == implementation && job.precision == precision),
                "{implementation} {precision}"
            );
        }
        for (reduction, accumulate) in
            [(Reduction::Atomic, Accumulate::F32), (Reduction::Deterministic, Accumulate::F16)]
        {
            let options = Options { reduction, accumulate, ..Options::new(implementation) };
            let makes = |options| sources(&Size::Small.network(), Precision::F16, options, target).unwrap();
            // Scalar code has one kind of sums.
            let matters = makes(options) != makes(Options::new(implementation))
                && matches!(implementation, Implementation::Coopvec | Implementation::Coopmat);
            assert!(
                !matters || jobs.iter().any(|job| job.options == options),
                "{implementation} {reduction:?} {accumulate:?}"
            );
        }
    }
}

/// Every source of kernels for the architectures that it is for, on some network; on all of the
/// tests with `FLOPGAP_COMPILE=all`.
#[test]
fn kernels_compile_for_every_architecture_without_spills() {
    let Some(compiler) = compiler() else { return };
    let jobs = jobs();
    let mut seen = HashSet::new();
    let of_job = |job| Job::sources(job).into_iter().map(move |source| (job, source));
    // A source that two jobs share is compiled once.
    let all: Vec<_> =
        jobs.iter().flat_map(of_job).filter(|(_, source)| seen.insert(source.clone())).collect();
    let (found, failures): (Vec<Tally>, Vec<String>) =
        all.par_iter().partition_map(|(job, source)| match job.compile(source, &compiler) {
            Ok(tally) => Either::Left(tally),
            Err(problem) => Either::Right(problem),
        });
    let Tally { kernels, registers } = found.into_iter().fold(Tally::default(), Tally::and);
    eprintln!("{} networks, {kernels} kernels, up to {registers} registers", jobs.len());
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), all.len(), failures.join("\n"));
}

/// What is queued beside the passes of an implementation: loss and optimizer, tangents.
fn beside(network: &Network, precision: Precision, target: Target) -> Vec<Source> {
    let tangents = tangent::sources(network, precision, target).unwrap();
    [train::sources(network, precision, target), tangents].concat()
}

#[test]
fn what_is_beside_the_passes_compiles_for_every_architecture_without_spills() {
    let Some(compiler) = compiler() else { return };
    // Code for each layer, and one code for all; padded rows.
    let small = Size::Small.network();
    let deep = Network::new(&[64; 25]).unwrap().with_activation(Activation::Gelu);
    let odd = Network::new(&[3, 264, 1]).unwrap().with_activation(Activation::GeluTanh);
    for capability in CAPABILITIES {
        let architecture: Architecture = capability.parse().unwrap();
        let target = Target::nominal(architecture.capability);
        // Registers are as many everywhere, and other networks have the same kernels.
        let (precisions, networks) = match capability {
            "sm_90" => (&Precision::ALL[..2], &[&small, &deep, &odd][..]),
            "sm_80" => (&Precision::ALL[2..], &[&small, &odd][..]),
            _ => (&Precision::ALL[1..2], &[&small][..]),
        };
        for &precision in precisions {
            for network in networks {
                for source in beside(network, precision, target) {
                    let binary = source.compile(&compiler).unwrap();
                    if let Err(problem) = read_log(source.name(), binary.log(), 0) {
                        panic!("{network} {precision} {capability}, {problem}");
                    }
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
        ("coopmat_simt_mlp_transpose", KernelClass::Layout),
        ("coopmat_mlp_forward_mma_latency", KernelClass::Matmul),
        ("coopmat_mlp_forward_few", KernelClass::Matmul),
        ("coopmat_mlp_backward_mma_fused", KernelClass::Matmul),
        ("coopmat_mlp_backward_wgmma_sum", KernelClass::Reduction),
        ("coopmat_mlp_backward_wgmma_fused_sum", KernelClass::Reduction),
        ("coopmat_mlp_backward_wgmma_fused_dx", KernelClass::Matmul),
        ("coopmat_mlp_backward_wgmma_pair", KernelClass::Matmul),
        ("coopmat_mlp_backward_wgmma_pair_sum", KernelClass::Reduction),
        ("mlp_copy_padded_inputs", KernelClass::Copy),
        ("mlp_copy_cut_outputs", KernelClass::Copy),
        ("mlp_copy_to_pairs_of_inputs", KernelClass::Copy),
        ("tangent_mlp_forward", KernelClass::Matmul),
        ("tangent_mlp_backward", KernelClass::Matmul),
        ("mlp_copy_parameters", KernelClass::Copy),
        ("flat_mlp_gradients_add", KernelClass::Reduction),
        ("scalar_mlp_gradients", KernelClass::Matmul),
        ("scalar_mlp_gradients_sum", KernelClass::Reduction),
    ] {
        assert_eq!(classify(name).class, class, "{name}");
    }
}
