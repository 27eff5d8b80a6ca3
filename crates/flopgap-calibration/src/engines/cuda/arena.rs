//! Places arrays in one allocation, so that arrays needed at the same time do not overlap.

/// Arrays begin at multiples of this: what the driver's own allocations do, and what libraries are
/// fastest with.
pub(super) const ALIGNMENT: usize = 256;

/// An array and the steps between which it is needed, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lifetime {
    pub(super) bytes: usize,
    pub(super) first: usize,
    pub(super) last: usize,
}

impl Lifetime {
    fn meets(&self, other: &Lifetime) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    fn room(&self) -> usize {
        self.bytes.next_multiple_of(ALIGNMENT)
    }
}

/// Where each array begins, and the bytes of all. The largest are placed first, each in the lowest
/// gap that holds it (the greedy order of Pisarchyk and Lee, 2020).
pub(super) fn place(arrays: &[Lifetime]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..arrays.len()).collect();
    order.sort_by_key(|&index| (std::cmp::Reverse(arrays[index].bytes), index));
    let mut starts = vec![0; arrays.len()];
    let mut placed: Vec<usize> = Vec::with_capacity(arrays.len());
    let mut all = 0;
    for index in order {
        let array = &arrays[index];
        if array.bytes == 0 {
            continue;
        }
        let mut neighbors: Vec<usize> =
            placed.iter().copied().filter(|&other| arrays[other].meets(array)).collect();
        neighbors.sort_by_key(|&other| starts[other]);
        let mut start = 0;
        for other in neighbors {
            if start + array.room() <= starts[other] {
                break;
            }
            start = start.max(starts[other] + arrays[other].room());
        }
        starts[index] = start;
        all = all.max(start + array.room());
        placed.push(index);
    }
    (starts, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(bytes: usize, first: usize, last: usize) -> Lifetime {
        Lifetime { bytes, first, last }
    }

    #[test]
    fn a_chain_takes_two_arrays_at_a_time() {
        let chain = [array(512, 0, 1), array(512, 1, 2), array(512, 2, 3), array(512, 3, 4)];
        let (starts, bytes) = place(&chain);
        assert_eq!(bytes, 1024);
        assert!(starts.windows(2).all(|pair| pair[0] != pair[1]), "{starts:?}");
    }

    #[test]
    fn what_is_needed_together_never_overlaps() {
        let mut state = 7_u64;
        let mut next = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from((state >> 33) % limit).unwrap()
        };
        for _ in 0..50 {
            let arrays: Vec<Lifetime> = (0..20)
                .map(|_| {
                    let first = next(30);
                    array(next(5000), first, first + next(6))
                })
                .collect();
            let (starts, bytes) = place(&arrays);
            for (index, one) in arrays.iter().enumerate() {
                assert!(starts[index].is_multiple_of(ALIGNMENT) && starts[index] + one.bytes <= bytes);
                for (other, two) in arrays.iter().enumerate().skip(index + 1) {
                    let apart = starts[index] + one.bytes <= starts[other]
                        || starts[other] + two.bytes <= starts[index];
                    assert!(apart || !one.meets(two) || one.bytes == 0 || two.bytes == 0, "{one:?} {two:?}");
                }
            }
            // No less than what is needed at some step.
            let peak = (0..40)
                .map(|step| {
                    arrays.iter().filter(|a| a.first <= step && step <= a.last).map(Lifetime::room).sum()
                })
                .max();
            assert!(bytes >= peak.unwrap_or(0));
        }
    }
}
