//! What distinguishes two records of one configuration.

use flopgap_kernels::{Sameness, compare_names};

use super::{Quantity, Record, RecordedLaunch};

/// Two records, compared launch by launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordComparison {
    /// Their first difference, in words that name each number; `None` if there is none.
    pub difference: Option<String>,
    /// Launches whose kernels are compared by their bare names, since one record has no more.
    pub bare: u64,
}

impl Record {
    /// Compares phase, kernel, grid, block and counts of each launch; times differ between any two
    /// runs and are left out. Kernels are compared by their whole names, as far as profilers agree
    /// about them ([`compare_names`]).
    pub fn compare(&self, other: &Record) -> RecordComparison {
        let [first, second] = [self, other].map(counts);
        let mut bare = 0;
        let difference = if first == second {
            let mut pairs = self.launches().zip(other.launches()).enumerate();
            pairs.find_map(|(index, (a, b))| launch_difference(index, a, b, &first, &mut bare)).or_else(
                || {
                    let (first, second) = (self.launches().len(), other.launches().len());
                    (first != second).then(|| format!("{first} and {second} launches"))
                },
            )
        } else {
            let names = |quantities: &[Quantity]| {
                quantities.iter().map(|quantity| quantity.name()).collect::<Vec<_>>().join(", ")
            };
            Some(format!("one counts {}, the other {}", names(&first), names(&second)))
        };
        RecordComparison { difference, bare }
    }
}

/// The quantities that are equal in every run, in one order.
fn counts(record: &Record) -> Vec<Quantity> {
    let mut counts: Vec<Quantity> = record.quantities().to_vec();
    counts.retain(|quantity| *quantity != Quantity::DurationNs);
    counts.sort_unstable();
    counts
}

fn launch_difference(
    index: usize,
    a: RecordedLaunch<'_>,
    b: RecordedLaunch<'_>,
    counts: &[Quantity],
    bare: &mut u64,
) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut part = |name: &str, differs: bool, first: String, second: String| {
        if differs {
            parts.push(format!("{name} {first} and {second}"));
        }
    };
    let size = |[x, y, z]: [u64; 3]| format!("({x}, {y}, {z})");
    let quoted = |name: &str| format!("`{name}`");
    let sameness = compare_names(a.kernel, b.kernel);
    *bare += u64::from(sameness == Sameness::Bare);
    part("phase", a.phase != b.phase, a.phase.to_string(), b.phase.to_string());
    part("kernel", sameness == Sameness::Different, quoted(a.kernel), quoted(b.kernel));
    part("grid", a.grid != b.grid, size(a.grid), size(b.grid));
    part("block", a.block != b.block, size(a.block), size(b.block));
    for &quantity in counts {
        let [first, second] = [a, b].map(|launch| launch.get(quantity).unwrap_or_default());
        part(quantity.name(), first != second, first.to_string(), second.to_string());
    }
    (!parts.is_empty()).then(|| format!("launch {index}, {} `{}`: {}", a.phase, a.kernel, parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use crate::Phase;

    use super::*;
    use crate::sweep::Config;

    fn record(launches: &[(&str, u64)]) -> Record {
        let mut record = Record::new(Config { n: 1, d: 8, m: 8 }, &Quantity::FP32);
        for (name, ffma) in launches {
            record.push(Phase::Forward, name, [4, 1, 1], [32, 1, 1], &[0, 0, *ffma]);
        }
        record
    }

    fn difference(a: &Record, b: &Record) -> Option<String> {
        a.compare(b).difference
    }

    #[test]
    fn names_may_be_spelled_differently_and_nothing_else() {
        let a = record(&[("void lib::gemm<float>(T1 *)", 7), ("sigmoid", 1)]);
        assert_eq!(difference(&a, &record(&[("lib::gemm<float>(float*)", 7), ("sigmoid()", 1)])), None);
        assert_eq!(
            difference(&a, &record(&[("lib::gemm<float>(float*)", 8), ("sigmoid", 1)])).unwrap(),
            "launch 0, forward `void lib::gemm<float>(T1 *)`: ffma 7 and 8"
        );
        assert_eq!(
            difference(&a, &record(&[("lib::gemm<float>(float*)", 7), ("tanh", 1)])).unwrap(),
            "launch 1, forward `sigmoid`: kernel `sigmoid` and `tanh`"
        );
        assert_eq!(difference(&a, &record(&[("gemm<float>", 7)])).unwrap(), "2 and 1 launches");
    }

    /// One launcher runs every element-wise operation: by their bare names they were equal.
    #[test]
    fn unlike_kernels_of_one_launcher_are_not_equal() {
        let of = |operation: &str| {
            let name =
                format!("void at::native::vectorized_elementwise_kernel<4, at::native::{operation}>(int)");
            record(&[(&name, 7)])
        };
        let text = difference(&of("sigmoid_kernel_cuda"), &of("tanh_kernel_cuda")).unwrap();
        assert!(text.contains("sigmoid_kernel_cuda>(int)` and `void") && text.contains("tanh"), "{text}");
    }

    #[test]
    fn bare_names_are_counted() {
        let a = record(&[("void lib::gemm<float>(T1 *)", 7), ("sigmoid", 1)]);
        let comparison = a.compare(&record(&[("gemm", 7), ("sigmoid", 1)]));
        assert_eq!((comparison.difference, comparison.bare), (None, 1));
    }

    #[test]
    fn other_quantities_are_named() {
        let one = Record::new(Config { n: 1, d: 8, m: 8 }, &[Quantity::Fadd, Quantity::DurationNs]);
        let other = Record::new(one.config(), &[Quantity::Fadd, Quantity::Fmul]);
        assert_eq!(difference(&one, &other).unwrap(), "one counts fadd, the other fadd, fmul");
    }
}
