//! Compiles the library that is injected into programs.
//!
//! `cargo install` installs no shared library, so the programs carry it as bytes. Its source
//! (`src/library/`) needs nothing but the standard library, so one call of the compiler builds it.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=src/library");
    println!("cargo::rerun-if-changed=src/format.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let library = PathBuf::from(variable("OUT_DIR")).join("libflopgap_inject.so");
    if variable("CARGO_CFG_TARGET_OS") != "linux" {
        // CUPTI's injection exists on Linux alone: nothing to carry elsewhere.
        fs::write(&library, []).expect("OUT_DIR is written");
        return;
    }
    let mut compiler = Command::new(variable("RUSTC"));
    compiler.args(["--edition", "2024", "--crate-name", "flopgap_inject", "--crate-type", "cdylib"]);
    compiler.args(["-C", "opt-level=3", "-C", "lto=fat", "-C", "codegen-units=1", "-C", "strip=symbols"]);
    compiler.args(["--target", &variable("TARGET"), "-o"]).arg(&library).arg("src/library/mod.rs");
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        compiler.arg("-C").arg(format!("linker={linker}"));
    }
    let built = compiler.status().expect("RUSTC starts");
    assert!(built.success(), "src/library could not be compiled for {}", variable("TARGET"));
}
