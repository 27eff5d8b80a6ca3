//! The network on the CPU: `gemm` on one thread each, the samples split over threads.
//!
//! A thread takes a block of samples through all layers, so that nothing waits between layers. The
//! gradients of the weights are sums over all samples: they are split by rows of the weights once
//! every block is done, and added in the order of the blocks.

use std::num::NonZero;
use std::thread;

use crate::square::SquareError;
use crate::square::backend::{Backend, Progress};
use crate::square::{Shape, init};
use flopgap_mlp::numerics::{Matrix, product};

/// Fewer samples than this are not worth a thread: the weights are read once for each block.
const SMALLEST_BLOCK: usize = 8;

/// The network on the CPU. See [`Backend`].
///
/// ```
/// use hyper_profile::square::{Backend as _, Cpu, Shape, init, reference};
///
/// let shape = Shape::new(3, 16, 5)?;
/// let mut network = Cpu::new(shape);
/// network.initialize(1)?;
/// network.forward()?;
/// network.backward()?;
/// let expected = reference::run(shape, &init::weights(shape, 1), &init::input(shape, 1))?;
/// assert!(reference::relative_error(&network.gradients()?, &expected.gradients) < 1e-4);
/// # Ok::<(), hyper_profile::square::SquareError>(())
/// ```
#[derive(Debug)]
pub struct Cpu {
    shape: Shape,
    threads: usize,
    weights: Vec<f32>,
    gradients: Vec<f32>,
    blocks: Vec<Block>,
    loss: f32,
    progress: Progress,
}

/// Some of the samples: row-major panels of D x `samples`, one after the other.
#[derive(Debug)]
struct Block {
    first: usize,
    samples: usize,
    /// The input, then the output of every layer.
    activations: Vec<f32>,
    /// The gradient before the activation of every layer.
    deltas: Vec<f32>,
}

impl Cpu {
    /// A network on as many threads as the machine offers.
    pub fn new(shape: Shape) -> Self {
        let threads = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        Self::with_threads(shape, threads)
    }

    /// A network on at most this many threads.
    pub fn with_threads(shape: Shape, threads: NonZero<usize>) -> Self {
        let threads = threads.get();
        let each = shape.samples().div_ceil(threads).max(SMALLEST_BLOCK);
        let blocks = (0..shape.samples()).step_by(each).map(|first| {
            let samples = each.min(shape.samples() - first);
            let panels = |count: usize| vec![0.0; count * shape.width() * samples];
            Block { first, samples, activations: panels(shape.layers() + 1), deltas: panels(shape.layers()) }
        });
        Cpu {
            shape,
            threads,
            weights: vec![0.0; shape.weights()],
            gradients: vec![0.0; shape.weights()],
            blocks: blocks.collect(),
            loss: 0.0,
            progress: Progress::Empty,
        }
    }

    /// The panel of every block that `pick` chooses, as one matrix of D x M.
    fn gather(&self, pick: impl Fn(&Block) -> &[f32]) -> Vec<f32> {
        let mut whole = vec![0.0; self.shape.panel()];
        for block in &self.blocks {
            let rows =
                whole.chunks_exact_mut(self.shape.samples()).zip(pick(block).chunks_exact(block.samples));
            for (row, part) in rows {
                row[block.first..block.first + block.samples].copy_from_slice(part);
            }
        }
        whole
    }

    /// Gradients of the weights, split by rows over the threads.
    fn weight_gradients(&mut self) {
        let (width, matrix) = (self.shape.width(), self.shape.matrix());
        // As many stripes of rows as give every thread work, also where there are few layers.
        let stripes = self.threads.div_ceil(self.shape.layers()).min(width);
        let rows = width.div_ceil(stripes);
        let stripes = self.gradients.chunks_exact_mut(matrix).enumerate().flat_map(|(layer, gradient)| {
            let stripes = gradient.chunks_mut(rows * width).enumerate();
            stripes.map(move |(stripe, gradient)| (layer, stripe * rows, gradient))
        });
        let mut work: Vec<Vec<_>> = (0..self.threads).map(|_| Vec::new()).collect();
        for (index, stripe) in stripes.enumerate() {
            work[index % self.threads].push(stripe);
        }
        let blocks = &self.blocks;
        in_parallel(work.into_iter().filter(|work| !work.is_empty()), |work| {
            for (layer, first_row, gradient) in work {
                let rows = gradient.len() / width;
                for (index, block) in blocks.iter().enumerate() {
                    let panel = width * block.samples;
                    let delta = &block.deltas[layer * panel..(layer + 1) * panel];
                    let delta = &delta[first_row * block.samples..(first_row + rows) * block.samples];
                    let below = &block.activations[layer * panel..(layer + 1) * panel];
                    let delta = Matrix::new(delta, rows, block.samples);
                    let below = Matrix::new(below, width, block.samples).transposed();
                    product(gradient, &delta, &below, index > 0);
                }
            }
        });
    }
}

