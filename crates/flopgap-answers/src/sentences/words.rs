//! What several sentences say alike.

use flopgap_gap::{Cause, Gap, Limit};

use super::time;

/// A thing and what is around it.
pub(crate) fn inside(what: Option<&str>, by: Option<&str>) -> String {
    match (what, by) {
        (Some(what), Some(by)) => format!("`{what}` in `{by}`"),
        (Some(what), None) => format!("`{what}`"),
        (None, Some(by)) => format!("`{by}`"),
        (None, None) => "code outside what is recorded".to_owned(),
    }
}

/// The nanoseconds of some causes.
pub(super) fn sum(found: &Gap, is: impl Fn(Cause) -> bool) -> i64 {
    found.parts.iter().filter(|part| is(part.cause)).map(|part| part.ns).sum()
}

/// Whether most of what the host takes is calls before first runs of kernels.
pub(super) fn first_runs(found: &Gap) -> bool {
    let host = sum(found, |cause| cause.limit() == Limit::Host);
    2 * sum(found, |cause| cause == Cause::FirstLaunch) > host
}

/// A difference of times, with its sign.
pub(crate) fn signed(ns: f64) -> String {
    if ns > 0.0 { format!("+{}", time(ns)) } else { time(ns) }
}
