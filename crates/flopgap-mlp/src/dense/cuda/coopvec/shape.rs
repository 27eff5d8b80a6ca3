//! What the kernels take of registers and shared memory, by the widths of a network: the sizes of `vectors.cuh` and `weights.cuh`.

use crate::dense::{Network, Precision};

/// A network in the eyes of the kernels.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) widths: Vec<usize>,
    /// Bytes of a number as it is stored.
    pub(super) bytes: usize,
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
        Shape { widths: network.widths().to_vec(), bytes }
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

    /// Registers of a lane for one of its samples while the forward pass is at its widest, the inputs of a network of one hidden layer counted as
    /// `inputs`.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
