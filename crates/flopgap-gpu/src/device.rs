//! The GPUs of this machine.

use std::ffi::CStr;
use std::fmt;
use std::fs;

use cudarc::driver::{result, sys};

use crate::capability::ComputeCapability;
use crate::error::{During as _, GpuError};
use crate::library::{Library, LibraryError, probe};

/// The oldest CUDA version of the driver that works: the one whose event timing `cudarc` calls.
const OLDEST_DRIVER: (u32, u32) = (12, 8);

/// Functions of the driver that came with [`OLDEST_DRIVER`] or shortly before.
const NEWEST_SYMBOLS: [&str; 3] = ["cuEventElapsedTime_v2", "cuGraphInstantiateWithFlags", "cuMemAllocAsync"];

/// A GPU, as the driver describes it. All sizes are in bytes, all clocks in kHz.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Device {
    /// The driver's number, from 0; `CUDA_VISIBLE_DEVICES` renumbers.
    pub index: usize,
    /// `NVIDIA H200`.
    pub name: String,
    /// The identity of the card: `GPU-` and 32 hexadecimal digits, as `nvidia-smi -L` prints it.
    pub uuid: String,
    /// The compute capability.
    pub compute_capability: ComputeCapability,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// The highest clock of the multiprocessors, kHz.
    pub clock_khz: u32,
    /// The clock of the memory, kHz. Memory moves data twice a cycle.
    pub memory_clock_khz: u32,
    /// The width of the memory interface, bits.
    pub memory_bus_bits: u32,
    /// Global memory.
    pub memory_bytes: u64,
    /// The second-level cache.
    pub l2_bytes: u64,
    /// Shared memory (which the first-level cache shares) of a multiprocessor.
    pub shared_bytes_per_multiprocessor: u64,
    /// Shared memory that one block can have if it asks for it.
    pub shared_bytes_per_block: u64,
    /// Threads that a multiprocessor holds at once.
    pub threads_per_multiprocessor: u32,
}

impl Device {
    /// How many GPUs there are: at least one.
    ///
    /// # Errors
    /// No driver, a driver that is too old or does not start, or [`GpuError::NoDevice`]: see
    /// [`Hint::is_absence`](flopgap_files::Hint::is_absence).
    pub fn count() -> Result<usize, GpuError> {
        start_driver()?;
        let count = result::device::get_count().during("count the GPUs")?;
        match usize::try_from(count) {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(GpuError::NoDevice),
        }
    }

    /// All GPUs, in the driver's order.
    ///
    /// # Errors
    /// As [`Device::count`].
    pub fn all() -> Result<Vec<Self>, GpuError> {
        (0..Self::count()?).map(Self::get).collect()
    }

