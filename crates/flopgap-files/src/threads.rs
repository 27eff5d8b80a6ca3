//! Work on many files at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The results of `work` in the order of `items`, made on as many threads as there are cores.
///
/// ```
/// let lengths = flopgap_files::each_on_all_cores(&["a", "bc"], |text| text.len());
/// assert_eq!(lengths, [1, 2]);
/// ```
pub fn each_on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(items.len());
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let (Some(item), Some(result)) = (items.get(at), results.get(at)) else { break };
                    let made = work(item);
                    *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
                }
            });
        }
    });
    let made = results.into_iter();
    made.filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}
