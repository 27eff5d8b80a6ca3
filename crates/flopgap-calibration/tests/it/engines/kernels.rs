//! The kernels of the engine `cuda`, without a GPU: NVRTC compiles them for every architecture.

use flopgap_calibration::engines::cuda::compile_kernels;
use flopgap_flops::Precision;
use flopgap_gpu::Device;
use flopgap_gpu::compile::Compiler;

const ARCHITECTURES: [&str; 7] = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"];

#[test]
fn kernels_compile_for_every_architecture_without_spills() {
    let compiler = match Compiler::new() {
        Ok(compiler) => compiler,
        Err(error) => return flopgap_testing::skip("nvrtc", error),
    };
    for architecture in ARCHITECTURES {
        for precision in Precision::ALL {
            let log = compile_kernels(&compiler, precision, architecture.parse().unwrap())
                .unwrap_or_else(|error| panic!("{precision} {architecture}: {error}"));
            assert!(!log.contains("warning"), "{precision} {architecture}: {log}");
            // Once another test works on a GPU, NVRTC no longer reports.
            if log.is_empty() && Device::count().is_ok() {
                continue;
            }
            let kernels = log.matches("Compiling entry function").count();
            assert!(kernels >= 12, "{precision} {architecture}: {log}");
            assert_eq!(log.matches(" 0 bytes spill stores").count(), kernels, "{architecture}: {log}");
        }
    }
}
