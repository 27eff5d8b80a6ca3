//! A workload on the device, checked and timed.

use std::time::{Duration, Instant};

use flopgap_calibration::{Check, Timing};
use flopgap_flops::Precision;
use flopgap_gpu::Stream;
use flopgap_gpu::timing::{Repetitions, Replay, host_calls};
use flopgap_graph::{Algorithm, Mode};

use crate::engine::{Repetition, Session};
use crate::error::EngineError;
use crate::repeat::repeat;

use super::counted::counted_flops;
use super::kernel::Numbers;
use super::program::Program;
use super::tools::Tools;

/// A sample of launches is of so many runs that it takes about this long: events cost microseconds.
const SAMPLE: Duration = Duration::from_micros(300);

/// Runs of a sample at most.
const MOST_RUNS: u64 = 500;

/// How long the device works on what is queued before the host waits for it, in a window without a clock.
const AHEAD: Duration = Duration::from_millis(20);

/// An open workload.
pub(super) struct CudaSession<'a> {
    tools: &'a Tools,
    program: Program,
    precision: Precision,
    mode: Mode,
    replay: Option<Replay>,
    algorithms: Vec<Algorithm>,
    /// Bytes that the device lost to the program.
    device_bytes: Option<u64>,
}

impl<'a> CudaSession<'a> {
    /// Runs the program once.
    ///
    /// # Errors
    /// The libraries', the driver's.
    pub(super) fn new(
        tools: &'a Tools,
        mut program: Program,
        (precision, mode): (Precision, Mode),
        free_before: u64,
    ) -> Result<Self, EngineError> {
        program.run()?;
        tools.stream.synchronize()?;
        let lost = free_before.saturating_sub(tools.context.memory()?.free);
        let device_bytes = (lost > 0).then_some(lost);
        let algorithms = program.algorithms(tools);
        Ok(CudaSession { tools, program, precision, mode, replay: None, algorithms, device_bytes })
    }

    fn replay(&mut self) -> Result<&Replay, EngineError> {
        if self.replay.is_none() {
            let program = &mut self.program;
            self.replay = Some(Replay::new(&self.tools.stream, || program.run())?);
        }
        self.replay.as_ref().ok_or_else(|| EngineError::Failed {
            action: "capture a graph".to_owned(),
            message: "there is none".to_owned(),
        })
    }

    /// Nanoseconds of a run by the host's clock, from a few.
    fn once(&mut self) -> Result<f64, EngineError> {
        let program = &mut self.program;
        let few = Repetitions { warmup: 2, measured: 3 };
        Ok(host_calls(&self.tools.stream, few, || program.run())?.median())
    }
}

impl Session for CudaSession<'_> {
    fn check(&mut self) -> Result<Check, EngineError> {
        self.program.check(self.tools, Numbers::of(self.precision))
    }

    fn time(&mut self, limit: &Repetition) -> Result<Timing, EngineError> {
        let warmup = usize::try_from(limit.warmup).unwrap_or(usize::MAX);
        match self.mode {
            Mode::Graph => {
                let replay = self.replay()?;
                replay.nanoseconds(Repetitions { warmup, measured: 1 })?;
                repeat(limit, |measured| Ok(replay.nanoseconds(Repetitions { warmup: 0, measured })?))
            }
            Mode::Stream | Mode::Call => {
                let runs = runs_of(SAMPLE, self.once()?);
                let (stream, program) = (self.tools.stream.clone(), &mut self.program);
                for _ in 0..limit.warmup {
                    program.run()?;
                }
                repeat(limit, |samples| launched(&stream, program, runs, samples))
            }
        }
    }

    fn run_for(&mut self, duration: Duration) -> Result<u64, EngineError> {
        let once = self.once()?;
        let stream = self.tools.stream.clone();
        let start = Instant::now();
        let mut runs = 0;
        while start.elapsed() < duration {
            let batch = if self.mode == Mode::Graph {
                let replay = self.replay()?;
                let launches = runs_of(AHEAD, once).div_ceil(replay.runs());
                (0..launches).try_for_each(|_| replay.launch())?;
                launches * replay.runs()
            } else {
                let batch = runs_of(AHEAD, once);
                (0..batch).try_for_each(|_| self.program.run())?;
                batch
            };
            runs += batch;
            stream.synchronize()?;
        }
        Ok(runs)
    }

    fn memory_bytes(&self) -> Option<u64> {
        Some(self.program.bytes())
    }

    fn device_memory_bytes(&self) -> Option<u64> {
        self.device_bytes
    }

    fn counted_flops(&mut self) -> Result<Option<u64>, EngineError> {
        let program = &mut self.program;
        counted_flops(self.tools, &mut || program.run())
    }

    fn algorithms(&self) -> Vec<Algorithm> {
        self.algorithms.clone()
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.program.flows() && self.program.len() > 1 {
            let text = "each step reads what the step before it wrote last, not what the model's file says";
            remarks.push(text.to_owned());
        }
        remarks
    }
}

/// Runs that take about this long.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn runs_of(duration: Duration, once: f64) -> u64 {
    (duration.as_nanos() as f64 / once.max(1.0)).ceil().clamp(1.0, MOST_RUNS as f64) as u64
}

/// Times launches back to back: events between groups of runs, none of which waits for the host.
fn launched(
    stream: &Stream,
    program: &mut Program,
    runs: u64,
    samples: usize,
) -> Result<Vec<f64>, EngineError> {
    // A group before the clock starts, so that the queue is as full as a program keeps it.
    (0..runs).try_for_each(|_| program.run())?;
    let mut events = vec![stream.event()?];
    for _ in 0..samples {
        (0..runs).try_for_each(|_| program.run())?;
        events.push(stream.event()?);
    }
    let of = |pair: &[flopgap_gpu::Event]| Ok(pair[1].nanoseconds_since(&pair[0])? as f64 / runs as f64);
    events.windows(2).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_long_enough_for_events() {
        assert_eq!(runs_of(SAMPLE, 3_000.0), 100);
        assert_eq!(runs_of(SAMPLE, 1e9), 1);
        assert_eq!(runs_of(SAMPLE, 0.0), MOST_RUNS);
    }
}
