//! Recurrent layers of `ATen`: several in one call.

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
