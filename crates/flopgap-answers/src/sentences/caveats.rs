//! What the reader must know about a recording beside its verdict.

use flopgap_gap::{Cause, Frequency, Gap, GraphNodes, Limit, Unmarked};
use flopgap_report::numbers;

use super::joined::{corrected, joined};
use super::words::first_runs;
use super::{percent, time};

/// What the reader must know about the recording.
pub(crate) fn caveats(found: &Gap) -> Vec<String> {
    let mut said: Vec<String> = joined(found).into_iter().chain(corrected(found)).collect();
    if found.pauses.count > 0 {
        let (count, all) = (found.pauses.count, time(found.pauses.ns as f64));
        let pauses = if count == 1 { "One pause".to_owned() } else { format!("{count} pauses") };
        said.push(format!("{pauses} between steps, {all} in all, left out: far longer than a step."));
    }
    if found.unmarked.places > 0 {
        let Unmarked { places, operations } = found.unmarked;
        said.push(format!(
            "Left out: {} of {} no such steps.",
            if operations == 1 {
                "1 GPU operation".to_owned()
            } else {
                format!("{} GPU operations", numbers::group_thousands(operations))
            },
            if places == 1 {
                "a process that marks".to_owned()
            } else {
                format!("processes on {places} GPUs that mark")
            },
        ));
    }
    said.extend(found.frequency.as_ref().map(clock));
    said.extend(found.graphs.as_ref().and_then(graphs));
    if found.captures {
        said.push("CUDA graphs are captured in this time: what is captured runs later, and idle time says nothing about it.".to_owned());
    } else if matches!(found.limit, Limit::Launch | Limit::Host) && !first_runs(found) {
        said.push(
            "The profiler itself makes calls and operators on the host slower: without it this share is smaller, so compare with the time of a step without a profiler."
                .to_owned(),
        );
    }
    if late_graphs(found) {
        said.push(
            "Recording the kernels of a CUDA graph one by one makes its launch slower: a recording of whole graphs says how long a step takes \
             without (nsys profile --cuda-graph-trace=graph, flopgap record --graph graph)."
                .to_owned(),
        );
    }
    let whole = found.parts.iter().find(|part| part.cause == Cause::WholeGraph);
    if let Some(whole) = whole.filter(|whole| 20 * whole.ns > found.total_ns()) {
        said.push(format!(
            "{} of the time are CUDA graphs that were recorded as a whole: what they do inside, idle time too, is not known.",
            percent(found.share(whole.ns))
        ));
    }
    said
}

/// How fast the clocks ran.
fn clock(found: &Frequency) -> String {
    let megahertz = |hertz: f64| numbers::float(hertz / 1e6, 0);
    format!(
        "While kernels ran, the clock of the GPU was {} MHz of {} MHz.",
        megahertz(found.mean_hz),
        megahertz(found.highest_hz)
    )
}

/// How many nodes of CUDA graphs have the names of their operators; nothing where none has.
fn graphs(found: &GraphNodes) -> Option<String> {
    let GraphNodes { operations, named } = *found;
    let count = numbers::group_thousands;
    match named {
        0 => None,
        all if all == operations => {
            Some("Kernels of CUDA graphs are those of the operators that were captured.".to_owned())
        }
        some => Some(format!(
            "{} of {} operations of CUDA graphs are those of the operators that were captured; of the others no capture is known.",
            count(some),
            count(operations)
        )),
    }
}

/// Whether the GPU waits noticeably for launches of CUDA graphs whose nodes are recorded.
fn late_graphs(found: &Gap) -> bool {
    let late = found.parts.iter().filter(|part| part.cause.limit() == Limit::Launch);
    let of_graphs = late
        .flat_map(|part| &part.details)
        .filter(|detail| detail.what.as_deref().is_some_and(|what| what.contains("GraphLaunch")));
    found.graphs.is_some() && 20 * of_graphs.map(|detail| detail.ns).sum::<i64>() > found.total_ns()
}

#[cfg(test)]
mod tests {
    use flopgap_gap::{Detail, Share};

    use super::super::gap::tests::of;
    use super::*;

    #[test]
    fn work_without_steps_is_said_to_be_left_out() {
        let mut found = of(Limit::Gpu, &[]);
        found.unmarked = Unmarked { places: 1, operations: 1 };
        assert_eq!(caveats(&found), ["Left out: 1 GPU operation of a process that marks no such steps."]);
    }

    #[test]
    fn late_launches_of_graphs_are_said_to_be_slower_by_recording() {
        let detail =
            |what: &str, ns| Detail { what: Some(what.to_owned()), by: None, at: None, ns, pieces: 1 };
        let said = |what: &str, ns, graphs| {
            let mut found = of(Limit::Gpu, &[]);
            found.graphs = graphs;
            let cause = Cause::LaunchCalls;
            let (part, limit) = (cause.part(), cause.limit());
            found.parts.push(Share { part, cause, limit, ns, pieces: 1, details: vec![detail(what, ns)] });
            caveats(&found).iter().any(|said| said.contains("one by one"))
        };
        let nodes = Some(GraphNodes { operations: 9, named: 0 });
        assert!(said("cudaGraphLaunch", 100, nodes));
        assert!(!said("cudaGraphLaunch", 40, nodes), "less than a twentieth");
        assert!(!said("cudaLaunchKernel", 100, nodes));
        assert!(!said("cudaGraphLaunch", 100, None), "recorded as a whole");
    }
}
