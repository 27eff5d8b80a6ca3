//! Recurrent layers of `ATen`: several in one call, and single steps.

use flopgap_flops::operator::{Cell, Recurrent};

use super::call::Call;

/// One of the layers.
pub(super) struct Stacked {
    pub(super) layer: Recurrent,
    /// The operands that are its parameters, by position.
    pub(super) parameters: Vec<usize>,
}

/// The layers of `lstm`, `gru`, `rnn_tanh`, `rnn_relu`; `None` for packed sequences, projections
/// and shapes that do not fit.
pub(super) fn stacked(call: &Call<'_>) -> Option<Vec<Stacked>> {
    let kind = match call.name {
        "lstm" => Cell::Lstm,
        "gru" => Cell::Gru,
        "rnn_tanh" | "rnn_relu" => Cell::Rnn,
        _ => return None,
    };
    let ([a, b, features], "input") = (call.shape(call.position("input")?)?, call.overload) else {
        return None;
    };
    let (batch, length) = if call.truth("batch_first") == Some(true) { (*a, *b) } else { (*b, *a) };
    let bias = call.truth("has_biases")?;
    let directions = if call.truth("bidirectional")? { 2 } else { 1 };
    let parameters: Vec<usize> =
        (0..call.operands.len()).filter(|&index| call.operands[index].argument == "params").collect();
    let layers = usize::try_from(call.integer("num_layers")?).ok().filter(|&layers| layers > 0)?;
    let each = (if bias { 4 } else { 2 }) * if directions == 2 { 2 } else { 1 };
    // With a projection there is a matrix more.
    if Some(parameters.len()) != layers.checked_mul(each) {
        return None;
    }
    let mut inputs = *features;
    parameters
        .chunks(each)
        .map(|parameters| {
            let [rows, columns] = call.shape(*parameters.first()?)? else { return None };
            let hidden = rows / kind.gates();
            let recurrent = call.shape(*parameters.get(1)?)?;
            if *columns != inputs || hidden * kind.gates() != *rows || recurrent != [*rows, hidden] {
                return None;
            }
            let layer = Recurrent { cell: kind, batch, length, inputs, hidden, directions, bias };
            inputs = directions * hidden;
            Some(Stacked { layer, parameters: parameters.to_vec() })
        })
        .collect()
}

/// One step of a cell, which is two products and a function of their sums.
pub(super) struct OneStep {
    /// Sequences.
    pub(super) batch: u64,
    pub(super) hidden: u64,
    /// Rows of the weights.
    pub(super) rows: u64,
    /// FLOPs of the function for each hidden unit.
    pub(super) flops: u8,
    /// The operands of both products: factors, weights, and a bias where there is one.
    pub(super) products: [Vec<usize>; 2],
    /// The states that the function reads.
    pub(super) states: Vec<usize>,
}

/// The step of `lstm_cell`, `gru_cell`, `rnn_tanh_cell`, `rnn_relu_cell`; `None` for shapes that do
/// not fit.
pub(super) fn one_step(call: &Call<'_>) -> Option<OneStep> {
    let kind = match call.name {
        "lstm_cell" => Cell::Lstm,
        "gru_cell" => Cell::Gru,
        "rnn_tanh_cell" | "rnn_relu_cell" => Cell::Rnn,
        _ => return None,
    };
    let states: Vec<usize> =
        (0..call.operands.len()).filter(|&place| call.operands[place].argument == "hx").collect();
    let state = *states.first()?;
    let operands = |factor: usize, weights: &str, bias: &str| {
        Some([Some(factor), call.position(weights), call.position(bias)].into_iter().flatten().collect())
    };
    let (batch, hidden) = match *call.shape(state)? {
        [batch, hidden] => (batch, hidden),
        [hidden] => (1, hidden),
        _ => return None,
    };
    let rows = kind.gates().checked_mul(hidden)?;
    for weights in ["w_ih", "w_hh"] {
        if call.shape(call.position(weights)?)?.first() != Some(&rows) {
            return None;
        }
    }
    let products = [operands(call.position("input")?, "w_ih", "b_ih")?, operands(state, "w_hh", "b_hh")?];
    // A simple cell reads its state in the product alone, the others the last one again.
    let states = if kind == Cell::Rnn { Vec::new() } else { vec![*states.last()?] };
    // The sum and the activation.
    let flops = if call.name == "rnn_relu_cell" { 2 } else { kind.pointwise() };
    Some(OneStep { batch, hidden, rows, flops, products, states })
}
