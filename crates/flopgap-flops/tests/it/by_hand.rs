//! What activations cost, worked out on paper.

use flopgap_flops::{Activation, ActivationCosts};

/// The formulas in the documentation, counted term by term.
#[test]
fn element_costs() {
    let costs = Activation::ALL.map(|activation| {
        let cost = ActivationCosts::Arithmetic.of(activation);
        (activation.name(), cost.forward, cost.derivative)
    });
    assert_eq!(
        costs,
        [
            ("identity", 0, 0),
            ("relu", 1, 1),
            ("leaky_relu", 2, 1),
            ("sigmoid", 4, 2),
            ("tanh", 5, 2),
            // x/2, x/sqrt2, erf, 1+, product; Phi: x/sqrt2, erf, 1+, halved; phi: square, halved
            // and negated, exp, scaled; x phi and the sum.
            ("gelu", 5, 4 + 4 + 2),
            // Inner polynomial 5, tanh 5, 1+, x/2, product. Again the 10; (1+t)/2 2; 1-tt 2;
            // polynomial of the derivative 4; three products and the sum.
            ("gelu_tanh", 5 + 5 + 3, 10 + 2 + 2 + 4 + 4),
            ("silu", 4 + 1, 4 + 4),
        ]
    );
}
