//! Short descriptions of operations.

use std::fmt::Write as _;

use super::{Conv, ElementwiseFunction, Norm, NormFunction, Op, PoolFunction};

/// Sizes with `x` between them.
pub(crate) fn by(sizes: &[u64]) -> String {
    sizes.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}

impl Op {
    /// A short description of the operation and its sizes: `gemm 32x512x1024` is m, n, k.
    pub fn label(&self) -> String {
        match self {
            Op::Gemm(gemm) if gemm.batch == 1 => format!("gemm {}", by(&[gemm.m, gemm.n, gemm.k])),
            Op::Gemm(gemm) => format!("gemm {} of {}", gemm.batch, by(&[gemm.m, gemm.n, gemm.k])),
            Op::Conv(conv) => conv.label(),
            Op::Pool(pool) => {
                let function = match pool.function {
                    PoolFunction::Max => "max",
                    PoolFunction::Average => "average",
                };
                format!("pool {function} {}x{} by {}", pool.planes, by(&pool.image), by(&pool.kernel))
            }
            Op::Elementwise(elementwise) => {
                format!("{} {}", elementwise.function.name(), elementwise.elements)
            }
            Op::Norm(Norm { function, rows, columns, .. }) => {
                let function = match function {
                    NormFunction::BatchInference => "batch",
                    NormFunction::Layer => "layer",
                    NormFunction::Rms => "rms",
                    NormFunction::Group => "group",
                };
                format!("norm {function} {rows}x{columns}")
            }
            Op::Attention(a) => {
                let values = a.value_width.map(|width| format!(" values {width}")).unwrap_or_default();
                format!("attention {}x{} {}x{}x{}{values}", a.batch, a.heads, a.queries, a.keys, a.head_width)
            }
            Op::GroupedGemm(g) => format!("grouped gemm {}x{}x{} in {}", g.m, g.n, g.k, g.groups),
            Op::Recurrent(r) => {
                format!("recurrent {}x{} {} to {}", r.batch, r.length, r.inputs, r.hidden)
            }
            Op::Softmax { rows, columns } => format!("softmax {rows}x{columns}"),
            Op::Gather { rows, width } => format!("gather {rows}x{width}"),
            Op::GridSample(s) => format!("grid sample {}x{} at {}", s.batch, s.channels, s.points),
            Op::EmbeddingBag(b) => format!("embedding bag {}x{} to {}", b.rows, b.width, b.bags),
            Op::Reduce { inputs, outputs } => format!("reduce {inputs} to {outputs}"),
            Op::Copy { elements } => format!("copy {elements}"),
            Op::View | Op::Empty => self.name().to_owned(),
        }
    }
}

impl ElementwiseFunction {
    /// A one-word name: `relu`, `add`, `quantize`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Activation(activation) => activation.name(),
            Self::Add => "add",
            Self::Mul => "mul",
            Self::Div => "div",
            Self::Compare => "compare",
            Self::Simple => "simple",
            Self::Transcendental => "transcendental",
            Self::Several(_) => "function",
            Self::Quantize => "quantize",
        }
    }
}

impl Conv {
    fn label(&self) -> String {
        let Conv { batch, inputs, image, outputs, kernel, stride, dilation, groups, .. } = self;
        let name = if self.transposed { "conv-transposed" } else { "conv" };
        let mut label = format!("{name} {batch}x{inputs}x{} {outputs} of {}", by(image), by(kernel));
        if stride.iter().any(|&step| step != 1) {
            let _ = write!(label, " stride {}", by(stride));
        }
        if dilation.iter().any(|&step| step != 1) {
            let _ = write!(label, " dilation {}", by(dilation));
        }
        if *groups != 1 {
            let _ = write!(label, " groups {groups}");
        }
        label
    }
}

#[cfg(test)]
mod tests {
    use super::super::Gemm;
    use super::*;

    #[test]
    fn sizes_are_in_the_order_of_the_convention() {
        assert_eq!(Op::Gemm(Gemm { batch: 1, m: 32, n: 512, k: 1024 }).label(), "gemm 32x512x1024");
        let conv = Conv { groups: 2, ..Conv::new(8, [64, 128], &[56, 56], 3, 2) };
        assert_eq!(Op::Conv(conv).label(), "conv 8x64x56x56 128 of 3x3 stride 2x2 groups 2");
    }
}
