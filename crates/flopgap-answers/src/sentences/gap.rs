//! What a step taken apart says: a verdict, and what to change first.

use flopgap_gap::{Advice, Cause, Clock, Detail, FoundBy, Gap, Kind, LOST, Limit, Part, Peaks, Step};
use flopgap_kernels::NumberType;
use flopgap_timings::PassKind;

use super::caveats::caveats;
use super::floor::work;
use super::words::{first_runs, inside, sum};
use super::{lower_first, percent, time};

/// How many advices are said.
pub(crate) const ADVICES: usize = 3;

/// The verdict, how the steps were found, and what to change, largest bound first.
pub fn gap(found: &Gap) -> Vec<String> {
    let mut said = vec![verdict(found)];
    said.extend(near(found));
    said.push(steps(found));
    said.extend(work(found));
    said.extend(caveats(found));
    said.extend(found.advice.iter().take(ADVICES).map(|it| advice(it, &found.gpus)));
    said
}

/// What stands before the advice, or instead of it.
pub(crate) fn before_advice(found: &Gap) -> &'static str {
    if found.advice.is_empty() {
        "Nothing to change was found that would shorten a step by 5 % or more."
    } else {
        "What to change first, and by how much a step becomes shorter at most:"
    }
}

/// What to change on some GPUs, by how much a step becomes shorter at most, and what shows it.
pub(crate) fn advice(advice: &Advice, gpus: &[String]) -> String {
    let (what, evidence) = (what(advice.kind, gpus), evidence(advice));
    let (bound, share) = (time(advice.bound_ns as f64), percent(advice.share));
    format!("{what}: at most {bound} of a step ({share}). {evidence}").trim_end().to_owned()
}

/// The share of a group of the measured time.
fn share(found: &Gap, limit: Limit) -> f64 {
    found.share(found.limits.iter().find(|group| group.limit == limit).map_or(0, |group| group.ns))
}

/// The largest detail of a cause.
fn largest(found: &Gap, is: impl Fn(Cause) -> bool) -> Option<&Detail> {
    let parts = found.parts.iter().filter(|part| is(part.cause));
    parts.flat_map(|part| &part.details).max_by_key(|detail| detail.ns)
}

/// `cudaStreamSynchronize` in `aten::item`.
pub(crate) fn named(detail: &Detail) -> String {
    let named = inside(detail.what.as_deref(), detail.by.as_deref());
    match &detail.at {
        Some(at) => format!("{named} from `{at}`"),
        None => named,
    }
}

/// What limits a step, in one sentence.
pub(crate) fn verdict(found: &Gap) -> String {
    let own = percent(share(found, found.limit));
    let most = |is: &dyn Fn(Cause) -> bool| {
        largest(found, is).map(|detail| format!(", most in {}", named(detail))).unwrap_or_default()
    };
    let of = |limit: Limit| move |cause: Cause| cause.limit() == limit;
    match found.limit {
        Limit::Gpu => {
            let busy = found.parts.iter().filter(|part| part.part == Part::Busy);
            let most = busy.max_by_key(|part| part.ns);
            let most = most.map(|part| {
                let own = percent(found.share(part.ns));
                format!("; {} alone {own}", part.cause.in_words())
            });
            let busy = percent(found.share(sum(found, |cause| cause.part() == Part::Busy)));
            // What lies between kernels that wait for each other is the GPU's own time, too.
            let pauses = if busy == own {
                String::new()
            } else {
                format!(", {own} with the pauses between its kernels")
            };
            format!(
                "The GPU's own work is the limit: it fills {busy} of the time{pauses}{}.",
                most.unwrap_or_default()
            )
        }
        Limit::Launch => format!(
            "Launches are the limit: for {own} of the time the GPU has nothing to do because the host takes longer to launch work than the GPU to do it."
        ),
        Limit::Host if first_runs(found) => format!(
            "The host is the limit: for {own} of the time the GPU has nothing to do, mainly before kernels that run for the first time{}.",
            most(&|cause| cause == Cause::FirstLaunch)
        ),
        Limit::Host => format!(
            "The host is the limit: for {own} of the time the GPU has nothing to do because the host does something else for long{}.",
            most(&of(Limit::Host))
        ),
        Limit::Sync => format!(
            "Waiting for the GPU is the limit: the host waits in blocking calls, and then the GPU for the host until its queue is full again, {own} of the time{}.",
            most(&|cause| cause == Cause::BlockingCall)
        ),
        Limit::Input => format!(
            "The input is the limit: for {own} of the time the GPU waits for the next batch{}.",
            most(&of(Limit::Input))
        ),
        Limit::Allocation => format!(
            "Memory is the limit: for {own} of the time the GPU waits while the host allocates and frees{}.",
            most(&of(Limit::Allocation))
        ),
        Limit::Copies => format!(
            "Copies are the limit: for {own} of the time the GPU copies and computes nothing{}.",
            most(&of(Limit::Copies))
        ),
        Limit::Communication => format!(
            "Communication is the limit: for {own} of the time the GPU communicates and computes nothing{}.",
            most(&of(Limit::Communication))
        ),
        Limit::Skew => {
            let of = |cause| sum(found, |own| own == cause);
            let idle = of(Cause::IdleRank);
            let idle = if idle > of(Cause::LateRank) {
                format!(", {} while its own GPU is idle", percent(found.share(idle)))
            } else {
                String::new()
            };
            format!("A late rank is the limit: the others wait for it {own} of the time{idle}.")
        }
        Limit::Unknown => format!(
            "What limits the step is unknown: for {own} of the time the recording does not say what the GPU waits for."
        ),
    }
}

