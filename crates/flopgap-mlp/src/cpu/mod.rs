//! The network on the CPU, in 32-bit floats.
//!
//! A thread takes a block of samples through all layers while they are in its second-level cache,
//! so that nothing waits between layers and no layer is written to memory but what the caller asked
//! for. Products are those of the crate `gemm`, on one thread each.

mod activations;
mod adamw;
mod block;
mod cache;
mod loss;
mod peaks;
mod threads;

use std::num::NonZero;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::error::check;
use crate::{MlpError, Network, Parameters};

pub use adamw::AdamW;
pub use loss::squared_error;
pub use peaks::CorePeaks;

use block::{Back, Layers, Scratch, grow};
use threads::Threads;

/// A network on the CPU, in 32-bit floats, on as many threads as the machine offers.
///
/// Inputs, outputs and gradients are the caller's, row-major, a sample a row. The same input gives
/// the same bits on the same number of threads: gradients are summed in the order of the samples.
/// Passes that are called from several threads wait for each other.
///
/// ```
/// use flopgap_mlp::{Cpu, Network, Parameters};
///
/// let network = Network::new(&[16, 64, 8])?;
/// let cpu = Cpu::new(&Parameters::he(&network, 42));
/// let (x, dy) = (vec![0.5; 100 * 16], vec![1.0; 100 * 8]);
/// let (mut y, mut dx) = (vec![0.0; 100 * 8], vec![0.0; 100 * 16]);
/// let mut gradients = vec![0.0; network.parameters()];
///
/// let mut tape = cpu.tape(100);
/// cpu.forward_train(&x, &mut y, &mut tape)?;
/// cpu.backward(&x, &y, &dy, &tape, Some(&mut dx), &mut gradients)?;
/// assert_eq!(gradients[network.biases(1)], [100.0; 8]);
/// # Ok::<(), flopgap_mlp::MlpError>(())
/// ```
#[derive(Debug)]
pub struct Cpu {
    layers: Layers,
    threads: Threads,
    scratch: Mutex<Vec<Scratch>>,
}

/// What [`Cpu::forward_train`] keeps for [`Cpu::backward`].
#[derive(Debug, Clone)]
pub struct Tape {
    kept: Vec<f32>,
    /// Of the pass that is kept; 0 before.
    samples: usize,
    /// Of that pass.
    network: Option<Network>,
}

impl Tape {
    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.kept.len() * size_of::<f32>()
    }
}

/// How a batch is divided: contiguous shares for the threads, and each share into blocks.
#[derive(Debug, Clone, Copy)]
struct Division {
    samples: usize,
    /// Samples of a thread.
    share: usize,
    /// Samples of a block.
    block: usize,
}

/// The numbers of a block may take one part in so many of the second-level cache: the weights, and
/// what comes in and goes out, need the rest.
const BLOCK_OF_CACHE: usize = 2;
/// In fewer samples the weights would be read too often.
const SMALLEST_BLOCK: usize = 96;
/// More samples gain nothing.
const LARGEST_BLOCK: usize = 480;
/// Fewer gradients than this are not worth a thread.
const SMALLEST_PIECE: usize = 16 * 1024;

