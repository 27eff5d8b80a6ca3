#![no_main]
//! Parameters of a network from a safetensors file: what can be read is written and read back
//! equal.

use flopgap_mlp::{Activation, Parameters, Precision};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = flopgap_fuzz::file("in.safetensors", bytes);
    let given = Parameters::load_with_activations(&path, Activation::Relu, Activation::Sigmoid);
    for parameters in [Parameters::load(&path), given].into_iter().flatten() {
        assert!(parameters.network().parameters() <= bytes.len(), "more parameters than bytes");
        let again = flopgap_fuzz::folder().join("out.safetensors");
        parameters.save(&again, Precision::F32).expect("what was read can be written");
        assert_eq!(Parameters::load(&again).expect("what was written can be read"), parameters);
    }
});