/// Of a group, when it is nearly as much as the one that limits.
const NEARLY: f64 = 0.9;
/// How far what is lost may be from [`LOST`] where the verdict could be the other.
const CLOSE: f64 = 0.03;

/// How near the verdict is to another one; nothing where it is not.
pub(crate) fn near(found: &Gap) -> Option<String> {
    let lost = || found.limits.iter().filter(|group| group.limit != Limit::Gpu);
    let first = lost().find(|group| group.limit == found.limit);
    let second = lost().filter(|group| group.limit != found.limit).max_by_key(|group| group.ns);
    if let (Some(first), Some(second)) = (first, second)
        && second.ns as f64 >= NEARLY * first.ns as f64
    {
        return Some(format!(
            "{} ({}) is nearly as much.",
            group(second.limit),
            percent(found.share(second.ns))
        ));
    }
    let all: i64 = found.limits.iter().map(|group| group.ns).sum();
    let share = lost().map(|group| group.ns).sum::<i64>() as f64 / all.max(1) as f64;
    if (share - LOST).abs() > CLOSE {
        return None;
    }
    let (share, least) = (percent(share), percent(LOST));
    Some(if found.limit == Limit::Gpu {
        let most = second.map(|group| format!(", most to: {}", lower_first(self::group(group.limit))));
        format!(
            "It is near: {share} are lost elsewhere{}; more than {least} would be the limit.",
            most.unwrap_or_default()
        )
    } else {
        format!("It is near: {share} are lost outside the GPU's own work, which is the limit up to {least}.")
    })
}

/// A group as the subject of a sentence.
pub(crate) fn group(limit: Limit) -> &'static str {
    match limit {
        Limit::Launch => "Launching",
        Limit::Host => "Other work of the host",
        Limit::Sync => "Waiting for the GPU",
        Limit::Input => "Waiting for the next batch",
        Limit::Allocation => "Allocating and freeing memory",
        Limit::Copies => "Copying",
        Limit::Communication => "Communication",
        Limit::Skew => "Waiting for a late rank",
        Limit::Gpu => "The GPU's own work",
        Limit::Unknown => "Waiting for an unknown reason",
    }
}

