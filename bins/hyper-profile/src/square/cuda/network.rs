//! One network on a GPU.

use flopgap_gpu::blas::Gemm;
use flopgap_gpu::{Buffer, View};

use super::engine::Engine;
use super::pointwise::Sum;
use crate::square::{Shape, SquareError};

/// A network on a GPU, made by [`Engine::network`], in 32-bit floats.
///
/// The phases are setup ([`Network::upload`] or [`Network::initialize`]), [`Network::forward`],
/// [`Network::backward`]. They queue launches on [`Engine::stream`] in the order of `PyTorch`, so
/// that each can be counted, and may return before the work is done; calls that return numbers wait
/// for it.
#[derive(Debug)]
pub struct Network<'e> {
    engine: &'e Engine,
    shape: Shape,
    weights: Buffer<f32>,
    gradients: Buffer<f32>,
    /// The input, then the output of every layer.
    activations: Buffer<f32>,
    /// The gradient before the activation of every layer.
    deltas: Buffer<f32>,
    sum: Sum,
    progress: Progress,
}

/// The progress of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Empty,
    Loaded,
    Forward,
    Backward,
}

impl Progress {
    /// Rejects calls that come before their prerequisites.
    fn require(self, least: Progress, asked: &'static str) -> Result<(), SquareError> {
        if self >= least {
            return Ok(());
        }
        let missing = match least {
            Progress::Empty | Progress::Loaded => "weights and input",
            Progress::Forward => "a forward pass",
            Progress::Backward => "a backward pass",
        };
        Err(SquareError::Order { asked, missing })
    }
}

impl Engine {
    /// A network on this GPU, without weights yet.
    ///
    /// # Errors
    /// When there is not enough memory for it: see [`bytes_needed`](super::bytes_needed).
    pub fn network(&self, shape: Shape) -> Result<Network<'_>, SquareError> {
        Network::new(self, shape)
    }
}

impl<'e> Network<'e> {
    fn new(engine: &'e Engine, shape: Shape) -> Result<Self, SquareError> {
        let stream = &engine.stream;
        // SAFETY: any bits are a float. `Progress` sees to it that setup comes before forward, that
        // before backward, and all before anything is handed out; a pass writes all that it and
        // later ones read.
        let unwritten = |numbers| unsafe { stream.unwritten(numbers) };
        Ok(Network {
            engine,
            shape,
            weights: unwritten(shape.weights())?,
            gradients: unwritten(shape.weights())?,
            activations: unwritten(shape.activations())?,
            deltas: unwritten(shape.deltas())?,
            sum: Sum::new(stream)?,
            progress: Progress::Empty,
        })
    }

    /// Waits until everything queued is done.
    ///
    /// # Errors
    /// The error of a kernel that failed.
    pub fn synchronize(&self) -> Result<(), SquareError> {
        Ok(self.engine.stream.synchronize()?)
    }

    /// The sizes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Setup: takes weights and input, in the layout that [`square`](crate::square) documents.
    ///
    /// # Errors
    /// [`SquareError::Length`].
    pub fn upload(&mut self, weights: &[f32], input: &[f32]) -> Result<(), SquareError> {
        self.shape.check(weights, input)?;
        let stream = &self.engine.stream;
        stream.write(weights, &mut self.weights)?;
        stream.write(input, &mut self.activations)?;
        self.progress = Progress::Loaded;
        Ok(())
    }

    /// Setup: weights and input from a seed, made on the GPU. The weights are elements 0 to N D^2
    /// of its sequence (`flopgap_mlp::numerics::uniform`) times [`Shape::weight_bound`], the input
    /// the D M elements after them.
    ///
    /// # Errors
    /// When the device fails.
    pub fn initialize(&mut self, seed: u64) -> Result<(), SquareError> {
        let (stream, pointwise) = (&self.engine.stream, &self.engine.pointwise);
        let first = self.shape.weights() as u64;
        let bound = self.shape.weight_bound();
        pointwise.random(stream, &mut self.weights.as_view_mut(), seed, 0, bound)?;
        let mut input = self.activations.slice_mut(..self.shape.panel());
        pointwise.random(stream, &mut input, seed, first, 1.0)?;
        self.progress = Progress::Loaded;
        Ok(())
    }

    /// The output of every layer.
    ///
    /// # Errors
    /// [`SquareError::Order`] before setup.
    pub fn forward(&mut self) -> Result<(), SquareError> {
        self.progress.require(Progress::Loaded, "a forward pass")?;
        let (engine, panel) = (self.engine, self.shape.panel());
        let (width, samples) = (self.shape.width(), self.shape.samples());
        for layer in 0..self.shape.layers() {
            let weights = self.layer(&self.weights, layer);
            let (below, mut above) = self.activations.split_at_mut((layer + 1) * panel);
            let below = below.slice(layer * panel..);
            let mut above = above.slice_mut(..panel);
            // Row-major matrices are column-major ones transposed: above^T = below^T * W^T.
            let product = Gemm::new(samples, width, width);
            engine.blas.sgemm(&product, &below, &weights, &mut above)?;
            engine.pointwise.forward(&engine.stream, &mut above)?;
        }
        self.progress = Progress::Forward;
        Ok(())
    }

