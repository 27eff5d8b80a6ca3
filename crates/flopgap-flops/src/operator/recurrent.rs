//! Recurrent layers.

use crate::{ElementType, FlopError, Work, checked};

/// The cell of a recurrent layer. In text and JSON: `rnn`, `gru`, `lstm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cell {
    /// `tanh(W x + R h)`.
    Rnn,
    /// Two gates and a candidate.
    Gru,
    /// Three gates and a candidate, and a cell state.
    Lstm,
}

impl Cell {
    /// Blocks of rows of the weights: gates and candidates.
    pub const fn gates(self) -> u64 {
        match self {
            Self::Rnn => 1,
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }

    /// Element-wise FLOPs of a step for each hidden unit, biases apart.
    ///
    /// ```
    /// use flopgap_flops::operator::Cell;
    ///
    /// assert_eq!([Cell::Rnn, Cell::Gru, Cell::Lstm].map(Cell::pointwise), [6, 21, 30]);
    /// ```
    ///
    /// A sigmoid is 4 and a tanh 5, as in [`Activation::flops`](crate::Activation::flops).
    /// Each gate adds its two products: 1. RNN: 1 + 5. GRU: three sums, two sigmoids, a tanh, `r *
    /// h` 1, `(1 - z) n + z h` 4. LSTM: four sums, three sigmoids, two tanh, `f c + i g` 3, `o
    /// tanh(c)` 1.
    pub const fn pointwise(self) -> u8 {
        match self {
            Self::Rnn => 1 + 5,
            Self::Gru => 3 + 2 * 4 + 5 + 1 + 4,
            Self::Lstm => 4 + 3 * 4 + 2 * 5 + 3 + 1,
        }
    }
}

/// A recurrent layer over whole sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Recurrent {
    /// The cell computed at each step.
    pub cell: Cell,
    /// Sequences.
    pub batch: u64,
    /// Steps of a sequence.
    pub length: u64,
    /// Features of a step.
    pub inputs: u64,
    /// Hidden units of a direction.
    pub hidden: u64,
    /// 2 where the sequence is read in both directions, else 1.
    pub directions: u64,
    /// Whether there are biases: two for each gate, one with each product.
    pub bias: bool,
}

impl Recurrent {
    /// Multiply-adds of the two products of each step.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn multiply_adds(&self) -> Result<u64, FlopError> {
        let quantity = "recurrent multiply-adds";
        let columns = checked::sum(quantity, &[self.inputs, self.hidden])?;
        checked::product(quantity, &[self.units()?, self.cell.gates(), columns])
    }

    /// Two FLOPs for each multiply-add and the element-wise work of the gates. Reads the sequence,
    /// the weights and the biases once; writes the hidden state of each step.
    ///
    /// ```
    /// use flopgap_flops::ElementType;
    /// use flopgap_flops::operator::{Cell, Recurrent};
    ///
    /// let lstm = Recurrent {
    ///     cell: Cell::Lstm, batch: 1, length: 1, inputs: 3, hidden: 2, directions: 1, bias: false,
    /// };
    /// // Four gates of two units from five values; 30 element-wise FLOPs a unit.
    /// assert_eq!(lstm.work(ElementType::Fp32)?.flops, 2 * 4 * 2 * 5 + 30 * 2);
    /// # Ok::<(), flopgap_flops::FlopError>(())
    /// ```
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn work(&self, element: ElementType) -> Result<Work, FlopError> {
        let quantity = "recurrent FLOPs";
        let biases = if self.bias { 2 * self.cell.gates() } else { 0 };
        let units = self.units()?;
        let flops = checked::sum(
            quantity,
            &[
                checked::product(quantity, &[2, self.multiply_adds()?])?,
                checked::product(quantity, &[units, u64::from(self.cell.pointwise()) + biases])?,
            ],
        )?;
        let quantity = "recurrent parameters";
        let columns = checked::sum(quantity, &[self.inputs, self.hidden])?;
        let rows = checked::product(quantity, &[self.directions, self.cell.gates(), self.hidden])?;
        let weights = checked::product(quantity, &[rows, columns])?;
        let biases = if self.bias { checked::product(quantity, &[2, rows])? } else { 0 };
        let sequence = checked::product("sequence elements", &[self.batch, self.length, self.inputs])?;
        Work::of_elements(flops, &[sequence, weights, biases], &[units], element)
    }

    /// Hidden units of all steps, sequences and directions.
    fn units(&self) -> Result<u64, FlopError> {
        checked::product("recurrent units", &[self.batch, self.length, self.directions, self.hidden])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_of_pytorch() {
        // torch.nn.LSTM(10, 20, bidirectional=True) has 5,120 parameters, GRU 3,840, RNN 1,280.
        for (cell, parameters) in [(Cell::Lstm, 5_120), (Cell::Gru, 3_840), (Cell::Rnn, 1_280)] {
            let layer =
                Recurrent { cell, batch: 3, length: 5, inputs: 10, hidden: 20, directions: 2, bias: true };
            let work = layer.work(ElementType::Int8).unwrap();
            assert_eq!(work.bytes_read - 3 * 5 * 10, parameters);
            assert_eq!(work.bytes_written, 3 * 5 * 2 * 20);
            assert_eq!(layer.multiply_adds(), Ok(3 * 5 * 2 * cell.gates() * 20 * 30));
        }
    }
}
