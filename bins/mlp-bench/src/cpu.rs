//! One network on the CPU: checked, timed, checked again.

use std::time::Instant;

use flopgap_gpu::digest_of;
use flopgap_gpu::timing::Samples;
use flopgap_mlp::cuda::Accumulate;
use flopgap_mlp::{Cpu, Network};

use crate::check::{Expected, Found, Left, Numbers, PERIOD, Wrong};
use crate::options::Clocks;
use crate::pass::Pass;

/// The name of this implementation in results.
pub(crate) const NAME: &str = "cpu";

/// A network with its parameters, and the arrays of a batch.
pub(crate) struct Arena<'n> {
    cpu: Cpu,
    network: &'n Network,
    x: Vec<f32>,
    y: Vec<f32>,
    dy: Vec<f32>,
    dx: Vec<f32>,
    gradients: Vec<f32>,
    tape: flopgap_mlp::cpu::Tape,
}

impl<'n> Arena<'n> {
    /// The arrays of a batch.
    pub(crate) fn new(network: &'n Network, numbers: &Numbers<f32>, batch: usize) -> Self {
        let cpu = Cpu::new(&numbers.parameters);
        let repeated =
            |length: usize| (0..length).map(|index| numbers.base[index % PERIOD]).collect::<Vec<f32>>();
        let (inputs, outputs) = (batch * network.inputs(), batch * network.outputs());
        Arena {
            x: repeated(inputs),
            y: vec![f32::NAN; outputs],
            dy: repeated(outputs),
            dx: vec![f32::NAN; inputs],
            gradients: vec![f32::NAN; network.parameters()],
            tape: cpu.tape(batch),
            cpu,
            network,
        }
    }

    /// Threads that passes run on.
    pub(crate) fn threads(&self) -> usize {
        self.cpu.threads()
    }

    /// Computes a pass and checks what came out. The gradients by the parameters are those of the
    /// checked samples: all other gradients by outputs are zero for once, as on a GPU.
    pub(crate) fn check(&mut self, pass: Pass, expected: &Expected) -> Result<f64, Wrong> {
        let (inputs, outputs) = (self.network.inputs(), self.network.outputs());
        let rows = |numbers: &[f32], width: usize| -> Vec<f32> {
            expected.rows.iter().flat_map(|row| &numbers[row * width..(row + 1) * width]).copied().collect()
        };
        self.poison(Pass::Train);
        if pass == Pass::Forward {
            self.compute(pass)?;
            let found = Found { outputs: rows(&self.y, outputs), gradients: None };
            return expected.check(&found, Accumulate::F32).map_err(Wrong::Result);
        }
        let mut sparse = vec![0.0; self.dy.len()];
        for (&row, dy) in expected.rows.iter().zip(expected.dy.chunks_exact(outputs)) {
            sparse[row * outputs..(row + 1) * outputs].copy_from_slice(dy);
        }
        let dy = std::mem::replace(&mut self.dy, sparse);
        let computed = self.compute(Pass::Train);
        self.dy = dy;
        computed?;
        let found = Found {
            outputs: rows(&self.y, outputs),
            gradients: Some((rows(&self.dx, inputs), self.gradients.clone())),
        };
        expected.check(&found, Accumulate::F32).map_err(Wrong::Result)
    }

    /// Times a pass.
    pub(crate) fn time(&mut self, pass: Pass, clocks: &Clocks) -> Result<Samples, Wrong> {
        self.compute(Pass::Train)?;
        let before = self.left();
        self.poison(pass);
        let once = self.once(pass)?;
        let repetitions = clocks.repetitions(once);
        for _ in 0..repetitions.warmup {
            self.compute(pass)?;
        }
        let times: Result<Vec<f64>, Wrong> = (0..repetitions.measured).map(|_| self.once(pass)).collect();
        let times = times?;
        // Threads add up in a fixed order.
        before.check(&self.left(), None).map_err(Wrong::Result)?;
        Ok(Samples::new(times))
    }

    /// What the passes wrote.
    fn left(&self) -> Left {
        let digest = |numbers: &[f32]| digest_of(numbers.iter().map(|number| number.to_bits().into()));
        Left {
            digests: vec![("outputs", digest(&self.y)), ("gradients by the inputs", digest(&self.dx))],
            gradients: self.gradients.clone(),
        }
    }

    /// Fills the outputs of a pass with NaN.
    fn poison(&mut self, pass: Pass) {
        if pass != Pass::Backward {
            self.y.fill(f32::NAN);
        }
        if pass != Pass::Forward {
            self.dx.fill(f32::NAN);
            self.gradients.fill(f32::NAN);
        }
    }

    /// Nanoseconds of a pass.
    fn once(&mut self, pass: Pass) -> Result<f64, Wrong> {
        let start = Instant::now();
        self.compute(pass)?;
        Ok(start.elapsed().as_nanos() as f64)
    }

    fn compute(&mut self, pass: Pass) -> Result<(), Wrong> {
        let Arena { cpu, x, y, dy, dx, gradients, tape, .. } = self;
        if pass == Pass::Forward {
            return Ok(cpu.forward(x, y)?);
        }
        if pass == Pass::Train {
            cpu.forward_train(x, y, tape)?;
        }
        Ok(cpu.backward(x, y, dy, tape, Some(dx), gradients)?)
    }
}
