//! One network on a GPU: checked, timed, checked again.

use flopgap_gpu::timing::{Evictor, Repetitions, Samples, host_calls, launches, replays, replays_after};
use flopgap_gpu::{Buffer, Context, Digester, GpuError, Stream};
use flopgap_mlp::cuda::{Model, Tape};
use flopgap_mlp::{Element, MlpError, Network};

use crate::check::{Expected, Found, Left, Numbers, PERIOD, Wrong};
use crate::options::Clocks;
use crate::pass::Pass;
use crate::results::Clock;

/// The byte that arrays are filled with: NaN in all three types.
const POISON: u8 = 0xff;

/// The arrays of a batch on a GPU, which all implementations of a network work on in turn.
pub(crate) struct Arena<'n, T: Element> {
    stream: Stream,
    network: &'n Network,
    batch: usize,
    x: Buffer<T>,
    y: Buffer<T>,
    back: Option<Back<T>>,
}

/// The arrays of the backward pass.
struct Back<T: Element> {
    dy: Buffer<T>,
    /// The same for the samples that are checked, and zero for all others.
    checked_dy: Buffer<T>,
    dx: Buffer<T>,
    gradients: Buffer<f32>,
}

/// `length` numbers on the device, those of `base` over and over.
fn repeated<T: Element>(stream: &Stream, base: &Buffer<T>, length: usize) -> Result<Buffer<T>, GpuError> {
    let mut buffer = stream.zeros::<T>(length)?;
    for start in (0..length).step_by(PERIOD) {
        let part = PERIOD.min(length - start);
        stream.copy(&base.slice(..part), &mut buffer.slice_mut(start..start + part))?;
    }
    Ok(buffer)
}

impl<'n, T: Element> Arena<'n, T> {
    /// For batches of so many samples, and for backward passes if they are wanted.
    pub(crate) fn new(
        context: &Context,
        network: &'n Network,
        numbers: &Numbers<T>,
        expected: &Expected,
        batch: usize,
        backward: bool,
    ) -> Result<Self, MlpError> {
        let stream = context.stream()?;
        let base = stream.upload(&numbers.base)?;
        let (inputs, outputs) = (batch * network.inputs(), batch * network.outputs());
        let (x, y) = (repeated(&stream, &base, inputs)?, stream.zeros(outputs)?);
        let back = if backward {
            let mut checked_dy = stream.zeros(outputs)?;
            let width = network.outputs();
            for (&row, dy) in expected.rows.iter().zip(expected.dy.chunks_exact(width)) {
                let row_of_dy: Vec<T> = dy.iter().copied().map(T::narrow).collect();
                stream.write(&row_of_dy, &mut checked_dy.slice_mut(row * width..(row + 1) * width))?;
            }
            Some(Back {
                dy: repeated(&stream, &base, outputs)?,
                checked_dy,
                dx: stream.zeros(inputs)?,
                gradients: stream.zeros(network.parameters())?,
            })
        } else {
            None
        };
        stream.synchronize()?;
        Ok(Arena { stream, network, batch, x, y, back })
    }

    /// As many samples that are not checked.
    fn others(&self, expected: &Expected) -> Vec<usize> {
        let next = expected.rows.iter().map(|row| row + 1);
        next.filter(|row| *row < self.batch && expected.rows.binary_search(row).is_err()).collect()
    }

    fn rows(&self, buffer: &Buffer<T>, rows: &[usize], width: usize) -> Result<Vec<f32>, GpuError> {
        let mut numbers = Vec::with_capacity(rows.len() * width);
        for &row in rows {
            let row = self.stream.download(&buffer.slice(row * width..(row + 1) * width))?;
            numbers.extend(row.into_iter().map(T::widen));
        }
        Ok(numbers)
    }
}

/// State shared by all measurements on a GPU.
pub(crate) struct Tools {
    pub(crate) digester: Digester,
    /// Where times with an empty cache are requested.
    pub(crate) evictor: Option<Evictor>,
}

/// An implementation at work on the arrays of a batch.
pub(crate) struct Run<'a, 'n, T: Element> {
    arena: &'a mut Arena<'n, T>,
    model: &'a Model<T>,
    tape: Option<Tape<T>>,
    /// The largest error of a forward and a backward pass, once they were checked.
    checked: Option<f64>,
}

impl<'a, 'n, T: Element> Run<'a, 'n, T> {
    /// With what the implementation keeps from the forward to the backward pass.
    pub(crate) fn new(arena: &'a mut Arena<'n, T>, model: &'a Model<T>) -> Result<Self, MlpError> {
        let tape = match &arena.back {
            Some(_) => Some(model.tape(&arena.stream, arena.batch)?),
            None => None,
        };
        Ok(Run { arena, model, tape, checked: None })
    }

    /// Checks a pass, then times it.
    pub(crate) fn measure(
        &mut self,
        pass: Pass,
        expected: &Expected,
        clocks: &Clocks,
        tools: &mut Tools,
    ) -> Result<(f64, Vec<(Clock, Samples)>), Wrong> {
        let error = self.check(pass, expected)?;
        Ok((error, self.time(pass, expected, clocks, tools)?))
    }

