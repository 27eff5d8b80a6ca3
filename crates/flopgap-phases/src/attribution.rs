//! Which launches lie within ranges: by process, because PyTorch launches its backward pass from
//! autograd's thread, which has no ranges.

use flopgap_ncu::{LaunchView, Layout, NvtxKind, NvtxRange, Strings, Symbol};
use rustc_hash::FxHashMap;

/// Says whether a launch with these ranges around it, outermost first, is wanted.
pub type Matches<'a> = dyn Fn(&[NvtxRange], &Strings) -> bool + 'a;

/// Whether a launch lies within the wanted ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// In a range of its own thread.
    Own,
    /// In one of the main thread of its process, which an `.ncu-rep` lists.
    Main,
    /// It follows a launch within one, and what comes after it decides.
    Open,
    Outside,
}

/// The launches that waited for the next one of a thread with ranges.
pub(crate) struct Decided<T> {
    pub(crate) waiting: Vec<T>,
    /// The range stayed open around them, so that another thread launched them meanwhile.
    pub(crate) inside: bool,
}

/// Decides launch by launch. `T` is what is kept of a launch until it is decided.
pub(crate) struct Attribution<'a, T> {
    matches: &'a Matches<'a>,
    processes: FxHashMap<(Symbol, Option<u64>), Process<T>>,
}

/// The ranges around a launch, from the outermost: domains and names.
type Path = Vec<(Symbol, Symbol)>;

struct Process<T> {
    /// Where each path of a thread was first met among all paths.
    order: FxHashMap<(Option<u64>, Path), usize>,
    open: Option<Open<T>>,
}

/// The last launch with ranges was within the wanted ones.
struct Open<T> {
    thread: Option<u64>,
    stack: Vec<NvtxRange>,
    at: usize,
    waiting: Vec<T>,
}

impl<'a, T> Attribution<'a, T> {
    pub(crate) fn new(matches: &'a Matches<'a>) -> Self {
        Attribution { matches, processes: FxHashMap::default() }
    }

    /// Decides about a launch, and about those before it that waited for it.
    pub(crate) fn judge(&mut self, launch: LaunchView<'_>) -> (Verdict, Option<Decided<T>>) {
        let own = (self.matches)(&launch.nvtx, launch.strings);
        if launch.layout == Layout::Report {
            let of_main = || (self.matches)(&with_main_thread(launch), launch.strings);
            let verdict = match () {
                () if own => Verdict::Own,
                () if of_main() => Verdict::Main,
                () => Verdict::Outside,
            };
            return (verdict, None);
        }
        let process = self.processes.entry((launch.host, launch.process_id));
        let process = process.or_insert_with(|| Process { order: FxHashMap::default(), open: None });
        let stack: Vec<NvtxRange> =
            launch.nvtx.iter().filter(|range| range.kind == NvtxKind::PushPop).copied().collect();
        // Only its own thread shows that a range was closed; a launch without ranges shows nothing.
        let thread = stack.first().map(|range| range.thread);
        let of_open =
            thread.is_some_and(|thread| process.open.as_ref().is_none_or(|open| open.thread == thread));
        let Some(thread) = thread.filter(|_| of_open) else {
            // What carries ranges of its own lies in those of the main thread alone.
            let may_lie_in = |open: &Open<T>| stack.is_empty() || open.thread == launch.process_id;
            let verdict = match &process.open {
                _ if own => Verdict::Own,
                Some(open) if may_lie_in(open) => Verdict::Open,
                _ => Verdict::Outside,
            };
            return (verdict, None);
        };
        let path = (thread, stack.iter().map(|range| (range.domain, range.name)).collect());
        let met = process.order.len();
        let at = *process.order.entry(path).or_insert(met);
        let decided = process.open.take().map(|open| open.decide(&stack, at, self.matches, launch.strings));
        if own {
            process.open = Some(Open { thread, stack, at, waiting: Vec::new() });
        }
        (if own { Verdict::Own } else { Verdict::Outside }, decided)
    }

    /// Keeps a launch that [`Attribution::judge`] just called open.
    pub(crate) fn wait(&mut self, launch: LaunchView<'_>, kept: T) {
        let process = self.processes.get_mut(&(launch.host, launch.process_id));
        if let Some(open) = process.and_then(|process| process.open.as_mut()) {
            open.waiting.push(kept);
        }
    }

    /// The launches that nothing decided.
    pub(crate) fn undecided(self) -> impl Iterator<Item = T> {
        self.processes.into_values().filter_map(|process| process.open).flat_map(|open| open.waiting)
    }
}

impl<T> Open<T> {
    /// What stayed open on this thread from one of its launches to the next was open between them,
    /// so that another thread launched what carries no range. A path that was met before the last
    /// one shows that the ranges may have been closed and opened again.
    ///
    /// A backward pass within something that stayed open counts, too: its thread waits in it for
    /// the thread that launches.
    fn decide(
        self,
        next: &[NvtxRange],
        next_at: usize,
        matches: &Matches<'_>,
        strings: &Strings,
    ) -> Decided<T> {
        let same = |(a, b): &(&NvtxRange, &NvtxRange)| (a.domain, a.name) == (b.domain, b.name);
        let common = self.stack.iter().zip(next).take_while(same).count();
        let waits = |range: &NvtxRange| strings.get(range.name).to_ascii_lowercase().contains("backward");
        let backward = self.stack.iter().position(waits).map_or(0, |at| at + 1);
        let stayed = &self.stack[..common.max(backward)];
        let inside = common > 0 && next_at > self.at && matches(stayed, strings);
        Decided { waiting: self.waiting, inside }
    }
}

/// The ranges around a launch with those of its process's main thread, whose number is that of the
/// process.
pub(crate) fn with_main_thread(launch: LaunchView<'_>) -> Vec<NvtxRange> {
    let of_main = |range: &&NvtxRange| range.thread.is_some() && range.thread == launch.process_id;
    launch.nvtx_of_others.iter().filter(of_main).chain(&launch.nvtx).copied().collect()
}
