//! What kernels execute is counted before they are recorded, and is known of every launch.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use flopgap_record::{Counted, Counters, Exported, Options};

use crate::program::{Recorded, Rows, run};

/// As `flopgap record --flops` plans them on a Hopper, with fewer groups.
fn options(counted: Counted) -> Options {
    let sass = ["fadd", "fmul", "ffma", "dadd", "dmul", "dfma", "hadd", "hmul", "hfma"];
    let sass = sass.map(|it| format!("smsp__sass_thread_inst_executed_op_{it}_pred_on.sum"));
    let parts =
        ["op_hgmma_src_bf16_dst_fp32", "op_hmma_src_bf16_dst_fp32", "src_fp16", "src_tf32", "src_fp8"];
    let tensor = parts.map(|part| format!("sm__ops_path_tensor_{part}.sum"));
    let bytes = ["dram__bytes_read.sum", "dram__bytes_write.sum"].map(str::to_owned);
    let groups = vec![[&bytes[..], &tensor].concat(), sass.to_vec()];
    let mut options = Options::default();
    options.counters = Some(Counters { chip: "GH100".to_owned(), groups, counted });
    options
}

/// Works until it is recorded, then `times` more.
fn recorded(times: usize, variables: &[(&str, &str)]) -> (Exported, Rows) {
    recorded_as("wait-pattern", options(Counted::Kernels), times, variables)
}

/// Of a program that works in this way when a line comes.
fn recorded_as(mode: &str, options: Options, times: usize, variables: &[(&str, &str)]) -> (Exported, Rows) {
    let recorded = Recorded::new(options);
    let mut program = recorded.program(&[mode, "100"]);
    let program = program.envs(variables.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = program.spawn().unwrap();
    let mut input = program.stdin.take().unwrap();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    let mut work = || {
        input.write_all(b"work\n").unwrap();
        output.read_line(&mut String::new()).unwrap();
    };
    let begun = Instant::now();
    while !recorded.has_activities() {
        assert!(begun.elapsed() < Duration::from_mins(1), "nothing is recorded");
        work();
        std::thread::sleep(Duration::from_millis(5));
    }
    (0..times).for_each(|_| work());
    drop(input);
    assert!(program.wait().unwrap().success());
    recorded.export()
}

/// The FLOPs of kernels of a name, with how many there are: least, most and bytes.
fn flops(rows: &Rows, name: &str) -> Vec<String> {
    rows.of(&format!(
        "SELECT leastFlops || ' ' || mostFlops || ' ' || dramBytes FROM FLOPGAP_KERNEL k
         JOIN FLOPGAP_COUNTED c ON c.id = k.counted JOIN StringIds s ON s.id = c.demangledName
         WHERE s.value = '{name}' GROUP BY 1 HAVING count(*) > 100 ORDER BY leastFlops"
    ))
}

/// The fake executes by what ran before: the same kernel with the same sizes has two counts.
#[test]
fn launches_have_the_counts_of_those_that_are_like_them() {
    let (exported, rows) = recorded(20, &[]);
    assert!(exported.kernels >= 20 * 600, "{exported:?}");
    assert_eq!(exported.losses, []);
    // 2 FLOPs a multiply-add, and those of the tensor cores.
    assert_eq!(flops(&rows, "foo(float *)"), ["4296 4296 512", "8992 8992 512"]);
    assert_eq!(flops(&rows, "bar"), ["20 20 32"]);
    let types = "SELECT DISTINCT type || ' ' || least FROM FLOPGAP_OPERATIONS o
                 JOIN FLOPGAP_COUNTED c ON c.id = o.counted JOIN StringIds s ON s.id = c.demangledName
                 WHERE s.value = 'foo(float *)' AND leastFlops = mostFlops ORDER BY 1";
    assert_eq!(rows.of::<String>(types), ["fp32 200", "fp32 800", "tensor bf16 4096", "tensor bf16 8192"]);
}

#[test]
fn counts_that_differ_are_a_range_and_collectives_have_none() {
    let (exported, rows) = recorded(20, &[]);
    let varies = flops(&rows, "varies");
    let bounds: Vec<u64> = varies[0].split(' ').map(|it| it.parse().unwrap()).collect();
    assert!(varies.len() == 1 && bounds[0] > 2000 && bounds[1] > bounds[0], "{varies:?}");
    assert!(flops(&rows, "ncclDevKernel_AllReduce").is_empty());
    assert_eq!(exported.counted + exported.uncounted, exported.kernels);
    // The first launches of a recording have nothing before them.
    assert!(exported.uncounted >= exported.kernels / 6, "{exported:?}");
}

#[test]
fn without_permission_it_is_said_and_kernels_are_recorded() {
    let (exported, rows) = recorded(2, &[("FAKE_FAULT", "privileges")]);
    assert!(exported.kernels >= 1200 && exported.counted == 0);
    let problems = rows.problems();
    assert!(problems[0].contains("kernels are not counted: a fake error"), "{problems:?}");
}

#[test]
fn a_program_that_ends_while_it_is_counted_is_no_empty_recording() {
    let recorded = Recorded::new(options(Counted::Kernels));
    assert!(recorded.program(&["launch", "10"]).status().unwrap().success());
    let (exported, rows) = recorded.export();
    assert_eq!(exported.kernels, 0);
    assert!(rows.problems()[0].contains("ended before all of its kernels were counted"));
}

#[test]
fn nothing_is_counted_where_nobody_asks() {
    let (exported, rows) = run(&["launch", "10"], &[]);
    assert_eq!((exported.kernels, exported.counted, exported.uncounted), (20, 0, 0));
    assert!(rows.of::<String>("SELECT name FROM sqlite_master WHERE name = 'FLOPGAP_KERNEL'").is_empty());
}

/// Counts of steps: least and most FLOPs, bytes, times, and the range.
fn steps(rows: &Rows) -> Vec<String> {
    rows.of(
        "SELECT coalesce(leastFlops, '') || ' ' || coalesce(mostFlops, '') || ' ' || dramBytes || ' ' || times
                || ' ' || s.value
         FROM FLOPGAP_STEP t JOIN FLOPGAP_COUNTED c ON c.id = t.counted JOIN StringIds s ON s.id = t.range",
    )
}

/// A step of the fake is 100 times `foo`, after `bar` but for the first time, and `bar`.
#[test]
fn whole_steps_are_counted_without_their_kernels() {
    let mut options = options(Counted::Steps);
    options.range = Some("step".to_owned());
    let (exported, rows) = recorded_as("wait-step", options, 3, &[]);
    assert_eq!(exported.losses, []);
    assert!(exported.kernels >= 600 && exported.counted == 0, "{exported:?}");
    let each = (2 * 100 + 4096) + 2 * 10;
    assert_eq!(steps(&rows), [format!("{0} {0} {1} 2 step", 100 * each, 100 * (512 + 32))]);
    assert!(rows.of::<i64>("SELECT count(*) FROM FLOPGAP_KERNEL") == [0]);
}

/// Steps are counted after the launches, and have the sums of their kernels. A kernel belongs to
/// the step that launched it: the last one of the fake may start after the end of the range.
#[test]
fn whole_steps_are_the_sums_of_their_kernels() {
    let mut options = options(Counted::Kernels);
    options.range = Some("st*".to_owned());
    let (_, rows) = recorded_as("wait-step", options, 3, &[]);
    let step = steps(&rows);
    assert_eq!(step.len(), 1);
    let sum = "SELECT sum(leastFlops) || ' ' || sum(mostFlops) || ' ' || sum(dramBytes) || ' 2 st*'
               FROM FLOPGAP_KERNEL k JOIN FLOPGAP_COUNTED c ON c.id = k.counted
               JOIN CUPTI_ACTIVITY_KIND_KERNEL l ON l.rowid = k.kernel
               JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId)
               JOIN (SELECT start, end FROM NVTX_EVENTS WHERE text = 'step' ORDER BY start DESC LIMIT 1) n
               WHERE r.start BETWEEN n.start AND n.end";
    assert_eq!(rows.of::<String>(sum), step);
}

