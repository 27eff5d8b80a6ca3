//! The roles of parameters.

use crate::graph::Graph;
use crate::op::Op;

use super::random::Role;

/// The role of a parameter, from the first layer that reads it.
pub(super) fn role(graph: &Graph, tensor: usize) -> Option<Role> {
    let stored = graph.tensors.get(tensor)?;
    if !stored.parameter {
        return None;
    }
    let (layer, place) = graph.layers.iter().find_map(|layer| {
        layer.inputs.iter().position(|&input| input == tensor).map(|place| (layer, place))
    })?;
    Some(match (&layer.op, place) {
        (Some(Op::Gemm(gemm)), 1) => Role::Weights { inner: gemm.k },
        (Some(Op::Conv(conv)), 1) => {
            let window: u64 = conv.kernel.iter().product();
            Role::Weights { inner: window.saturating_mul(conv.inputs / conv.groups.max(1)) }
        }
        (Some(Op::Recurrent(recurrent)), 1 | 2) => {
            Role::Weights { inner: recurrent.inputs + recurrent.hidden }
        }
        (Some(Op::Norm(_)), 1..) => Role::Gain,
        _ => Role::Bias,
    })
}
