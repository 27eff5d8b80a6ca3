//! Evidence in a report that decides whether a launch's FLOPs are known.

use std::fmt::Write;

use flopgap_ncu::{Arithmetic, Count, FlopCounter, Opcode, OperationType, Unknown};

use crate::corpus::corpus;
use crate::flops::flops;
use crate::support::parse;

/// Name, unit and value.
type Metric<'a> = (&'a str, &'a str, &'a str);

/// The counters of FADD, FMUL and FFMA.
fn fp32<'a>((fadd, fmul, ffma): (&'a str, &'a str, &'a str)) -> [Metric<'a>; 3] {
    [
        ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", "", fadd),
        ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", "", fmul),
        ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", "", ffma),
    ]
}

/// The FLOPs of one launch with these metrics.
fn one(cc: &str, metrics: &[Metric<'_>], arithmetic: &Arithmetic) -> Result<Count, Unknown> {
    let header = "\"ID\",\"Kernel Name\",\"CC\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n";
    let mut text = header.to_owned();
    for (name, unit, value) in metrics {
        writeln!(text, "\"0\",\"k\",\"{cc}\",\"{name}\",\"{unit}\",\"{value}\"").unwrap();
    }
    let report = parse(text).unwrap();
    FlopCounter::new().count_as(report.iter().next().unwrap(), arithmetic).work()
}

/// Two thousand known FLOPs beside a billion HFMA: nothing says what they are.
#[test]
fn a_billion_hfma_are_neither_constants_nor_work_without_a_bound() {
    let Some(report) = corpus("half_mix.csv") else { return };
    assert_eq!(report.launches.len(), 5);
    for flops in flops(&report) {
        assert_eq!(flops.work(), Err(Unknown::HalfPrecision), "{flops:?}");
    }
}

/// The tensor pipe's share of its peak says whether the tensor cores worked.
#[test]
fn shares_of_the_peak_decide_unknown_or_known() {
    const PIPE: &str = "sm__inst_executed_pipe_tensor_op_";
    let of = |cc: &str, hmma: &str, imma: &str, dmma: &str| {
        let share = |op: &str| format!("{PIPE}{op}.avg.pct_of_peak_sustained_active");
        let names = [share("hmma"), share("imma"), share("dmma")];
        let mut metrics = fp32(("1", "2", "3")).to_vec();
        metrics.extend(names.iter().map(String::as_str).zip([hmma, imma, dmma]).map(|(n, v)| (n, "%", v)));
        one(cc, &metrics, &Arithmetic::default())
    };
    let known = Ok(Count { value: 9, rounded: false });
    // On an A100 and an H100, HMMA is counted with HFMA2.MMA.
    assert_eq!(of("8.0", "61.27", "0", "0"), Err(Unknown::PerhapsTensorCores));
    assert_eq!(of("8.6", "61.27", "0", "0"), Err(Unknown::TensorCores(None)));
    assert_eq!(of("8.0", "0", "5.70", "0"), Err(Unknown::TensorCores(None)));
    assert_eq!(of("8.0", "0", "0", "0"), known);
    let product = Arithmetic { is_product: true, ..Arithmetic::default() };
    let one_of = |more: &[Metric<'_>], arithmetic: &Arithmetic| {
        one("8.0", &[&fp32(("1", "2", "3"))[..], more].concat(), arithmetic)
    };
    // A product whose name says no more: without evidence unknown, with it known.
    assert_eq!(one_of(&[], &product), Err(Unknown::PerhapsTensorCores));
    for idle in [
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "smsp__inst_executed_pipe_tensor.sum.per_cycle_elapsed",
        "derived__smsp__inst_executed_pipe_tensor_x512",
        "Tensor (All)",
    ] {
        assert_eq!(one_of(&[(idle, "", "0")], &product), known, "{idle}");
        // Rounded to nothing is not nothing.
        let faint = one_of(&[(idle, "", "0.00")], &product);
        assert_eq!(faint, Err(Unknown::PerhapsTensorCores), "{idle}");
        let busy = one_of(&[(idle, "", "12.5")], &Arithmetic::default());
        assert_eq!(busy, Err(Unknown::PerhapsTensorCores), "{idle}");
    }
    // Integers: whatever the name says of its epilogue.
    let tf32 = Arithmetic {
        tensor_cores: Some(true),
        tensor_precision: Some(OperationType::TensorTf32),
        ..Arithmetic::default()
    };
    let share = |op: &str| format!("{PIPE}{op}.max.pct_of_peak_sustained_elapsed");
    let names = [share("imma"), share("hmma"), share("dmma")];
    let imma = [(&*names[0], "%", "5.70"), (&*names[1], "%", "0"), (&*names[2], "%", "0")];
    assert_eq!(one_of(&imma, &tf32), Err(Unknown::TensorCores(None)));
    assert_eq!(one_of(&[], &tf32), Err(Unknown::TensorCores(Some(OperationType::TensorTf32))));
    // The peak's own value says nothing of the kernel.
    let peak = [("derived__sm__inst_executed_pipe_tensor_x512", "", "0")];
    assert_eq!(one_of(&peak, &product), Err(Unknown::PerhapsTensorCores));
}

/// What a share that is printed as nothing leaves open is bounded by the peak.
#[test]
fn a_share_that_is_rounded_to_nothing_is_a_bound() {
    let product = Arithmetic { is_product: true, ..Arithmetic::default() };
    let of = |ffma: &str| {
        let more = [
            ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "%", "0.00"),
            ("smsp__cycles_elapsed.sum", "cycle", "432,000,000"),
            ("# SMs", "", "108"),
        ];
        one("8.0", &[&fp32(("0", "1000000000", ffma))[..], &more].concat(), &product)
    };
    // 0.005 % of 4,096 operations in a million cycles of 108 SMs: 22,118,400.
    assert_eq!(of("605920000"), Ok(Count { value: 2_211_840_000, rounded: true }));
    assert_eq!(of("605919999"), Err(Unknown::PerhapsTensorCores));
}