    /// Computes a pass and checks what came out. The gradients by the parameters are those of the
    /// checked samples: all other gradients by outputs are zero for once, and then the gradients by
    /// their inputs must be, too.
    fn check(&mut self, pass: Pass, expected: &Expected) -> Result<f64, Wrong> {
        let accumulate = self.model.options().accumulate;
        let (inputs, outputs) = (self.arena.network.inputs(), self.arena.network.outputs());
        if pass == Pass::Forward {
            self.poison(pass)?;
            self.compute(pass)?;
            let outputs = self.arena.rows(&self.arena.y, &expected.rows, outputs)?;
            let found = Found { outputs, gradients: None };
            return expected.check(&found, accumulate).map_err(Wrong::Result);
        }
        if let Some(error) = self.checked {
            return Ok(error);
        }
        self.poison(Pass::Train)?;
        self.compute_with(Pass::Train, true)?;
        let arena = &*self.arena;
        let Some(back) = &arena.back else { return Err(no_arrays()) };
        let found = Found {
            outputs: arena.rows(&arena.y, &expected.rows, outputs)?,
            gradients: Some((
                arena.rows(&back.dx, &expected.rows, inputs)?,
                arena.stream.download(&back.gradients)?,
            )),
        };
        let others = arena.others(expected);
        if arena.rows(&back.dx, &others, inputs)?.iter().any(|&dx| dx != 0.0) {
            return Err(Wrong::Result(
                "gradients by the inputs of samples whose outputs have none".to_owned(),
            ));
        }
        let error = expected.check(&found, accumulate).map_err(Wrong::Result)?;
        self.checked = Some(error);
        Ok(error)
    }

    /// Times a pass by every requested clock.
    fn time(
        &mut self,
        pass: Pass,
        expected: &Expected,
        clocks: &Clocks,
        tools: &mut Tools,
    ) -> Result<Vec<(Clock, Samples)>, Wrong> {
        // Also what the backward pass reads.
        self.compute(if pass == Pass::Forward { pass } else { Pass::Train })?;
        let before = self.left(pass, &mut tools.digester)?;
        self.poison(pass)?;
        let stream = self.arena.stream.clone();
        let once = host_calls(&stream, Repetitions { warmup: 1, measured: 1 }, || self.compute(pass))?;
        let repetitions = clocks.repetitions(once.median());
        let mut times = Vec::new();
        if clocks.of_gpu() {
            times.push((Clock::Graph, replays(&stream, repetitions, || self.compute(pass))?));
            if let Some(evictor) = &mut tools.evictor {
                let evict = || Ok::<_, MlpError>(evictor.evict(&stream)?);
                let samples = replays_after(&stream, repetitions, Some(evict), &mut || self.compute(pass))?;
                times.push((Clock::GraphCold, samples));
            }
            if !clocks.graph {
                times.push((Clock::Launch, launches(&stream, repetitions, || self.compute(pass))?));
            }
        }
        if clocks.of_host() {
            times.push((Clock::Host, host_calls(&stream, repetitions, || self.compute(pass))?));
        }
        let after = self.left(pass, &mut tools.digester)?;
        let options = self.model.options();
        let bound = (!options.is_deterministic())
            .then(|| expected.atomic_bound(self.arena.batch, options.accumulate));
        before.check(&after, bound).map_err(Wrong::Result)?;
        Ok(times)
    }

    /// Queues a pass.
    fn compute(&mut self, pass: Pass) -> Result<(), MlpError> {
        self.compute_with(pass, false)
    }

    /// The same, with gradients by the outputs of the checked samples alone if that is requested.
    fn compute_with(&mut self, pass: Pass, checked_alone: bool) -> Result<(), MlpError> {
        let Arena { stream, x, y, back, .. } = &mut *self.arena;
        let (Some(tape), Some(back)) = (&mut self.tape, back) else {
            return self.model.forward(stream, x, y);
        };
        match pass {
            Pass::Forward => return self.model.forward(stream, x, y),
            Pass::Backward => {}
            Pass::Train => self.model.forward_train(stream, x, y, tape)?,
        }
        let Back { dy, checked_dy, dx, gradients } = back;
        let dy = if checked_alone { checked_dy } else { dy };
        self.model.backward(stream, x, y, dy, tape, Some(dx.as_view_mut()), gradients)
    }

    /// Fills the outputs of a pass with NaN.
    fn poison(&mut self, pass: Pass) -> Result<(), GpuError> {
        let Arena { stream, y, back, .. } = &mut *self.arena;
        if pass != Pass::Backward {
            stream.fill(y, POISON)?;
        }
        if let (Some(back), true) = (back, pass != Pass::Forward) {
            stream.fill(&mut back.dx, POISON)?;
            stream.fill(&mut back.gradients, POISON)?;
        }
        Ok(())
    }

    /// Everything that a pass writes.
    fn left(&self, pass: Pass, digester: &mut Digester) -> Result<Left, GpuError> {
        let Arena { stream, y, back, .. } = &*self.arena;
        let mut digests = vec![("outputs", digester.digest(stream, y)?)];
        let Some(back) = back.as_ref().filter(|_| pass != Pass::Forward) else {
            return Ok(Left { digests, gradients: Vec::new() });
        };
        digests.push(("gradients by the inputs", digester.digest(stream, &back.dx)?));
        Ok(Left { digests, gradients: stream.download(&back.gradients)? })
    }
}

/// A pass was called with arrays that were not created for it.
fn no_arrays() -> Wrong {
    Wrong::Result("there are no arrays for backward passes".to_owned())
}
