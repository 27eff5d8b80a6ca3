use flopgap_trace::RangeId;

use super::*;

/// Ranges by name, start, end and thread.
fn recorded(ranges: &[(&str, i64, i64, i64)]) -> NvtxRanges {
    let mut nvtx = NvtxRanges { last_event: 1000, last_range: 1000, ..NvtxRanges::default() };
    for (id, &(name, start, end, thread)) in (1..).zip(ranges) {
        let name = nvtx.names.intern(RangeName { domain: None, text: name.into() });
        nvtx.ranges.push(NvtxRange {
            id: RangeId(id),
            start,
            end: (end > 0).then_some(end),
            thread: ThreadId(thread),
            name,
            style: RangeStyle::PushPop,
            crosses_threads: false,
        });
    }
    nvtx
}

/// The starts of the instances of each pass.
fn starts(nvtx: &NvtxRanges, warm_up: &WarmUp) -> Vec<(String, Vec<i64>)> {
    let groups = Named::new(nvtx).passes(warm_up).into_iter();
    let starts = |group: &Group| group.instances.iter().map(|&at| nvtx.ranges[at].start).collect();
    groups.map(|group| (group.name.clone(), starts(&group))).collect()
}

fn expected(groups: &[(&str, &[i64])]) -> Vec<(String, Vec<i64>)> {
    groups.iter().map(|(name, starts)| ((*name).to_owned(), starts.to_vec())).collect()
}

const MAIN: i64 = 0x100_0001;
const OTHER: i64 = 0x200_0001;

#[test]
fn the_first_step_of_each_process_is_warming_up_and_what_lies_outside() {
    let nvtx = recorded(&[
        ("forward", 0, 5, MAIN),
        ("step_0", 10, 20, MAIN),
        ("forward", 11, 15, MAIN),
        ("step_1", 30, 40, MAIN),
        ("forward", 31, 35, MAIN),
        ("step_0", 12, 22, OTHER),
        ("forward", 13, 14, OTHER),
        ("step_1", 32, 42, OTHER),
        ("forward", 33, 34, OTHER),
    ]);
    let found = starts(&nvtx, &WarmUp::default());
    assert_eq!(found, expected(&[("step_*", &[30, 32]), ("forward", &[31, 33])]));
    let selection = |warm_up: &WarmUp| {
        let named = Named::new(&nvtx);
        named.selection(warm_up, &named.passes(warm_up))
    };
    let first = selection(&WarmUp::default()).first;
    assert_eq!(first, Some(LeftOutFirst::Step("step_*".to_owned())));
    let two = WarmUp { skip: Some(1), ..WarmUp::default() };
    assert_eq!(starts(&nvtx, &two), expected(&[("step_*", &[30, 32]), ("forward", &[11, 31, 33])]));
    let all = WarmUp { keep: true, ..WarmUp::default() };
    assert_eq!(
        starts(&nvtx, &all),
        expected(&[("step_*", &[10, 12, 30, 32]), ("forward", &[0, 11, 13, 31, 33])])
    );
    assert_eq!(selection(&all), Selection::default());
}

#[test]
fn without_steps_the_first_instance_goes_unless_it_is_the_only_one() {
    let nvtx = recorded(&[("forward", 0, 5, MAIN), ("forward", 6, 9, MAIN), ("backward", 10, 12, MAIN)]);
    assert_eq!(starts(&nvtx, &WarmUp::default()), expected(&[("forward", &[6]), ("backward", &[10])]));
}

/// An operator has no warm-up of its own: what lies in a kept step is kept, all of it.
#[test]
fn the_first_call_of_a_range_is_not_warming_up() {
    let one_step = recorded(&[
        ("aten::mm", 0, 5, MAIN),
        ("step_0", 10, 40, MAIN),
        ("forward", 11, 15, MAIN),
        ("aten::mm", 12, 13, MAIN),
        ("forward", 20, 25, MAIN),
        ("aten::mm", 21, 22, MAIN),
    ]);
    let all = |nvtx: &NvtxRanges| -> Vec<(String, Vec<i64>, LeftOut)> {
        let groups = Named::new(nvtx).all(&WarmUp::default(), true).into_iter();
        let starts = |group: &Group| group.instances.iter().map(|&at| nvtx.ranges[at].start).collect();
        groups.map(|group| (group.name.clone(), starts(&group), group.left_out)).collect()
    };
    let kept = |name: &str, starts: &[i64]| (name.to_owned(), starts.to_vec(), LeftOut::default());
    assert_eq!(
        all(&one_step),
        [kept("step_*", &[10]), kept("aten::mm", &[0, 12, 21]), kept("forward", &[11, 20])]
    );
    let named = Named::new(&one_step);
    let groups = named.all(&WarmUp::default(), true);
    assert_eq!(named.selection(&WarmUp::default(), &groups), Selection::default());

    // With the first of several steps goes what lies in it, and nothing else.
    let two_steps = recorded(&[
        ("step_0", 10, 20, MAIN),
        ("aten::mm", 11, 15, MAIN),
        ("step_1", 30, 40, MAIN),
        ("aten::mm", 31, 35, MAIN),
        ("aten::add", 36, 37, MAIN),
        ("aten::add", 38, 39, MAIN),
        ("aten::mm", 50, 55, MAIN),
    ]);
    let left_out = |in_warm_up, first| LeftOut { in_warm_up, first, ..LeftOut::default() };
    assert_eq!(
        all(&two_steps),
        [
            ("step_*".to_owned(), vec![30], left_out(0, 1)),
            ("aten::mm".to_owned(), vec![31, 50], left_out(1, 0)),
            kept("aten::add", &[36, 38]),
        ]
    );

    // Without steps, with the first pass; without passes, nothing is left out.
    let passes = recorded(&[
        ("forward", 0, 5, MAIN),
        ("aten::mm", 1, 2, MAIN),
        ("forward", 10, 15, MAIN),
        ("aten::mm", 11, 12, MAIN),
        ("aten::mm", 20, 22, MAIN),
    ]);
    assert_eq!(
        all(&passes),
        [
            ("forward".to_owned(), vec![10], left_out(0, 1)),
            ("aten::mm".to_owned(), vec![11, 20], left_out(1, 0)),
        ]
    );
    let operators = recorded(&[("aten::mm", 1, 2, MAIN), ("aten::mm", 11, 12, MAIN)]);
    assert_eq!(all(&operators), [kept("aten::mm", &[1, 11])]);
}

