//! What the difference of two steps taken apart says.

use flopgap_gap::{CauseDifference, DetailDifference, Difference};

use super::words::{inside, signed};
use super::{shown, time};

/// Causes that have words of their own.
const CAUSES: usize = 3;

/// By how much a step became longer or shorter, and by what: the times in the sentence add up.
pub fn difference(found: &Difference) -> Vec<String> {
    let what = if found.whole { "The recording".to_owned() } else { format!("A step `{}`", found.steps[1]) };
    let [before, after] = [found.before_ns, found.after_ns].map(|ns| time(ns as f64));
    let changed: Vec<&CauseDifference> = found.causes.iter().filter(|own| own.difference_ns != 0).collect();
    let than = match found.difference_ns {
        0 if changed.is_empty() => return vec![format!("{what} takes as long, by each cause: {after}.")],
        0 => format!("as long as before, {after}"),
        longer @ 1.. => format!("{} longer, {after} instead of {before}", time(longer as f64)),
        shorter => format!("{} less, {after} instead of {before}", time(-shorter as f64)),
    };
    let shown = shown(changed.len(), CAUSES);
    let mut parts: Vec<String> = changed[..shown].iter().map(|own| part(own)).collect();
    let rest: i64 = changed[shown..].iter().map(|own| own.difference_ns).sum();
    if shown < changed.len() {
        parts.push(format!("{} in {} other causes", signed(rest as f64), changed.len() - shown));
    }
    vec![format!("{what} takes {than}: {}.", parts.join("; "))]
}

/// `+1.900 ms idle after a blocking call, most in `cudaStreamSynchronize` (+1.850 ms)`.
fn part(own: &CauseDifference) -> String {
    let most = own.details.iter().filter(|detail| is_much(detail, own)).map(|detail| {
        let all = detail.difference_ns == own.difference_ns;
        let (what, ns) =
            (inside(detail.what.as_deref(), detail.by.as_deref()), signed(detail.difference_ns as f64));
        if all { format!(", in {what}") } else { format!(", most in {what} ({ns})") }
    });
    let most = most.take(1).collect::<String>();
    format!("{} {}, {}{most}", signed(own.difference_ns as f64), own.part.as_str(), own.cause.in_words())
}

/// Whether a detail is at least a third of a cause, in its direction.
fn is_much(detail: &DetailDifference, own: &CauseDifference) -> bool {
    let (part, whole) = (i128::from(detail.difference_ns), i128::from(own.difference_ns));
    part.signum() == whole.signum() && 3 * part.abs() >= whole.abs()
}

#[cfg(test)]
mod tests {
    use flopgap_gap::Cause;

    use super::*;

    fn cause(cause: Cause, before_ns: i64, after_ns: i64, details: &[(&str, i64)]) -> CauseDifference {
        let detail = |(what, ns): &(&str, i64)| DetailDifference {
            what: Some((*what).to_owned()),
            by: Some("aten::item".to_owned()),
            before_ns: 0,
            after_ns: *ns,
            difference_ns: *ns,
        };
        CauseDifference {
            part: cause.part(),
            cause,
            limit: cause.limit(),
            before_ns,
            after_ns,
            difference_ns: after_ns - before_ns,
            details: details.iter().map(detail).collect(),
        }
    }

    fn said(causes: Vec<CauseDifference>) -> String {
        let sum = |of: fn(&CauseDifference) -> i64| causes.iter().map(of).sum();
        let found = Difference {
            steps: ["step".to_owned(), "step_*".to_owned()],
            whole: false,
            before_ns: sum(|own| own.before_ns),
            after_ns: sum(|own| own.after_ns),
            difference_ns: sum(|own| own.difference_ns),
            causes,
        };
        difference(&found).concat()
    }

    #[test]
    fn a_longer_step_is_explained_by_its_causes() {
        let waiting = cause(
            Cause::BlockingCall,
            100_000,
            2_000_000,
            &[("cudaStreamSynchronize", 1_850_000), ("other", 50_000)],
        );
        let products = cause(Cause::TensorCores, 5_000_000, 5_200_000, &[("gemm", 200_000)]);
        assert_eq!(
            said(vec![waiting.clone(), products.clone()]),
            "A step `step_*` takes 2.100 ms longer, 7.200 ms instead of 5.100 ms: +1.900 ms idle, after a blocking call, most in `cudaStreamSynchronize` in `aten::item` (+1.850 ms); +200.0 µs busy, matrix products on tensor cores, in `gemm` in `aten::item`."
        );
        let more = [(Cause::Norm, -3_000), (Cause::Softmax, -2_000), (Cause::Index, 1_000)];
        let more = more.map(|(own, ns)| cause(own, 3_000, 3_000 + ns, &[]));
        assert!(
            said([vec![waiting, products], more.to_vec()].concat())
                .ends_with("; -3.0 µs busy, normalization; -1.0 µs in 2 other causes.")
        );
    }

    #[test]
    fn shorter_and_equal_steps_are_said() {
        assert_eq!(
            said(vec![cause(Cause::Copy, 2_000, 500, &[])]),
            "A step `step_*` takes 1.5 µs less, 500 ns instead of 2.0 µs: -1.5 µs exposed, copies."
        );
        assert_eq!(
            said(vec![cause(Cause::Copy, 500, 500, &[])]),
            "A step `step_*` takes as long, by each cause: 500 ns."
        );
        let moved = vec![cause(Cause::Copy, 500, 600, &[]), cause(Cause::Set, 600, 500, &[])];
        assert_eq!(
            said(moved),
            "A step `step_*` takes as long as before, 1.1 µs: +100 ns exposed, copies; -100 ns exposed, memory sets."
        );
    }
}
