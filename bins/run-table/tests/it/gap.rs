//! The table `gap`: steps taken apart, over many runs.

use flopgap_gap::{Gap, Options, gap};
use flopgap_table::Source;

use crate::{done, fixtures, rows};

/// A trace taken apart without the data set.
fn taken_apart(path: &str) -> Gap {
    let source = Source::open(fixtures().join(path)).unwrap();
    gap(source.trace().unwrap().recording(), &Options::default()).unwrap()
}

/// SQL over runs gives the sums that `flopgap gap` has of each, and the lengths of its steps. A
/// trace without GPU work has no rows, and neither has a file of another kind.
#[test]
fn parts_of_many_runs_are_those_of_each() {
    let (_folder, [data]) = flopgap_testing::paths(["data"]);
    let traces = [
        ("a", "advice/layer-timers.before.json.zst"),
        ("b", "nsys/small_training_step.sqlite.zst"),
        ("c", "kineto/ddp_rank0.json.gz"),
    ];
    let other = ("d", "ncu/full_raw.csv.zst");
    let inputs: Vec<String> = traces
        .iter()
        .chain([&other])
        .map(|(name, path)| format!("{name}={}", fixtures().join(path).display()))
        .collect();
    let mut collect: Vec<&str> = vec!["collect", "-o", data.to_str().unwrap(), "--table", "gap"];
    collect.extend(inputs.iter().map(String::as_str));
    done(&collect);

    let mut parts = Vec::new();
    let mut lengths = Vec::new();
    for (name, path) in traces {
        let found = taken_apart(path);
        let mut own: Vec<_> = found.parts.iter().collect();
        own.sort_by_key(|part| part.cause.as_str());
        parts.extend(own.iter().map(|part| {
            let (cause, pieces) = (part.cause.as_str(), part.pieces);
            format!("{name},{},{cause},{},{},{pieces}", part.part.as_str(), part.limit.as_str(), part.ns)
        }));
        let mut steps: Vec<_> = found.steps.iter().map(|step| (step, "step")).collect();
        steps.extend(found.between.iter().map(|step| (step, "between")));
        steps.retain(|(step, _)| !step.parts.is_empty());
        let mut own: Vec<_> = steps
            .iter()
            .map(|(step, span)| {
                let (start, wall, warm) = (step.start_ns, step.wall_ns, u8::from(step.warm_up));
                (start, *span, format!("{name},{span},{start},{wall},{wall},{warm}"))
            })
            .collect();
        own.sort();
        lengths.extend(own.into_iter().map(|(.., line)| line));
    }
    let sums = "select run, part, cause, \"limit\", sum(ns) as ns, sum(pieces) as pieces from gap \
                where warm_up = 0 group by run, part, cause, \"limit\" order by run, cause";
    assert_eq!(rows(&data, sums), parts);
    let steps = "select run, span, start_ns, wall_ns, sum(ns) as ns, warm_up from gap \
                 group by run, span, start_ns, wall_ns, warm_up order by run, start_ns, span";
    assert_eq!(rows(&data, steps), lengths);
    let runs = rows(&data, "select run from runs order by run");
    assert_eq!(runs, ["a", "b", "c", "d"]);
}