/// What was taken apart.
pub(crate) fn steps(found: &Gap) -> String {
    let length = time(found.step_ns as f64);
    let gpu_clock = found.steps.iter().any(|step| !step.warm_up && step.clock == Clock::Gpu);
    let name = &found.step;
    let by = match found.found_by {
        FoundBy::Marked => format!("ranges named `{name}` mark them"),
        FoundBy::DataLoader => "each begins with a fetch by the DataLoader".to_owned(),
        FoundBy::Optimizer => "each ends with a step of the optimizer".to_owned(),
        FoundBy::GrowingCache => "each begins with the first attention that sees one more token".to_owned(),
        FoundBy::GraphReplays => "each begins with the launch of a CUDA graph".to_owned(),
        FoundBy::RepeatedKernels => "the same kernels run in the same order".to_owned(),
        FoundBy::None => {
            return format!(
                "Nothing in the recording marks steps or repeats itself, so all {length} are taken apart as one."
            );
        }
    };
    let kind = match PassKind::of(name) {
        Some(PassKind::Prefill) => "prefill step",
        Some(PassKind::Decode) => "decode step",
        _ => "step",
    };
    let count = match (found.measured, found.places) {
        (1, _) => format!("One {kind} is measured"),
        (all, ..2) => format!("{all} {kind}s are measured"),
        (all, places) if all == places => format!("One {kind} is measured on each of {places} GPUs"),
        (all, places) if all % places == 0 => {
            format!("{} {kind}s are measured on each of {places} GPUs", all / places)
        }
        (all, places) => format!("{all} {kind}s are measured on {places} GPUs"),
    };
    let is_single = found.measured <= found.places;
    let clock = match (gpu_clock, is_single) {
        (false, _) => "",
        (true, true) => {
            " The host is ahead of the GPU, so it lasts from the end of the work before it, where that is recorded, to the end of its own."
        }
        (true, false) => {
            " The host is ahead of the GPU, so a step lasts from the end of the work of the one before to the end of its own."
        }
    };
    let is_prefill = |step: &&Step| PassKind::of(&step.name) == Some(PassKind::Prefill);
    let left_out = || found.steps.iter().filter(|step| step.warm_up);
    let prefill: Vec<&Step> = left_out().filter(|step| kind == "decode step" && is_prefill(step)).collect();
    let warm = (left_out().count() - prefill.len()) as u64 / found.places.max(1);
    let warm = match warm {
        0 => String::new(),
        1 => ", one is left out as warm-up".to_owned(),
        several => format!(", {several} are left out as warm-up"),
    };
    let length = if is_single {
        format!("It takes {length} to the end of its work.")
    } else {
        format!("On average {length} pass from one to the next.")
    };
    let prefill = match prefill.as_slice() {
        [] => String::new(),
        [one] => format!(" The prefill, {}, is left out.", time(one.wall_ns as f64)),
        several => {
            let all: i64 = several.iter().map(|step| step.wall_ns).sum();
            let (count, all) = (several.len(), time(all as f64));
            format!(" {count} prefills, {all} in all, are left out.")
        }
    };
    format!("{count}{warm}: {by}. {length}{}{clock}{prefill}", tail(found))
}

/// So many steps have a 99th percentile.
const TAIL: usize = 100;
/// A longest step that is worth a word is longer than this many medians.
const LONG: f64 = 1.25;

/// How long the longest steps take, where they stand out.
fn tail(found: &Gap) -> String {
    let mut steps: Vec<_> = found.steps.iter().filter(|step| !step.warm_up).collect();
    steps.sort_by_key(|step| step.wall_ns);
    let (Some(median), Some(longest)) = (steps.get((steps.len().max(1) - 1) / 2), steps.last()) else {
        return String::new();
    };
    if steps.len() < 3 || longest.wall_ns as f64 <= LONG * median.wall_ns as f64 {
        return String::new();
    }
    let of = |ns: i64| time(ns as f64);
    let (half, name, most) = (of(median.wall_ns), &longest.name, of(longest.wall_ns));
    // The smallest step that at least 99 of 100 do not exceed.
    let p99 = steps.get((99 * steps.len()).div_ceil(100) - 1).filter(|_| steps.len() >= TAIL);
    let p99 = p99.map(|step| format!(", 99% at most {}", of(step.wall_ns))).unwrap_or_default();
    format!(" Half of the steps take at most {half}{p99}; the longest, `{name}`, takes {most}.")
}

