//! The numbers that name processes and threads.

/// A process or thread as nsys numbers it: thread id in the 24 low bits, process id in the next 24,
/// machine above.
///
/// ```
/// use flopgap_trace::GlobalId;
///
/// let thread = GlobalId(0x0001_0002_c900_02ee);
/// assert_eq!((thread.pid(), thread.tid()), (713, 750));
/// assert_eq!(thread.process(), GlobalId(0x0001_0002_c900_0000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GlobalId(pub i64);

impl GlobalId {
    const LOW: i64 = 0xff_ffff;

    /// The process of this thread: the same number without the thread's bits.
    #[must_use]
    #[inline]
    pub fn process(self) -> GlobalId {
        GlobalId(self.0 & !Self::LOW)
    }

    /// The process id as the system numbers it.
    #[inline]
    pub fn pid(self) -> i64 {
        (self.0 >> 24) & Self::LOW
    }

    /// The thread id as the system numbers it.
    #[inline]
    pub fn tid(self) -> i64 {
        self.0 & Self::LOW
    }
}