impl Block {
    fn forward(&mut self, weights: &[f32], width: usize) {
        let panel = width * self.samples;
        for (layer, weights) in weights.chunks_exact(width * width).enumerate() {
            let (below, above) = self.activations[layer * panel..(layer + 2) * panel].split_at_mut(panel);
            product(
                above,
                &Matrix::new(weights, width, width),
                &Matrix::new(below, width, self.samples),
                false,
            );
            for z in above {
                *z = 1.0 / (1.0 + (-*z).exp());
            }
        }
    }

    /// The gradients before the activations, from the last layer to the first.
    fn backward(&mut self, weights: &[f32], width: usize) {
        let panel = width * self.samples;
        let layers = self.deltas.len() / panel;
        for layer in (0..layers).rev() {
            let output = &self.activations[(layer + 1) * panel..(layer + 2) * panel];
            let (delta, above) = self.deltas[layer * panel..].split_at_mut(panel);
            if layer + 1 == layers {
                // The gradient of the sum by the output is 1.
                delta.iter_mut().zip(output).for_each(|(delta, y)| *delta = (1.0 - y) * y);
            } else {
                let weights = &weights[(layer + 1) * width * width..(layer + 2) * width * width];
                let weights = Matrix::new(weights, width, width).transposed();
                product(delta, &weights, &Matrix::new(&above[..panel], width, self.samples), false);
                delta.iter_mut().zip(output).for_each(|(delta, y)| *delta = *delta * (1.0 - y) * y);
            }
        }
    }
}

impl Backend for Cpu {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn upload(&mut self, weights: &[f32], input: &[f32]) -> Result<(), SquareError> {
        self.shape.check(weights, input)?;
        self.weights.copy_from_slice(weights);
        for block in &mut self.blocks {
            let rows = block.activations.chunks_exact_mut(block.samples);
            for (row, whole) in rows.zip(input.chunks_exact(self.shape.samples())) {
                row.copy_from_slice(&whole[block.first..block.first + block.samples]);
            }
        }
        self.progress = Progress::Loaded;
        Ok(())
    }

    fn initialize(&mut self, seed: u64) -> Result<(), SquareError> {
        self.upload(&init::weights(self.shape, seed), &init::input(self.shape, seed))
    }

    fn forward(&mut self) -> Result<(), SquareError> {
        self.progress.require(Progress::Loaded, "a forward pass")?;
        let (weights, width) = (&self.weights, self.shape.width());
        in_parallel(self.blocks.iter_mut(), |block| block.forward(weights, width));
        self.progress = Progress::Forward;
        Ok(())
    }

    fn backward(&mut self) -> Result<(), SquareError> {
        self.progress.require(Progress::Forward, "a backward pass")?;
        let (weights, width) = (&self.weights, self.shape.width());
        in_parallel(self.blocks.iter_mut(), |block| block.backward(weights, width));
        self.weight_gradients();
        let last = self.shape.layers();
        // A 32-bit sum of so many terms would lose digits.
        let sum = |block: &Block| -> f64 {
            let panel = width * block.samples;
            block.activations[last * panel..].iter().copied().map(f64::from).sum()
        };
        #[expect(clippy::cast_possible_truncation, reason = "rounded to the precision of the network")]
        let loss = self.blocks.iter().map(sum).sum::<f64>() as f32;
        self.loss = loss;
        self.progress = Progress::Backward;
        Ok(())
    }

    fn weights(&self) -> Result<Vec<f32>, SquareError> {
        self.progress.require(Progress::Loaded, "the weights")?;
        Ok(self.weights.clone())
    }

    fn input(&self) -> Result<Vec<f32>, SquareError> {
        self.progress.require(Progress::Loaded, "the input")?;
        Ok(self.gather(|block| &block.activations[..self.shape.width() * block.samples]))
    }

    fn output(&self) -> Result<Vec<f32>, SquareError> {
        self.progress.require(Progress::Forward, "the output")?;
        Ok(self
            .gather(|block| &block.activations[self.shape.deltas() / self.shape.samples() * block.samples..]))
    }

    fn loss(&self) -> Result<f32, SquareError> {
        self.progress.require(Progress::Backward, "the loss")?;
        Ok(self.loss)
    }

    fn gradients(&self) -> Result<Vec<f32>, SquareError> {
        self.progress.require(Progress::Backward, "the gradients")?;
        Ok(self.gradients.clone())
    }
}

/// Does each piece of work on a thread of its own; a single one on this thread.
fn in_parallel<T: Send>(work: impl Iterator<Item = T>, each: impl Fn(T) + Sync) {
    let mut work: Vec<T> = work.collect();
    let Some(own) = work.pop() else { return };
    thread::scope(|scope| {
        for piece in work {
            let each = &each;
            scope.spawn(move || each(piece));
        }
        each(own);
    });
}
