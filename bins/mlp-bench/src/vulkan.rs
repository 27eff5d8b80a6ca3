//! One network on a Vulkan device: checked, timed, checked again.

use std::time::{Duration, Instant};

use flopgap_gpu::digest_of;
use flopgap_gpu::timing::{Repetitions, Samples};
use flopgap_mlp::cuda::{Accumulate, Implementation};
use flopgap_mlp::vulkan::{self, Batch, Model};
use flopgap_mlp::{Element, MlpError, Network};

use crate::check::{Expected, Found, Left, Numbers, PERIOD, Wrong};
use crate::options::Clocks;
use crate::pass::Pass;
use crate::results::Clock;

/// The byte that results are filled with: NaN in both types.
const POISON: u8 = 0xff;
/// So many nanoseconds of passes are recorded one after the other between two times, that what the
/// clock costs does not matter; but no more passes than so many.
const TOGETHER: f64 = 300_000.0;
const MOST_TOGETHER: f64 = 64.0;
/// How long a GPU works before it is timed.
const AWAKE: Duration = Duration::from_millis(400);

/// An implementation at work on the arrays of a batch.
pub(crate) struct Run<'a, T: Element> {
    model: &'a Model<T>,
    batch: Batch<T>,
    /// Gradients by the outputs, where there are backward passes.
    dy: Option<Vec<T>>,
    /// The largest error of a forward and a backward pass, once they were checked.
    checked: Option<f64>,
}

/// `length` numbers, those of `base` over and over.
fn repeated<T: Element>(base: &[T], length: usize) -> Vec<T> {
    (0..length).map(|index| base[index % PERIOD]).collect()
}

/// How results are summed: the driver multiplies cooperative vectors with results of 16 bits, and
/// sums as it likes.
fn accumulate(implementation: Implementation) -> Accumulate {
    if implementation == Implementation::Coopvec { Accumulate::F16 } else { Accumulate::F32 }
}

impl<'a, T: Element> Run<'a, T> {
    /// The arrays of a batch of so many samples, with those of backward passes if they are wanted.
    pub(crate) fn new(
        model: &'a Model<T>,
        numbers: &Numbers<T>,
        samples: usize,
        backward: bool,
    ) -> Result<Self, MlpError> {
        let network = model.network();
        let mut batch = model.batch(samples, backward)?;
        batch.write_inputs(&repeated(&numbers.base, samples * network.inputs()))?;
        let dy = backward.then(|| repeated(&numbers.base, samples * network.outputs()));
        Ok(Run { model, batch, dy, checked: None })
    }

    /// Checks a pass, then times it.
    pub(crate) fn measure(
        &mut self,
        pass: Pass,
        expected: &Expected,
        clocks: &Clocks,
    ) -> Result<(f64, Vec<(Clock, Samples)>), Wrong> {
        let error = self.check(pass, expected)?;
        Ok((error, self.time(pass, clocks)?))
    }

    /// Computes a pass and checks what came out. The gradients by the parameters are those of the
    /// checked samples: all other gradients by outputs are zero for once, and then the gradients by
    /// their inputs must be, too.
    fn check(&mut self, pass: Pass, expected: &Expected) -> Result<f64, Wrong> {
        let accumulate = accumulate(self.model.implementation());
        let network = self.model.network();
        let (inputs, outputs) = (network.inputs(), network.outputs());
        if pass == Pass::Forward {
            self.compute(pass)?;
            let found =
                Found { outputs: rows(&self.batch.outputs()?, &expected.rows, outputs), gradients: None };
            return expected.check(&found, accumulate).map_err(Wrong::Result);
        }
        if let Some(error) = self.checked {
            return Ok(error);
        }
        let mut checked_alone = vec![T::default(); self.batch.samples() * outputs];
        for (&row, dy) in expected.rows.iter().zip(expected.dy.chunks_exact(outputs)) {
            for (to, &dy) in checked_alone[row * outputs..].iter_mut().zip(dy) {
                *to = T::narrow(dy);
            }
        }
        self.batch.write_output_gradients(&checked_alone)?;
        self.compute(Pass::Train)?;
        let dx = self.batch.input_gradients()?;
        let found = Found {
            outputs: rows(&self.batch.outputs()?, &expected.rows, outputs),
            gradients: Some((rows(&dx, &expected.rows, inputs), self.batch.gradients()?)),
        };
        let checked = |row: &usize| expected.rows.binary_search(row).is_ok();
        let mut others = (0..self.batch.samples()).filter(|row| !checked(row));
        if others.any(|row| dx[row * inputs..][..inputs].iter().any(|dx| dx.widen() != 0.0)) {
            return Err(Wrong::Result(
                "gradients by the inputs of samples whose outputs have none".to_owned(),
            ));
        }
        if let Some(dy) = &self.dy {
            self.batch.write_output_gradients(dy)?;
        }
        let error = expected.check(&found, accumulate).map_err(Wrong::Result)?;
        self.checked = Some(error);
        Ok(error)
    }

