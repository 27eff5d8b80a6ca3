//! Recording while a range that the user names is open, and a moment longer.
//!
//! The thread that opens the range switches recording on, so that nothing of the range is missing.
//! The recorder's own thread switches it off once no such range has been open for a moment: the
//! kernels of the last one end in it, and steps that follow one another are recorded in one piece.

use std::cell::RefCell;
use std::collections::HashSet;
use std::env;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::c;
use super::format::{event, variable};

/// The range that the user names.
pub(super) struct Wanted {
    name: Vec<u8>,
    /// Whether the names of ranges may go on: it was written with a star at the end.
    is_prefix: bool,
    /// Ranges that were started and have not ended.
    started: Mutex<HashSet<u64>>,
    open: AtomicU32,
    /// Nanoseconds since 1970.
    ended: AtomicU64,
}

/// How long recording goes on, in nanoseconds.
const MOMENT: u64 = 500_000_000;

/// Strings that are registered with NVTX and name it, also in children that are forked.
static REGISTERED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

thread_local! {
    /// Ranges that this thread has pushed: their domains, and whether they are the one.
    static PUSHED: RefCell<Vec<(u64, bool)>> = const { RefCell::new(Vec::new()) };
}

impl Wanted {
    /// What the environment says.
    pub(super) fn of_environment() -> Option<Wanted> {
        let name = env::var(variable::RANGE).ok().filter(|name| !name.is_empty())?;
        let prefix = name.strip_suffix('*');
        Some(Wanted {
            name: prefix.unwrap_or(&name).as_bytes().to_owned(),
            is_prefix: prefix.is_some(),
            started: Mutex::default(),
            open: AtomicU32::new(0),
            ended: AtomicU64::new(0),
        })
    }

    /// As it was asked for.
    pub(super) fn pattern(&self) -> String {
        format!("{}{}", String::from_utf8_lossy(&self.name), if self.is_prefix { "*" } else { "" })
    }

    /// Whether exactly one such range is open.
    pub(super) fn is_outermost(&self) -> bool {
        self.open.load(Ordering::Acquire) == 1
    }

    fn is(&self, name: &[u8]) -> bool {
        if self.is_prefix { name.starts_with(&self.name) } else { name == self.name }
    }

    /// A string is registered with NVTX.
    pub(super) fn registers(&self, number: u32, text: &[u8]) {
        if self.is(text) {
            lock(&REGISTERED).push(number);
        }
    }

    /// A range is about to begin. Returns whether it is the one.
    pub(super) fn begins(&self, kind: u32, domain: u64, range: u64, text: &[u8], registered: u32) -> bool {
        let is_wanted = if registered == 0 { self.is(text) } else { lock(&REGISTERED).contains(&registered) };
        match kind {
            event::PUSH => {
                let _ = PUSHED.try_with(|pushed| pushed.borrow_mut().push((domain, is_wanted)));
            }
            event::START if is_wanted => {
                lock(&self.started).insert(range);
            }
            event::START => {}
            _ => return false,
        }
        if is_wanted {
            self.open.fetch_add(1, Ordering::AcqRel);
        }
        is_wanted
    }

    /// A range has ended: the innermost of a domain, or the one with this number. Returns whether
    /// no such range is open any more, which one was.
    pub(super) fn ends(&self, kind: u32, number: u64) -> bool {
        let was_wanted = if kind == event::POP {
            let popped = PUSHED.try_with(|pushed| {
                let mut pushed = pushed.borrow_mut();
                let innermost = pushed.iter().rposition(|(domain, _)| *domain == number)?;
                Some(pushed.remove(innermost).1)
            });
            popped.ok().flatten().unwrap_or(false)
        } else {
            lock(&self.started).remove(&number)
        };
        if was_wanted {
            self.ended.store(c::now(), Ordering::Release);
        }
        // A forked child may end what its parent began.
        let ends = |open: u32| open.checked_sub(1);
        was_wanted && self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, ends) == Ok(1)
    }

    /// Whether such a range is open, or was a moment ago.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire) > 0
            || c::now().saturating_sub(self.ended.load(Ordering::Acquire)) < MOMENT
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(name: &str, is_prefix: bool) -> Wanted {
        let name = name.as_bytes().to_owned();
        Wanted {
            name,
            is_prefix,
            started: Mutex::default(),
            open: AtomicU32::new(0),
            ended: AtomicU64::new(0),
        }
    }

    #[test]
    fn ranges_of_all_kinds_open_and_close_it() {
        let wanted = wanted("step", false);
        let open = || wanted.open.load(Ordering::Acquire);
        assert!(!wanted.is_open());
        // Of two domains, each with its own innermost range.
        assert!(wanted.begins(event::PUSH, 0, 0, b"step", 0));
        assert!(!wanted.begins(event::PUSH, 1, 0, b"steps", 0));
        assert!(!wanted.begins(event::PUSH, 0, 0, b"layer", 0));
        wanted.ends(event::POP, 1);
        wanted.ends(event::POP, 0);
        assert_eq!(open(), 1);
        wanted.ends(event::POP, 0);
        assert_eq!(open(), 0);
        // An end without a beginning, and one that another thread began.
        wanted.ends(event::POP, 0);
        assert!(wanted.begins(event::START, 0, 7, b"step", 0));
        assert!(!wanted.begins(event::START, 0, 8, b"other", 0));
        wanted.ends(event::END, 8);
        assert_eq!(open(), 1);
        wanted.ends(event::END, 7);
        assert_eq!(open(), 0);
        assert!(!wanted.begins(event::MARK, 0, 0, b"step", 0), "a mark has no end");
        assert!(wanted.is_open(), "for a moment longer");
        wanted.ended.fetch_sub(MOMENT, Ordering::AcqRel);
        assert!(!wanted.is_open());
    }

    #[test]
    fn names_are_whole_begin_so_or_are_registered() {
        let steps = wanted("step ", true);
        assert!(steps.is(b"step 12") && steps.is(b"step ") && !steps.is(b"steps"));
        steps.registers(41, b"step 3");
        steps.registers(42, b"other");
        assert!(steps.begins(event::START, 5, 1, b"", 41));
        assert!(!steps.begins(event::START, 5, 2, b"", 42));
    }
}
