//! Reductions that `torch.compile` splits: those of few rows, for enough threads
//! (`Reduction.num_splits` and `reduction_split_factor` in PyTorch's `torch/_inductor`).

/// Multiprocessors of the GPUs that were measured, H100 and H200.
const MULTIPROCESSORS: u64 = 132;
/// Threads of all of them.
const THREADS: u64 = MULTIPROCESSORS * 2048;
/// The fewest values that a thread reduces.
const FEWEST: u64 = 32;
/// The most.
const MOST: u64 = 512;
/// Threads of a block.
const BLOCK: u64 = 256;

/// Into how many parts a reduction of rows is split; `is_strided` if neighboring values are of
/// other rows.
fn parts(rows: u64, columns: u64, is_strided: bool) -> u64 {
    let is_small = columns <= FEWEST || rows >= 64 * MULTIPROCESSORS;
    if rows > 1 && is_small {
        return 1;
    }
    let is_strided = is_strided && rows > 1;
    if !is_strided && (rows >= 2 * MULTIPROCESSORS || columns <= 8192) {
        return 1;
    }
    // Rows of a block, and how many threads share one.
    let (threads, blocks, within) = if is_strided {
        (4, (THREADS / BLOCK).div_ceil(rows.div_ceil(128)), 20)
    } else {
        (BLOCK, (THREADS / (2 * BLOCK)).div_ceil(rows), 30)
    };
    let elements = rows.saturating_mul(columns);
    let of_each = if elements < FEWEST * THREADS || (!is_strided && elements == FEWEST * THREADS) {
        FEWEST
    } else if elements < MOST * THREADS {
        let size = columns.div_ceil(threads * blocks);
        even(columns, size, within).map_or(size, |size| size.max(FEWEST))
    } else {
        even(columns, MOST, 50).unwrap_or(MOST)
    };
    columns.div_ceil(threads * of_each)
}

/// The divisor next to a size, if one is that near.
fn even(columns: u64, size: u64, within: u64) -> Option<u64> {
    let near = (0..within).flat_map(|off| [size.saturating_sub(off), size + off]);
    near.into_iter().find(|size| *size > 0 && columns.is_multiple_of(*size))
}

/// How many parts each kernel reduces after the first: of strided ones, two kernels reduce many.
pub(super) fn steps(rows: u64, columns: u64, is_strided: bool) -> impl Iterator<Item = u64> {
    let parts = parts(rows, columns, is_strided);
    let left = if is_strided { (parts / FEWEST).min(FEWEST) } else { 1 };
    [parts, left].into_iter().filter(|parts| *parts > 1)
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn reductions_are_split_as_pytorch_does() {
        // PyTorch 2.11's `num_splits`, with 132 multiprocessors.
        let known = [
            (1, 196, true, 1),
            (1, 6272, false, 1),
            (1, 25_088, true, 4),
            (2, 6272, true, 49),
            (8, 784, true, 7),
            (8, 25_088, false, 4),
            (8, 65_536, false, 8),
            (8, 40_000_000, true, 19_532),
            (32, 65_536, true, 512),
            (32, 301_056, false, 19),
            (32, 40_000_000, false, 306),
            (263, 65_536, false, 4),
            (263, 301_056, true, 336),
            (263, 1_000_003, true, 489),
            (263, 5_000_000, true, 2500),
            (264, 49, false, 1),
            (264, 301_056, false, 1),
            (512, 25_088, true, 196),
            (512, 65_536, true, 256),
            (2048, 32, true, 1),
            (2048, 301_056, true, 147),
            (8447, 196, false, 1),
            (8447, 784, true, 7),
            (8447, 6272, true, 16),
            (8447, 8192, true, 16),
            (8447, 8193, true, 16),
            (8447, 25_088, true, 13),
            (8447, 65_536, true, 32),
            (8448, 65_536, true, 1),
            (8448, 301_056, false, 1),
        ];
        for (rows, columns, is_strided, expected) in known {
            assert_eq!(parts(rows, columns, is_strided), expected, "{rows} {columns} {is_strided}");
        }
    }
}
