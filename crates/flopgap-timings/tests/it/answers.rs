use flopgap_flops::transformer::Attention;
use flopgap_kernels::{Classifier, KernelClass};
use flopgap_timings::attention::{Names, Options, attention};
use flopgap_timings::compare::{compare, scopes};
use flopgap_timings::diff::diff;
use flopgap_timings::kernels::{kernels, same_top, side_by_side};
use flopgap_timings::shares::{Shares, Work, shares};
use flopgap_timings::{Error, Ranges, Scope, WarmUp};

use crate::support::{BY_PROCESS, Recorded};

fn scope(ranges: Ranges) -> Scope {
    Scope { ranges, warm_up: WarmUp::default(), attribution: BY_PROCESS }
}

fn named(range: &str) -> Scope {
    scope(Ranges::Named(vec![range.parse().unwrap()]))
}

fn total(shares: &Shares, work: Work) -> i64 {
    let found = shares.shares.iter().find(|share| share.work == work);
    i64::try_from(found.map_or(0, |share| share.total_ns)).unwrap()
}

/// The kernel with the most time in the forward pass, how often it runs, and whether it is the same with the backward pass.
#[test]
fn the_top_kernel_is_the_one_that_sql_finds() {
    let classifier = Classifier::new();
    let (forward, both) = (Recorded::new("small_forward"), Recorded::new("small_forward_backward"));
    let a = kernels(&forward.trace(), &named("forward"), &classifier).unwrap();
    let b = kernels(&both.trace(), &named("step_*"), &classifier).unwrap();
    for (recorded, found, like) in [(&forward, &a, "forward"), (&both, &b, "step%")] {
        let rows: Vec<[i64; 2]> = recorded.rows(&format!(
            "SELECT count(*), sum(inside.end - inside.start) FROM inside JOIN StringIds s ON s.id = inside.name
             WHERE range LIKE '{like}' AND kind = 'kernel' GROUP BY s.value ORDER BY 2 DESC, 1, s.value"
        ));
        let ours: Vec<[i64; 2]> = found
            .kernels
            .iter()
            .map(|kernel| [kernel.times.count.cast_signed(), i64::try_from(kernel.times.total_ns).unwrap()])
            .collect();
        assert_eq!(ours, rows);
    }
    assert_eq!((a.kernels[0].times.count, a.kernels[0].times.total_ns), (122, 13_150_894));
    assert!(
        a.sentence().unwrap().ends_with("invoked 122 times (61 in each of 2 `forward`)."),
        "{:?}",
        a.sentence()
    );
    assert_eq!(same_top(&a, &b).unwrap(), format!("It is the same kernel in both: {}.", a.kernels[0].short));
    let pairs = side_by_side(&a, &b);
    assert_eq!(pairs[0].b.as_ref().unwrap().times.count, 122);
    // Every kernel of either is there once.
    assert_eq!(pairs.iter().filter(|pair| pair.a.is_some()).count(), a.kernels.len());
    assert_eq!(pairs.iter().filter(|pair| pair.b.is_some()).count(), b.kernels.len());
}

/// Time by kind of work for one step of training, each kind by a query of its own.
#[test]
fn shares_of_training_are_what_sql_gives() {
    let recorded = Recorded::new("small_training_step");
    let found = shares(&recorded.trace(), &scope(Ranges::Steps), &Classifier::new()).unwrap();
    assert_eq!((found.instances, found.scope.as_str()), (Some(2), "step_*"));
    let sum = |range: &str, what: &str| {
        recorded.number(&format!(
            "SELECT coalesce(sum(inside.end - inside.start), 0) FROM inside LEFT JOIN StringIds s ON s.id = inside.name
             WHERE range LIKE '{range}' AND {what}"
        ))
    };
    let split = "s.value LIKE '%splitKreduce%' OR s.value LIKE '%execute_split_k_kernel%'";
    let products = sum("step%", &format!("s.value LIKE '%gemm%' AND NOT ({split})"));
    assert_eq!(total(&found, Work::Kernels(KernelClass::Matmul)), products);
    assert_eq!(total(&found, Work::Kernels(KernelClass::SplitKReduce)), sum("step%", split));
    assert_eq!(total(&found, Work::Kernels(KernelClass::Softmax)), sum("step%", "s.value LIKE '%softmax%'"));
    assert_eq!(total(&found, Work::Memcpy), sum("step%", "kind = 'memcpy'"));
    assert_eq!(total(&found, Work::Memset), sum("step%", "kind = 'memset'"));
    // Additions and multiplications by name, an optimizer by the range around them.
    assert_eq!(total(&found, Work::Kernels(KernelClass::Optimizer)), sum("optimizer", "kind = 'kernel'"));
    assert_eq!(found.optimizer.as_deref(), Some("optimizer"));
    assert_eq!(i64::try_from(found.total_ns).unwrap(), sum("step%", "1"));
    assert_eq!(i64::try_from(found.kernel_ns).unwrap(), 37_833_595 + 37_830_647);
    // One stream: nothing overlaps.
    assert_eq!(found.busy_ns, found.total_ns);
    let all: f64 = found.shares.iter().map(|share| share.share).sum();
    assert!((all - 1.0).abs() < 1e-12);
    assert_eq!(found.shares.iter().map(|share| share.total_ns).sum::<i128>(), found.total_ns);
}

