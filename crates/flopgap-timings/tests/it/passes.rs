use flopgap_files::Hint as _;
use flopgap_timings::passes::{Options, Pass, Passes, SpreadTime, passes};
use flopgap_timings::{Error, LeftOutFirst, PassKind, Selection, WarmUp};

use crate::support::{BY_PROCESS, BY_THREAD, Recorded};

fn all(recorded: &Recorded) -> Passes {
    passes(&recorded.trace(), &Options { attribution: BY_PROCESS, ..Options::default() }).unwrap()
}

fn names(passes: &Passes) -> Vec<(&str, PassKind, usize)> {
    passes.passes.iter().map(|pass| (pass.name.as_str(), pass.kind, pass.instances.len())).collect()
}

/// Host times, projected times, operations and waits of every pass of the recorded steps are what
/// SQL gives.
#[test]
fn recorded_passes_are_what_sql_gives() {
    for (name, expected) in [
        ("small_forward", vec!["step_*", "forward"]),
        ("small_forward_backward", vec!["step_*", "forward", "backward"]),
        ("small_training_step", vec!["step_*", "forward", "backward", "optimizer"]),
    ] {
        let recorded = Recorded::new(name);
        let found = all(&recorded);
        let shown: Vec<&str> = found.passes.iter().map(|pass| pass.name.as_str()).collect();
        assert_eq!(shown, expected, "{name}");
        for pass in &found.passes {
            let like = pass.name.replace('*', "%");
            let ranges: Vec<[i64; 2]> = recorded.rows(&format!(
                "SELECT start, end FROM range WHERE name LIKE '{like}'
                 AND start > (SELECT end FROM range WHERE name = 'warmup') ORDER BY start"
            ));
            let gpu: Vec<[i64; 4]> = recorded.rows(&format!(
                "SELECT min(start), max(end), sum(kind = 'kernel'), count(DISTINCT correlationId) FROM inside
                 WHERE range LIKE '{like}' GROUP BY id ORDER BY min(start)"
            ));
            let host: Vec<[i64; 2]> =
                pass.instances.iter().map(|instance| [instance.start_ns, instance.end_ns]).collect();
            assert_eq!(host, ranges, "{name} {}", pass.name);
            let work = pass.instances.iter().map(|instance| {
                let work = instance.gpu.unwrap();
                [work.start_ns, work.end_ns, work.kernels.cast_signed(), work.operations.cast_signed()]
            });
            assert_eq!(work.collect::<Vec<_>>(), gpu, "{name} {}", pass.name);
            // One stream: nothing overlaps, so the busy time is the sum.
            let busy: Vec<[i64; 1]> = recorded.rows(&format!(
                "SELECT sum(end - start) FROM inside WHERE range LIKE '{like}' GROUP BY id ORDER BY min(start)"
            ));
            let ours: Vec<[i64; 1]> =
                pass.instances.iter().map(|instance| [instance.gpu.unwrap().busy_ns]).collect();
            assert_eq!(ours, busy, "{name} {}", pass.name);
            // Idle of the GPU is the time of the range in which nothing ran, of any origin.
            let idle: Vec<[i64; 1]> = recorded.rows(&format!(
                "SELECT range.end - range.start - coalesce(sum(min(op.end, range.end) - max(op.start, range.start)), 0)
                 FROM range LEFT JOIN op ON op.start < range.end AND op.end > range.start
                 WHERE range.name LIKE '{like}' AND range.start > (SELECT end FROM range WHERE name = 'warmup')
                 GROUP BY range.id ORDER BY range.start"
            ));
            let ours: Vec<[i64; 1]> =
                pass.instances.iter().map(|instance| [instance.gpu.unwrap().idle_ns]).collect();
            assert_eq!(ours, idle, "{name} {}", pass.name);
            assert_identity(pass);
        }
        // Synchronizing at the end of each step, and allocating where a pass first needs memory;
        // the copies are within the device.
        for pass in &found.passes {
            let like = pass.name.replace('*', "%");
            let waits: Vec<[i64; 1]> = recorded.rows(&format!(
                "SELECT coalesce(sum(r.end - r.start), 0) FROM range LEFT JOIN (
                     SELECT r.* FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId
                     WHERE s.value LIKE '%Synchronize%' OR s.value LIKE 'cudaMalloc%' OR s.value LIKE 'cudaFree%') r
                     ON r.globalTid = range.thread AND r.start >= range.start AND r.end <= range.end
                 WHERE range.name LIKE '{like}' AND range.start > (SELECT end FROM range WHERE name = 'warmup')
                 GROUP BY range.id ORDER BY range.start"
            ));
            let ours: Vec<[i64; 1]> =
                pass.instances.iter().map(|instance| [instance.waiting_ns.unwrap()]).collect();
            assert_eq!(ours, waits, "{name} {}", pass.name);
            let by_cause = pass.waiting_for.iter().map(|own| own.total_ns).sum::<i128>();
            assert_eq!(pass.waiting.unwrap().total_ns, by_cause, "{name} {}", pass.name);
        }
    }
}