    /// One GPU.
    ///
    /// # Errors
    /// As [`Device::count`], and [`GpuError::NoSuchDevice`].
    pub fn get(index: usize) -> Result<Self, GpuError> {
        use sys::CUdevice_attribute as Attribute;
        let count = Self::count()?;
        if index >= count {
            return Err(GpuError::NoSuchDevice { asked: index, count });
        }
        let ask = |error| GpuError::driver("ask the GPU what it is", error);
        let ordinal = i32::try_from(index).map_err(|_| GpuError::NoSuchDevice { asked: index, count })?;
        let device = result::device::get(ordinal).map_err(ask)?;
        // SAFETY: `device` came from the driver and stays valid until the process ends.
        let number = |attribute| unsafe { result::device::get_attribute(device, attribute) }.map_err(ask);
        // A negative size would be a fault of the driver; 0 shows that it is unknown.
        let u32_of = |attribute| number(attribute).map(|value| u32::try_from(value).unwrap_or(0));
        let u64_of = |attribute| number(attribute).map(|value| u64::try_from(value).unwrap_or(0));
        // SAFETY: as above.
        let memory = unsafe { result::device::total_mem(device) }.map_err(ask)?;
        let uuid = result::device::get_uuid(device).map_err(ask)?;
        Ok(Device {
            index,
            name: result::device::get_name(device).map_err(ask)?,
            uuid: format_uuid(&uuid),
            compute_capability: ComputeCapability {
                major: u32_of(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                minor: u32_of(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            },
            multiprocessors: u32_of(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            clock_khz: u32_of(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
            memory_clock_khz: u32_of(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
            memory_bus_bits: u32_of(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
            memory_bytes: memory as u64,
            l2_bytes: u64_of(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
            shared_bytes_per_multiprocessor: u64_of(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
            )?,
            shared_bytes_per_block: u64_of(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            threads_per_multiprocessor: u32_of(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
            )?,
        })
    }

    /// The memory bandwidth that clock and bus width allow, bytes per second. Copies reach about
    /// nine tenths of it.
    pub fn peak_memory_bandwidth(&self) -> u64 {
        // Two transfers a cycle, 8 bits a byte.
        u64::from(self.memory_clock_khz) * 1000 * 2 * u64::from(self.memory_bus_bits) / 8
    }
}

/// The versions of the installed driver.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverVersion {
    /// The newest CUDA version that the driver supports.
    pub cuda: (u32, u32),
    /// The version of the kernel module (`580.159.04`), where the system reports it.
    pub module: Option<String>,
}

/// The versions of the installed driver.
///
/// # Errors
/// As [`Device::count`], except that no GPU is needed.
pub fn driver_version() -> Result<DriverVersion, GpuError> {
    let cuda = cuda_version()?;
    let module = fs::read_to_string("/proc/driver/nvidia/version")
        .or_else(|_| fs::read_to_string("/sys/module/nvidia/version"))
        .ok()
        .and_then(|text| module_version(&text));
    Ok(DriverVersion { cuda, module })
}

/// The first word of digits and dots: `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64
/// 580.159.04  Release Build`.
fn module_version(text: &str) -> Option<String> {
    text.split_whitespace()
        .find(|word| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.'))
        .map(str::to_owned)
}

/// Loads the driver and checks that it is new enough; a GPU is not needed.
fn cuda_version() -> Result<(u32, u32), GpuError> {
    let driver = probe(Library::Driver)?;
    // SAFETY: the signature of `cuDriverGetVersion` in `cuda.h`; `CUresult` is a C enum of int
    // size.
    let get_version: unsafe extern "C" fn(*mut i32) -> u32 = unsafe { driver.symbol("cuDriverGetVersion")? };
    let mut version = 0;
    // SAFETY: the pointer is valid for the call.
    let code = unsafe { get_version(&raw mut version) };
    if code != 0 {
        return Err(GpuError::DriverBroken { code, message: "cuDriverGetVersion failed".to_owned() });
    }
    let version = u32::try_from(version).unwrap_or(0);
    let have = (version / 1000, version % 1000 / 10);
    // The stub library of the toolkit, which is only there to link against, reports a version and
    // has all symbols; `cuInit` unmasks it.
    if have < OLDEST_DRIVER {
        return Err(GpuError::DriverTooOld { have, need: OLDEST_DRIVER });
    }
    if let Some(symbol) = NEWEST_SYMBOLS.into_iter().find(|symbol| !driver.has(symbol)) {
        return Err(LibraryError::Symbol {
            library: Library::Driver,
            path: driver.path().to_owned(),
            symbol,
        }
        .into());
    }
    Ok(have)
}

/// Loads, checks and initializes the driver. Afterwards `cudarc` cannot miss a function that this
/// crate calls.
pub(crate) fn start_driver() -> Result<(), GpuError> {
    cuda_version()?;
    result::init().map_err(|error| match GpuError::driver("start the driver", error) {
        GpuError::Driver { code, message, .. } => GpuError::DriverBroken { code, message },
        other => other,
    })
}

fn format_uuid(uuid: &sys::CUuuid) -> String {
    use fmt::Write as _;
    let mut text = "GPU-".to_owned();
    for (index, byte) in uuid.bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // `c_char` is signed on some machines; its bits are meant.
        let _ = write!(text, "{:02x}", byte.to_ne_bytes()[0]);
    }
    text
}

/// A C string that a library of CUDA owns, copied; `None` for null.
///
/// # Safety
/// `text` is null or points to a string that ends in a zero byte.
pub(crate) unsafe fn copy_c_string(text: *const std::ffi::c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null; the caller vouches for the rest.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use flopgap_files::Hint as _;

    use super::*;

    #[test]
    fn the_module_version_is_found_in_either_file() {
        let proc = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder@U22)\nGCC version:  gcc version 12.3.0\n";
        assert_eq!(module_version(proc).as_deref(), Some("580.159.04"));
        assert_eq!(module_version("570.86.15\n").as_deref(), Some("570.86.15"));
        assert_eq!(module_version("no number here"), None);
    }

    #[test]
    fn a_uuid_reads_as_nvidia_smi_prints_it() {
        let mut uuid = sys::CUuuid { bytes: [0; 16] };
        for (byte, value) in uuid.bytes.iter_mut().zip(0xf0_u8..=0xff) {
            *byte = std::ffi::c_char::from_ne_bytes([value]);
        }
        assert_eq!(format_uuid(&uuid), "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff");
    }

    #[test]
    fn without_a_gpu_the_count_is_a_typed_absence() {
        match Device::count() {
            Ok(count) => assert!(count > 0),
            Err(error) => assert!(error.is_absence(), "{error}"),
        }
    }
}