/// A launch that ncu recorded with `--set full` on an A100: its HMMA share is at 61 %.
#[test]
fn shares_of_a_recorded_launch_decide() {
    let Some(report) = corpus("full_pct_hmma_attn.csv") else { return };
    assert_eq!(report.launches.len(), 2);
    for flops in flops(&report) {
        assert_eq!(flops.work(), Err(Unknown::PerhapsTensorCores), "{flops:?}");
    }
}

/// A product on an A100 whose tensor pipe executed as many instructions as HFMA account for: these
/// may be constants, and FFMA that are exactly 40960²·20480 do not exclude others.
#[test]
fn a_product_beside_a_tensor_pipe_at_work_is_unknown() {
    let Some(report) = corpus("real_a100_details_printfp_sgemm.csv") else { return };
    let product = Arithmetic { is_product: true, ..Arithmetic::default() };
    let launch = report.iter().find(|launch| launch.kernel_name().contains("gemm_v1<float>")).unwrap();
    let flops = FlopCounter::new().count_as(launch, &product);
    let fp32 = Count { value: 2 * 40_960 * 40_960 * 20_480, rounded: false };
    assert_eq!(flops.get(OperationType::Fp32).count(), Some(fp32));
    assert_eq!(flops.work(), Err(Unknown::PerhapsTensorCores));
}