/// Projected time is host time, less what passes before the work begins, plus what it lasts beyond
/// the range.
fn assert_identity(pass: &Pass) {
    let gpu = pass.gpu.as_ref().unwrap();
    assert_eq!(gpu.projected.total_ns, pass.host.total_ns - gpu.lead.total_ns + gpu.tail.total_ns);
    assert_eq!(gpu.projected.total_ns, gpu.busy.total_ns + gpu.gaps.total_ns);
    assert_eq!((gpu.gpus, gpu.host.total_ns), (1, pass.host.total_ns));
}

/// The recorded program printed 14.02 and 13.93 ms, 40.79 and 40.91 ms.
#[test]
fn timings_measured_outside_agree_with_the_steps() {
    for (name, measured, host_mean) in [
        ("small_forward", vec![14_020_000, 13_930_000], f64::from(14_024_068 + 13_936_154) / 2.0),
        ("small_training_step", vec![40_790_000, 40_910_000], f64::from(40_802_937 + 40_918_507) / 2.0),
    ] {
        let recorded = Recorded::new(name);
        let options = Options { attribution: BY_PROCESS, measured: measured.clone(), ..Options::default() };
        let found = passes(&recorded.trace(), &options).unwrap();
        assert_eq!(found.nearest, Some(0));
        assert_eq!(found.passes[0].host.mean_ns, host_mean);
        let mean = measured.iter().sum::<i64>() as f64 / 2.0;
        let against = found.passes[0].against.unwrap();
        assert_eq!(against.host_difference_ns, host_mean - mean);
        assert!(against.host_change.unwrap().abs() < 0.001);
        // The forward range ends when its launches are done, long before its work is.
        assert!(found.passes[1].against.unwrap().host_change.unwrap() < -0.4);
        assert!(found.passes[1].gpu.as_ref().unwrap().tail.mean_ns > 0.0);
    }
}

#[test]
fn only_the_ranges_of_the_process_own_the_backward_pass() {
    let recorded = Recorded::new("small_training_step");
    let options =
        Options { ranges: vec!["backward".parse().unwrap()], attribution: BY_THREAD, ..Options::default() };
    let by_thread = passes(&recorded.trace(), &options).unwrap();
    let by_process = passes(&recorded.trace(), &Options { attribution: BY_PROCESS, ..options }).unwrap();
    let kernels = |passes: &Passes| {
        let work = passes.passes[0].instances.iter().filter_map(|instance| instance.gpu);
        work.map(|work| work.kernels).sum::<u64>()
    };
    let same =
        recorded.number("SELECT count(*) FROM inside WHERE range = 'backward' AND kind = 'kernel' AND same");
    let any = recorded.number("SELECT count(*) FROM inside WHERE range = 'backward' AND kind = 'kernel'");
    assert_eq!((kernels(&by_thread), kernels(&by_process)), (same.cast_unsigned(), any.cast_unsigned()));
    assert!(same * 20 < any, "{same} of {any}");
}

#[test]
fn warming_up_is_left_out_as_asked() {
    let recorded = Recorded::new("small_forward");
    let trace = recorded.trace();
    let with = |warm_up: WarmUp, range: &str| {
        let ranges = if range.is_empty() { Vec::new() } else { vec![range.parse().unwrap()] };
        passes(&trace, &Options { ranges, warm_up, ..Options::default() })
    };
    let first = with(WarmUp { skip: Some(1), ..WarmUp::default() }, "").unwrap();
    assert_eq!(names(&first), [("step_*", PassKind::Step, 1), ("forward", PassKind::Forward, 1)]);
    assert_eq!((first.passes[1].left_out.in_warm_up, first.passes[1].left_out.first), (1, 1));
    assert_eq!(
        first.selection,
        Selection {
            warm_up: vec!["warmup".to_owned()],
            first: Some(LeftOutFirst::Instances(1)),
            ..Selection::default()
        }
    );
    let none = with(WarmUp { skip: Some(2), ..WarmUp::default() }, "");
    assert!(matches!(none, Err(Error::OnlyWarmUp { instances: 2, .. })), "{none:?}");
    let named =
        with(WarmUp { names: vec!["step_0".parse().unwrap()], ..WarmUp::default() }, "forward").unwrap();
    assert_eq!(names(&named), [("forward", PassKind::Forward, 1)]);
    let kept = with(WarmUp { keep: true, ..WarmUp::default() }, "").unwrap();
    assert_eq!(names(&kept), [("step_*", PassKind::Step, 2), ("forward", PassKind::Forward, 3)]);
    // Asked for by name, it is not left out for being it.
    assert_eq!(names(&with(WarmUp::default(), "warmup").unwrap()), [("warmup", PassKind::WarmUp, 1)]);
    assert_eq!(names(&with(WarmUp::default(), "step_1").unwrap()), [("step_1", PassKind::Step, 1)]);
    assert_eq!(names(&with(WarmUp::default(), "step_*").unwrap()), [("step_*", PassKind::Step, 2)]);
}

