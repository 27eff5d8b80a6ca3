//! One network on a GPU.

use flopgap_gpu::blas::Gemm;
use flopgap_gpu::{Buffer, Graph, View, nvtx};

use super::engine::Engine;
use super::pointwise::Sum;
use crate::square::SquareError;
use crate::square::backend::{Backend, Progress};
use crate::square::{Shape, init};

/// A network on a GPU, made by [`Engine::network`]. See [`Backend`].
///
/// [`Backend::forward`] and [`Backend::backward`] queue launches on one stream in the order of
/// `PyTorch`, so that each can be counted. [`Network::record`] makes one CUDA graph of them, in
/// which the gradients of the weights run concurrently with the chain of layers.
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

/// The work of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Forward.
    Forward,
    /// Backward, of the last forward.
    Backward,
    /// Forward, then backward.
    Both,
}

/// Where gradients of weights are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Each before the chain goes on.
    Between,
    /// On the stream parallel to the chain.
    Beside,
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
        let stream = &engine.chain.stream;
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
        Ok(self.engine.chain.stream.synchronize()?)
    }

    /// Records `repetitions` of the work as one CUDA graph. The work is done once to begin with.
    ///
    /// # Errors
    /// [`SquareError::Order`] before setup, or of backward before forward; the driver's.
    pub fn record(&mut self, work: Work, repetitions: usize) -> Result<Recorded<'_, 'e>, SquareError> {
        // What is loaded at first use must be loaded before the capture.
        self.enqueue(work)?;
        self.synchronize()?;
        let stream = self.engine.chain.stream.clone();
        let graph = stream.capture(|| (0..repetitions).try_for_each(|_| self.enqueue(work)))?;
        graph.upload()?;
        Ok(Recorded { graph, work, network: self })
    }

    fn enqueue(&mut self, work: Work) -> Result<(), SquareError> {
        if work != Work::Backward {
            self.enqueue_forward()?;
        }
        if work != Work::Forward {
            self.enqueue_backward(Order::Beside)?;
        }
        Ok(())
    }

    fn layer<'a>(&self, weights: &'a Buffer<f32>, layer: usize) -> View<'a, f32> {
        let matrix = self.shape.matrix();
        weights.slice(layer * matrix..(layer + 1) * matrix)
    }

    fn panel<'a>(&self, panels: &'a Buffer<f32>, index: usize) -> View<'a, f32> {
        let panel = self.shape.panel();
        panels.slice(index * panel..(index + 1) * panel)
    }

    fn enqueue_forward(&mut self) -> Result<(), SquareError> {
        self.progress.require(Progress::Loaded, "a forward pass")?;
        let engine = self.engine;
        let (width, samples) = (self.shape.width(), self.shape.samples());
        let stream = &engine.chain.stream;
        let panel = self.shape.panel();
        for layer in 0..self.shape.layers() {
            let weights = self.layer(&self.weights, layer);
            let (below, mut above) = self.activations.split_at_mut((layer + 1) * panel);
            let below = below.slice(layer * panel..);
            let mut above = above.slice_mut(..panel);
            // Row-major matrices are column-major ones transposed: above^T = below^T * W^T.
            let product = Gemm::new(samples, width, width);
            engine.chain.blas.sgemm(&product, &below, &weights, &mut above)?;
            engine.pointwise.forward(stream, &mut above)?;
        }
        self.progress = Progress::Forward;
        Ok(())
    }

    fn enqueue_backward(&mut self, order: Order) -> Result<(), SquareError> {
        self.progress.require(Progress::Forward, "a backward pass")?;
        let queued = self.layer_by_layer(order);
        if queued.is_err() && order == Order::Beside {
            // The pass did not come to where it waits. The error says why.
            let _ = self.engine.chain.wait_for(&self.engine.beside);
        }
        queued?;
        self.progress = Progress::Backward;
        Ok(())
    }

    fn layer_by_layer(&mut self, order: Order) -> Result<(), SquareError> {
        let (chain, beside) = (&self.engine.chain, &self.engine.beside);
        self.loss_of_output(order)?;
        self.last_delta()?;
        for layer in (0..self.shape.layers()).rev() {
            if order == Order::Beside {
                beside.wait_for(chain)?;
            }
            self.weight_gradient(layer, order)?;
            if layer > 0 {
                self.chain_gradient(layer)?;
            }
        }
        if order == Order::Beside {
            chain.wait_for(beside)?;
        }
        Ok(())
    }

    fn loss_of_output(&mut self, order: Order) -> Result<(), SquareError> {
        let engine = self.engine;
        let output = self.panel(&self.activations, self.shape.layers());
        let stream = if order == Order::Beside {
            engine.beside.wait_for(&engine.chain)?;
            &engine.beside.stream
        } else {
            &engine.chain.stream
        };
        Ok(engine.pointwise.loss(stream, &output, &mut self.sum)?)
    }

    /// The gradient before the activation of the last layer.
    fn last_delta(&mut self) -> Result<(), SquareError> {
        let engine = self.engine;
        let output = self.panel(&self.activations, self.shape.layers());
        let mut last = self.deltas.slice_mut((self.shape.layers() - 1) * self.shape.panel()..);
        Ok(engine.pointwise.backward_of_sum(&engine.chain.stream, &mut last, &output)?)
    }

    /// The gradient before the activation of layer `layer - 1`, from that of `layer`.
    fn chain_gradient(&mut self, layer: usize) -> Result<(), SquareError> {
        let engine = self.engine;
        let (width, samples, panel) = (self.shape.width(), self.shape.samples(), self.shape.panel());
        let stream = &engine.chain.stream;
        let weights = self.layer(&self.weights, layer);
        let output = self.panel(&self.activations, layer);
        let (mut below, above) = self.deltas.split_at_mut(layer * panel);
        let mut below = below.slice_mut((layer - 1) * panel..);
        let above = above.slice(..panel);
        let product = Gemm::new(samples, width, width).transpose_b();
        engine.chain.blas.sgemm(&product, &above, &weights, &mut below)?;
        Ok(engine.pointwise.backward(stream, &mut below, &output)?)
    }

    /// The gradient of the weights of one layer.
    fn weight_gradient(&mut self, layer: usize, order: Order) -> Result<(), SquareError> {
        let (width, samples, matrix) = (self.shape.width(), self.shape.samples(), self.shape.matrix());
        let lane = if order == Order::Beside { &self.engine.beside } else { &self.engine.chain };
        let below = self.panel(&self.activations, layer);
        let delta = self.panel(&self.deltas, layer);
        let mut gradient = self.gradients.slice_mut(layer * matrix..(layer + 1) * matrix);
        let product = Gemm::new(width, width, samples).transpose_a();
        Ok(lane.blas.sgemm(&product, &below, &delta, &mut gradient)?)
    }
}

