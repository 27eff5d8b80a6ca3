//! The threads of the host, and for whom each of them works.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::json::Scalar;
use crate::trace::Thread;

/// A process or thread: a number, or for some tools a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Id {
    Number(i64),
    Text(String),
}

impl Id {
    fn of(scalar: Scalar<'_>) -> Id {
        match (scalar.integer(), scalar) {
            (Some(number), _) => Id::Number(number),
            (None, Scalar::Text(text)) => Id::Text(text.text().into_owned()),
            (None, Scalar::Number(digits)) => Id::Text(String::from_utf8_lossy(digits).into_owned()),
            (None, Scalar::None) => Id::Text(String::new()),
        }
    }

    fn number(&self) -> Option<i64> {
        match self {
            Id::Number(number) => Some(*number),
            Id::Text(_) => None,
        }
    }
}

/// The threads of the host while they are read.
#[derive(Default)]
pub(crate) struct Threads {
    places: FxHashMap<(Id, Id), u32>,
    known: Vec<Thread>,
    names: FxHashMap<(Id, Id), Arc<str>>,
    /// Threads from which arrows to backward operators begin, by the numbers of the arrows.
    forward: FxHashMap<Id, u32>,
    /// Threads at which they end.
    backward: Vec<(Id, u32)>,
    /// Threads of forward operators by their sequence numbers.
    sequences: FxHashMap<i64, u32>,
    /// Those of backward operators.
    backward_sequences: Vec<(i64, u32)>,
}

impl Threads {
    pub(crate) fn place(&mut self, process: Scalar<'_>, thread: Scalar<'_>) -> u32 {
        let id = (Id::of(process), Id::of(thread));
        if let Some(place) = self.places.get(&id) {
            return *place;
        }
        let place = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        let (process, number) = (id.0.number(), id.1.number());
        self.known.push(Thread { process, number, name: None, backward_of: None });
        self.places.insert(id, place);
        place
    }

    pub(crate) fn name(&mut self, process: Scalar<'_>, thread: Scalar<'_>, name: &str) {
        self.names.insert((Id::of(process), Id::of(thread)), name.into());
    }

    /// An arrow from a forward operator begins on a thread.
    pub(crate) fn begin(&mut self, arrow: Scalar<'_>, thread: u32) {
        self.forward.insert(Id::of(arrow), thread);
    }

    /// It ends on a thread.
    pub(crate) fn end(&mut self, arrow: Scalar<'_>, thread: u32) {
        self.backward.push((Id::of(arrow), thread));
    }

    /// An operator of a forward pass has a sequence number, or one of a backward pass that of its
    /// forward operator.
    pub(crate) fn sequence(&mut self, number: i64, thread: u32, is_backward: bool) {
        if is_backward {
            // Those of a thread are of one forward thread; the first operator and its engine's
            // function say the same.
            if self.backward_sequences.last() != Some(&(number, thread)) {
                self.backward_sequences.push((number, thread));
            }
        } else {
            self.sequences.entry(number).or_insert(thread);
        }
    }

    /// The threads, each with the one for which it works.
    pub(crate) fn finish(self) -> Vec<Thread> {
        let Threads { places, known: mut threads, names, forward, backward, sequences, backward_sequences } =
            self;
        for (id, name) in names {
            if let Some(place) = places.get(&id) {
                threads[*place as usize].name = Some(name);
            }
        }
        let arrows = backward.iter().filter_map(|(arrow, thread)| Some((*thread, *forward.get(arrow)?)));
        let mut of = most(arrows);
        let numbers = backward_sequences.iter();
        let by_number = most(numbers.filter_map(|(number, thread)| Some((*thread, *sequences.get(number)?))));
        for (thread, forward) in by_number {
            of.entry(thread).or_insert(forward);
        }
        for (thread, forward) in of {
            // Where backward is run by the thread itself there is nobody to work for.
            if thread != forward {
                threads[thread as usize].backward_of = Some(forward);
            }
        }
        threads
    }
}

/// The thread that each thread has most to do with; of equals the first.
fn most(pairs: impl Iterator<Item = (u32, u32)>) -> BTreeMap<u32, u32> {
    let mut counts: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for pair in pairs {
        *counts.entry(pair).or_default() += 1;
    }
    let mut most: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    for ((thread, forward), count) in counts {
        let best = most.entry(thread).or_insert((count, forward));
        if count > best.0 {
            *best = (count, forward);
        }
    }
    most.into_iter().map(|(thread, (_, forward))| (thread, forward)).collect()
}
