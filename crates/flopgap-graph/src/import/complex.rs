//! Numbers of two parts, and products of whole numbers.

use crate::graph::Tensor;
use crate::op::{Elementwise, ElementwiseFunction, Op};

/// The operation on the tensors of a layer as one on real numbers. A complex number is two of
/// them: a sum is two sums; a product four products and two sums, so three FLOPs for each part.
/// `None` where it has no such form.
///
/// Products of matrices of complex numbers or of 32- and 64-bit integers have none either: no
/// kernel of any library that is measured computes them.
pub(crate) fn on_reals(op: Op, inputs: &[&Tensor], outputs: &[&Tensor]) -> Option<Op> {
    if matches!(op, Op::Gemm(_) | Op::Conv(_) | Op::Attention(_) | Op::Recurrent(_)) {
        let real = |tensor: &&Tensor| tensor.element.is_some() && !tensor.is_complex();
        return inputs.iter().take(2).all(real).then_some(op);
    }
    let complex = |tensors: &[&Tensor]| tensors.iter().filter(|tensor| tensor.is_complex()).count();
    let (read, written) = (complex(inputs), complex(outputs));
    if read + written == 0 {
        return Some(op);
    }
    match op {
        Op::View | Op::Empty => Some(op),
        Op::Copy { elements } => Some(Op::Copy { elements: elements.checked_mul(2)? }),
        Op::Gather { rows, width } => Some(Op::Gather { rows, width: width.checked_mul(2)? }),
        Op::Elementwise(Elementwise { function, elements, read: all }) if written == outputs.len() => {
            let function = match (function, inputs.len() - read) {
                (ElementwiseFunction::Add, 0) => ElementwiseFunction::Add,
                (ElementwiseFunction::Mul, 0) => ElementwiseFunction::Several(3),
                (ElementwiseFunction::Mul, 1) => ElementwiseFunction::Mul,
                _ => return None,
            };
            let (elements, read) = (elements.checked_mul(2)?, all.checked_mul(2)?);
            Some(Op::Elementwise(Elementwise { function, elements, read }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use flopgap_flops::ElementType::Fp32;

    use super::*;
    use crate::op::Gemm;

    fn tensor(element: Option<flopgap_flops::ElementType>, element_bytes: u64) -> Tensor {
        let (name, shape, strides) = (String::new(), vec![4], Vec::new());
        Tensor { name, shape, element, element_bytes, parameter: false, trained: false, strides }
    }

    /// `(a + bi)(c + di)` is `ac - bd` and `ad + bc`: six FLOPs.
    #[test]
    fn a_complex_product_is_six_flops() {
        let (complex, real, index) = (tensor(Some(Fp32), 8), tensor(Some(Fp32), 4), tensor(None, 8));
        let of = |function| Op::Elementwise(Elementwise { function, elements: 4, read: 8 });
        let flops = |op: Op, inputs: &[&Tensor]| {
            on_reals(op, inputs, &[&complex]).map(|op| op.work(Fp32).unwrap().flops)
        };
        let (add, mul) = (of(ElementwiseFunction::Add), of(ElementwiseFunction::Mul));
        assert_eq!(flops(mul.clone(), &[&complex, &complex]), Some(4 * 6));
        assert_eq!(flops(mul, &[&complex, &real]), Some(4 * 2));
        assert_eq!(flops(add.clone(), &[&complex, &complex]), Some(4 * 2));
        assert_eq!(flops(add, &[&complex, &real]), None);
        assert_eq!(flops(of(ElementwiseFunction::Transcendental), &[&complex]), None);
        let gemm = Op::Gemm(Gemm { batch: 1, m: 4, n: 1, k: 4 });
        assert_eq!(on_reals(gemm.clone(), &[&complex, &complex], &[&complex]), None);
        assert_eq!(on_reals(gemm.clone(), &[&index, &index], &[&index]), None);
        assert_eq!(on_reals(gemm.clone(), &[&real, &real], &[&real]), Some(gemm));
    }
}
