//! Named ranges for Nsight Systems and other tools that read NVTX.
//!
//! With the feature `nvtx` (off by default: building it needs libclang) a [`Range`] is pushed to
//! NVTX; without it, it is nothing at all. Code that uses ranges compiles either way.

#[cfg(feature = "nvtx")]
mod imp {
    /// A range of the calling thread. It ends when it is dropped, in the order in which ranges
    /// began.
    #[derive(Debug)]
    #[must_use = "the range ends when this is dropped"]
    pub struct Range {
        _local: nvtx::LocalRange,
    }

    /// Begins a range with this name on the calling thread.
    pub fn range(name: &str) -> Range {
        Range { _local: nvtx::LocalRange::new(nvtx::Str::from_str_lossy(name)) }
    }
}

#[cfg(not(feature = "nvtx"))]
mod imp {
    use std::marker::PhantomData;

    /// A range of the calling thread. It ends when it is dropped. Without the feature `nvtx`,
    /// nobody sees it.
    #[derive(Debug)]
    #[must_use = "the range ends when this is dropped"]
    pub struct Range {
        /// Bound to its thread, as the real one is.
        _thread: PhantomData<*const ()>,
    }

    /// Begins a range with this name on the calling thread.
    pub fn range(_name: &str) -> Range {
        Range { _thread: PhantomData }
    }
}

pub use imp::{Range, range};

#[cfg(test)]
mod tests {
    use super::{Range, range};

    #[test]
    fn a_range_ends_when_it_is_dropped_and_costs_nothing_without_the_feature() {
        let is_recorded = cfg!(feature = "nvtx");
        assert_eq!(std::mem::needs_drop::<Range>(), is_recorded);
        assert_eq!(size_of::<Range>() == 0, !is_recorded);
        let outer = range("outer");
        let inner = range("inner\0with a zero byte");
        drop(inner);
        drop(outer);
    }
}
