//! The kernels, without a GPU: NVRTC compiles them for every architecture.

use std::thread;

use flopgap_gpu::Device;
use flopgap_gpu::compile::Compiler;
use flopgap_kernels::{KernelClass, classify};
use flopgap_mlp::MlpError;
use flopgap_mlp::dense::cuda::{Implementation, Options, Target, compile_all, train};
use flopgap_mlp::dense::{Network, Precision, Size};

use crate::skip;

/// All that are compiled in continuous integration.
const CAPABILITIES: [&str; 7] = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"];

/// Compiles one, and holds that it spills nothing. What there is no kernel for says so.
fn compile(compiler: &Compiler, network: &Network, precision: Precision, options: Options, capability: &str) {
    let architecture: flopgap_gpu::compile::Architecture = capability.parse().unwrap();
    let target = Target::nominal(architecture.capability);
    let what = format!("{} {precision} {network} {capability}", options.implementation);
    match compile_all(compiler, network, precision, options, target) {
        Ok(logs) => {
            assert!(!logs.is_empty(), "{what}");
            for (source, log) in logs {
                assert!(!log.contains("warning"), "{what}, {source}: {log}");
                // Once another test works on a GPU, NVRTC no longer reports.
                if !log.is_empty() || Device::count().is_err() {
                    let kernels = log.matches("Compiling entry function").count();
                    let clean = log.matches("0 bytes spill stores, 0 bytes spill loads").count();
                    assert!(kernels > 0 && kernels == clean, "{what}, {source}: {log}");
                }
            }
        }
        Err(MlpError::Unsupported { reason, .. }) => eprintln!("{what}: not there: {reason}"),
        Err(error) => panic!("{what}: {error}"),
    }
}

#[test]
fn every_kernel_compiles_for_every_architecture_without_spills() {
    let compiler = match Compiler::without_cache() {
        Ok(compiler) => compiler,
        Err(error) => return skip("nvrtc", &error).unwrap_or_default(),
    };
    // All networks in all precisions for all architectures take long: `FLOPGAP_COMPILE=all` asks for them. Names of implementations or
    // architectures beside it (`all,coopvec,sm_90`) ask for those alone.
    let asked = std::env::var("FLOPGAP_COMPILE").unwrap_or_default();
    let asked: Vec<&str> = asked.split(',').collect();
    let all = asked.contains(&"all");
    let wanted = |name: &str, among: &[&str]| {
        asked.contains(&name) || !among.iter().any(|other| asked.contains(other))
    };
    let implementations = Implementation::ALL.map(Implementation::name);
    let networks = if all { super::networks() } else { vec![Size::Small.network(), Size::Large.network()] };
    let precisions: &[Precision] = if all { &Precision::ALL } else { &[Precision::F32, Precision::F16] };
    thread::scope(|scope| {
        for capability in CAPABILITIES.into_iter().filter(|name| wanted(name, &CAPABILITIES)) {
            let (compiler, networks, wanted) = (&compiler, &networks, &wanted);
            scope.spawn(move || {
                for implementation in
                    Implementation::ALL.into_iter().filter(|each| wanted(each.name(), &implementations))
                {
                    for network in networks {
                        for &precision in precisions {
                            compile(compiler, network, precision, Options::new(implementation), capability);
                        }
                    }
                }
            });
        }
    });
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
                assert!(!log.contains("warning"), "{precision} {capability}, {source}: {log}");
                if !log.is_empty() || Device::count().is_err() {
                    let kernels = log.matches("Compiling entry function").count();
                    let clean = log.matches("0 bytes spill stores, 0 bytes spill loads").count();
                    assert!(kernels > 0 && kernels == clean, "{precision} {capability}, {source}: {log}");
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
