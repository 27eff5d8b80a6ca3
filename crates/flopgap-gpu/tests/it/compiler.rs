//! NVRTC without a GPU.

use std::fs;

use flopgap_gpu::Device;
use flopgap_gpu::compile::{Architecture, Cache, CompileError};

use crate::compiler;

/// Kernels of the examples: all that we compile at run time.
const COUNT: &str = include_str!("../../examples/count.cu");

#[test]
fn our_kernels_compile_for_every_architecture_without_spills() {
    let Some(compiler) = compiler() else { return };
    assert!(!compiler.architectures().is_empty());
    for &architecture in compiler.architectures() {
        let binary = compiler
            .compile("count.cu", COUNT, architecture, &["--ptxas-options=-v"])
            .unwrap_or_else(|error| panic!("{architecture}: {error}"));
        assert_eq!(&binary.image()[..4], b"\x7fELF", "{architecture}");
        // Once another test works on a GPU, NVRTC no longer reports.
        if !binary.log().is_empty() || Device::count().is_err() {
            assert!(
                binary.log().contains("0 bytes spill stores, 0 bytes spill loads"),
                "{architecture}: {}",
                binary.log()
            );
        }
    }
}

#[test]
fn errors_carry_the_log_with_the_line() {
    let Some(compiler) = compiler() else { return };
    let source = "extern \"C\" __global__ void k(float *x) {\n    x[0] = 1.0f;\n    x[1] = nothing;\n}\n";
    let error = compiler.compile("broken.cu", source, compiler.architectures()[0], &[]).unwrap_err();
    assert!(
        error.to_string().contains("broken.cu(3): error: identifier \"nothing\" is undefined"),
        "{error}"
    );
}

#[test]
fn what_cannot_be_compiled_is_refused_before_the_compiler_sees_it() {
    let Some(compiler) = compiler() else { return };
    let old: Architecture = "sm_20".parse().unwrap();
    let error = compiler.compile("count.cu", COUNT, old, &[]).unwrap_err();
    assert!(matches!(error, CompileError::UnknownArchitecture { .. }), "{error}");
    assert!(error.to_string().contains("sm_90"), "names what it knows: {error}");

    let architecture = compiler.architectures()[0];
    for (source, options) in [("a\0b", &[][..]), (COUNT, &["-D\0"])] {
        let error = compiler.compile("count.cu", source, architecture, options).unwrap_err();
        assert!(matches!(error, CompileError::ZeroByte { .. }), "{error}");
    }
    let error = compiler.compile("count.cu", COUNT, architecture, &["--no-such-option"]).unwrap_err();
    assert!(error.to_string().contains("no-such-option"), "{error}");
}

#[test]
fn the_cache_is_used_keyed_and_survives_damage() {
    let Some(compiler) = compiler() else { return };
    let dir = tempfile::tempdir().unwrap();
    let compiler = compiler.with_cache(Some(Cache::new(dir.path())));
    let architecture = compiler.architectures()[0];
    let compile =
        |source: &str, options: &[&str]| compiler.compile("k.cu", source, architecture, options).unwrap();
    let first = compile(COUNT, &[]);
    assert!(!first.is_cached());
    let again = compile(COUNT, &[]);
    assert!(again.is_cached());
    assert_eq!(again.image(), first.image());
    assert!(!compile(COUNT, &["--fmad=false"]).is_cached());
    assert!(!compile(&format!("{COUNT}\n"), &[]).is_cached());

    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let recompiled = compile(COUNT, &[]);
    assert!(!recompiled.is_cached(), "a damaged entry is compiled again");
    assert_eq!(recompiled.image(), first.image());
    assert!(compile(COUNT, &[]).is_cached(), "and replaced");
}

#[test]
fn a_cache_that_cannot_be_written_costs_only_time() {
    let Some(compiler) = compiler() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "not a folder").unwrap();
    let compiler = compiler.with_cache(Some(Cache::new(file.join("cache"))));
    for _ in 0..2 {
        assert!(!compiler.compile("k.cu", COUNT, compiler.architectures()[0], &[]).unwrap().is_cached());
    }
}
