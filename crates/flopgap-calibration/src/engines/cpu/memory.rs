//! Memory of the process and of the machine, from Linux.

use std::fs;

/// Measures the peak growth of a process from a moment on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peak {
    /// Bytes in memory at that moment; `None` if the system does not report it.
    before: Option<u64>,
}

impl Peak {
    /// Starts now. The system's own high-water mark is reset to the current size.
    pub(crate) fn begin() -> Self {
        let reset = fs::write("/proc/self/clear_refs", "5").is_ok();
        Peak { before: reset.then(|| of_process("VmRSS:")).flatten() }
    }

    /// The peak growth of the process since then, in bytes. `None` if the system does not report it
    /// or the mark cannot be reset. It includes all threads of the process.
    pub(crate) fn growth(&self) -> Option<u64> {
        of_process("VmHWM:")?.checked_sub(self.before?)
    }
}

fn of_process(field: &str) -> Option<u64> {
    kibibytes(&fs::read_to_string("/proc/self/status").ok()?, field)
}

/// Bytes of memory available without swapping, if the system reports it.
pub fn available() -> Option<u64> {
    kibibytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// The bytes of a line like `VmRSS:     1234 kB`.
fn kibibytes(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    let number = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    number.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_their_unit() {
        let text = "Name:\tflopgap\nVmHWM:\t    2048 kB\nVmRSS:\t  many kB\nVmSwap:\t 7\n";
        assert_eq!(kibibytes(text, "VmHWM:"), Some(2 << 20));
        assert_eq!(kibibytes(text, "VmRSS:"), None);
        assert_eq!(kibibytes(text, "VmSwap:"), None);
        assert_eq!(kibibytes(text, "VmPeak:"), None);
    }

    #[test]
    fn what_is_freed_again_is_in_the_peak() {
        let peak = Peak::begin();
        let bytes = std::hint::black_box(vec![1_u8; 64 << 20]);
        drop(bytes);
        let Some(growth) = peak.growth() else {
            return flopgap_testing::skip("peak memory", "the system does not allow resetting the peak");
        };
        assert!(growth >= 60 << 20, "{growth}");
    }
}
