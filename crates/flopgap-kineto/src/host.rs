//! The threads of the host, and for whom each of them works.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::json::Scalar;
use crate::trace::Thread;

/// A process or thread: a number, or for some tools a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Id {
    Number(i64),
    Text(String),
}

impl Id {
    pub(crate) fn of(scalar: Scalar<'_>) -> Id {
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
    processes: FxHashMap<Id, u32>,
    known: Vec<Thread>,
    /// The process of each thread, and how many operators it ran that nothing calls backward.
    process_of: Vec<u32>,
    forward_operators: Vec<u64>,
    names: FxHashMap<(Id, Id), Arc<str>>,
    /// Threads from which arrows to backward operators begin, by the numbers of the arrows.
    forward: FxHashMap<(u32, Id), u32>,
    /// Threads at which they end.
    backward: Vec<(Id, u32)>,
    /// Threads of forward operators by process and sequence number; none for a number that several
    /// threads have, as each counts for itself.
    sequences: FxHashMap<(u32, i64), Option<u32>>,
    /// What is known of backward operators.
    evaluated: FxHashMap<Evaluated, u64>,
}

/// What a backward operator says of its forward operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Evaluated {
    /// The thread that ran it.
    pub(crate) thread: u32,
    /// The number that `PyTorch` gave the thread of the forward operator: 1 for the first thread
    /// of a process that recorded anything, and not the system's number.
    pub(crate) forward_thread: Option<i64>,
    /// The sequence number of the forward operator.
    pub(crate) sequence: Option<i64>,
}

impl Threads {
    pub(crate) fn place(&mut self, process: Scalar<'_>, thread: Scalar<'_>) -> u32 {
        self.place_of((Id::of(process), Id::of(thread)))
    }

    /// The same by ids.
    pub(crate) fn place_of(&mut self, id: (Id, Id)) -> u32 {
        if let Some(place) = self.places.get(&id) {
            return *place;
        }
        let place = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        let (process, number) = (id.0.number(), id.1.number());
        self.known.push(Thread { process, number, name: None, backward_of: None });
        let next = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        self.process_of.push(*self.processes.entry(id.0.clone()).or_insert(next));
        self.forward_operators.push(0);
        self.places.insert(id, place);
        place
    }

    pub(crate) fn name(&mut self, process: Scalar<'_>, thread: Scalar<'_>, name: &str) {
        self.names.insert((Id::of(process), Id::of(thread)), name.into());
    }

    /// What a thread is called.
    pub(crate) fn name_of(&self, id: &(Id, Id)) -> Option<Arc<str>> {
        self.names.get(id).cloned()
    }

    /// An arrow from a forward operator begins on a thread.
    pub(crate) fn begin(&mut self, arrow: Scalar<'_>, thread: u32) {
        self.forward.insert((self.process_of[thread as usize], Id::of(arrow)), thread);
    }

    /// It ends on a thread.
    pub(crate) fn end(&mut self, arrow: Scalar<'_>, thread: u32) {
        self.backward.push((Id::of(arrow), thread));
    }

    /// An operator that nothing calls backward, with its sequence number.
    pub(crate) fn forward(&mut self, thread: u32, sequence: Option<i64>) {
        self.forward_operators[thread as usize] += 1;
        if let Some(sequence) = sequence {
            let of = self.sequences.entry((self.process_of[thread as usize], sequence));
            let known = of.or_insert(Some(thread));
            *known = known.filter(|known| *known == thread);
        }
    }

    /// An operator of a backward pass.
    pub(crate) fn backward(&mut self, evaluated: Evaluated) {
        *self.evaluated.entry(evaluated).or_default() += 1;
    }

    /// The threads, each with the one for which it works.
    pub(crate) fn finish(mut self) -> Vec<Thread> {
        for (id, name) in std::mem::take(&mut self.names) {
            if let Some(place) = self.places.get(&id) {
                self.known[*place as usize].name = Some(name);
            }
        }
        let numbers = self.numbers();
        let mut votes: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        // Where backward is run by the thread itself there is nobody to work for.
        let mut vote = |worker: u32, forward: Option<u32>, count: u64| {
            if let Some(forward) = forward.filter(|forward| *forward != worker) {
                *votes.entry((worker, forward)).or_default() += count;
            }
        };
        for (arrow, worker) in &self.backward {
            let process = self.process_of[*worker as usize];
            vote(*worker, self.forward.get(&(process, arrow.clone())).copied(), 1);
        }
        for (evaluated, count) in &self.evaluated {
            let process = self.process_of[evaluated.thread as usize];
            let number = evaluated.forward_thread.and_then(|number| numbers.get(&(process, number)).copied());
            vote(evaluated.thread, number.or_else(|| self.forward_of(evaluated)), *count);
        }
        for (worker, forward) in most(votes) {
            self.known[worker as usize].backward_of = Some(forward);
        }
        self.known
    }

    /// The thread that ran the forward operator, by its sequence number.
    fn forward_of(&self, evaluated: &Evaluated) -> Option<u32> {
        let process = self.process_of[evaluated.thread as usize];
        *self.sequences.get(&(process, evaluated.sequence?))?
    }

    /// The threads that `PyTorch`'s own numbers mean, by process and number: as forward operators
    /// that were recorded show it. A number of whose operators none was recorded is that of the
    /// only thread left that runs operators forward and has no other number.
    fn numbers(&self) -> FxHashMap<(u32, i64), u32> {
        let mut shown: BTreeMap<((u32, i64), u32), u64> = BTreeMap::new();
        let mut unknown: BTreeMap<(u32, i64), Vec<u32>> = BTreeMap::new();
        for (evaluated, count) in &self.evaluated {
            let Some(number) = evaluated.forward_thread else { continue };
            let key = (self.process_of[evaluated.thread as usize], number);
            unknown.entry(key).or_default().push(evaluated.thread);
            if let Some(forward) = self.forward_of(evaluated) {
                *shown.entry((key, forward)).or_default() += count;
            }
        }
        let mut numbers: FxHashMap<(u32, i64), u32> = most(shown).into_iter().collect();
        unknown.retain(|key, _| !numbers.contains_key(key));
        for (key, workers) in unknown {
            let is_free = |thread: &u32| {
                let at = *thread as usize;
                let has_number = numbers.iter().any(|(known, of)| known.0 == key.0 && of == thread);
                self.process_of[at] == key.0 && self.forward_operators[at] > 0 && !has_number
            };
            let threads = 0..u32::try_from(self.known.len()).unwrap_or(u32::MAX);
            let mut free: Vec<u32> = threads.filter(is_free).collect();
            if free.len() > 1 {
                // Of several those that run no backward operators of this number.
                free.retain(|thread| !workers.contains(thread));
            }
            if let [only] = free[..] {
                numbers.insert(key, only);
            }
        }
        numbers
    }
}

/// For each first the second that occurs most often with it; of equals the least.
fn most<K: Ord>(counts: BTreeMap<(K, u32), u64>) -> BTreeMap<K, u32> {
    let mut most: BTreeMap<K, (u64, u32)> = BTreeMap::new();
    for ((key, value), count) in counts {
        let best = most.entry(key).or_insert((count, value));
        if count > best.0 {
            *best = (count, value);
        }
    }
    most.into_iter().map(|(key, (_, value))| (key, value)).collect()
}
