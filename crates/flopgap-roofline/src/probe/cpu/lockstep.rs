//! Threads that work in lockstep.

use std::hint::spin_loop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::super::ProbeError;

/// A barrier for all threads. It spins, because a sleeping thread wakes up after a random delay.
struct Gate {
    threads: usize,
    arrived: AtomicUsize,
}

impl Gate {
    /// The `round`th time that all threads meet, from 1.
    fn pass(&self, round: usize) {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let mut spins = 0_u32;
        while self.arrived.load(Ordering::Acquire) < self.threads * round {
            spins += 1;
            // On a busy machine, the thread that is waited for needs this core.
            if spins.is_multiple_of(1 << 12) {
                thread::yield_now();
            } else {
                spin_loop();
            }
        }
    }
}

/// The cores that threads are bound to, so that no two share one: as many as there are threads,
/// where these are more than half of the cores. Fewer threads are left to the system, which knows
/// which cores are halves of one; so is a single one, which it moves to a core with nothing else to
/// do.
#[cfg(target_os = "linux")]
fn cores(threads: usize) -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};

    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    if threads > 1 && threads <= allowed.len() && threads * 2 > allowed.len() { allowed } else { Vec::new() }
}

#[cfg(not(target_os = "linux"))]
fn cores(_threads: usize) -> Vec<usize> {
    Vec::new()
}

/// Binds this thread to a core, if the system lets it.
#[cfg(target_os = "linux")]
fn bind(core: Option<&usize>) {
    use rustix::thread::{CpuSet, sched_setaffinity};

    if let Some(core) = core {
        let mut only = CpuSet::new();
        only.set(*core);
        // Unbound, it measures as well as possible.
        let _ = sched_setaffinity(None, &only);
    }
}

#[cfg(not(target_os = "linux"))]
fn bind(_core: Option<&usize>) {}

/// Runs `work` so many times on each of `threads` threads, all beginning together, and gives the
/// time of each round: from the first beginning to the last end. `prepare` makes each thread's own
/// state on the thread.
pub(super) fn together<S>(
    threads: usize,
    rounds: usize,
    prepare: impl Fn(usize) -> S + Sync,
    work: impl Fn(&mut S) + Sync,
) -> Result<Vec<Duration>, ProbeError> {
    let gate = Gate { threads, arrived: AtomicUsize::new(0) };
    let spans: Mutex<Vec<Option<(Instant, Instant)>>> = Mutex::new(vec![None; rounds]);
    let cores = cores(threads);
    let run = |index: usize| {
        bind(cores.get(index));
        let mut state = prepare(index);
        let mut mine = Vec::with_capacity(rounds);
        for round in 1..=rounds {
            gate.pass(round);
            let begin = Instant::now();
            work(&mut state);
            mine.push((begin, Instant::now()));
        }
        let mut spans = spans.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (all, (begin, end)) in spans.iter_mut().zip(mine) {
            let (first, last) = all.unwrap_or((begin, end));
            *all = Some((first.min(begin), last.max(end)));
        }
    };
    thread::scope(|scope| {
        // All threads or none: those that are there would wait for one that is not.
        let started: Result<Vec<_>, _> = (0..threads)
            .map(|index| {
                let run = &run;
                thread::Builder::new().name(format!("probe-{index}")).spawn_scoped(scope, move || run(index))
            })
            .collect();
        match started {
            Ok(_) => Ok(()),
            Err(error) => {
                // Lets those that were started through every round.
                gate.arrived.store(threads * (rounds + 1), Ordering::Release);
                Err(ProbeError::Start { reason: error.to_string() })
            }
        }
    })?;
    let spans = spans.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(spans.into_iter().flatten().map(|(begin, end)| end - begin).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_does_every_round() {
        let done = AtomicUsize::new(0);
        let times = together(
            3,
            5,
            |index| index,
            |_| {
                done.fetch_add(1, Ordering::Relaxed);
            },
        );
        assert_eq!(times.unwrap().len(), 5);
        assert_eq!(done.into_inner(), 15);
    }

    #[test]
    fn a_round_lasts_as_long_as_its_slowest_thread() {
        let work = |index: &mut usize| thread::sleep(Duration::from_millis(5 * *index as u64));
        let times = together(2, 2, |index| index + 1, work).unwrap();
        assert!(times.iter().all(|time| *time >= Duration::from_millis(10)), "{times:?}");
    }
}
