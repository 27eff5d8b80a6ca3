//! Parts of traces, and rules with arguments, against what nsys printed: 2025.3 to the digit,
//! 2024.2 but for its rounding.

use flopgap_nsys::{AppliedRule, Error, Filter, Trace};
use rusqlite::Connection;

use crate::support::{Unpacked, cells_of, golden, printed};

const REPORTS: [&str; 8] = [
    "nvtx_sum",
    "nvtx_kern_sum",
    "nvtx_gpu_proj_trace",
    "nvtx_pushpop_trace",
    "cuda_gpu_kern_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_kern_exec_sum",
    "cuda_api_trace",
];

/// nsys filters the rows away that name the domains, and so prints ranges without theirs.
fn without_domains(rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let bare = |cell: String| {
        let (dashes, name) = cell.split_at(cell.len() - cell.trim_start_matches('-').len());
        let domain = ["model:", "io:", ":"].into_iter().find(|domain| {
            name.strip_prefix(domain).is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
        });
        domain.map_or(cell.clone(), |domain| format!("{dashes}{}", &name[domain.len()..]))
    };
    let mut rows: Vec<Vec<String>> =
        rows.into_iter().map(|row| row.into_iter().map(bare).collect()).collect();
    // Then rows are in the order of other names.
    rows[1..].sort();
    rows
}

fn equal_those_of_nsys(trace: &Trace, filter: &str) {
    for report in REPORTS {
        let ours = without_domains(printed(trace, report).unwrap());
        let theirs = without_domains(golden("filtered", &format!("{filter}.{report}")).unwrap());
        assert_eq!(ours.len(), theirs.len(), "{filter} {report}");
        for (our, their) in ours.iter().zip(&theirs) {
            for (our, their) in our.iter().zip(their) {
                // nsys 2024 rounds some tenths up that 2025 rounds down.
                let tenth = our.parse().ok().zip(their.parse().ok());
                let near = tenth
                    .is_some_and(|(our, their): (f64, f64)| our.fract() != 0.0 && (our - their).abs() < 0.11);
                assert!(our == their || near, "{filter} {report}: nsys {their:?}, ours {our:?}");
            }
        }
    }
}

#[test]
fn a_part_of_the_time() {
    let unpacked = Unpacked::new("graph_nodes");
    let trace = unpacked.open();
    let filter: Filter = "395000000/397ms".parse().unwrap();
    equal_those_of_nsys(&trace.filtered(filter), "time");
    // The trace itself stays whole, and an open filter leaves all.
    let all = printed(&trace, "cuda_gpu_kern_sum");
    let open = trace.filtered(filter).filtered(Filter::time(None, None).unwrap());
    assert_eq!(printed(&open, "cuda_gpu_kern_sum"), all);
}

#[test]
fn the_time_and_thread_of_a_range() {
    let unpacked = Unpacked::new("graph_nodes");
    let trace = unpacked.open();
    let filter = trace.filter_of_range("registered_step@io/2").unwrap();
    equal_those_of_nsys(&trace.filtered(filter), "range");
    let names = printed(&trace.filtered(filter), "nvtx_sum").unwrap();
    assert!(names.iter().any(|row| row[9] == "io:registered_step"), "ours keep their domain: {names:?}");

    // A range in a domain is not found without it, nor one that has fewer instances.
    for absent in ["registered_step", "replay@model", "none", "none/1"] {
        let error = trace.filter_of_range(absent).unwrap_err();
        assert!(matches!(&error, Error::NoRange { range, .. } if range == absent), "{error}");
    }
    let few = trace.filter_of_range("registered_step@model/10").unwrap_err();
    assert!(
        matches!(&few, Error::NoInstance { range, index: 10, instances: 10, .. } if range == "registered_step@model"),
        "{few}"
    );
    // Two threads created the domain, but each range counts once: nsys finds every other index
    // twice.
    assert!(trace.filter_of_range("registered_step@model/9").is_ok());
    assert_ne!(
        trace.filter_of_range("registered_step@model/0").unwrap(),
        trace.filter_of_range("registered_step@model/1").unwrap()
    );
    assert_eq!(trace.filter_of_range("replay").unwrap(), trace.filter_of_range("replay/0").unwrap());
    // A filter does not hide ranges from the search for another.
    assert!(trace.filtered(filter).filter_of_range("capture").is_ok());
}