#[test]
fn a_whole_trace_has_what_was_recorded() {
    let recorded = Recorded::new("streams_domains");
    let found = shares(&recorded.trace(), &Scope::all(), &Classifier::new()).unwrap();
    assert_eq!((found.instances, found.scope.as_str(), found.attribution.clone()), (None, "all", None));
    assert_eq!(i64::try_from(found.kernel_ns).unwrap(), 2_373_397);
    assert_eq!(i64::try_from(found.total_ns).unwrap(), recorded.number("SELECT sum(end - start) FROM op"));
    assert_eq!(
        i64::try_from(found.extent_ns).unwrap(),
        recorded.number("SELECT max(end) - min(start) FROM op")
    );
    // Each instant that any operation covers, once: the pieces between all starts and ends.
    let busy = recorded.number(
        "WITH cut AS (SELECT start AS at FROM op UNION SELECT end FROM op),
              piece AS (SELECT at, lead(at) OVER (ORDER BY at) AS next FROM cut)
         SELECT sum(next - at) FROM piece WHERE EXISTS (SELECT 1 FROM op WHERE op.start <= at AND op.end >= next)",
    );
    assert_eq!(i64::try_from(found.busy_ns).unwrap(), busy);
}

#[test]
fn inference_against_training() {
    let (forward, training) = (Recorded::new("small_forward"), Recorded::new("small_training_step"));
    let (forward, training) = (forward.trace(), training.trace());
    let steps = scopes(&forward, &training, &scope(Ranges::Steps)).unwrap();
    assert_eq!(steps.ranges, Ranges::Steps);
    let found = compare((&forward, &steps), (&training, &steps), &Classifier::new()).unwrap();
    let row = |work| found.rows.iter().find(|row| row.work == work).unwrap();
    let products = row(Work::Kernels(KernelClass::Matmul));
    assert_eq!(products.calls, [97.0, 291.0]);
    assert!(products.change() < 0.0);
    let optimizer = row(Work::Kernels(KernelClass::Optimizer));
    assert_eq!((optimizer.total_ns[0], optimizer.share[0]), (0.0, 0.0));
    assert_eq!(optimizer.total_ns[1], f64::from(2_155_289 + 2_147_192) / 2.0);
    for side in 0..2 {
        assert!((found.rows.iter().map(|row| row.share[side]).sum::<f64>() - 1.0).abs() < 1e-12);
    }
    // Without steps in one of them, everything is compared.
    let other = Recorded::new("streams_domains");
    assert_eq!(scopes(&forward, &other.trace(), &scope(Ranges::Steps)).unwrap().ranges, Ranges::All);
    let json = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<flopgap_timings::compare::Comparison>(&json).unwrap(), found);
}

/// Batch 4, 12 heads, 512 positions, heads of 64.
#[test]
fn attention_against_its_flops() {
    let recorded = Recorded::new("small_forward");
    let options = Options {
        sizes: Attention::self_attention(4, 12, 512, 64),
        names: Names::default(),
        warm_up: WarmUp::default(),
        attribution: BY_PROCESS,
    };
    let found = attention(&recorded.trace(), &options, &Classifier::new()).unwrap();
    assert_eq!(found.parts().map(|(_, part)| part.flops), [1_610_612_736, 62_914_560, 1_610_612_736]);
    assert_eq!(found.flop_ratio(), Some(51.2));
    let mean = |range: &str, what: &str| {
        let sum = recorded.number(&format!(
            "SELECT sum(inside.end - inside.start) FROM inside LEFT JOIN StringIds s ON s.id = inside.name
             WHERE range = '{range}' AND {what}"
        ));
        sum as f64 / 24.0
    };
    let parts = [
        ("computing_attention_scores", "s.value LIKE '%gemm%'"),
        ("computing_softmax", "s.value LIKE '%softmax%'"),
        ("final_matmul", "s.value LIKE '%gemm%'"),
    ];
    for ((range, own), (_, part)) in parts.into_iter().zip(found.parts()) {
        assert_eq!((part.range.as_str(), part.shares.instances), (range, Some(24)));
        assert_eq!(part.range_ns, mean(range, "1"), "{range}");
        assert_eq!(part.own_ns, Some(mean(range, own)), "{range}");
        let rate = part.flops as f64 / mean(range, own) * 1e9;
        assert!((part.flops_per_second().unwrap() / rate - 1.0).abs() < 1e-12);
    }
    let sentences = found.sentences().join("\n");
    assert!(sentences.contains("51.2 times the FLOPs"), "{sentences}");
    assert!(sentences.contains("`computing_attention_scores` holds more than QK^T"), "{sentences}");

    let renamed = Options {
        names: Names { softmax: "softmax".parse().unwrap(), ..Names::default() },
        ..options.clone()
    };
    let error = attention(&recorded.trace(), &renamed, &Classifier::new()).unwrap_err();
    assert!(error.is_absence(), "{error}");
    let huge = Options { sizes: Attention::self_attention(u64::MAX, 2, 2, 2), ..options };
    assert!(matches!(attention(&recorded.trace(), &huge, &Classifier::new()), Err(Error::Flops(_))));
}

