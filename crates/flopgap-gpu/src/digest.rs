//! Checks whether memory still holds the same bits, at the speed of the memory.

use crate::compile::Compiler;
use crate::context::{Context, Kernel};
use crate::error::{GpuError, KernelError};
use crate::launch::{Arguments, Launch};
use crate::memory::{AnyBits, Buffer, DeviceSlice};
use crate::stream::Stream;

/// The kernels' source.
const SOURCE: (&str, &str) = ("digest.cu", include_str!("digest.cu"));
const THREADS: u32 = 512;
/// Bytes of an element, for each of the kernels.
const SIZES: [usize; 4] = [1, 2, 4, 8];

/// Makes 64-bit digests of arrays on a device: where two differ, so did the bits; where they are
/// equal, the bits were, but for a chance of one in 2^64. Not made to withstand an attacker.
///
/// ```no_run
/// use flopgap_gpu::{Context, Digester};
///
/// let gpu = Context::new(0)?;
/// let stream = gpu.stream()?;
/// let mut digester = Digester::new(&gpu, &stream)?;
/// let numbers = stream.upload(&[1.0_f32, 2.0])?;
/// let before = digester.digest(&stream, &numbers)?;
/// assert_eq!(digester.digest(&stream, &numbers)?, before);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Digester {
    kernels: [Kernel; 4],
    sum: Buffer<u64>,
    blocks: u32,
}

impl Digester {
    /// Compiles the kernels.
    ///
    /// # Errors
    /// When NVRTC is missing.
    pub fn new(context: &Context, stream: &Stream) -> Result<Self, KernelError> {
        let architecture = context.device().compute_capability.into();
        let module = context.load(&Compiler::new()?.compile(SOURCE.0, SOURCE.1, architecture, &[])?)?;
        let [one, two, four, eight] = SIZES.map(|size| module.kernel(&format!("digest_{size}")));
        Ok(Digester {
            kernels: [one?, two?, four?, eight?],
            sum: stream.zeros(1)?,
            blocks: context.device().multiprocessors * 4,
        })
    }

    /// Waits for the work queued so far and returns the digest of `memory`.
    ///
    /// # Errors
    /// The error of a kernel that failed before; [`GpuError::TooLarge`] for elements of other sizes
    /// than 1, 2, 4 and 8 bytes.
    pub fn digest<T: AnyBits>(
        &mut self,
        stream: &Stream,
        memory: &impl DeviceSlice<T>,
    ) -> Result<u64, GpuError> {
        let size = size_of::<T>();
        let known = SIZES.iter().position(|&known| known == size);
        let index = known.ok_or(GpuError::TooLarge { what: "elements of a digest", value: size })?;
        stream.fill(&mut self.sum, 0)?;
        let arguments = Arguments::default().read(memory).u64(memory.len() as u64).write(&mut self.sum);
        // SAFETY: these are the kernel's arguments, and it reads as many elements of this size as
        // the memory has.
        unsafe { Launch::new(self.blocks, THREADS).queue(stream, &self.kernels[index], arguments) }?;
        Ok(stream.download(&self.sum)?[0])
    }
}

/// The digest of numbers on the host, of the bits of each: what [`Digester::digest`] gives for them
/// on a device.
///
/// ```
/// use flopgap_gpu::digest_of;
///
/// assert_ne!(digest_of([1, 2]), digest_of([2, 1]));
/// assert_eq!(digest_of([]), 0);
/// ```
pub fn digest_of(bits: impl IntoIterator<Item = u64>) -> u64 {
    let mixed = |z: u64| {
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let places = (0_u64..).map(|place| mixed(place.wrapping_add(0x9e37_79b9_7f4a_7c15)));
    let hashes = places.zip(bits).map(|(place, bits)| mixed(place.wrapping_add(bits)));
    hashes.fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_and_every_place_shows() {
        let numbers: Vec<u64> = (0..1_000).map(|i| i * 0x0101_0101).collect();
        let digest = digest_of(numbers.iter().copied());
        for place in [0, 1, 500, 999] {
            for bit in [0, 1, 31, 63] {
                let mut other = numbers.clone();
                other[place] ^= 1 << bit;
                assert_ne!(digest_of(other), digest, "bit {bit} of number {place}");
            }
        }
        assert_ne!(digest_of(numbers.iter().copied().rev()), digest);
        assert_ne!(digest_of(numbers[..999].iter().copied()), digest);
        assert_ne!(digest_of([0]), digest_of([0, 0]));
    }
}