/// What to change on some GPUs, as an imperative.
pub(crate) fn what(kind: Kind, gpus: &[String]) -> &'static str {
    let is_before_ampere =
        |gpu: &String| Peaks::of(gpu).is_some_and(|peaks| peaks.peak(NumberType::Tf32).is_none());
    match kind {
        Kind::CudaGraphs => {
            "Replay the step as a CUDA graph: torch.compile(mode=\"reduce-overhead\"), or torch.cuda.graph"
        }
        Kind::HostCode => "Do less on the host between launches, or do it while the GPU works",
        Kind::WarmUp => {
            "Record steps after warm-up: what comes before first runs of kernels, or allocates once, may not be in later steps"
        }
        Kind::BlockingCall => {
            "Do not wait for the GPU within the step: keep numbers on it, and read them seldom"
        }
        Kind::InputPipeline => {
            "Prepare batches ahead: DataLoader(num_workers=…, pin_memory=True, prefetch_factor=…)"
        }
        Kind::PageableCopies => "Copy from pinned memory: pin_memory=True and .to(device, non_blocking=True)",
        Kind::UnoverlappedCopies => "Copy on a stream of its own, while kernels run",
        Kind::FewerCopies => "Copy less: keep on the GPU what every step copies, or copy it in fewer bytes",
        Kind::TensorCores if !gpus.is_empty() && gpus.iter().all(is_before_ampere) => {
            "Let products use tensor cores, which have no TF32 here: torch.autocast(\"cuda\", torch.float16)"
        }
        Kind::TensorCores => {
            "Let products use tensor cores: torch.set_float32_matmul_precision(\"high\"), or bfloat16"
        }
        Kind::FusedAttention => {
            "Compute attention in one kernel: torch.nn.functional.scaled_dot_product_attention"
        }
        Kind::FuseElementwise => "Fuse chains of element-wise kernels: torch.compile",
        Kind::FusedOptimizer => "Update all parameters in few kernels: the optimizer's option fused=True",
        Kind::ChannelsLast => {
            "Store images with channels last: model and input .to(memory_format=torch.channels_last)"
        }
        Kind::TilePadding => "Pad the odd dimension of these products to a multiple of 8, better of 64",
        Kind::Allocations => {
            "Keep memory: no torch.cuda.empty_cache() in the loop, no sizes that change with each step"
        }
        Kind::SerializedStreams => {
            "Let the streams wait for each other less often: none of their kernels run at the same time"
        }
        Kind::Clocks => {
            "Let the GPU keep its clock: `nvidia-smi -q -d PERFORMANCE` says whether power, heat or a setting holds it"
        }
        Kind::Recomputation => {
            "Keep what the forward pass computed where memory allows: no checkpointing there"
        }
        Kind::CommunicationOverlap => {
            "Communicate while kernels run: start earlier, or in buckets during the backward pass"
        }
        Kind::Straggler => {
            "Let the ranks arrive at their collectives at the same time: the same work for each, and no work of one alone"
        }
        Kind::SmallBuckets => "Communicate in fewer, larger pieces: DistributedDataParallel(bucket_cap_mb=…)",
    }
}

/// What shows it.
pub(crate) fn evidence(advice: &Advice) -> String {
    let shown =
        advice.evidence.iter().take(2).map(|detail| format!("{} {}", named(detail), time(detail.ns as f64)));
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() { String::new() } else { format!("Seen in a step: {}.", shown.join(", ")) }
}

#[cfg(test)]
pub(super) mod tests {
    use flopgap_gap::{Group, Pauses, Share, Unmarked};

    use super::*;

    /// A step of 1000 ns of which groups take some.
    pub(in crate::sentences) fn of(limit: Limit, groups: &[(Limit, i64)]) -> Gap {
        let whole = Share {
            part: Part::Busy,
            cause: Cause::Other,
            limit: Limit::Gpu,
            ns: 1000,
            pieces: 1,
            details: Vec::new(),
        };
        Gap {
            limit,
            found_by: FoundBy::Marked,
            step: "step".to_owned(),
            gpus: Vec::new(),
            joined: None,
            clocks: Vec::new(),
            launches: None,
            executed: None,
            activity: None,
            whole_steps: None,
            frequency: None,
            captures: false,
            graphs: None,
            measured: 1,
            places: 1,
            pauses: Pauses::default(),
            unmarked: Unmarked::default(),
            step_ns: 1000,
            limits: groups.iter().map(|(limit, ns)| Group { limit: *limit, ns: *ns }).collect(),
            parts: vec![whole],
            advice: Vec::new(),
            steps: Vec::new(),
            between: Vec::new(),
            pieces: Vec::new(),
            floor: None,
        }
    }

    #[test]
    fn a_verdict_says_how_near_it_is_to_another() {
        use Limit::{Copies, Gpu, Host, Launch, Sync};
        let said = |limit, groups: &[(Limit, i64)]| near(&of(limit, groups));
        assert_eq!(said(Host, &[(Gpu, 400), (Host, 310), (Sync, 270), (Copies, 20)]), None);
        assert_eq!(
            said(Host, &[(Gpu, 500), (Host, 222), (Sync, 216), (Copies, 62)]).unwrap(),
            "Waiting for the GPU (21.6%) is nearly as much."
        );
        // The GPU's own work does not compete with a cause: another rule covers it.
        assert_eq!(said(Launch, &[(Gpu, 500), (Launch, 500)]), None);
        assert_eq!(
            said(Gpu, &[(Gpu, 770), (Launch, 130), (Host, 100)]).unwrap(),
            "It is near: 23.0% are lost elsewhere, most to: launching; more than 25.0% would be the limit."
        );
        assert_eq!(
            said(Launch, &[(Gpu, 730), (Launch, 200), (Host, 70)]).unwrap(),
            "It is near: 27.0% are lost outside the GPU's own work, which is the limit up to 25.0%."
        );
        assert_eq!(said(Gpu, &[(Gpu, 790), (Launch, 210)]), None);
        assert_eq!(said(Gpu, &[(Gpu, 1000)]), None);
        assert_eq!(said(Gpu, &[]), None);
    }

