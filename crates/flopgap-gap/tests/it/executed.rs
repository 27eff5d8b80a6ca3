//! What kernels execute, by counters, against sums in SQL.

use flopgap_gap::{Options, Peaks, gap};
use flopgap_kernels::NumberType;
use rusqlite::Connection;

use crate::{fixture, open};

/// Kernels that begin in `?1..?2` with their counts.
const KERNELS: &str = "FROM CUPTI_ACTIVITY_KIND_KERNEL k
    LEFT JOIN FLOPGAP_KERNEL f ON f.kernel = k.rowid LEFT JOIN FLOPGAP_COUNTED c ON c.id = f.counted
    WHERE k.start >= ?1 AND k.start < ?2";

#[test]
fn sums_of_measured_steps_are_those_of_sql() {
    let name = "record/h100_counted.sqlite.zst";
    let found = gap(&*open(&fixture(name)).trace, &Options::default()).unwrap();
    let executed = found.executed.as_ref().unwrap();

    let (_folder, [copy]) = flopgap_testing::paths(["trace.sqlite"]);
    flopgap_testing::unpack(name, &copy);
    let database = Connection::open(copy).unwrap();
    let windows: Vec<(i64, i64)> = found
        .steps
        .iter()
        .chain(&found.between)
        .filter(|step| !step.warm_up)
        .map(|step| (step.start_ns, step.start_ns + step.wall_ns))
        .collect();
    let sum = |expression: &str| -> i64 {
        let query = format!("SELECT coalesce({expression}, 0) {KERNELS}");
        windows
            .iter()
            .map(|&window| database.query_row(&query, window, |row| row.get::<_, i64>(0)).unwrap())
            .sum()
    };
    let of = |value: u64| i64::try_from(value).unwrap();
    let all = executed.all;
    assert_eq!(of(all.launches), sum("count(*)"));
    assert_eq!(of(all.counted), sum("count(leastFlops)"));
    assert_eq!(all.ns, sum("sum(k.end - k.start)"));
    assert_eq!(all.counted_ns, sum("sum((k.end - k.start) * (leastFlops IS NOT NULL))"));
    assert_eq!(executed.flops.map(of), ["leastFlops", "mostFlops"].map(|it| sum(&format!("sum({it})"))));
    assert_eq!(of(executed.dram_bytes), sum("sum(dramBytes * (leastFlops IS NOT NULL))"));
    // The three kernels of the graph, which ran before all groups had counted them.
    assert_eq!((all.launches, all.counted), (1123, 1057));
    for own in &executed.operations {
        let query = format!(
            "sum((SELECT sum(o.least) FROM FLOPGAP_OPERATIONS o WHERE o.counted = c.id
            AND o.type = '{}') * (leastFlops IS NOT NULL))",
            own.kind
        );
        assert_eq!(of(own.least), sum(&query), "{}", own.kind);
    }
    let kinds: u64 = executed.operations.iter().map(|own| own.least).sum();
    assert_eq!(kinds, executed.flops[0], "types add up");
}

/// No kernel is faster than the peaks, and the bound is what its parts say.
#[test]
fn bounds_are_those_of_the_data_sheet() {
    let found = gap(&*open(&fixture("record/h100_counted.sqlite.zst")).trace, &Options::default()).unwrap();
    let executed = found.executed.as_ref().unwrap();
    let peaks = Peaks::of("NVIDIA H100 80GB HBM3").unwrap();
    let product =
        executed.kernels.iter().find(|own| own.name.starts_with("nvjet_sm90_tst_128x128_64x6_2x1_v_bz_NTT"));
    let product = product.unwrap();
    // One launch a step of 2 x 2048 x 256 x 8192: bytes take longer than operations.
    assert_eq!(product.flops, [2 * 2048 * 256 * 8192 * product.sums.counted; 2]);
    let computing = product.flops[0] as f64 / peaks.peak(NumberType::Bf16).unwrap() * 1e9;
    let moving = product.dram_bytes as f64 / peaks.bytes * 1e9;
    let bound = product.sums.bound_ns.unwrap() as f64;
    assert!(
        (bound - computing.max(moving)).abs() <= product.sums.counted as f64,
        "{bound} {computing} {moving}"
    );
    for own in &executed.kernels {
        assert!(own.sums.bound_ns.unwrap() <= own.sums.counted_ns, "{}", own.name);
    }
    let tensor: u64 =
        executed.operations.iter().filter(|own| own.kind == "tensor bf16").map(|own| own.least).sum();
    // The tensor cores are the busiest unit of all products, and no product of this network is
    // anything else's.
    let least = tensor as f64 / peaks.peak(NumberType::Bf16).unwrap() * 1e9 / found.total_ns() as f64;
    let utilization = executed.utilization.unwrap();
    assert!(least < utilization && utilization < 1.5 * least, "{least} {utilization}");
}

#[test]
fn nothing_is_said_where_nothing_was_counted() {
    let found =
        gap(&*open(&fixture("nsys/small_training_step.sqlite.zst")).trace, &Options::default()).unwrap();
    assert_eq!(found.executed, None);
}
