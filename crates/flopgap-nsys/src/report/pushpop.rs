//! Every push/pop range with its place in the tree.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use flopgap_trace::Interval;
use rustc_hash::FxHashMap;

use super::table::{Columns, Sink, Value};
use crate::hierarchy::{Open, Span};
use crate::in_time::in_time;
use crate::ranges::NvtxNames;
use crate::tables::nvtx::{NvtxRow, NvtxRows};
use crate::tables::nvtx_kind::NVTX;
use crate::{DomainId, Error, Name, NvtxKind, ThreadId, Trace};

static COLUMNS: Columns = Columns::new(
    "Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,\
     NumChild,RangeId,ParentId,RangeStack,NameTree",
);

/// A range that may still contain later ones.
#[derive(Debug)]
struct Node<T> {
    span: Span,
    name: T,
    parent: Option<i64>,
    level: usize,
    path: Arc<Path>,
    children: u64,
    /// The sum of their durations.
    children_time: i64,
}

impl<T> Node<T> {
    fn duration(&self) -> i64 {
        self.span.end.saturating_sub(self.span.start)
    }
}

/// A range and those around it: each is kept once, for a path of its own per range takes the square
/// of their depth.
#[derive(Debug)]
struct Path {
    around: Option<Arc<Path>>,
    id: i64,
}

impl Path {
    /// The ids from the outermost range to this one, as nsys writes them: `:1:2:3`.
    fn write(&self, ids: &mut Vec<i64>, text: &mut String) {
        ids.clear();
        ids.push(self.id);
        let mut around = self.around.as_deref();
        while let Some(path) = around {
            ids.push(path.id);
            around = path.around.as_deref();
        }
        text.clear();
        let mut digits = itoa::Buffer::new();
        for id in ids.iter().rev() {
            text.push(':');
            text.push_str(digits.format(*id));
        }
    }
}

impl Drop for Path {
    /// One by one: a range that drops the one around it, and so on, would exhaust the stack.
    fn drop(&mut self) {
        let mut around = self.around.take();
        while let Some(path) = around {
            around = Arc::into_inner(path).and_then(|mut path| path.around.take());
        }
    }
}

/// The tree of ranges that come in the order of their starts; a range leaves it when nothing that
/// comes can lie within it.
///
/// Each lies in the tightest range of its thread that contains it, ends included; of equal ones the
/// one recorded first is the outer one.
struct Growing<T> {
    /// In the order of their starts.
    nodes: VecDeque<Node<T>>,
    /// The number of the first node: nodes are numbered as they come.
    first: u64,
    /// The numbers of those that may contain what comes.
    open: FxHashMap<ThreadId, Open<u64>>,
    /// Ranges that start together.
    together: Vec<(Span, T)>,
}

impl<T> Growing<T> {
    fn new() -> Growing<T> {
        Growing { nodes: VecDeque::new(), first: 0, open: FxHashMap::default(), together: Vec::new() }
    }