impl Drop for Network<'_> {
    fn drop(&mut self) {
        // The arrays are freed in the order of the chain's stream; work concurrent with it is
        // waited for at the end of every pass, except after an error in the middle of one. Nothing
        // can be done about an error here.
        let _ = self.engine.chain.wait_for(&self.engine.beside);
    }
}

impl Backend for Network<'_> {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn upload(&mut self, weights: &[f32], input: &[f32]) -> Result<(), SquareError> {
        self.shape.check(weights, input)?;
        let _range = nvtx::range("setup");
        let stream = &self.engine.chain.stream;
        stream.write(weights, &mut self.weights)?;
        stream.write(input, &mut self.activations)?;
        self.progress = Progress::Loaded;
        Ok(())
    }

    fn initialize(&mut self, seed: u64) -> Result<(), SquareError> {
        let _range = nvtx::range("setup");
        let (stream, pointwise) = (&self.engine.chain.stream, &self.engine.pointwise);
        let first = self.shape.weights() as u64;
        let bound = init::weight_bound(self.shape);
        pointwise.random(stream, &mut self.weights.as_view_mut(), seed, 0, bound)?;
        let mut input = self.activations.slice_mut(..self.shape.panel());
        pointwise.random(stream, &mut input, seed, first, 1.0)?;
        self.progress = Progress::Loaded;
        Ok(())
    }

    fn forward(&mut self) -> Result<(), SquareError> {
        let _range = nvtx::range("forward");
        self.enqueue_forward()
    }

    fn backward(&mut self) -> Result<(), SquareError> {
        let _range = nvtx::range("backward");
        self.enqueue_backward(Order::Between)
    }

    fn weights(&self) -> Result<Vec<f32>, SquareError> {
        self.progress.require(Progress::Loaded, "the weights")?;
        Ok(self.engine.chain.stream.download(&self.weights)?)
    }

    fn input(&self) -> Result<Vec<f32>, SquareError> {
        self.progress.require(Progress::Loaded, "the input")?;
        Ok(self.engine.chain.stream.download(&self.panel(&self.activations, 0))?)
    }

    fn output(&self) -> Result<Vec<f32>, SquareError> {
        self.progress.require(Progress::Forward, "the output")?;
        let last = self.panel(&self.activations, self.shape.layers());
        Ok(self.engine.chain.stream.download(&last)?)
    }

    fn loss(&self) -> Result<f32, SquareError> {
        self.progress.require(Progress::Backward, "the loss")?;
        Ok(self.engine.chain.stream.download(&self.sum.loss)?[0])
    }

    fn gradients(&self) -> Result<Vec<f32>, SquareError> {
        self.progress.require(Progress::Backward, "the gradients")?;
        Ok(self.engine.chain.stream.download(&self.gradients)?)
    }
}

/// Work of a network as one CUDA graph.
#[derive(Debug)]
pub struct Recorded<'n, 'e> {
    graph: Graph,
    work: Work,
    network: &'n mut Network<'e>,
}

impl<'e> Recorded<'_, 'e> {
    /// Queues the graph.
    ///
    /// # Errors
    /// [`SquareError::Order`] for a backward pass after new weights; the driver's.
    pub fn launch(&mut self) -> Result<(), SquareError> {
        let (least, after) = match self.work {
            Work::Forward => (Progress::Loaded, Progress::Forward),
            Work::Backward => (Progress::Forward, Progress::Backward),
            Work::Both => (Progress::Loaded, Progress::Backward),
        };
        self.network.progress.require(least, "a launch of the graph")?;
        self.graph.launch()?;
        self.network.progress = after;
        Ok(())
    }

    /// Other weights and input for the launches that follow: [`Backend::upload`].
    ///
    /// # Errors
    /// As there.
    pub fn upload(&mut self, weights: &[f32], input: &[f32]) -> Result<(), SquareError> {
        self.network.upload(weights, input)
    }

    /// The weights and the input of another seed for the launches that follow:
    /// [`Backend::initialize`].
    ///
    /// # Errors
    /// As there.
    pub fn initialize(&mut self, seed: u64) -> Result<(), SquareError> {
        self.network.initialize(seed)
    }

    /// Kernels, copies and fills in the graph.
    pub fn nodes(&self) -> usize {
        self.graph.nodes()
    }

    /// The network, whose results are those of the last launch.
    pub fn network(&self) -> &Network<'e> {
        self.network
    }
}
