//! The devices of this process, as the driver describes them.

use std::ffi::{CStr, c_char, c_int};

use super::c::Loaded;
use super::cupti::SUCCESS;
use super::format::event;
use super::recorder::Recorder;

type Number = unsafe extern "C" fn(*mut c_int) -> u32;
type Name = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> u32;
type Memory = unsafe extern "C" fn(*mut usize, c_int) -> u32;
type Uuid = unsafe extern "C" fn(*mut [u8; 16], c_int) -> u32;
type Attribute = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> u32;

/// Attributes, as `cuda.h` numbers them.
const WARP: c_int = 10;
const CLOCK: c_int = 13;
const MULTIPROCESSORS: c_int = 16;
const MEMORY_CLOCK: c_int = 36;
const BUS_WIDTH: c_int = 37;
const L2: c_int = 38;
const MAJOR: c_int = 75;
const MINOR: c_int = 76;

/// Writes what the devices are. Not to be called while the driver initializes.
pub(super) fn write(recorder: &Recorder) {
    let _: Option<()> = (|| {
        let driver = Loaded::open("libcuda.so.1", true)?;
        // SAFETY: the functions have these types in `cuda.h`; pointers are valid for the calls.
        unsafe {
            let number: Number = driver.function(c"cuDeviceGetCount")?;
            let name: Name = driver.function(c"cuDeviceGetName")?;
            let memory: Memory = driver.function(c"cuDeviceTotalMem_v2")?;
            let uuid: Uuid = driver.function(c"cuDeviceGetUuid_v2")?;
            let attribute: Attribute = driver.function(c"cuDeviceGetAttribute")?;
            let mut devices = 0;
            if number(&raw mut devices) != SUCCESS {
                return None;
            }
            for device in 0..devices {
                let (mut text, mut bytes, mut id) = ([0; 256], 0, [0; 16]);
                name(text.as_mut_ptr(), 255, device);
                memory(&raw mut bytes, device);
                uuid(&raw mut id, device);
                let of = |which| {
                    let mut value = 0;
                    attribute(&raw mut value, which, device);
                    u32::try_from(value).unwrap_or(0)
                };
                let [clock, memory_clock, width] = [CLOCK, MEMORY_CLOCK, BUS_WIDTH].map(of);
                // Two transfers a clock, in kilobytes per second, as CUPTI says it.
                let bandwidth = u64::from(memory_clock) * 2 * u64::from(width) / 8;
                let device = device.unsigned_abs();
                let words = [device, of(MULTIPROCESSORS), of(MAJOR), of(MINOR), of(L2), clock, of(WARP), 0];
                let mut fixed: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                fixed.extend(bandwidth.to_le_bytes());
                fixed.extend((bytes as u64).to_le_bytes());
                let name = CStr::from_ptr(text.as_ptr()).to_bytes();
                recorder.definition(event::DEVICE, &[&fixed, &id, name]);
            }
        }
        Some(())
    })();
}
