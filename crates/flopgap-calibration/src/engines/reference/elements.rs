//! Functions of each element, and of rows, in 64 bits.

use flopgap_graph::op::ElementwiseFunction;
use flopgap_mlp::reference::activate;

/// As `to_onnx` writes them: a function of two operands that has one is given 1.5 as the other. A
/// shorter operand is repeated.
pub(super) fn apply(
    function: ElementwiseFunction,
    elements: usize,
    first: &[f64],
    second: Option<&[f64]>,
) -> Vec<f64> {
    let constant = [1.5];
    let second = second.unwrap_or(&constant);
    let compute = |a: f64, b: f64| match function {
        ElementwiseFunction::Activation(activation) => activate(activation, a),
        ElementwiseFunction::Add => a + b,
        ElementwiseFunction::Mul => a * b,
        ElementwiseFunction::Div => a / b,
        ElementwiseFunction::Compare => a.max(b),
        ElementwiseFunction::Simple => a.abs(),
        ElementwiseFunction::Transcendental => a.exp(),
        // Quantization, and what is added later: not evaluated.
        _ => f64::NAN,
    };
    let pairs = first.iter().cycle().zip(second.iter().cycle());
    pairs.take(elements).map(|(a, b)| compute(*a, *b)).collect()
}

pub(super) fn softmax(x: &[f64], columns: usize) -> Vec<f64> {
    x.chunks(columns.max(1))
        .flat_map(|row| {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = row.iter().map(|x| (x - largest).exp()).collect();
            let sum: f64 = powers.iter().sum();
            powers.into_iter().map(move |power| power / sum)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_repeated_and_missing_ones_constant() {
        let sums = apply(ElementwiseFunction::Add, 4, &[1.0, 2.0, 3.0, 4.0], Some(&[10.0, 20.0]));
        assert_eq!(sums, [11.0, 22.0, 13.0, 24.0]);
        assert_eq!(apply(ElementwiseFunction::Compare, 2, &[1.0, 2.0], None), [1.5, 2.0]);
    }

    #[test]
    fn rows_of_a_softmax_add_up_to_one() {
        let found = softmax(&[0.0, 0.0, 1000.0, 1000.0 + 3.0_f64.ln()], 2);
        let expected = [0.5, 0.5, 0.25, 0.75];
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
    }
}
