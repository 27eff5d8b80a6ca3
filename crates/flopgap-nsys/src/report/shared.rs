//! Intermediate results that several reports of a trace share, computed once.

use std::sync::{Arc, Mutex, PoisonError};

use crate::KernelName;
use crate::{Error, RangeStyle, Summary};

/// Kernels by name, with their times.
pub(super) type Kernels = Vec<(Arc<str>, Summary)>;

/// Copies and memsets by what nsys calls them.
pub(super) struct Operations {
    pub(super) times: Vec<(Arc<str>, Summary)>,
    pub(super) bytes: Vec<(Arc<str>, Summary)>,
}

/// Ranges by name and style, with their times.
pub(super) type Ranges = Vec<((Arc<str>, RangeStyle), Summary)>;

/// Each part is computed by the first report that needs it; reports on other threads wait for it.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) kernels: Once<Kernels>,
    pub(super) base_kernels: Once<Kernels>,
    pub(super) mangled_kernels: Once<Kernels>,
    pub(super) operations: Once<Operations>,
    pub(super) ranges: Once<Ranges>,
}

impl Shared {
    pub(super) fn kernels(&self, names: KernelName) -> &Once<Kernels> {
        match names {
            KernelName::Demangled => &self.kernels,
            KernelName::Base => &self.base_kernels,
            KernelName::Mangled => &self.mangled_kernels,
        }
    }
}

/// A value computed on first use.
pub(super) struct Once<T>(Mutex<Option<Arc<T>>>);

impl<T> Default for Once<T> {
    fn default() -> Once<T> {
        Once(Mutex::new(None))
    }
}

impl<T> Once<T> {
    /// The stored value, or the result of `make`. An error is not stored: the next caller tries
    /// again.
    pub(super) fn get(&self, make: impl FnOnce() -> Result<T, Error>) -> Result<Arc<T>, Error> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*kept {
            return Ok(known.clone());
        }
        Ok(kept.insert(Arc::new(make()?)).clone())
    }
}
