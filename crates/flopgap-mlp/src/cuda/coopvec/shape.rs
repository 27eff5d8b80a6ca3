//! What the kernels take of registers, shared memory and instructions, by the widths of a network:
//! the sizes of `vectors.cuh` and `weights.cuh`.

use crate::cuda::budget;
use crate::{Activation, Network, Precision};

/// A network in the eyes of the kernels.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) widths: Vec<usize>,
    /// Bytes of a number as it is stored.
    pub(super) bytes: usize,
    hidden: Activation,
    output: Activation,
}

/// How much of a kernel is loops: `ROLLED` in `vectors.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rolled {
    /// Nothing: operands stay in registers.
    No,
    /// The pieces of a hidden layer, and layers of equal widths.
    Layers,
    /// The pieces of every operand, too.
    Operands,
}

impl Rolled {
    /// All, the fastest first.
    pub(super) const ALL: [Self; 3] = [Rolled::No, Rolled::Layers, Rolled::Operands];
}

/// Features of a width whose code differs from that of others, where a loop goes over pieces of
/// `cut`.
fn distinct(width: usize, cut: usize) -> usize {
    let tail = if cut == 32 { width & 16 } else { 0 };
    (if width >= cut { cut } else { 0 }) + tail + (width & 8)
}

/// Slabs of weights, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slabs {
    /// All of them.
    pub(super) all: usize,
    /// The largest.
    pub(super) largest: usize,
}

impl FromIterator<usize> for Slabs {
    fn from_iter<I: IntoIterator<Item = usize>>(slabs: I) -> Self {
        slabs.into_iter().fold(Slabs { all: 0, largest: 0 }, |slabs, slab| Slabs {
            all: slabs.all + slab,
            largest: slabs.largest.max(slab),
        })
    }
}

/// The pieces that a width is cut into, as `pieces_of` in `weights.cuh`.
fn pieces(width: usize, cut: usize) -> impl Iterator<Item = usize> {
    let rest = width % cut;
    let tail = [16, 8].into_iter().filter(move |piece| rest & piece != 0);
    std::iter::repeat_n(cut, width / cut).chain(tail)
}

impl Shape {
    pub(super) fn new(network: &Network, precision: Precision) -> Self {
        let bytes = if precision == Precision::F32 { 4 } else { 2 };
        Shape {
            widths: network.widths().to_vec(),
            bytes,
            hidden: network.activation(0),
            output: network.activation(network.layers() - 1),
        }
    }

    pub(super) fn layers(&self) -> usize {
        self.widths.len() - 1
    }

    pub(super) fn outputs(&self) -> usize {
        self.widths[self.layers()]
    }

    /// Elements that the weights of `n` outputs over `k` inputs take in shared memory.
    fn elements(&self, n: usize, k: usize) -> usize {
        n * if self.bytes == 4 { k + 4 } else { k }
    }

    /// The slabs of the forward pass, the last hidden layer cut into pieces of `cut`.
    pub(super) fn forward_slabs(&self, cut: usize) -> Slabs {
        let last = self.layers() - 2;
        let slab = |layer: usize, piece: usize| {
            let behind = if layer == last { self.elements(self.outputs(), piece) } else { 0 };
            self.elements(piece, self.widths[layer]) + behind
        };
        (0..=last)
            .flat_map(|layer| {
                let cut = if layer == last { cut } else { 32 };
                pieces(self.widths[layer + 1], cut).map(move |piece| slab(layer, piece))
            })
            .collect()
    }

    /// The slabs of the backward pass.
    pub(super) fn backward_slabs(&self) -> Slabs {
        (0..self.layers())
            .flat_map(|layer| {
                pieces(self.widths[layer], 32).map(move |piece| self.elements(piece, self.widths[layer + 1]))
            })
            .collect()
    }

    /// Registers of a lane that hold `width` operands of one of its samples.
    pub(super) fn operand(&self, width: usize) -> usize {
        width * self.bytes / 16
    }

    /// Registers of a lane that hold `width` sums of one of its samples.
    pub(super) fn sum(width: usize) -> usize {
        width / 4
    }

    /// Registers of a lane for one of its samples while the forward pass is at its widest, the
    /// inputs of a network of one hidden layer counted as `inputs`.
    pub(super) fn forward_registers(&self, inputs: usize) -> usize {
        let last = self.layers() - 2;
        let width = |layer: usize| if layer == 0 { inputs } else { self.widths[layer] };
        let chain = (0..last).map(|layer| self.operand(width(layer)) + self.operand(self.widths[layer + 1]));
        let end = self.operand(width(last)) + Self::sum(self.outputs());
        chain.chain([end]).max().unwrap_or_default()
    }

    /// The same of the backward pass; with `reload` no layer is kept beside the next.
    pub(super) fn backward_registers(&self, reload: bool) -> usize {
        let layers = (0..self.layers()).map(|layer| {
            let kept = if reload || layer == 0 { 0 } else { self.operand(self.widths[layer]) };
            self.operand(self.widths[layer + 1]) + kept
        });
        layers.max().unwrap_or_default()
    }
}

/// How many instructions the kernels have, more or less: what the compiler's time goes by.
impl Shape {
    /// A product of `rows` samples of a lane, `outputs` features of `inputs`.
    fn product(&self, rows: usize, outputs: usize, inputs: usize) -> usize {
        if self.bytes == 4 {
            (rows * outputs * inputs).div_ceil(4) + (outputs * inputs).div_ceil(16) + rows * inputs
        } else {
            rows * (outputs * inputs).div_ceil(256) + (outputs * inputs).div_ceil(128)
        }
    }

