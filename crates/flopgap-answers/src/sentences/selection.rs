//! Which ranges an answer is about, and whose work.

use std::fmt::Write as _;

use flopgap_timings::{ChosenSteps, LeftOutFirst, Selection};
use flopgap_trace::AttributeBy;

/// How many ranges of warming up are named.
const NAMED: usize = 3;

/// Which instances were left out, and which ranges count.
pub(crate) fn selection(selection: &Selection) -> String {
    let Selection { warm_up, first, steps, nested } = selection;
    let first = first.as_ref().map(|first| match first {
        LeftOutFirst::Step(name) => {
            format!("the first `{name}` of each process, and passes outside of the steps")
        }
        LeftOutFirst::Instances(1) => "the first instance of each pass in each process".to_owned(),
        LeftOutFirst::Instances(skip) => format!("the first {skip} instances of each pass in each process"),
    });
    let marked = &warm_up[..warm_up.len().min(NAMED)];
    let marked = (!marked.is_empty()).then(|| format!("what lies in `{}`", marked.join("`, `")));
    let mut text = match (marked, first) {
        (Some(marked), Some(first)) => format!("Left out as warming up: {marked}, and {first} after it."),
        (Some(one), None) | (None, Some(one)) => format!("Left out as warming up: {one}."),
        (None, None) => "Nothing is left out as warming up.".to_owned(),
    };
    if let Some(ChosenSteps { name, others }) = steps {
        let others = others.iter().map(|other| format!("`{}` ({})", other.name, other.instances));
        let others = others.collect::<Vec<_>>().join(", ");
        let _ =
            write!(text, " Steps are `{name}`; {others} are not among them: to measure those, name them.");
    }
    if *nested > 0 {
        let _ = write!(text, " {nested} of these ranges lie within others of them and count with those.");
    }
    text
}

/// Whose ranges own GPU work.
pub(crate) fn owner(owner: AttributeBy) -> String {
    let whose = match owner {
        AttributeBy::Process => {
            "of the thread that launched it, or where it has none, to those of its process's main thread"
        }
        AttributeBy::Thread => "of the thread that launched it",
    };
    format!("GPU work belongs to the ranges {whose}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopgap_timings::OtherSteps;

    #[test]
    fn what_is_left_out_is_said() {
        let said = |warm_up: &[&str], first| {
            let warm_up = warm_up.iter().map(ToString::to_string).collect();
            selection(&Selection { warm_up, first, ..Selection::default() })
        };
        for (text, expected) in [
            (said(&[], None), "Nothing is left out as warming up."),
            (said(&["a", "b", "c", "d"], None), "Left out as warming up: what lies in `a`, `b`, `c`."),
            (
                said(&["warmup"], Some(LeftOutFirst::Instances(1))),
                "Left out as warming up: what lies in `warmup`, and the first instance of each pass in each process after it.",
            ),
            (
                said(&[], Some(LeftOutFirst::Instances(2))),
                "Left out as warming up: the first 2 instances of each pass in each process.",
            ),
            (
                said(&[], Some(LeftOutFirst::Step("step_*".to_owned()))),
                "Left out as warming up: the first `step_*` of each process, and passes outside of the steps.",
            ),
        ] {
            assert_eq!(text, expected);
        }
        let others = vec![OtherSteps { name: "validation_step".to_owned(), instances: 2 }];
        let steps = Some(ChosenSteps { name: "step_*".to_owned(), others });
        assert_eq!(
            selection(&Selection { steps, nested: 4, ..Selection::default() }),
            "Nothing is left out as warming up. Steps are `step_*`; `validation_step` (2) are not among them: to measure those, name them. 4 of these \
             ranges lie within others of them and count with those."
        );
    }
}
