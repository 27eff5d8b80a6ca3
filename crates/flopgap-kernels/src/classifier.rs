//! The cache of the classifier.

use std::sync::{Arc, PoisonError, RwLock};

use rustc_hash::FxHashMap;

use crate::info::{KernelInfo, classify};

/// [`classify`] with a memory: each distinct name is read once, and every caller shares the answer.
///
/// A profile has few names and many launches, so nearly every call is a hit. It can be shared
/// between threads.
///
/// ```
/// use flopgap_kernels::{Classifier, KernelClass};
///
/// let classifier = Classifier::new();
/// for name in ["ampere_sgemm_128x64_nn", "void splitKreduce_kernel<float>(P<float>)", "ampere_sgemm_128x64_nn"] {
///     println!("{}", classifier.get(name).class);
/// }
/// assert_eq!(classifier.get("ampere_sgemm_128x64_nn").class, KernelClass::Matmul);
/// assert_eq!(classifier.len(), 2);
/// ```
#[derive(Debug, Default)]
pub struct Classifier {
    known: RwLock<FxHashMap<Box<str>, Arc<KernelInfo>>>,
}

impl Classifier {
    /// An empty classifier.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads `name`.
    pub fn get(&self, name: &str) -> Arc<KernelInfo> {
        // A panic while the lock is held cannot leave a wrong entry, so poisoning is ignored.
        if let Some(info) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Arc::clone(info);
        }
        let info = Arc::new(classify(name));
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(name.into()).or_insert(info))
    }

    /// How many distinct names have been read.
    pub fn len(&self) -> usize {
        self.known.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether no name has been read yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_shared_and_equal_to_the_uncached() {
        let classifier = Classifier::new();
        assert!(classifier.is_empty());
        let first = classifier.get("_Z5saxpyPdS_S_di");
        assert!(Arc::ptr_eq(&first, &classifier.get("_Z5saxpyPdS_S_di")));
        assert_eq!(*first, classify("_Z5saxpyPdS_S_di"));
        assert_eq!(classifier.len(), 1);
    }
}
