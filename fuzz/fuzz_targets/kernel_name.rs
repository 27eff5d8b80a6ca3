#![no_main]
//! Any string has a class, a base name and a display name, and none of them takes long.

use flopgap_kernels::{base_name, classify, demangle_nvidia, simple_kernel};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|name: &str| {
    let _ = classify(name);
    let _ = simple_kernel(name);
    let _ = demangle_nvidia(name);
    let base = base_name(name);
    assert_eq!(base_name(&base), base, "base_name is not idempotent");
});