    /// Times a pass by every requested clock.
    fn time(&mut self, pass: Pass, clocks: &Clocks) -> Result<Vec<(Clock, Samples)>, Wrong> {
        // Also what the backward pass reads.
        self.compute(if pass == Pass::Forward { pass } else { Pass::Train })?;
        let before = self.left(pass)?;
        let (model, batch, named) = (self.model, &mut self.batch, of(pass));
        batch.fill_results(named, POISON)?;
        let once = model.time_calls(batch, named, Repetitions { warmup: 1, measured: 1 })?;
        let repetitions = clocks.repetitions(once.median());
        // A driver of Vulkan lets the clocks of an idle GPU fall, as it is while the host checks.
        let start = Instant::now();
        while clocks.of_gpu() && start.elapsed() < AWAKE {
            model.run(batch, named)?;
        }
        let mut times = Vec::new();
        if clocks.of_gpu() {
            let alone = model.time(batch, named, Repetitions { warmup: 1, measured: 3 }, 1)?.median();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "in [1, MOST_TOGETHER]"
            )]
            let together = (TOGETHER / alone.max(1.0)).clamp(1.0, MOST_TOGETHER) as u32;
            times.push((Clock::Graph, model.time(batch, named, repetitions, together)?));
            if !clocks.graph {
                times.push((Clock::Launch, model.time(batch, named, repetitions, 1)?));
            }
        }
        if clocks.of_host() {
            times.push((Clock::Host, model.time_calls(batch, named, repetitions)?));
        }
        // Sums are in a fixed order.
        before.check(&self.left(pass)?, None).map_err(Wrong::Result)?;
        Ok(times)
    }

    /// Computes a pass, whose results are NaN before.
    fn compute(&mut self, pass: Pass) -> Result<(), MlpError> {
        self.batch.fill_results(of(pass), POISON)?;
        self.model.run(&mut self.batch, of(pass))
    }

    /// Everything that a pass writes.
    fn left(&self, pass: Pass) -> Result<Left, MlpError> {
        let digest =
            |numbers: &[T]| digest_of(numbers.iter().map(|number| u64::from(number.widen().to_bits())));
        let mut digests = vec![("outputs", digest(&self.batch.outputs()?))];
        if pass == Pass::Forward {
            return Ok(Left { digests, gradients: Vec::new() });
        }
        digests.push(("gradients by the inputs", digest(&self.batch.input_gradients()?)));
        Ok(Left { digests, gradients: self.batch.gradients()? })
    }
}

fn of(pass: Pass) -> vulkan::Pass {
    match pass {
        Pass::Forward => vulkan::Pass::Forward,
        Pass::Backward => vulkan::Pass::Backward,
        Pass::Train => vulkan::Pass::Train,
    }
}

fn rows<T: Element>(numbers: &[T], rows: &[usize], width: usize) -> Vec<f32> {
    rows.iter()
        .flat_map(|&row| numbers[row * width..][..width].iter().map(|&number| number.widen()))
        .collect()
}

/// A network in a precision by each requested implementation, with its parameters. What a device
/// does not have is passed to `left_out`.
pub(crate) fn models<T: Element>(
    device: &vulkan::Device,
    network: &Network,
    implementations: &[Implementation],
    numbers: &Numbers<T>,
    mut left_out: impl FnMut(MlpError),
) -> Result<Vec<Model<T>>, MlpError> {
    let mut models = Vec::new();
    for &implementation in implementations {
        match Model::new(device, network, implementation) {
            Ok(mut model) => {
                model.upload(&numbers.parameters)?;
                models.push(model);
            }
            Err(error @ MlpError::Unsupported { .. }) => left_out(error),
            Err(error) => return Err(error),
        }
    }
    Ok(models)
}
