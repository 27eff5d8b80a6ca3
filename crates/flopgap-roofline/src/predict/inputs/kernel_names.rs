//! Sizes in the names of kernels.

/// The sizes in the names of a step's kernels; `None` if there are none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Named {
    /// Length of the inner sums that a block adds up between two loads.
    pub(crate) depth: Option<f64>,
    /// Loads that are under way at a time.
    pub(crate) stages: Option<f64>,
    /// Elements that a load is aligned to.
    pub(crate) alignment: Option<f64>,
    /// Compute capability that the kernel was written for, as 80 or 90.
    pub(crate) architecture: Option<f64>,
    /// Side of the tiles of a convolution by Fourier transforms.
    pub(crate) transform: Option<f64>,
    /// Kernels that are launched, repetitions counted.
    pub(crate) launches: f64,
}

impl Named {
    /// Reads the names as cuBLAS, cuDNN and CUTLASS write them: `128x64_32x6` is a tile with its
    /// depth and stages, `128x64x32` a tile with its depth, `align8`, `sm90` or `cutlass_80`,
    /// `fft2d_r2c_16x16`, and ` x2` at the end for repetitions.
    pub(crate) fn of(kernels: &[String]) -> Self {
        let mut named = Self::default();
        for kernel in kernels {
            let (name, times) = repeated(kernel);
            named.launches += times;
            let words: Vec<&str> = name.split(['_', ' ']).collect();
            for (place, word) in words.iter().enumerate() {
                let numbers = numbers(word);
                let before = place.checked_sub(1).map(|place| words[place]);
                match numbers.as_slice() {
                    [_, _, depth] if named.depth.is_none() => named.depth = Some(*depth),
                    [side, _] if before == Some("r2c") => named.transform = Some(*side),
                    [_, _] if named.depth.is_none() => {
                        if let Some([depth, stages]) = words.get(place + 1).and_then(|word| pair(word)) {
                            (named.depth, named.stages) = (Some(depth), Some(stages));
                        }
                    }
                    [number] if before == Some("cutlass") => {
                        named.architecture.get_or_insert(*number);
                    }
                    _ => {}
                }
                let reported = |prefix: &str| word.strip_prefix(prefix)?.parse::<f64>().ok();
                named.alignment = named.alignment.or_else(|| reported("align"));
                named.architecture = named.architecture.or_else(|| reported("sm"));
            }
        }
        named
    }
}

/// A name without its ` x2`, and the number in that.
pub(crate) fn repeated(kernel: &str) -> (&str, f64) {
    let reported = kernel.rsplit_once(" x").and_then(|(name, times)| Some((name, times.parse().ok()?)));
    reported.unwrap_or((kernel, 1.0))
}

/// The numbers of a word that is nothing but numbers with `x` between them.
pub(crate) fn numbers(word: &str) -> Vec<f64> {
    let parts: Option<Vec<f64>> =
        word.split('x').map(|part| part.parse::<u32>().ok().map(f64::from)).collect();
    parts.unwrap_or_default()
}

fn pair(word: &str) -> Option<[f64; 2]> {
    <[f64; 2]>::try_from(numbers(word)).ok()
}