#[test]
fn without_gpu_data_there_are_host_times() {
    let found = all(&Recorded::new("nvtx_only"));
    assert_eq!(names(&found), [("step_*", PassKind::Step, 2), ("forward", PassKind::Forward, 2)]);
    assert!(found.passes.iter().all(|pass| pass.gpu.is_none() && pass.waiting.is_none()));
    assert!(
        found.no_gpu.as_deref().unwrap().contains("does not contain CUDA API data"),
        "{:?}",
        found.no_gpu
    );
    assert_eq!(found.passes[1].host.max_ns, 5_934_483);
}

#[test]
fn what_is_not_there_is_an_absence() {
    let trace = Recorded::new("streams_domains");
    let trace = trace.trace();
    let error = passes(&trace, &Options::default()).unwrap_err();
    assert!(matches!(error, Error::NoPasses { .. }) && error.is_absence());
    assert!(error.to_string().contains("by its name; the longest are `"), "{error}");
    let options = Options { ranges: vec!["forward".parse().unwrap()], ..Options::default() };
    let error = passes(&trace, &options).unwrap_err();
    assert!(error.is_absence() && error.to_string().contains("no range is called `forward`"), "{error}");
}

/// The recorded inference with the names that programs for language models use: steps, prompts and
/// tokens are found.
#[test]
fn programs_of_language_models_are_known() {
    for (step, forward, shown, kinds) in [
        ("'execute_model'", "'prefill'", ["execute_model", "prefill"], [PassKind::Step, PassKind::Prefill]),
        (
            "'generate'",
            "'decode_step_' || rowid",
            ["generate", "decode_step_*"],
            [PassKind::Step, PassKind::Decode],
        ),
        ("'batch_' || rowid", "'inference'", ["batch_*", "inference"], [PassKind::Step, PassKind::Step]),
        ("'train_batch'", "'micro_step'", ["train_batch", "micro_step"], [PassKind::Step, PassKind::Step]),
        ("'global_step=' || rowid", "'fwd'", ["global_step=*", "fwd"], [PassKind::Step, PassKind::Forward]),
    ] {
        let recorded = Recorded::altered(
            "small_forward",
            &format!(
                "UPDATE NVTX_EVENTS SET text = {step} WHERE text LIKE 'step\\_%' ESCAPE '\\';
                 UPDATE NVTX_EVENTS SET text = {forward} WHERE text = 'forward';"
            ),
        );
        let found = all(&recorded);
        let expected: Vec<(&str, PassKind, usize)> =
            shown.iter().zip(kinds).map(|(name, kind)| (*name, kind, 2)).collect();
        assert_eq!(names(&found), expected);
        // The GPU work is that of the recording: 13.465 ms for each forward pass.
        assert_eq!(found.passes[1].gpu.as_ref().unwrap().projected.total_ns, {
            let like = if forward.contains("rowid") { "decode%" } else { forward.trim_matches('\'') };
            let spans: Vec<[i64; 1]> = recorded.rows(&format!(
                "SELECT max(end) - min(start) FROM inside WHERE range LIKE '{like}' GROUP BY id"
            ));
            spans.iter().map(|[span]| i128::from(*span)).sum()
        });
    }
}

