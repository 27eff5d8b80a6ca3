//! Writes a network of a family as an ONNX model: `cargo run -p flopgap-graph --example onnx --
//! resnet18 int8 resnet18.onnx`.
//!
//! The network is `resnetDEPTH`, `mlp`, or a workload in JSON, such as
//! `{"workload":"step","op":"softmax","rows":8,"columns":16}`.

use std::error::Error;

use flopgap_flops::{Activation, Precision};
use flopgap_graph::{MlpSpec, ResnetSpec, Workload, to_onnx};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [network, precision, path] = arguments.as_slice() else {
        return Err("needs a network, a precision and a file".into());
    };
    let workload = if let Some(depth) = network.strip_prefix("resnet") {
        Workload::Resnet(ResnetSpec { depth: depth.parse()?, batch: 1, image: 224 })
    } else if network == "mlp" {
        let activation = Activation::Relu;
        Workload::Mlp(MlpSpec { input: 784, hidden: vec![512, 256], output: 10, batch: 32, activation })
    } else {
        serde_json::from_str(network)?
    };
    let precision: Precision = precision.parse()?;
    std::fs::write(path, to_onnx(&workload.graph()?, precision, 1)?)?;
    Ok(())
}
