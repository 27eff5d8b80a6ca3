//! Ending on SIGTERM without leaving work half done.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// While this lives, SIGTERM ends the process no longer but sets a flag, so that the program can
/// finish what it is at. Job schedulers send it before they kill a job. Afterwards the signal ends
/// the process again, so a process catches it once.
#[derive(Debug)]
pub struct Termination {
    asked: Arc<AtomicBool>,
    /// Whether the signal does again what it does by default.
    over: Arc<AtomicBool>,
}

impl Termination {
    /// Catches SIGTERM from now on.
    ///
    /// # Errors
    /// When the system does not permit it.
    pub fn catch() -> io::Result<Termination> {
        let caught =
            Termination { asked: Arc::new(AtomicBool::new(false)), over: Arc::new(AtomicBool::new(false)) };
        flag::register_conditional_default(SIGTERM, Arc::clone(&caught.over))?;
        flag::register(SIGTERM, Arc::clone(&caught.asked))?;
        Ok(caught)
    }

    /// Catches SIGTERM, and from now on ignores SIGINT: the terminal sends it to the program that
    /// this one waits for, too.
    ///
    /// # Errors
    /// When the system does not permit it.
    pub fn catch_while_waiting() -> io::Result<Termination> {
        let caught = Termination::catch()?;
        flag::register_conditional_default(SIGINT, Arc::clone(&caught.over))?;
        flag::register(SIGINT, Arc::new(AtomicBool::new(false)))?;
        Ok(caught)
    }

    /// Set once the signal has come.
    pub fn flag(&self) -> &AtomicBool {
        &self.asked
    }
}

impl Drop for Termination {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signal_sets_the_flag_and_the_process_lives() {
        let termination = Termination::catch().unwrap();
        assert!(!termination.flag().load(Ordering::SeqCst));
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert!(termination.flag().load(Ordering::SeqCst));
    }
}
