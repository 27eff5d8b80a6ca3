//! One network on a GPU: checked, timed, checked again.

use flopgap_gpu::timing::{Evictor, Repetitions, Samples, host_calls, launches, replays, replays_after};
use flopgap_gpu::{Buffer, Context, GpuError, Stream};
use flopgap_mlp::MlpError;
use flopgap_mlp::dense::cuda::{Model, Options, Tape};
use flopgap_mlp::dense::{Element, Network};

use crate::check::{Expected, Found, Numbers, PERIOD};
use crate::options::{Bench, Pass, Timing};
use crate::results::Clock;

/// Every byte of an array that nobody wrote: not a number in all three types.
const POISON: u8 = 0xff;

/// A network with its parameters, and the arrays of a batch, on a GPU.
pub(crate) struct Arena<'m, T: Element> {
    stream: Stream,
    model: &'m Model<T>,
    numbers: &'m Numbers<T>,
    batch: usize,
    x: Buffer<T>,
    y: Buffer<T>,
    dy: Buffer<T>,
    dx: Buffer<T>,
    gradients: Buffer<f32>,
    tape: Tape<T>,
}

/// Makes the model of a network, with parameters.
pub(crate) fn model<T: Element>(
    context: &Context,
    network: &Network,
    options: Options,
    numbers: &Numbers<T>,
) -> Result<Model<T>, MlpError> {
    let mut model = Model::new(context, network, options)?;
    model.upload(&context.stream()?, &numbers.parameters)?;
    Ok(model)
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

impl<'m, T: Element> Arena<'m, T> {
    /// The arrays of a batch.
    pub(crate) fn new(model: &'m Model<T>, numbers: &'m Numbers<T>, batch: usize) -> Result<Self, MlpError> {
        let stream = model.context().stream()?;
        let base = stream.upload(&numbers.base)?;
        let (inputs, outputs) = (batch * model.network().inputs(), batch * model.network().outputs());
        let arena = Arena {
            x: repeated(&stream, &base, inputs)?,
            y: stream.zeros(outputs)?,
            dy: repeated(&stream, &base, outputs)?,
            dx: stream.zeros(inputs)?,
            gradients: stream.zeros(model.network().parameters())?,
            tape: model.tape(&stream, batch)?,
            stream,
            model,
            numbers,
            batch,
        };
        arena.stream.synchronize()?;
        Ok(arena)
    }

    /// Computes a pass and checks what came out. The gradients by the parameters are those of the checked samples: all other gradients by outputs
    /// are zero for once, and then the gradients by their inputs must be, too.
    pub(crate) fn check(&mut self, pass: Pass, expected: &Expected) -> Result<f64, Wrong> {
        let outputs = self.model.network().outputs();
        self.poison(Pass::Train)?;
        if pass == Pass::Forward {
            self.model.forward(&self.stream, &self.x, &mut self.y)?;
            let found = Found { outputs: self.rows(&self.y, &expected.rows, outputs)?, gradients: None };
            return expected.check(&found).map_err(Wrong::Result);
        }
        let dy = std::mem::replace(&mut self.dy, self.stream.zeros(self.batch * outputs)?);
        for &row in &expected.rows {
            let numbers: Vec<T> = self.numbers.row(row, outputs).into_iter().map(T::narrow).collect();
            self.stream.write(&numbers, &mut self.dy.slice_mut(row * outputs..(row + 1) * outputs))?;
        }
        self.compute(Pass::Train)?;
        let inputs = self.model.network().inputs();
        let found = Found {
            outputs: self.rows(&self.y, &expected.rows, outputs)?,
            gradients: Some((
                self.rows(&self.dx, &expected.rows, inputs)?,
                self.stream.download(&self.gradients)?,
            )),
        };
        let others = self.others(expected);
        if self.rows(&self.dx, &others, inputs)?.iter().any(|&dx| dx != 0.0) {
            return Err(Wrong::Result(
                "gradients by the inputs of samples whose outputs have none".to_owned(),
            ));
        }
        self.dy = dy;
        expected.check(&found).map_err(Wrong::Result)
    }

    /// As many samples that are not checked.
    fn others(&self, expected: &Expected) -> Vec<usize> {
        let next = expected.rows.iter().map(|row| row + 1);
        next.filter(|row| *row < self.batch && expected.rows.binary_search(row).is_err()).collect()
    }

    /// Times a pass by every clock that is asked for.
    pub(crate) fn time(
        &mut self,
        pass: Pass,
        bench: &Bench,
        evictor: Option<&mut Evictor>,
    ) -> Result<Vec<(Clock, Samples)>, Wrong> {
        // What the backward pass reads.
        self.compute(Pass::Train)?;
        let before = self.checked_rows(pass)?;
        self.poison(pass)?;
        let stream = self.stream.clone();
        let once = host_calls(&stream, Repetitions { warmup: 1, measured: 1 }, || self.compute(pass))?;
        let repetitions = bench.clocks.repetitions(once.median());
        let mut times = Vec::new();
        if bench.clocks.timing != Timing::Cpu {
            times.push((Clock::Graph, replays(&stream, repetitions, || self.compute(pass))?));
            if let Some(evictor) = evictor {
                let evict = || Ok::<_, MlpError>(evictor.evict(&stream)?);
                let samples = replays_after(&stream, repetitions, Some(evict), &mut || self.compute(pass))?;
                times.push((Clock::GraphCold, samples));
            }
            if !bench.clocks.graph {
                times.push((Clock::Launch, launches(&stream, repetitions, || self.compute(pass))?));
            }
        }
        if bench.clocks.timing != Timing::Gpu {
            times.push((Clock::Host, host_calls(&stream, repetitions, || self.compute(pass))?));
        }
        if before != self.checked_rows(pass)? {
            return Err(Wrong::Result("what the timed passes left differs from what was checked".to_owned()));
        }
        Ok(times)
    }

    /// Queues a pass.
    fn compute(&mut self, pass: Pass) -> Result<(), MlpError> {
        if pass == Pass::Forward {
            return self.model.forward(&self.stream, &self.x, &mut self.y);
        }
        if pass == Pass::Train {
            self.model.forward_train(&self.stream, &self.x, &mut self.y, &mut self.tape)?;
        }
        let Arena { stream, x, y, dy, dx, gradients, tape, .. } = self;
        self.model.backward(stream, x, y, dy, tape, Some(dx), gradients)
    }

    /// Makes what a pass writes not a number.
    fn poison(&mut self, pass: Pass) -> Result<(), GpuError> {
        if pass != Pass::Backward {
            self.stream.fill(&mut self.y, POISON)?;
        }
        if pass != Pass::Forward {
            self.stream.fill(&mut self.dx, POISON)?;
            self.stream.fill(&mut self.gradients, POISON)?;
        }
        Ok(())
    }

    /// The bits of some rows of what a pass writes; of the gradients by the parameters, whether they are numbers.
    fn checked_rows(&self, pass: Pass) -> Result<(Vec<u32>, bool), GpuError> {
        let rows: Vec<usize> = [0, self.batch / 3, self.batch / 2, self.batch - 1].to_vec();
        let bits = |numbers: Vec<f32>| numbers.into_iter().map(f32::to_bits);
        let mut all: Vec<u32> = bits(self.rows(&self.y, &rows, self.model.network().outputs())?).collect();
        if pass == Pass::Forward {
            return Ok((all, true));
        }
        all.extend(bits(self.rows(&self.dx, &rows, self.model.network().inputs())?));
        let gradients = self.stream.download(&self.gradients)?;
        Ok((all, gradients.iter().all(|gradient| gradient.is_finite())))
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

/// Why there is no time.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// It did not run.
    Error(MlpError),
    /// It ran, and what came out is wrong.
    Result(String),
}

impl From<MlpError> for Wrong {
    fn from(error: MlpError) -> Self {
        Wrong::Error(error)
    }
}

impl From<GpuError> for Wrong {
    fn from(error: GpuError) -> Self {
        Wrong::Error(error.into())
    }
}