#[test]
fn nested_and_open_instances_do_not_count() {
    let nvtx = recorded(&[
        ("warmup 1", 0, 5, MAIN),
        ("forward", 1, 4, MAIN),
        ("forward", 10, 20, MAIN),
        ("forward", 11, 19, MAIN),
        ("forward", 30, 0, MAIN),
    ]);
    let groups = Named::new(&nvtx).passes(&WarmUp::default());
    assert_eq!(starts(&nvtx, &WarmUp::default()), expected(&[("forward", &[10])]));
    assert_eq!(groups[0].left_out, LeftOut { in_warm_up: 1, first: 0, nested: 1, open: 1 });
}

/// A first step is warm-up with all within it, whatever is a step of its own there.
#[test]
fn parts_of_steps_and_checks_are_no_steps_of_their_own() {
    let nvtx = recorded(&[
        ("global_step_0", 0, 20, MAIN),
        ("micro_step", 1, 9, MAIN),
        ("micro_step", 10, 19, MAIN),
        ("global_step_1", 30, 50, MAIN),
        ("micro_step", 31, 39, MAIN),
        ("micro_step", 40, 49, MAIN),
        ("validation_step", 60, 65, MAIN),
        ("validation_step", 66, 69, MAIN),
    ]);
    let named = Named::new(&nvtx);
    let found = starts(&nvtx, &WarmUp::default());
    assert_eq!(
        found,
        expected(&[("global_step_*", &[30]), ("micro_step", &[31, 40]), ("validation_step", &[66])])
    );
    let (steps, others) = named.principal(named.passes(&WarmUp::default())).unwrap();
    assert_eq!(steps.name, "global_step_*");
    let others: Vec<&str> = others.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(others, ["validation_step"]);
}

#[test]
fn patterns_find_ranges_of_all_domains_and_layers_together() {
    let mut nvtx = recorded(&[
        ("blocks.0", 0, 5, MAIN),
        ("blocks.1", 6, 9, MAIN),
        ("blocks.0", 10, 15, MAIN),
        ("blocks.1", 16, 19, MAIN),
        ("a, b", 20, 21, MAIN),
        ("warmup_0", 22, 23, OTHER),
    ]);
    nvtx.ranges[4].name = nvtx.names.intern(RangeName { domain: Some("model".into()), text: "a, b".into() });
    let named = Named::new(&nvtx);
    let found = |pattern: &str, warm_up: &WarmUp| -> Vec<(String, Vec<usize>)> {
        let groups = named.matching(&pattern.parse().unwrap(), warm_up).into_iter();
        groups.map(|group| (group.name, group.instances)).collect()
    };
    let all = WarmUp { keep: true, ..WarmUp::default() };
    assert_eq!(found("blocks.*", &all), [("blocks.*".to_owned(), vec![0, 1, 2, 3])]);
    assert_eq!(found("blocks.1", &all), [("blocks.1".to_owned(), vec![1, 3])]);
    // Each layer has a first instance.
    let first = WarmUp { skip: Some(1), ..WarmUp::default() };
    assert_eq!(found("blocks.*", &first), [("blocks.*".to_owned(), vec![2, 3])]);
    for pattern in ["a, b", "model:a, b", "model:*", "*, b"] {
        assert_eq!(found(pattern, &all), [("model:a, b".to_owned(), vec![4])], "{pattern}");
    }
    for pattern in [":a, b", "a", "b", "blocks"] {
        assert_eq!(found(pattern, &all), [], "{pattern}");
    }
    assert_eq!(found("*", &all).len(), 2, "warming up is asked for by name alone");
    assert_eq!(found("warm*", &all).len(), 1);
}
