//! Fully connected networks.

use flopgap_flops::{Activation, ElementType};

use super::spec::MlpSpec;
use crate::build::Builder;
use crate::error::GraphError;
use crate::graph::Graph;
use crate::op::{Elementwise, ElementwiseFunction, Gemm, Op};

/// `input - hidden… - output` with biases, the activation after all but the last layer. Layers are
/// named as in a `torch.nn.Sequential`.
pub(crate) fn mlp(spec: &MlpSpec) -> Result<Graph, GraphError> {
    let sizes: Vec<u64> =
        [spec.input].into_iter().chain(spec.hidden.iter().copied()).chain([spec.output]).collect();
    if spec.batch == 0 || sizes.contains(&0) {
        return Err(GraphError::Workload {
            what: spec.label(),
            reason: "every size must be at least 1".to_owned(),
        });
    }
    let mut builder = Builder::new(spec.label(), ElementType::Fp32);
    let mut x = builder.input("input", &[spec.batch, spec.input]);
    let mut position = 0;
    for (index, pair) in sizes.windows(2).enumerate() {
        let (k, n) = (pair[0], pair[1]);
        let name = position.to_string();
        let weights = builder.parameter(format!("{name}.weight"), &[n, k]);
        let bias = builder.parameter(format!("{name}.bias"), &[n]);
        let gemm = Op::Gemm(Gemm { batch: 1, m: spec.batch, n, k });
        let shape = [spec.batch, n];
        x = builder.layer(&name, "Gemm", gemm, vec![x, weights, bias], &shape)?;
        position += 1;
        if index + 2 < sizes.len() && spec.activation != Activation::Identity {
            let elements = spec.batch * n;
            let function = ElementwiseFunction::Activation(spec.activation);
            let op = Op::Elementwise(Elementwise { function, elements, read: elements });
            x = builder.layer(&position.to_string(), spec.activation.name(), op, vec![x], &shape)?;
            position += 1;
        }
    }
    Ok(builder.finish(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A product of `2 batch in out`, a bias of `batch out`, and 5 for each element of a GELU.
    #[test]
    fn agrees_with_the_closed_form() {
        let spec =
            MlpSpec { input: 100, hidden: vec![64, 32], output: 10, batch: 16, activation: Activation::Gelu };
        let graph = mlp(&spec).unwrap();
        let weights = 100 * 64 + 64 * 32 + 32 * 10;
        assert_eq!(graph.multiply_adds().unwrap(), 16 * weights);
        assert_eq!(graph.work().unwrap().flops, 16 * (2 * weights + (64 + 32 + 10) + 5 * (64 + 32)));
        assert_eq!(graph.parameters().unwrap(), weights + 64 + 32 + 10);
        assert_eq!(graph.layers.len(), 5);
    }

    #[test]
    fn a_size_of_0_is_refused() {
        let spec = MlpSpec { input: 3, hidden: vec![0], output: 1, batch: 1, activation: Activation::Relu };
        let error = mlp(&spec).unwrap_err().to_string();
        assert_eq!(error, "mlp 3-0-1 batch 1: every size must be at least 1");
    }
}
