//! The kernels, without a GPU: NVRTC compiles them.

use std::fs;
use std::path::Path;
use std::thread;

use flopgap_gpu::Device;
use flopgap_gpu::compile::Compiler;
use flopgap_kernels::{KernelClass, classify};
use flopgap_square::cuda::{SOURCES, compile_all};

#[test]
fn every_kernel_compiles_for_every_architecture_without_spills() {
    let compiler = match Compiler::without_cache() {
        Ok(compiler) => compiler,
        Err(error) => return flopgap_skip::skip("nvrtc", error),
    };
    let architectures = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"];
    thread::scope(|scope| {
        for architecture in architectures.map(|name| name.parse().unwrap()) {
            let compiler = &compiler;
            scope.spawn(move || {
                for log in compile_all(compiler, architecture).unwrap() {
                    assert!(!log.contains("warning"), "{architecture}: {log}");
                    // Once another test works on a GPU, NVRTC no longer reports.
                    if !log.is_empty() || Device::count().is_err() {
                        let kernels = log.matches("Compiling entry function").count();
                        let clean = log.matches("0 bytes stack frame, 0 bytes spill stores").count();
                        assert!(kernels > 0 && kernels == clean, "{architecture}: {log}");
                    }
                }
            });
        }
    });
}

#[test]
fn every_file_of_kernels_is_among_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cuda");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "cu") {
            let text = fs::read_to_string(&path).unwrap();
            assert!(SOURCES.iter().any(|(_, source)| source.contains(&text)), "{}", path.display());
        }
    }
}

#[test]
fn kernels_have_the_class_that_their_flops_are_counted_under() {
    for (source, name, class) in [
        ("pointwise.cu", "random_uniform_init", KernelClass::Random),
        ("pointwise.cu", "sigmoid_forward", KernelClass::Elementwise),
        ("pointwise.cu", "sigmoid_backward", KernelClass::Elementwise),
        ("pointwise.cu", "sigmoid_backward_of_sum", KernelClass::Elementwise),
        ("pointwise.cu", "loss_sum_reduce", KernelClass::Reduction),
        ("fused.cu", "fused_mlp_forward_", KernelClass::Matmul),
        ("fused.cu", "fused_mlp_backward_", KernelClass::Matmul),
        ("small.cu", "fused_mlp_forward_small_", KernelClass::Matmul),
        ("small.cu", "fused_mlp_backward_small_", KernelClass::Matmul),
        ("chain.cu", "fused_mlp_forward_chain_", KernelClass::Matmul),
        ("chain.cu", "fused_mlp_backward_chain_", KernelClass::Matmul),
    ] {
        let text = SOURCES.into_iter().find(|(file, _)| *file == source).unwrap().1;
        assert!(text.contains(name), "{name} is in {source}");
        let name = if name.ends_with('_') { format!("{name}aligned_128") } else { name.to_owned() };
        assert_eq!(classify(&name).class, class, "{name}");
    }
}