    #[test]
    fn every_group_has_its_words() {
        let groups: Vec<&str> = Cause::ALL.iter().map(|cause| group(cause.limit())).collect();
        for expected in [
            "Launching",
            "Other work of the host",
            "Waiting for the GPU",
            "Waiting for the next batch",
            "Allocating and freeing memory",
            "Copying",
            "Communication",
            "The GPU's own work",
            "Waiting for an unknown reason",
        ] {
            assert!(groups.contains(&expected), "{expected}");
        }
        assert_eq!(group(Limit::Skew), "Waiting for a late rank");
    }

    #[test]
    fn a_late_rank_that_is_idle_itself_is_said() {
        let part = |cause: Cause, ns| Share {
            part: cause.part(),
            cause,
            limit: cause.limit(),
            ns,
            pieces: 1,
            details: Vec::new(),
        };
        let said = |late, idle| {
            let mut found = of(Limit::Skew, &[(Limit::Skew, late + idle)]);
            let parts =
                [(Cause::Other, 1000 - late - idle), (Cause::LateRank, late), (Cause::IdleRank, idle)];
            found.parts = parts.into_iter().map(|(cause, ns)| part(cause, ns)).collect();
            verdict(&found)
        };
        assert_eq!(said(300, 100), "A late rank is the limit: the others wait for it 40.0% of the time.");
        let idle = "A late rank is the limit: the others wait for it 40.0% of the time, 30.0% while its own GPU is idle.";
        assert_eq!(said(100, 300), idle);
    }

    #[test]
    fn steps_are_said_by_what_they_are() {
        let mut found = of(Limit::Gpu, &[]);
        assert_eq!(
            steps(&found),
            "One step is measured: ranges named `step` mark them. It takes 1.0 µs to the end of its work."
        );
        (found.measured, found.step) = (4, "step[EXTEND bs=* toks=*]".to_owned());
        assert_eq!(
            steps(&found),
            "4 prefill steps are measured: ranges named `step[EXTEND bs=* toks=*]` mark them. On average 1.0 µs pass from one to the next."
        );
        (found.places, found.step) = (2, "decode".to_owned());
        assert!(
            steps(&found).starts_with("2 decode steps are measured on each of 2 GPUs: "),
            "{}",
            steps(&found)
        );
    }

    #[test]
    fn steps_that_stand_out_are_said() {
        let of_walls = |walls: &[i64]| {
            let mut found = of(Limit::Gpu, &[]);
            let step = |(at, wall_ns): (usize, &i64)| Step {
                name: format!("step {at}"),
                rank: None,
                process: None,
                gpu: None,
                start_ns: 0,
                wall_ns: *wall_ns,
                clock: Clock::Host,
                warm_up: false,
                parts: Vec::new(),
            };
            found.steps = walls.iter().enumerate().map(step).collect();
            tail(&found)
        };
        assert_eq!(of_walls(&[]), "");
        assert_eq!(of_walls(&[100, 900]), "", "two do not say which is usual");
        assert_eq!(of_walls(&[100, 125, 100]), "");
        assert_eq!(
            of_walls(&[100, 200, 120]),
            " Half of the steps take at most 120 ns; the longest, `step 1`, takes 200 ns."
        );
        let mut many = vec![100; 198];
        many.extend([500, 900]);
        let said = " Half of the steps take at most 100 ns, 99% at most 100 ns; the longest, `step 199`, takes 900 ns.";
        assert_eq!(of_walls(&many), said);
        many.extend([500; 3]);
        assert!(of_walls(&many).contains("99% at most 500 ns"));
    }

    #[test]
    fn idle_time_is_named_with_its_function() {
        let detail = Detail {
            what: Some("cudaStreamSynchronize".to_owned()),
            by: Some("aten::item".to_owned()),
            at: Some("train.py(34): step".to_owned()),
            ns: 1,
            pieces: 1,
        };
        assert_eq!(named(&detail), "`cudaStreamSynchronize` in `aten::item` from `train.py(34): step`");
    }
}