/// Commas are part of a name, stars stand for any text, and layers come together.
#[test]
fn ranges_are_written_in_one_way() {
    let recorded = Recorded::altered(
        "small_forward",
        "UPDATE NVTX_EVENTS SET text = 'blocks.' || (rowid % 12) || '.attn' WHERE text = 'scaled_dot_product_attention';
         UPDATE NVTX_EVENTS SET text = 'softmax, dim = -1' WHERE text = 'computing_softmax';",
    );
    let trace = recorded.trace();
    let found = |range: &str| {
        let options = Options {
            ranges: vec![range.parse().unwrap()],
            warm_up: WarmUp { keep: true, ..WarmUp::default() },
            attribution: BY_PROCESS,
            ..Options::default()
        };
        passes(&trace, &options).map(|found| {
            let rows = found.passes.iter().map(|pass| (pass.name.clone(), pass.instances.len()));
            rows.collect::<Vec<_>>()
        })
    };
    let count = |like: &str| {
        usize::try_from(recorded.number(&format!("SELECT count(*) FROM range WHERE name LIKE '{like}'")))
            .unwrap()
    };
    assert_eq!(found("softmax, dim = -1").unwrap(), [("softmax, dim = -1".to_owned(), 36)]);
    assert_eq!(found("blocks.*").unwrap(), [("blocks.*.attn".to_owned(), 36)]);
    assert_eq!(found("*.attn").unwrap(), [("blocks.*.attn".to_owned(), 36)]);
    let one = format!(
        "blocks.{}.attn",
        recorded.number("SELECT min(id) % 12 FROM range WHERE name LIKE 'blocks.%'")
    );
    assert_eq!(found(&one).unwrap(), [(one.clone(), count(&one))]);
    let all = found("*").unwrap();
    assert!(all.len() > 5 && all.iter().all(|(name, _)| name != "warmup"), "{all:?}");
    let error = found("softmax").unwrap_err();
    assert!(error.is_absence() && error.to_string().contains("no range is called `softmax`"), "{error}");
}

/// Each process has its own means, the slower is named, and work on several GPUs of one process is
/// that of each.
#[test]
fn processes_and_gpus_have_their_own_numbers() {
    let recorded = Recorded::new("two_ranks");
    let found = all(&recorded);
    let steps: Vec<&Pass> = found.passes.iter().filter(|pass| pass.name == "step_*").collect();
    for pass in &steps {
        let process = pass.process.unwrap();
        let lengths: Vec<[i64; 1]> = recorded.rows(&format!(
            "SELECT end - start FROM range WHERE name LIKE 'step%' AND (thread >> 24) & 0xffffff = {process} ORDER BY start"
        ));
        // The first is warm-up.
        let lengths = lengths[1..].iter().map(|[length]| i128::from(*length));
        assert_eq!((pass.host.count, pass.host.total_ns), (lengths.len() as u64, lengths.sum()));
    }
    assert_eq!(steps.len(), 2);
    let spread = found
        .spreads
        .iter()
        .find(|found| found.name == "step_*" && found.time == SpreadTime::Host)
        .unwrap()
        .spread;
    let slowest = steps.iter().max_by(|one, other| one.host.mean_ns.total_cmp(&other.host.mean_ns)).unwrap();
    assert_eq!((spread.slowest.process, spread.max_ns), (slowest.process, slowest.host.mean_ns));
    assert_eq!((spread.places, found.slowest("step_*")), (2, slowest.process));
    let pooled = Options { attribution: BY_PROCESS, pool: true, ..Options::default() };
    let pooled = passes(&recorded.trace(), &pooled).unwrap();
    assert_eq!((pooled.spreads.len(), pooled.passes[0].process), (0, None));
    assert_eq!(pooled.passes[0].host.count, steps.iter().map(|pass| pass.host.count).sum::<u64>());

    let recorded = Recorded::new("two_gpus");
    let options = Options {
        attribution: BY_PROCESS,
        warm_up: WarmUp { keep: true, ..WarmUp::default() },
        ..Options::default()
    };
    let found = passes(&recorded.trace(), &options).unwrap();
    let step = found.passes.iter().find(|pass| pass.name == "step").unwrap();
    assert_eq!(step.gpus.iter().map(|own| own.gpu.0).collect::<Vec<_>>(), [0, 1]);
    for own in &step.gpus {
        // Kernels and copies of one GPU, within the calls of each step.
        let [[projected, kernels]] = recorded.rows(&format!(
            "SELECT sum(projected), sum(kernels) FROM (
                 SELECT max(o.end) - min(o.start) AS projected, sum(o.kernel) AS kernels FROM range
                 JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
                     ON r.globalTid = range.thread AND r.start >= range.start AND r.end <= range.end
                 JOIN (SELECT start, end, correlationId, deviceId, 1 AS kernel FROM CUPTI_ACTIVITY_KIND_KERNEL
                       UNION ALL SELECT start, end, correlationId, deviceId, 0 FROM CUPTI_ACTIVITY_KIND_MEMCPY) o
                     ON o.correlationId = r.correlationId AND o.deviceId = {}
                 WHERE range.name = 'step' GROUP BY range.id)",
            own.gpu
        ))[..] else {
            panic!("one row")
        };
        assert_eq!(own.times.projected.total_ns, i128::from(projected));
        let count = own.times.projected.count as f64;
        assert!((own.times.kernels_mean * count - kernels as f64).abs() < 1e-9);
    }
    let busy = found
        .spreads
        .iter()
        .find(|found| found.name == "step" && found.time == SpreadTime::Computation)
        .unwrap();
    assert_eq!(busy.spread.places, 2);
}
