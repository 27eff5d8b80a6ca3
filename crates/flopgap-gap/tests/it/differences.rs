//! Differences of two traces add up to the difference of their steps.

use std::path::PathBuf;

use flopgap_files::Hint as _;
use flopgap_gap::{Cause, Detail, Difference, FoundBy, Gap, Limit, Options, Part, Pauses, Share, gap};
use proptest::prelude::*;

use crate::{fixture, open};

/// The sums of a difference, and both traces by cause.
fn check(name: &str, before: &Gap, after: &Gap) {
    let Some(found) = Difference::of(before, after) else {
        assert_ne!(before.found_by == FoundBy::None, after.found_by == FoundBy::None, "{name}");
        return;
    };
    assert_eq!([found.before_ns, found.after_ns], [before.step_ns, after.step_ns], "{name}");
    assert_eq!(found.difference_ns, after.step_ns - before.step_ns, "{name}");
    assert_eq!(found.causes.iter().map(|own| own.difference_ns).sum::<i64>(), found.difference_ns, "{name}");
    for own in &found.causes {
        assert_eq!(own.difference_ns, own.after_ns - own.before_ns, "{name}");
        assert_eq!((own.part, own.limit), (own.cause.part(), own.cause.limit()), "{name}");
        for (of, sum) in [
            (own.details.iter().map(|detail| detail.before_ns).sum::<i64>(), own.before_ns),
            (own.details.iter().map(|detail| detail.after_ns).sum(), own.after_ns),
            (own.details.iter().map(|detail| detail.difference_ns).sum(), own.difference_ns),
        ] {
            assert_eq!(of, sum, "{name}");
        }
        // Each is the mean of its trace, less than a nanosecond for each detail off.
        for (mean, trace) in [(own.before_ns, before), (own.after_ns, after)] {
            let sum = trace.parts.iter().find(|part| part.cause == own.cause).map_or(0, |part| part.ns);
            assert!((mean as f64 - trace.each(sum)).abs() < 1.0, "{name}: {mean}, {sum}");
        }
    }
    let order: Vec<i64> = found.causes.iter().map(|own| -own.difference_ns.abs()).collect();
    assert!(order.is_sorted(), "{name}: {order:?}");
}

#[test]
fn every_two_traces_differ_by_the_sum_of_their_causes() {
    let files = ["kineto", "nsys", "advice"].map(|folder| std::fs::read_dir(fixture(folder)).unwrap());
    let mut files: Vec<PathBuf> = files.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let is_trace =
        |name: &str| [".json.gz", ".json.zst", ".sqlite.zst"].iter().any(|end| name.ends_with(end));
    let mut all = Vec::new();
    for path in files.iter().filter(|path| is_trace(&path.to_string_lossy())) {
        match gap(open(path).trace.as_ref(), &Options::default()) {
            Ok(found) => all.push((path.display().to_string(), found)),
            Err(error) => assert!(error.is_absence(), "{}: {error}", path.display()),
        }
    }
    assert!(all.len() >= 20, "{}", all.len());
    for (before, one) in &all {
        for (after, other) in &all {
            check(&format!("{before} and {after}"), one, other);
        }
    }
}

/// A trace with these sums of nanoseconds by cause and detail.
fn of(measured: u64, sums: &[(usize, u8, i64)]) -> Gap {
    let mut parts: Vec<Share> = Vec::new();
    for (at, what, ns) in sums {
        let cause = Cause::ALL[at % Cause::ALL.len()];
        let detail = Detail { what: Some(format!("kernel {what}")), by: None, at: None, ns: *ns, pieces: 1 };
        match parts.iter_mut().find(|part| part.cause == cause) {
            Some(part) => {
                part.ns += ns;
                part.details.push(detail);
            }
            None => parts.push(Share {
                part: cause.part(),
                cause,
                limit: cause.limit(),
                ns: *ns,
                pieces: 1,
                details: vec![detail],
            }),
        }
    }
    let total: i64 = parts.iter().map(|part| part.ns).sum();
    Gap {
        joined: None,
        clocks: Vec::new(),
        launches: None,
        limit: Limit::Gpu,
        found_by: FoundBy::Marked,
        step: "step".to_owned(),
        gpus: Vec::new(),
        captures: false,
        executed: None,
        activity: None,
        whole_steps: None,
        frequency: None,
        graphs: None,
        measured,
        places: 1,
        pauses: Pauses::default(),
        unmarked: flopgap_gap::Unmarked::default(),
        step_ns: total / i64::try_from(measured).unwrap(),
        limits: Vec::new(),
        parts,
        advice: Vec::new(),
        steps: Vec::new(),
        between: Vec::new(),
        pieces: Vec::new(),
        floor: None,
    }
}

type Sums = Vec<(usize, u8, i64)>;

fn sums() -> impl Strategy<Value = Sums> {
    proptest::collection::vec((0..Cause::ALL.len(), 0_u8..4, 1_i64..5_000), 0..40)
}

proptest! {
    #[test]
    fn no_nanosecond_is_lost(before in sums(), after in sums(), n in 1_u64..9, m in 1_u64..9) {
        check("generated", &of(n, &before), &of(m, &after));
    }
}

#[test]
fn a_step_and_a_whole_recording_do_not_compare() {
    let step = of(2, &[(0, 0, 5), (1, 1, 6)]);
    let whole = Gap { found_by: FoundBy::None, ..step.clone() };
    assert_eq!(Difference::of(&step, &whole), None);
    assert!(Difference::of(&whole, &whole).unwrap().whole);
    let same = Difference::of(&step, &step).unwrap();
    assert_eq!((same.before_ns, same.difference_ns, same.causes.len()), (5, 0, 2));
    assert_eq!(same.causes[0].part, Part::Busy);
}