    /// The loss, which is the sum of the output, and its gradient by every weight.
    ///
    /// # Errors
    /// [`SquareError::Order`] before forward.
    pub fn backward(&mut self) -> Result<(), SquareError> {
        self.progress.require(Progress::Forward, "a backward pass")?;
        self.loss_and_last_delta()?;
        for layer in (0..self.shape.layers()).rev() {
            self.weight_gradient(layer)?;
            if layer > 0 {
                self.chain_gradient(layer)?;
            }
        }
        self.progress = Progress::Backward;
        Ok(())
    }

    /// The loss, and the gradient before the activation of the last layer.
    fn loss_and_last_delta(&mut self) -> Result<(), SquareError> {
        let Engine { stream, pointwise, .. } = self.engine;
        let output = self.panel(&self.activations, self.shape.layers());
        pointwise.loss(stream, &output, &mut self.sum)?;
        let mut last = self.deltas.slice_mut((self.shape.layers() - 1) * self.shape.panel()..);
        Ok(pointwise.backward_of_sum(stream, &mut last, &output)?)
    }

    /// The gradient before the activation of layer `layer - 1`, from that of `layer`.
    fn chain_gradient(&mut self, layer: usize) -> Result<(), SquareError> {
        let engine = self.engine;
        let (width, samples, panel) = (self.shape.width(), self.shape.samples(), self.shape.panel());
        let weights = self.layer(&self.weights, layer);
        let output = self.panel(&self.activations, layer);
        let (mut below, above) = self.deltas.split_at_mut(layer * panel);
        let mut below = below.slice_mut((layer - 1) * panel..);
        let above = above.slice(..panel);
        let product = Gemm::new(samples, width, width).transpose_b();
        engine.blas.sgemm(&product, &above, &weights, &mut below)?;
        Ok(engine.pointwise.backward(&engine.stream, &mut below, &output)?)
    }

    /// The gradient of the weights of one layer.
    fn weight_gradient(&mut self, layer: usize) -> Result<(), SquareError> {
        let (width, samples, matrix) = (self.shape.width(), self.shape.samples(), self.shape.matrix());
        let below = self.panel(&self.activations, layer);
        let delta = self.panel(&self.deltas, layer);
        let mut gradient = self.gradients.slice_mut(layer * matrix..(layer + 1) * matrix);
        let product = Gemm::new(width, width, samples).transpose_a();
        Ok(self.engine.blas.sgemm(&product, &below, &delta, &mut gradient)?)
    }

    /// The weights, N D^2 numbers.
    ///
    /// # Errors
    /// [`SquareError::Order`] before setup.
    pub fn weights(&self) -> Result<Vec<f32>, SquareError> {
        self.progress.require(Progress::Loaded, "the weights")?;
        Ok(self.engine.stream.download(&self.weights)?)
    }

    /// The input, D M numbers.
    ///
    /// # Errors
    /// [`SquareError::Order`] before setup.
    pub fn input(&self) -> Result<Vec<f32>, SquareError> {
        self.progress.require(Progress::Loaded, "the input")?;
        Ok(self.engine.stream.download(&self.panel(&self.activations, 0))?)
    }

    /// The output of the last layer, D M numbers.
    ///
    /// # Errors
    /// [`SquareError::Order`] before forward.
    pub fn output(&self) -> Result<Vec<f32>, SquareError> {
        self.progress.require(Progress::Forward, "the output")?;
        let last = self.panel(&self.activations, self.shape.layers());
        Ok(self.engine.stream.download(&last)?)
    }

    /// The sum of the output.
    ///
    /// # Errors
    /// [`SquareError::Order`] before backward.
    pub fn loss(&self) -> Result<f32, SquareError> {
        self.progress.require(Progress::Backward, "the loss")?;
        Ok(self.engine.stream.download(&self.sum.loss)?[0])
    }

    /// The gradient of the loss by every weight, N D^2 numbers.
    ///
    /// # Errors
    /// [`SquareError::Order`] before backward.
    pub fn gradients(&self) -> Result<Vec<f32>, SquareError> {
        self.progress.require(Progress::Backward, "the gradients")?;
        Ok(self.engine.stream.download(&self.gradients)?)
    }

    fn layer<'a>(&self, weights: &'a Buffer<f32>, layer: usize) -> View<'a, f32> {
        let matrix = self.shape.matrix();
        weights.slice(layer * matrix..(layer + 1) * matrix)
    }

    fn panel<'a>(&self, panels: &'a Buffer<f32>, index: usize) -> View<'a, f32> {
        let panel = self.shape.panel();
        panels.slice(index * panel..(index + 1) * panel)
    }
}