/// Instructions in graphs are not counted: a step with one has only what its tensor cores did.
#[test]
fn of_steps_with_graphs_not_all_operations_are_known() {
    let mut options = options(Counted::Steps);
    options.range = Some("step".to_owned());
    let (_, rows) = recorded_as("wait-step-graph", options, 2, &[]);
    let step = steps(&rows);
    assert!(step.len() == 1 && step[0].starts_with("  ") && step[0].ends_with(" 2 step"), "{step:?}");
}

/// Every fifth step captures a graph: with a counter at work that ends the program of the fake. Its
/// group begins again with the next step.
#[test]
fn steps_that_capture_graphs_are_not_counted() {
    let mut options = options(Counted::Steps);
    options.range = Some("step".to_owned());
    let (_, rows) = recorded_as("wait-step-capture", options, 3, &[]);
    let each = (2 * 100 + 4096) + 2 * 10;
    assert_eq!(steps(&rows), [format!("{0} {0} {1} 2 step", 100 * each, 100 * (512 + 32))]);
}

/// Each step begins on a thread of its own, which has launched nothing before: it is recorded.
#[test]
fn steps_of_threads_that_launch_nothing_are_given_up() {
    let mut options = options(Counted::Steps);
    options.range = Some("step".to_owned());
    let (exported, rows) = recorded_as("wait-step-elsewhere", options, 2, &[]);
    assert!(exported.kernels > 0 && steps_or_none(&rows).is_empty(), "{exported:?}");
    let problems = rows.problems();
    assert!(
        problems.iter().any(|it| it.contains("steps begin on threads that launch nothing")),
        "{problems:?}"
    );
}

/// Tables of counts are there only where something was counted.
fn steps_or_none(rows: &Rows) -> Vec<String> {
    rows.of("SELECT name FROM sqlite_master WHERE name = 'FLOPGAP_STEP'")
}