/// The sums that the launches' opcodes give: thread instructions whose predicate was true.
#[test]
fn a_full_report_of_ncu_2023_3_has_exact_counts() {
    let Some(report) = corpus("ncu2023_3_sglang.ncu-rep.zst") else { return };
    let counted = flops(&report);
    let expected = [
        2_162_688 + 17_301_504 + 2 * 36_634_624,
        4_096 + 28_672 + 2 * 63_488,
        5_406_720 + 43_139_072 + 2 * 91_586_560,
        5_406_720 + 43_139_072 + 2 * 91_586_560,
    ];
    for (flops, value) in counted.iter().zip(expected) {
        assert_eq!(flops.work(), Ok(Count { value, rounded: false }), "no HMMA among the opcodes");
    }
    assert_eq!(counted[4].work(), Err(Unknown::NotRecorded), "all of its metrics are nan");
    let Some(report) = corpus("ncu2023_3_lammps.ncu-rep") else { return };
    let dfma = Count { value: 2 * 209_715_200, rounded: false };
    assert_eq!(flops(&report)[0].work(), Ok(dfma));
    let Some(report) = corpus("int8_cutlass.ncu-rep.zst") else { return };
    let counted = flops(&report);
    // The second computes the first one's product with an FFMA for each multiplication.
    let product = Count { value: 2 * 56_623_104, rounded: false };
    assert_eq!(counted[1].work(), Ok(product));
    assert_eq!(counted[0].get(OperationType::TensorInt8).count(), Some(product), "IMMA.16832.S8.S8.SAT");
    // Of the first, FMUL of the epilogue are all floating-point operations.
    assert_eq!(counted[0].work(), Ok(Count { value: 147_456, rounded: false }));
    // Older reports list opcodes without modifiers.
    let mut older = report;
    older.launches.iter_mut().for_each(|launch| launch.modified_opcodes.clear());
    assert_eq!(flops(&older)[0].work(), Err(Unknown::TensorCores(None)), "IMMA at 5.7 %");
}

/// Opcodes show half-precision arithmetic that no counter of the report has.
#[test]
fn opcodes_decide_what_no_counter_says() {
    let [fadd, fmul, ffma] = fp32(("0", "0", "1000")).map(|(name, ..)| name);
    let text = format!(
        "\"ID\",\"Kernel Name\",\"CC\",\"{fadd}\",\"{fmul}\",\"{ffma}\"\n\"0\",\"k\",\"8.0\",\"0\",\"0\",\"1000\"\n"
    );
    let of = |opcodes: &[(&str, u64)], arithmetic: &Arithmetic| {
        let mut report = parse(text.clone()).unwrap();
        let listed = opcodes.iter().map(|&(name, count)| Opcode { name: report.strings.intern(name), count });
        report.launches[0].opcodes = listed.collect();
        FlopCounter::new().count_as(report.iter().next().unwrap(), arithmetic).work()
    };
    let nothing = Arithmetic::default();
    let known = Ok(Count { value: 2_000, rounded: false });
    assert_eq!(of(&[("FFMA", 32)], &nothing), known);
    // 32 threads of 7 warps are less than a fourth of the FFMA: constants.
    assert_eq!(of(&[("FFMA", 32), ("HFMA2", 7)], &nothing), known);
    let half = Err(Unknown::NotCounted(OperationType::Fp16));
    assert_eq!(of(&[("FFMA", 32), ("HFMA2", 32)], &nothing), half);
    assert_eq!(of(&[("FFMA", 32), ("HMUL2", 32)], &nothing), half);
    // 31 of them are at most 1,984 operations.
    assert_eq!(of(&[("FFMA", 32), ("HADD2", 31)], &nothing), known);
    let in_float = Arithmetic { half_arithmetic: Some(false), ..nothing };
    assert_eq!(of(&[("FFMA", 32), ("HADD2", 3200)], &in_float), known, "conversions");
    // Products on the tensor cores, whatever the name says.
    let none = Arithmetic { tensor_cores: Some(false), ..nothing };
    for opcode in ["HMMA", "HGMMA", "UTCHMMA", "DMMA"] {
        assert_eq!(of(&[("FFMA", 32), (opcode, 1)], &none), Err(Unknown::TensorCores(None)), "{opcode}");
        assert_eq!(of(&[("FFMA", 32), (opcode, 0)], &none), known, "{opcode}");
    }
    let product = Arithmetic { is_product: true, tensor_cores: Some(true), ..nothing };
    assert_eq!(of(&[("FFMA", 32)], &product), known);
}