    /// Adds a range that starts no earlier than those before, and passes those on that are
    /// complete.
    fn add(
        &mut self,
        span: Span,
        name: T,
        write: &mut impl FnMut(&Node<T>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.together.first().is_some_and(|(first, _)| first.start < span.start) {
            self.place();
            self.give(span.start, write)?;
        }
        self.together.push((span, name));
        Ok(())
    }

    /// Passes all that are left on.
    fn end(mut self, write: &mut impl FnMut(&Node<T>) -> Result<(), Error>) -> Result<(), Error> {
        self.place();
        while let Some(node) = self.nodes.front() {
            let start = node.span.start;
            self.give_group(start, write)?;
        }
        Ok(())
    }

    /// Finds the parents of the ranges that start together.
    fn place(&mut self) {
        let mut together = std::mem::take(&mut self.together);
        together.sort_by_key(|(span, _)| (Reverse(span.end), span.id));
        for (span, name) in together.drain(..) {
            let open = self.open.entry(span.thread).or_default();
            let interval = Interval { start: span.start, end: span.end };
            let parent = open.tightest(interval).and_then(|parent| parent.checked_sub(self.first));
            let parent = parent.and_then(|parent| self.nodes.get_mut(usize::try_from(parent).ok()?));
            let path = Path { around: parent.as_ref().map(|parent| parent.path.clone()), id: span.id };
            let mut node = Node {
                span,
                name,
                parent: None,
                level: 0,
                path: Arc::new(path),
                children: 0,
                children_time: 0,
            };
            if let Some(parent) = parent {
                parent.children += 1;
                parent.children_time = parent.children_time.saturating_add(node.duration());
                node.parent = Some(parent.span.id);
                node.level = parent.level + 1;
            }
            open.enter(self.first + self.nodes.len() as u64, interval);
            self.nodes.push_back(node);
        }
        self.together = together;
    }

    /// Passes those on that ended before `now`, up to the first that did not.
    fn give(&mut self, now: i64, write: &mut impl FnMut(&Node<T>) -> Result<(), Error>) -> Result<(), Error> {
        while let Some(front) = self.nodes.front() {
            let start = front.span.start;
            // Of those that start together, the first is the one that ends last.
            if front.span.end >= now {
                break;
            }
            self.give_group(start, write)?;
        }
        Ok(())
    }

    /// Passes those on that start at `start`, the shortest first.
    fn give_group(
        &mut self,
        start: i64,
        write: &mut impl FnMut(&Node<T>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let count = self.nodes.iter().take_while(|node| node.span.start == start).count();
        self.first += count as u64;
        if count == 1 {
            return self.nodes.pop_front().map_or(Ok(()), |node| write(&node));
        }
        let mut group: Vec<Node<T>> = self.nodes.drain(..count).collect();
        group.sort_by_key(|node| (node.duration(), node.span.id));
        group.iter().try_for_each(write)
    }
}

/// `nvtx_pushpop_trace`.
///
/// Ranges are written as soon as nothing that follows can lie within them or before them, so that
/// of a trace whose rows are in the order of time only those are held that lie within the outermost
/// open range.
pub(super) fn trace(trace: &Trace, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut rows = trace.range_rows()?;
    for row in rows.by_ref() {
        row?;
    }
    let names = &rows.names;
    let open = || Ok(NvtxRows::open(trace)?.filter_map(move |row| Marked::of(&row, names)));
    let ranges = in_time(trace, &NVTX, open, |range: &Marked| range.span.start)?;
    let mut printed: FxHashMap<(Option<Name>, Name), Arc<str>> = FxHashMap::default();
    trace.writing(|| sink.columns(&COLUMNS))?;
    let mut tree = Growing::new();
    let mut scratch = Scratch::default();
    let mut write = |node: &Node<Arc<str>>| trace.writing(|| sink.row(&scratch.row(node)));
    for range in ranges {
        let Marked { span, domain, text } = range?;
        let domain = names.domain(span.thread.process(), domain);
        let name = printed.entry((domain, text));
        let name = name.or_insert_with(|| names.label(domain, text).to_string().into()).clone();
        tree.add(span, name, &mut write)?;
    }
    tree.end(&mut write)
}

/// A push/pop range, and what it is called.
struct Marked {
    span: Span,
    /// The number of its domain within the process.
    domain: DomainId,
    text: Name,
}

impl Marked {
    /// The push/pop range that a row is; `names` has seen all rows.
    fn of(row: &NvtxRow<'_>, names: &NvtxNames) -> Option<Marked> {
        if row.kind != NvtxKind::PushPop {
            return None;
        }
        let end = row.end().unwrap_or(names.last_push_pop);
        let thread = row.thread().unwrap_or(ThreadId(0));
        let span = Span { id: row.id().0, start: row.start, end, thread };
        Some(Marked { span, domain: row.domain(), text: names.text_of(row)? })
    }
}

/// Where the texts of a row are put together.
#[derive(Default)]
struct Scratch {
    ids: Vec<i64>,
    path: String,
    name: String,
}

impl Scratch {
    fn row(&mut self, node: &Node<Arc<str>>) -> [Value; 14] {
        node.path.write(&mut self.ids, &mut self.path);
        self.name.clear();
        for _ in 0..node.level {
            self.name.push_str("--");
        }
        self.name.push_str(&node.name);
        let Span { id, start, end, thread } = node.span;
        [
            start.into(),
            end.into(),
            node.duration().into(),
            node.children_time.into(),
            node.duration().saturating_sub(node.children_time).into(),
            node.name.clone().into(),
            thread.pid().into(),
            thread.tid().into(),
            (node.level as u64).into(),
            node.children.into(),
            id.into(),
            node.parent.into(),
            Value::text(&self.path),
            Value::text(&self.name),
        ]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hierarchy::Hierarchy;

    /// A path for each would take 29 GB, and a look at every open range 5 * 10^9 steps.
    #[test]
    fn a_hundred_thousand_ranges_within_each_other() {
        let mut rows = 0;
        let mut write = |node: &Node<()>| {
            rows += 1;
            assert_eq!((node.level, node.parent), (rows - 1, (rows > 1).then(|| node.span.id - 1)));
            Ok(())
        };
        let mut tree = Growing::new();
        for at in 0..100_000 {
            tree.add(Span { id: at, start: at, end: 200_000, thread: ThreadId(1) }, (), &mut write).unwrap();
        }
        tree.end(&mut write).unwrap();
        assert_eq!(rows, 100_000);
    }

    proptest! {
        /// The tree that grows in the order of time is the tree of all ranges.
        #[test]
        fn a_growing_tree_is_the_whole_tree(
            raw in prop::collection::vec((0_i64..40, -2_i64..20, 0_i64..3), 0..40)
        ) {
            let spans: Vec<Span> = (0..).zip(&raw).map(|(id, (start, length, thread))| Span {
                id, start: *start, end: start + length, thread: ThreadId(*thread),
            }).collect();
            let whole = Hierarchy::new(&spans);
            let counts = whole.sum_over_children(|_| 1);
            let times = whole.sum_over_children(|child| spans[child].end - spans[child].start);
            let mut expected: Vec<usize> = (0..spans.len()).collect();
            expected.sort_by_key(|at| (spans[*at].start, spans[*at].end - spans[*at].start, spans[*at].id));
            let expected: Vec<_> = expected.into_iter().map(|at| (
                spans[at].id,
                whole.parent(at).map(|parent| spans[parent].id),
                whole.level(at),
                u64::try_from(counts[at]).unwrap(),
                times[at],
                whole.path(&spans, at),
            )).collect();
            let mut in_time = spans.clone();
            in_time.sort_by_key(|span| span.start);
            let mut found = Vec::new();
            let mut write = |node: &Node<()>| {
                let Node { span, parent, level, children, children_time, path, .. } = node;
                let mut text = String::new();
                path.write(&mut Vec::new(), &mut text);
                found.push((span.id, *parent, *level, *children, *children_time, text));
                Ok(())
            };
            let mut tree = Growing::new();
            for span in in_time {
                tree.add(span, (), &mut write).unwrap();
            }
            tree.end(&mut write).unwrap();
            prop_assert_eq!(found, expected);
        }
    }
}
