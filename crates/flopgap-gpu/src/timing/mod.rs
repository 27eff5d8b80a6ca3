//! How long something takes on a GPU, in three notions of it.
//!
//! | notion | function | what is in it |
//! |---|---|---|
//! | a launch in a graph | [`replays`] | the work alone: the launch was prepared, and costs about 1 µs between dependent kernels |
//! | a launch between two events | [`launches`] | the work, and 2–3 µs of the events and the launch |
//! | a launch by the host's clock | [`host_calls`] | what a program waits: the launch by the driver, the work, the return of the answer |

mod evict;
mod replay;
mod samples;

pub use evict::Evictor;
pub use replay::Replay;
pub use samples::Samples;

use std::time::Instant;

use crate::error::GpuError;
use crate::event::Event;
use crate::graph::Graph;
use crate::stream::Stream;

/// How often something is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repetitions {
    /// Measurements that are thrown away, to begin with.
    pub warmup: usize,
    /// Measurements that are kept, at least 1.
    pub measured: usize,
}

/// Times `work` by the host's clock: from before it is queued until the stream is done.
///
/// # Errors
/// The error of `work`; the driver's.
pub fn host_calls<E: From<GpuError>>(
    stream: &Stream,
    repetitions: Repetitions,
    mut work: impl FnMut() -> Result<(), E>,
) -> Result<Samples, E> {
    let mut times = Vec::with_capacity(repetitions.measured);
    stream.synchronize()?;
    for index in 0..repetitions.warmup + repetitions.measured.max(1) {
        let start = Instant::now();
        work()?;
        stream.synchronize()?;
        if index >= repetitions.warmup {
            times.push(start.elapsed().as_nanos() as f64);
        }
    }
    Ok(Samples::new(times))
}

/// Times `work` between two events around each launch of it.
///
/// # Errors
/// The error of `work`; the driver's.
pub fn launches<E: From<GpuError>>(
    stream: &Stream,
    repetitions: Repetitions,
    mut work: impl FnMut() -> Result<(), E>,
) -> Result<Samples, E> {
    let mut events = Vec::with_capacity(repetitions.measured);
    for index in 0..repetitions.warmup + repetitions.measured.max(1) {
        let start = stream.event()?;
        work()?;
        let end = stream.event()?;
        if index >= repetitions.warmup {
            events.push((start, end));
        }
    }
    let times: Result<Vec<f64>, GpuError> = events.iter().map(between).collect();
    Ok(Samples::new(times?))
}

/// Times `work` inside a CUDA graph. Where it takes less than 50 µs, two graphs are timed, of k and
/// 2k copies one after the other, and each measurement is the difference of the two divided by k.
/// What `work` allocates must be allocated before.
///
/// # Errors
/// The error of `work`; the driver's.
pub fn replays<E: From<GpuError>>(
    stream: &Stream,
    repetitions: Repetitions,
    mut work: impl FnMut() -> Result<(), E>,
) -> Result<Samples, E> {
    replays_after(stream, repetitions, None::<fn() -> Result<(), E>>, &mut work)
}

/// Like [`replays`], but before every `work` there is `preparation` (such as [`Evictor::evict`]),
/// whose time is taken off: each measurement is the difference between a graph of both and a graph
/// of the preparation alone.
///
/// # Errors
/// The error of `work` or `preparation`; the driver's.
pub fn replays_after<E: From<GpuError>, P: FnMut() -> Result<(), E>>(
    stream: &Stream,
    repetitions: Repetitions,
    preparation: Option<P>,
    work: &mut impl FnMut() -> Result<(), E>,
) -> Result<Samples, E> {
    // What is loaded at first use must be loaded before the capture.
    work()?;
    stream.synchronize()?;
    let mut preparation = preparation;
    if let Some(preparation) = &mut preparation {
        preparation()?;
        stream.synchronize()?;
        let mut copies = |with_work: bool| {
            stream.capture(|| {
                for _ in 0..4 {
                    preparation()?;
                    if with_work {
                        work()?;
                    }
                }
                Ok::<_, E>(())
            })
        };
        let (alone, both) = (copies(false)?, copies(true)?);
        let differences = pairs(stream, repetitions, &alone, &both)?;
        return Ok(Samples::new(differences.iter().map(|(short, long)| (long - short) / 4.0).collect()));
    }
    Ok(Samples::new(Replay::prepared(stream, work)?.nanoseconds(repetitions)?))
}

/// Nanoseconds of every launch of a graph.
fn durations(stream: &Stream, repetitions: Repetitions, graph: &Graph) -> Result<Vec<f64>, GpuError> {
    graph.upload()?;
    let mut events = Vec::with_capacity(repetitions.measured);
    for index in 0..repetitions.warmup + repetitions.measured.max(1) {
        let start = stream.event()?;
        graph.launch()?;
        let end = stream.event()?;
        if index >= repetitions.warmup {
            events.push((start, end));
        }
    }
    events.iter().map(between).collect()
}

/// Nanoseconds of two graphs that are launched in turns.
fn pairs(
    stream: &Stream,
    repetitions: Repetitions,
    first: &Graph,
    second: &Graph,
) -> Result<Vec<(f64, f64)>, GpuError> {
    first.upload()?;
    second.upload()?;
    let mut events = Vec::with_capacity(repetitions.measured);
    for index in 0..repetitions.warmup + repetitions.measured.max(1) {
        let start = stream.event()?;
        first.launch()?;
        let middle = stream.event()?;
        second.launch()?;
        let end = stream.event()?;
        if index >= repetitions.warmup {
            events.push((start, middle, end));
        }
    }
    let time = |(start, middle, end): &(Event, Event, Event)| {
        Ok((middle.nanoseconds_since(start)? as f64, end.nanoseconds_since(middle)? as f64))
    };
    events.iter().map(time).collect()
}

fn between((start, end): &(Event, Event)) -> Result<f64, GpuError> {
    Ok(end.nanoseconds_since(start)? as f64)
}
