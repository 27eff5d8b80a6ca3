//! What must hold for any text.

use flopgap_kernels::{KernelInfo, base_name, classify, simple_kernel};
use proptest::prelude::*;

use crate::table::rows;

/// Text made of the pieces that kernel names are made of, in any order, and of anything else.
fn text() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "void ",
        "at::",
        "native::",
        "<unnamed>::",
        "unnamed>::",
        "(anonymous namespace)::",
        "<",
        ">",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "::",
        "operator",
        "operator()",
        "operator<",
        " const",
        "lambda(int)#1",
        "$241",
        ", ",
        " ",
        "_Z",
        "_ZN2at6native13reduce_kernelILi512E",
        "3fooEvT_",
        "kernel",
        "Kernel2",
        "elementwise_kernel",
        "nvjet_sm90_tst_",
        "128x64_",
        "64x5_",
        "_tilesize128x",
        "[CUDA memcpy",
        "Memcpy ",
        "float",
        "(int)4",
        "_nn",
        "_GLOBAL__N_x",
        "µ",
        "\0",
        "\u{85}",
        "-",
        ".",
        "...",
        "&",
        "*",
    ]);
    prop_oneof![
        prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat()),
        any::<String>(),
        "_Z[0-9A-Za-z_]{0,60}",
    ]
}

/// A row of the table, cut somewhere.
fn cut_name() -> impl Strategy<Value = String> {
    let names: Vec<String> = rows().into_iter().map(|row| row.name).collect();
    (prop::sample::select(names), any::<prop::sample::Index>()).prop_map(|(name, at)| {
        let mut end = at.index(name.len() + 1);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name[..end].to_owned()
    })
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![text(), cut_name()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_and_the_answer_survives_json(name in any_name()) {
        let info = classify(&name);
        prop_assert_eq!(base_name(&name), info.base.as_str());
        let json = serde_json::to_string(&info).unwrap();
        prop_assert_eq!(serde_json::from_str::<KernelInfo>(&json).unwrap(), info);
        if let Some(simple) = simple_kernel(&name) {
            prop_assert!(name.contains(simple));
        }
    }

    #[test]
    fn a_base_name_is_its_own_base_name(name in any_name()) {
        let base = base_name(&name).into_owned();
        prop_assert_eq!(base_name(&base), base.as_str());
    }

    #[test]
    fn a_leading_void_changes_nothing(name in any_name()) {
        prop_assert_eq!(classify(&format!("void {name}")), classify(&name));
    }
}

#[test]
fn the_spelling_of_an_anonymous_namespace_changes_nothing() {
    let spellings = ["<unnamed>::", "(anonymous namespace)::", "unnamed>::", "{anonymous}::", ""];
    let mut changed = 0;
    for row in rows() {
        let plain = row.name.replace("<unnamed>::", "\u{1}").replace("(anonymous namespace)::", "\u{1}");
        changed += usize::from(plain.contains('\u{1}'));
        for spelling in spellings {
            let name = plain.replace('\u{1}', spelling);
            assert_eq!(classify(&name), classify(&row.name), "{name}");
        }
    }
    assert!(changed > 50, "only {changed} names of the table have an anonymous namespace");
}

#[test]
fn integers_may_carry_their_type() {
    // Nsight Systems writes `(int)4` where Nsight Compute and the PyTorch profiler write `4`.
    for row in rows().iter().filter(|row| row.source == "nsys-h200") {
        let plain =
            row.name.replace("(int)", "").replace("(unsigned long)", "").replace("(unsigned int)", "");
        assert_eq!(classify(&plain), classify(&row.name), "{plain}");
    }
}

/// Found by fuzzing: counters were dropped one at a time, and an empty one counted as a counter.
#[test]
fn any_number_of_counters_is_dropped_at_once() {
    assert_eq!(base_name("$$$$$$$$$$$$$"), "$$$$$$$$$$$$$");
    assert_eq!(base_name("kernel$1$2$3$4$5$6$7$8$9$10$11"), "kernel");
}
