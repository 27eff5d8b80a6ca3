//! Whether traces are those of one job.

use crate::{Error, Trace};

/// Refuses traces that are not those of the ranks of one job, each once: by their ranks and sizes,
/// by what they call their job, and by when they were recorded. Of ranks that do not say when, that
/// is no reason.
pub(super) fn require_one(traces: &[Trace]) -> Result<(), Error> {
    let Some((first, others)) = traces.split_first() else { return Ok(()) };
    if others.is_empty() {
        return Ok(());
    }
    for trace in traces {
        let says = trace.distributed.as_ref().filter(|says| says.rank.is_some());
        match says {
            None => return Err(apart(trace, first, "does not say of which rank it is")),
            Some(says) if says.world_size == Some(1) => {
                return Err(apart(trace, first, "is of a job of one process"));
            }
            Some(says) if says.world_size.is_some_and(|size| says.rank >= Some(size)) => {
                return Err(apart(trace, first, "is of a rank that its job does not have"));
            }
            Some(_) => {}
        }
    }
    for (at, trace) in traces.iter().enumerate() {
        for other in &traces[..at] {
            compare(trace, other)?;
        }
    }
    Ok(())
}

fn compare(trace: &Trace, other: &Trace) -> Result<(), Error> {
    let (Some(says), Some(others)) = (&trace.distributed, &other.distributed) else { return Ok(()) };
    if let (Some(rank), true) = (says.rank, says.rank == others.rank) {
        let (path, other) = (other.path.clone(), trace.path.clone());
        return Err(Error::SameRank { path, other, rank });
    }
    if says.world_size != others.world_size {
        return Err(apart(trace, other, "is of a job of another size than"));
    }
    let differs = |(key, value): (&String, &String)| other.job.get(key).is_some_and(|known| known != value);
    if trace.job.iter().any(differs) {
        return Err(apart(trace, other, "names another job than"));
    }
    if let (Some((start, end)), Some((others_start, others_end))) = (trace.recorded(), other.recorded())
        && (end < others_start || others_end < start)
    {
        return Err(apart(trace, other, "was recorded at another time than"));
    }
    Ok(())
}

fn apart(trace: &Trace, other: &Trace, why: &'static str) -> Error {
    // What a trace says of itself needs no other.
    let of_two = why.ends_with(" than");
    Error::NotOneJob { path: trace.path.clone(), why, other: of_two.then(|| other.path.clone()) }
}