    /// What is done to each of `width` features.
    fn each(rows: usize, width: usize, instructions: usize) -> usize {
        (rows * width).div_ceil(4) * instructions
    }

    /// The layers whose code is in the kernel: where layers of equal widths share it, the first of
    /// those.
    fn distinct_layers(&self, layers: std::ops::Range<usize>, rolled: Rolled) -> impl Iterator<Item = usize> {
        let first = layers.start;
        layers.filter(move |&layer| {
            rolled == Rolled::No
                || layer == first
                || self.widths[layer - 1..=layer] != self.widths[layer..=layer + 1]
        })
    }

    /// The forward pass that keeps what the backward pass needs.
    pub(super) fn forward_instructions(&self, rows: usize, cut: usize, rolled: Rolled) -> usize {
        let last = self.layers() - 2;
        // Storing and packing beside the activation.
        let [hidden, output] = [self.hidden, self.output].map(|of| 6 + budget::activation(of));
        let rolled_width = |width, rolls: bool| if rolls { distinct(width, 32) } else { width };
        let operand = |width| rolled_width(width, rolled == Rolled::Operands);
        let chain: usize = self
            .distinct_layers(0..last, rolled)
            .map(|layer| {
                let outputs = rolled_width(self.widths[layer + 1], rolled != Rolled::No);
                self.product(rows, outputs, operand(self.widths[layer])) + Self::each(rows, outputs, hidden)
            })
            .sum();
        let pieces = distinct(self.widths[last + 1], cut);
        let end = self.product(rows, pieces, operand(self.widths[last]))
            + Self::each(rows, pieces, hidden)
            + self.product(rows, operand(self.outputs()), pieces)
            + Self::each(rows, operand(self.outputs()), output);
        chain + end + Self::each(rows, operand(self.widths[0]), 1)
    }

    /// The backward pass with the gradients by the inputs.
    pub(super) fn backward_instructions(&self, rows: usize, reload: bool, rolled: Rolled) -> usize {
        let [hidden, output] = [self.hidden, self.output].map(|of| 8 + budget::slope(of));
        let of_sums =
            if crate::slope_from_output(self.hidden) { 0 } else { 4 + budget::activation(self.hidden) };
        let operand = |width| if rolled == Rolled::Operands { distinct(width, 32) } else { width };
        let layers: usize = self
            .distinct_layers(1..self.layers(), rolled)
            .map(|layer| {
                let width = self.widths[layer];
                let outputs = if reload { distinct(width, 32) } else { operand(width) };
                let read = if reload { Self::each(rows, operand(width), 1) } else { 0 };
                self.product(rows, outputs, operand(self.widths[layer + 1]))
                    + Self::each(rows, outputs, hidden + of_sums)
                    + read
            })
            .sum();
        let inputs = distinct(self.widths[0], 32);
        let of_inputs = self.product(rows, inputs, operand(self.widths[1])) + Self::each(rows, inputs, 2);
        layers + of_inputs + Self::each(rows, operand(self.outputs()), output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;

    fn shape(widths: &[usize], precision: Precision) -> Shape {
        Shape::new(&Network::new(widths).unwrap(), precision)
    }

    #[test]
    fn slabs_hold_every_weight_once() {
        for (widths, cut) in [(&[64, 64, 16][..], 32), (&[24, 40, 56, 8], 32), (&[72, 136, 24], 16)] {
            let shape = shape(widths, Precision::F16);
            let weights: usize = widths.windows(2).map(|pair| pair[0] * pair[1]).sum();
            assert_eq!(shape.forward_slabs(cut).all, weights);
            assert_eq!(shape.backward_slabs().all, weights);
        }
        let slabs = shape(&[512, 512, 128], Precision::F16).forward_slabs(16);
        assert_eq!(slabs.largest, 16 * 512 + 128 * 16);
    }

    #[test]
    fn registers_are_those_of_the_widest_layer() {
        let shape = shape(&[128, 128, 32], Precision::F16);
        assert_eq!(shape.forward_registers(128), 16 + 8);
        assert_eq!(shape.backward_registers(false), 16 + 4);
        assert_eq!(shape.forward_registers(64), 8 + 8);
    }

    /// They stay in registers: what was measured.
    #[test]
    fn the_networks_of_the_benchmark_are_not_rolled() {
        for size in Size::ALL {
            for (precision, rows) in [(Precision::F32, 1), (Precision::F16, 4)] {
                let shape = Shape::new(&size.network(), precision);
                assert!(shape.forward_instructions(rows, 32, Rolled::No) <= budget::KERNEL, "{size:?}");
                assert!(shape.backward_instructions(rows, true, Rolled::No) <= budget::KERNEL, "{size:?}");
            }
        }
    }

    #[test]
    fn loops_leave_less_code_and_layers_of_equal_widths_share_it() {
        let deep = shape(&[64; 65], Precision::F16);
        let [none, layers, operands] = Rolled::ALL.map(|rolled| deep.forward_instructions(4, 32, rolled));
        assert!(
            none > budget::KERNEL && layers < none / 20 && operands <= layers,
            "{none} {layers} {operands}"
        );
        let odd = shape(&[128, 136, 72, 16, 32, 168], Precision::F32);
        assert!(odd.forward_instructions(2, 32, Rolled::No) > budget::KERNEL);
        assert!(odd.forward_instructions(2, 32, Rolled::Operands) <= budget::KERNEL);
        let deltas = |rolled| deep.backward_instructions(4, true, rolled);
        assert!(deltas(Rolled::Operands) < deltas(Rolled::No) / 20);
    }
}