impl Cpu {
    /// A network with these parameters on as many threads as the machine offers.
    pub fn new(parameters: &Parameters) -> Self {
        Self::with_threads(parameters, thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN))
    }

    /// The same on at most this many threads, the calling one among them. If the system refuses to
    /// start them, fewer: see [`Cpu::threads`].
    pub fn with_threads(parameters: &Parameters, threads: NonZero<usize>) -> Self {
        Cpu {
            layers: Layers::new(parameters),
            threads: Threads::new(threads),
            scratch: Mutex::new(Vec::new()),
        }
    }

    /// The network.
    pub fn network(&self) -> &Network {
        self.layers.network()
    }

    /// The parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.layers.parameters
    }

    /// Threads that passes run on.
    pub fn threads(&self) -> usize {
        self.threads.count()
    }

    /// Bytes that it holds now: the parameters, the weights once more as the forward pass reads
    /// them, and what the passes so far worked in. What the crate `gemm` packs matrices into, at
    /// most some of each core's caches, is not in it.
    ///
    /// ```
    /// use flopgap_mlp::{Cpu, Network, Parameters};
    ///
    /// let network = Network::new(&[16, 64, 8])?;
    /// let cpu = Cpu::new(&Parameters::he(&network, 42));
    /// let before = cpu.bytes();
    /// assert_eq!(before, 2 * network.parameters() * size_of::<f32>());
    /// cpu.forward(&[0.5; 16], &mut [0.0; 8])?;
    /// assert!(cpu.bytes() > before);
    /// # Ok::<(), flopgap_mlp::MlpError>(())
    /// ```
    pub fn bytes(&self) -> usize {
        let scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        self.layers.bytes() + scratch.iter().map(Scratch::bytes).sum::<usize>()
    }

    /// Takes other parameters of the same network. Its activations stay, whatever those of the
    /// parameters' network are.
    ///
    /// # Errors
    /// [`MlpError::Length`] or [`MlpError::OtherNetwork`] when they are of another network.
    pub fn set_parameters(&mut self, parameters: &Parameters) -> Result<(), MlpError> {
        parameters.check_widths(self.network())?;
        self.layers = if parameters.network() == self.network() {
            Layers::new(parameters)
        } else {
            Layers::new(&Parameters::from_values(self.network(), parameters.values().to_vec())?)
        };
        Ok(())
    }

    /// Memory for the training passes on batches of up to `batch` samples.
    pub fn tape(&self, batch: usize) -> Tape {
        Tape { kept: vec![0.0; batch * self.network().kept_of_sample()], samples: 0, network: None }
    }

    /// Computes the outputs of `x` (`batch x inputs`) into `y` (`batch x outputs`).
    ///
    /// # Errors
    /// [`MlpError::Length`]; [`MlpError::Batch`] for an empty one.
    pub fn forward(&self, x: &[f32], y: &mut [f32]) -> Result<(), MlpError> {
        let division = self.division(x.len(), y.len())?;
        let mut scratch = self.scratch();
        let shares = x.chunks(division.share * self.network().inputs());
        let shares = shares.zip(y.chunks_mut(division.share * self.network().outputs()));
        self.threads.each(shares.zip(scratch.iter_mut()), |((x, y), scratch)| {
            let blocks = x.chunks(division.block * self.network().inputs());
            for (x, y) in blocks.zip(y.chunks_mut(division.block * self.network().outputs())) {
                self.layers.forward(x, y, scratch);
            }
        });
        Ok(())
    }

    /// The same, and keeps what [`Cpu::backward`] needs in `tape`.
    ///
    /// # Errors
    /// [`MlpError::Length`]; [`MlpError::Batch`] for an empty one, or one larger than the tape's.
    pub fn forward_train(&self, x: &[f32], y: &mut [f32], tape: &mut Tape) -> Result<(), MlpError> {
        let division = self.division(x.len(), y.len())?;
        let (inputs, outputs, kept) =
            (self.network().inputs(), self.network().outputs(), self.network().kept_of_sample());
        if tape.kept.len() < division.samples * kept {
            return Err(MlpError::Batch { found: division.samples, most: tape.kept.len() / kept });
        }
        tape.samples = division.samples;
        if tape.network.as_ref() != Some(self.network()) {
            tape.network = Some(self.network().clone());
        }
        let mut scratch = self.scratch();
        let shares = x.chunks(division.share * inputs).zip(y.chunks_mut(division.share * outputs));
        let shares = shares.zip(pieces(&mut tape.kept, division.share * kept));
        self.threads.each(shares.zip(scratch.iter_mut()), |(((x, y), tape), scratch)| {
            let blocks = x.chunks(division.block * inputs).zip(y.chunks_mut(division.block * outputs));
            for ((x, y), tape) in blocks.zip(pieces(tape, division.block * kept)) {
                self.layers.forward_train(x, y, &mut tape[..x.len() / inputs * kept], scratch);
            }
        });
        Ok(())
    }

    /// Computes the gradients of the loss whose gradient by the outputs is `dy`, after
    /// [`Cpu::forward_train`] of the same `x`, `y` and `tape`: by the inputs into `dx` (`batch x
    /// inputs`) if it is given, by the parameters, summed over the batch, into `gradients`, which
    /// is overwritten.
    ///
    /// # Errors
    /// [`MlpError::Length`]; [`MlpError::Order`] when the tape is of a pass of another length or
    /// network.
    pub fn backward(
        &self,
        x: &[f32],
        y: &[f32],
        dy: &[f32],
        tape: &Tape,
        dx: Option<&mut [f32]>,
        gradients: &mut [f32],
    ) -> Result<(), MlpError> {
        let division = self.division(x.len(), y.len())?;
        let (inputs, outputs, kept) =
            (self.network().inputs(), self.network().outputs(), self.network().kept_of_sample());
        check("gradients by the outputs", y.len(), dy.len())?;
        self.check_gradients(x, dx.as_deref(), gradients)?;
        if tape.samples != division.samples || tape.network.as_ref() != Some(self.network()) {
            return Err(MlpError::Order {
                asked: "a backward pass",
                missing: "a forward pass of the same network and batch with the same tape",
            });
        }
        self.sum_gradients(division, dx, gradients, |block, dx, gradients, add, scratch| {
            let of = |each: usize| block.start * each..block.end * each;
            let (x, y, dy) = (&x[of(inputs)], &y[of(outputs)], &dy[of(outputs)]);
            let pass = Back { x, y, dy, kept: &tape.kept[of(kept)], dx };
            self.layers.backward(pass, gradients, add, scratch);
            0.0
        });
        Ok(())
    }

    /// Forward pass, loss and backward pass in one, a block of samples at a time: nothing is kept
    /// in memory between them. Returns the loss.
    ///
    /// `loss` is called with the numbers of some samples, their outputs, and room for the gradients
    /// by those, which it writes; it returns the loss of these samples. The losses are added up in
    /// the order of the samples. Otherwise as [`Cpu::backward`].
    ///
    /// ```
    /// use flopgap_mlp::{Cpu, Network, Parameters};
    ///
    /// let network = Network::new(&[8, 16, 8])?;
    /// let cpu = Cpu::new(&Parameters::he(&network, 42));
    /// let (x, targets) = (vec![0.5; 100 * 8], vec![1.0; 100 * 8]);
    /// let mut gradients = vec![0.0; network.parameters()];
    /// // Half of `squared_error`.
    /// let loss = cpu.train(&x, None, &mut gradients, |samples, y, dy| {
    ///     let mut loss = 0.0;
    ///     for ((y, target), dy) in y.iter().zip(&targets[samples.start * 8..]).zip(dy) {
    ///         *dy = y - target;
    ///         loss += 0.5 * f64::from(*dy).powi(2);
    ///     }
    ///     loss
    /// })?;
    /// assert!(loss > 0.0);
    /// # Ok::<(), flopgap_mlp::MlpError>(())
    /// ```
    ///
    /// # Errors
    /// [`MlpError::Length`]; [`MlpError::Batch`] for an empty one.
    pub fn train(
        &self,
        x: &[f32],
        dx: Option<&mut [f32]>,
        gradients: &mut [f32],
        loss: impl Fn(Range<usize>, &[f32], &mut [f32]) -> f64 + Sync,
    ) -> Result<f64, MlpError> {
        let (inputs, outputs, kept) =
            (self.network().inputs(), self.network().outputs(), self.network().kept_of_sample());
        let division = self.division(x.len(), x.len() / inputs * outputs)?;
        self.check_gradients(x, dx.as_deref(), gradients)?;
        Ok(self.sum_gradients(division, dx, gradients, |block, dx, gradients, add, scratch| {
            let x = &x[block.start * inputs..block.end * inputs];
            let (mut kept_all, mut y_all, mut dy_all) = scratch.take_training();
            let y = grow(&mut y_all, block.len() * outputs);
            let dy = grow(&mut dy_all, block.len() * outputs);
            let kept = grow(&mut kept_all, block.len() * kept);
            self.layers.forward_train(x, y, kept, scratch);
            let loss = loss(block, y, dy);
            self.layers.backward(Back { x, y, dy, kept, dx }, gradients, add, scratch);
            scratch.give_training((kept_all, y_all, dy_all));
            loss
        }))
    }

    /// Does a pass over every block, and adds up the gradients and losses of the shares. A pass is
    /// handed its samples, their part of `dx`, the gradients so far, whether to add to them, and
    /// room to work in.
    fn sum_gradients(
        &self,
        division: Division,
        dx: Option<&mut [f32]>,
        gradients: &mut [f32],
        pass: impl Fn(Range<usize>, Option<&mut [f32]>, &mut [f32], bool, &mut Scratch) -> f64 + Sync,
    ) -> f64 {
        let Division { samples, share, block } = division;
        let inputs = self.network().inputs();
        let mut all_scratch = self.scratch();
        let mut losses = vec![0.0; samples.div_ceil(share)];
        // The first share works in the caller's array.
        let (mut dx, mut whole) = (dx, Some(&mut *gradients));
        let mut work = Vec::with_capacity(losses.len());
        for (index, (scratch, loss)) in all_scratch.iter_mut().zip(&mut losses).enumerate() {
            let range = index * share..samples.min((index + 1) * share);
            work.push((split_off(&mut dx, range.len() * inputs), range, whole.take(), scratch, loss));
        }
        self.threads.each(work.into_iter(), |(mut dx, range, whole, scratch, loss)| {
            let mut own = std::mem::take(&mut scratch.gradients);
            let sums = match whole {
                Some(whole) => whole,
                None => grow(&mut own, self.network().parameters()),
            };
            for start in range.clone().step_by(block) {
                let block = start..range.end.min(start + block);
                let dx = split_off(&mut dx, block.len() * inputs);
                *loss += pass(block, dx, sums, start > range.start, scratch);
            }
            scratch.gradients = own;
        });

        let parts: Vec<&[f32]> = all_scratch[1..losses.len()].iter().map(|part| &*part.gradients).collect();
        if !parts.is_empty() {
            let piece = gradients.len().div_ceil(self.threads()).max(SMALLEST_PIECE);
            self.threads.each(gradients.chunks_mut(piece).enumerate(), |(index, sums)| {
                for part in &parts {
                    let part = &part[index * piece..];
                    sums.iter_mut().zip(part).for_each(|(sum, gradient)| *sum += gradient);
                }
            });
        }
        losses.iter().sum()
    }

    /// Room for each thread.
    fn scratch(&self) -> MutexGuard<'_, Vec<Scratch>> {
        // What is in it has no meaning between passes, also after a panic.
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        scratch.resize_with(self.threads(), Scratch::default);
        scratch
    }

    fn division(&self, x: usize, y: usize) -> Result<Division, MlpError> {
        let network = self.network();
        let samples = x / network.inputs();
        check("inputs", samples * network.inputs(), x)?;
        check("outputs", samples * network.outputs(), y)?;
        if samples == 0 {
            return Err(MlpError::Batch { found: 0, most: usize::MAX / network.inputs() });
        }
        let products: usize = network.widths().windows(2).map(|pair| pair[0] * pair[1]).sum();
        let share = self.threads.share(samples, 2 * products);
        let numbers: usize = network.widths().iter().sum();
        let most = (cache::second_level() / BLOCK_OF_CACHE / (numbers * size_of::<f32>()))
            .clamp(SMALLEST_BLOCK, LARGEST_BLOCK);
        // Blocks of about the same size.
        Ok(Division { samples, share, block: share.div_ceil(share.div_ceil(most)) })
    }

    fn check_gradients(&self, x: &[f32], dx: Option<&[f32]>, gradients: &[f32]) -> Result<(), MlpError> {
        check("gradients by the parameters", self.network().parameters(), gradients.len())?;
        dx.map_or(Ok(()), |dx| check("gradients by the inputs", x.len(), dx.len()))
    }
}

/// Pieces of so many numbers, one after the other without end: the last may be shorter, and those
/// after it are empty. So are all pieces of the tape of a single layer, which keeps nothing.
fn pieces(numbers: &mut [f32], each: usize) -> impl Iterator<Item = &mut [f32]> {
    let mut rest = numbers;
    std::iter::from_fn(move || {
        let all = std::mem::take(&mut rest);
        let (piece, others) = all.split_at_mut(each.min(all.len()));
        rest = others;
        Some(piece)
    })
}

/// The first `length` numbers of what is left.
fn split_off<'a>(rest: &mut Option<&'a mut [f32]>, length: usize) -> Option<&'a mut [f32]> {
    let (first, others) = rest.take()?.split_at_mut(length);
    *rest = Some(others);
    Some(first)
}