/// nsys 2025.3, to the last digit; these parts have no domains that it would leave out.
#[test]
fn parts_as_the_newest_nsys_prints_them() {
    let reports = [
        "cuda_api_sum",
        "cuda_gpu_kern_sum",
        "cuda_gpu_mem_time_sum",
        "cuda_kern_exec_trace",
        "nvtx_gpu_proj_sum",
        "nvtx_gpu_proj_trace",
        "nvtx_kern_sum",
        "nvtx_pushpop_trace",
        "nvtx_sum",
    ];
    let mut compared = Vec::new();
    for (name, part, range) in [
        ("two_gpus", "step", Some("step")),
        ("graph_by_node", "replay", Some("replay")),
        ("torch_compiled", "forward", Some("forward/2")),
        ("unified_memory", "time", None),
    ] {
        let unpacked = Unpacked::new(name);
        let trace = unpacked.open();
        let filter = match range {
            Some(range) => trace.filter_of_range(range).unwrap(),
            None => "381211845/384744309".parse().unwrap(),
        };
        let trace = trace.filtered(filter);
        let mut equal = 0;
        for report in reports {
            let theirs = golden("filtered", &format!("{name}.{part}.{report}"));
            let ours = printed(&trace, report);
            // Where nsys found nothing to print it left no file.
            if theirs.is_some() || ours.as_ref().is_some_and(|rows| rows.len() > 1) {
                assert_eq!(ours, theirs, "{name} {part} {report}");
                equal += 1;
            }
        }
        compared.push((name, equal));
    }
    let expected = [("two_gpus", 9), ("graph_by_node", 8), ("torch_compiled", 8), ("unified_memory", 9)];
    assert_eq!(compared, expected);
}

#[test]
fn an_open_range_lasts_to_the_end() {
    let unpacked = Unpacked::new("small_forward");
    let connection = Connection::open(unpacked.path()).unwrap();
    let opened = "UPDATE NVTX_EVENTS SET end = NULL, text = 'open', textId = NULL
                  WHERE rowid = (SELECT rowid FROM NVTX_EVENTS WHERE eventType = 59 ORDER BY start LIMIT 1)";
    connection.execute_batch(opened).unwrap();
    drop(connection);
    let trace = unpacked.open();
    let part = trace.filtered(trace.filter_of_range("open").unwrap());
    let last = |trace: &Trace| trace.kernels().unwrap().map(|kernel| kernel.unwrap().at.end).max();
    assert_eq!(last(&part), last(&trace));
}

#[test]
fn rules_with_arguments() {
    let unpacked = Unpacked::new("small_training_step");
    let trace = unpacked.open();
    for rule in [
        "gpu_gaps:gap=1:rows=5",
        "gpu_time_util:chunks=100:rows=-1",
        "cuda_api_sync:start=3520000000:end=3560000000:rows=4",
        "cuda_api_sync:thread=713:rows=2",
        "cuda_memcpy_async:rows=3",
    ] {
        let applied: AppliedRule = rule.parse().unwrap();
        let ours = cells_of(|table| trace.rule(applied.clone(), table)).unwrap();
        let file = format!("rule.{}", rule.replace(':', "_").replace('=', "-"));
        assert_eq!(Some(ours), golden("filtered", &file), "{rule}");
    }
    let refused = |rule: &str| {
        let applied: AppliedRule = rule.parse().unwrap();
        let error = trace.rule(applied.clone(), &mut flopgap_nsys::ReportTable::default());
        error.unwrap_err()
    };
    assert!(matches!(refused("gpu_gaps:nvtx=no such range"), Error::NoRange { .. }));
    let error = refused("gpu_gaps:start=9:end=5");
    assert!(error.to_string().ends_with("the filter leaves no time"), "{error}");
}