#[test]
fn a_trace_does_not_differ_from_itself() {
    let recorded = Recorded::new("small_training_step");
    let steps = scope(Ranges::Steps);
    let found = diff((&recorded.trace(), &steps), (&recorded.trace(), &steps), &Classifier::new()).unwrap();
    assert!(found.kernels.iter().all(|kernel| kernel.time.difference_ns() == 0.0));
    assert!(found.slower(0.0, 0).is_empty());
    assert_eq!(found.sentences().len(), 1);
}

#[test]
fn the_optimizer_is_what_training_adds() {
    let (before, after) = (Recorded::new("small_forward_backward"), Recorded::new("small_training_step"));
    let steps = scope(Ranges::Steps);
    let found = diff((&before.trace(), &steps), (&after.trace(), &steps), &Classifier::new()).unwrap();
    for (recorded, side) in [(&before, found.total.before), (&after, found.total.after)] {
        let [[calls, total]] =
            recorded.rows("SELECT count(*), sum(end - start) FROM inside WHERE range LIKE 'step%'")[..]
        else {
            panic!("one row")
        };
        let side = side.unwrap();
        assert_eq!((side.calls.cast_signed(), i64::try_from(side.total_ns).unwrap()), (calls, total));
        assert_eq!(side.each_ns, total as f64 / 2.0);
    }
    let range = |name: &str| found.ranges.iter().find(|range| range.name == name).unwrap();
    assert!(range("optimizer").gpu.before.is_none() && range("optimizer").gpu.fraction().is_none());
    assert_eq!(range("backward").host.before.unwrap().total_ns, 14_492_617 + 14_194_039);
    // Everything that ran is in the rows.
    let calls = |at: usize| -> u64 {
        let sides = found.kernels.iter().map(|kernel| [kernel.time.before, kernel.time.after][at]);
        sides.flatten().map(|side| side.calls).sum()
    };
    assert_eq!([calls(0), calls(1)], [found.total.before.unwrap().calls, found.total.after.unwrap().calls]);

    let what = |slower: Vec<flopgap_timings::diff::Slower>| -> Vec<String> {
        slower.into_iter().map(|slower| slower.what).collect()
    };
    // 36.838 to 38.497 ms is 4.5% more.
    assert_eq!(what(found.slower(0.04, 10_000_000)), ["total GPU time", "range `step_*`"]);
    assert!(found.slower(0.05, 10_000_000).is_empty());
}

/// A deeper model has the same ranges: what its layers are numbered is not what they are.
#[test]
fn layers_are_not_new_and_gone() {
    let renamed = |from: i64| {
        Recorded::altered(
            "small_forward",
            &format!(
                "UPDATE NVTX_EVENTS SET text = 'blocks.' || (rowid % 12 + {from}) WHERE text = 'scaled_dot_product_attention'"
            ),
        )
    };
    let (before, after) = (renamed(0), renamed(14));
    let steps = scope(Ranges::Steps);
    let found = diff((&before.trace(), &steps), (&after.trace(), &steps), &Classifier::new()).unwrap();
    let blocks: Vec<_> = found.ranges.iter().filter(|range| range.name.starts_with("blocks.")).collect();
    assert_eq!(blocks.len(), 1, "{blocks:?}");
    assert_eq!(blocks[0].name, "blocks.*");
    assert_eq!(blocks[0].host.before.unwrap().calls, 24);
    assert_eq!(blocks[0].host.before, blocks[0].host.after);
}
