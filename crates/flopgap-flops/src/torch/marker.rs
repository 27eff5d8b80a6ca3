//! Operators as `torch.autograd.profiler.emit_nvtx` and `nsys profile --pytorch` mark them.

use super::{Operand, OperatorWork, work};

/// The text of a range that `PyTorch` puts around an operator, a node of autograd or a range of a
/// user: its name, and what is recorded of the call, such as
/// `aten::addmm, seq = 7, op_id = 42, sizes = [[64], [128, 256], [256, 64], [], []]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker<'a> {
    /// What is called.
    pub name: &'a str,
    sizes: Option<&'a str>,
}

impl<'a> Marker<'a> {
    /// None for a text of another form.
    ///
    /// ```
    /// use flopgap_flops::torch::Marker;
    ///
    /// let marker = Marker::parse("aten::mm, op_id = 42, sizes = [[64, 32], [32, 16]]").unwrap();
    /// assert_eq!(marker.name, "aten::mm");
    /// assert_eq!(marker.work().unwrap().flops, 2 * 64 * 32 * 16);
    /// assert_eq!(Marker::parse("forward, warm"), None);
    /// ```
    pub fn parse(text: &'a str) -> Option<Marker<'a>> {
        const SIZES: &str = ", sizes = ";
        let ends = [", seq = ", ", op_id = ", SIZES].map(|field| text.find(field));
        let name = &text[..ends.into_iter().flatten().min()?];
        Some(Marker { name, sizes: ends[2].map(|at| &text[at + SIZES.len()..]) })
    }

    /// Whether it is an operator of a library, as opposed to a node of autograd or a user's range.
    pub fn is_operator(&self) -> bool {
        self.name.contains("::")
    }

    /// What the operator needs, where sizes alone tell it: how elements are stored and what other
    /// arguments are is not recorded.
    pub fn work(&self) -> Option<OperatorWork> {
        let mut rest = self.sizes?.strip_prefix('[')?;
        let mut operands = Vec::new();
        while let Some(sizes) = rest.trim_start_matches([',', ' ']).strip_prefix('[') {
            let (sizes, after) = sizes.split_once(']')?;
            let numbers = sizes.split(',').map(str::trim).filter(|number| !number.is_empty());
            let sizes = numbers.map(|number| number.parse().ok()).collect::<Option<Vec<u64>>>();
            operands.push(sizes.map(|sizes| Operand { sizes, ..Operand::default() }));
            rest = after;
        }
        work(self.name, &operands, &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The forms of `getNvtxStr` in `torch/csrc/autograd/profiler_legacy.cpp`.
    #[test]
    fn markers_of_pytorch_are_parsed() {
        let all = [
            ("aten::view, op_id = 314290", "aten::view", true),
            ("AddmmBackward0, seq = 12", "AddmmBackward0", false),
            ("aten::mm, seq = 3, op_id = 4, sizes = [[2, 3], [3, 5]]", "aten::mm", true),
            ("Optimizer.step#SGD.step, op_id = 9", "Optimizer.step#SGD.step", false),
        ];
        for (text, name, is_operator) in all {
            let marker = Marker::parse(text).unwrap();
            assert_eq!((marker.name, marker.is_operator()), (name, is_operator), "{text}");
        }
        assert_eq!(Marker::parse("step 3, sequence"), None);
    }

    #[test]
    fn sizes_tell_the_work_of_products_alone() {
        let text = "aten::addmm, seq = 7, op_id = 42, sizes = [[64], [128, 256], [256, 64], [], []], input_op_ids = [(0,-1), (1,2)]";
        let product = Marker::parse(text).unwrap().work().unwrap();
        assert_eq!((product.flops, product.bytes, product.element), (2 * 128 * 256 * 64, 0, None));
        assert_eq!(product.elements, 128 * 256 + 256 * 64 + 128 * 64);
        // Without types, and where other arguments count, nothing is known.
        for unknown in [
            "aten::add, op_id = 1, sizes = [[8, 8], [8, 8], []]",
            "aten::sum, op_id = 1, sizes = [[8, 8], []]",
            "aten::convolution, op_id = 1, sizes = [[1, 3, 8, 8], [4, 3, 3, 3], [4], [], [], [], [], [], []]",
            "aten::_foreach_add_, op_id = 1, sizes = [[8], [8], [8], [8]]",
            "aten::mm, op_id = 1, sizes = [[2, 3], [4",
            "aten::mm, op_id = 1",
        ] {
            assert_eq!(Marker::parse(unknown).unwrap().work(), None, "{unknown}");
        }
    }
}
