//! Every push/pop range with its place in the tree.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::table::{Column, Sink, Unit, Value};
use crate::hierarchy::Span;
use crate::in_time::in_time;
use crate::tables::NVTX;
use crate::trace::{need, want};
use crate::{Error, GlobalId, RangeStyle, Trace};

static COLUMNS: [Column; 14] = [
    Column::new("Start", Unit::Time),
    Column::new("End", Unit::Time),
    Column::new("Duration", Unit::Time),
    Column::new("DurChild", Unit::Time),
    Column::new("DurNonChild", Unit::Time),
    Column::new("Name", Unit::Plain),
    Column::new("PID", Unit::Plain),
    Column::new("TID", Unit::Plain),
    Column::new("Lvl", Unit::Plain),
    Column::new("NumChild", Unit::Plain),
    Column::new("RangeId", Unit::Plain),
    Column::new("ParentId", Unit::Plain),
    Column::new("RangeStack", Unit::Plain),
    Column::new("NameTree", Unit::Plain),
];

/// A range of which more may still lie within it.
#[derive(Debug)]
struct Node<T> {
    span: Span,
    name: T,
    parent: Option<i64>,
    level: usize,
    /// The ids from the outermost range to this one, as nsys writes them: `:1:2:3`.
    path: Arc<str>,
    children: u64,
    /// The sum of their durations.
    children_time: i64,
}

impl<T> Node<T> {
    fn duration(&self) -> i64 {
        self.span.end.saturating_sub(self.span.start)
    }
}

/// The tree of ranges that come in the order of their starts; a range leaves it when nothing that comes can lie within it.
///
/// Each lies in the tightest range of its thread that contains it, ends included; of equal ones the one recorded first is the
/// outer one.
struct Growing<T> {
    /// In the order of their starts.
    nodes: VecDeque<Node<T>>,
    /// The number of the first node: nodes are numbered as they come.
    first: u64,
    open: FxHashMap<GlobalId, Vec<Open>>,
    /// Ranges that start together.
    together: Vec<(Span, T)>,
    path: String,
}

struct Open {
    node: u64,
    start: i64,
    end: i64,
}

impl<T> Growing<T> {
    fn new() -> Growing<T> {
        Growing {
            nodes: VecDeque::new(),
            first: 0,
            open: FxHashMap::default(),
            together: Vec::new(),
            path: String::new(),
        }
    }

    /// Adds a range that starts no earlier than those before, and passes those on that are complete.
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
            open.retain(|other| other.end >= span.start);
            let containing = open.iter().rev().filter(|other| other.end >= span.end);
            // The first of equals: the last opened is the tightest.
            let parent = containing.min_by_key(|other| other.end.saturating_sub(other.start));
            let parent = parent.and_then(|parent| usize::try_from(parent.node.checked_sub(self.first)?).ok());
            let parent = parent.and_then(|parent| self.nodes.get_mut(parent));
            self.path.clear();
            let mut level = 0;
            if let Some(parent) = &parent {
                self.path.push_str(&parent.path);
                level = parent.level + 1;
            }
            // Writing to memory does not fail.
            let _ = write!(self.path, ":{}", span.id);
            let mut node = Node {
                span,
                name,
                parent: None,
                level,
                path: self.path.as_str().into(),
                children: 0,
                children_time: 0,
            };
            if let Some(parent) = parent {
                parent.children += 1;
                parent.children_time = parent.children_time.saturating_add(node.duration());
                node.parent = Some(parent.span.id);
            }
            if span.end >= span.start {
                let number = self.first + self.nodes.len() as u64;
                open.push(Open { node: number, start: span.start, end: span.end });
            }
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
/// Ranges are written as soon as nothing that follows can lie within them or before them, so that of a trace whose rows are in the
/// order of time only those are held that lie within the outermost open range.
pub(super) fn trace(trace: &Trace, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut names = trace.nvtx_rows(|_, _| {})?;
    let last = names.last_push_pop;
    let columns = [
        need("start"),
        want("end"),
        need("eventType"),
        want("text"),
        want("textId"),
        want("globalTid"),
        want("domainId"),
    ];
    let mut ranges = in_time(trace, &NVTX, &columns, |row| {
        let (start, end, kind) = (row.int(0)?, row.int(1), row.int(2)?);
        if RangeStyle::of_event(kind) != Some(RangeStyle::PushPop) {
            return Some(None);
        }
        let thread = GlobalId(row.int(5).unwrap_or_default());
        let text = names.known(row.int(4), row.text(3));
        let name = names.full(thread.process(), row.int(6).unwrap_or_default(), text);
        let span = Span { id: row.id(), start, end: end.unwrap_or(last), thread };
        Some(Some((span, names.names.text(name).clone())))
    })?;
    trace.writing(|| sink.columns(&COLUMNS))?;
    let mut tree = Growing::new();
    let mut text = String::new();
    let mut write = |node: &Node<Arc<str>>| trace.writing(|| sink.row(&row(node, &mut text)));
    while ranges.start().is_some() {
        if let Some(Some((span, name))) = ranges.take()? {
            tree.add(span, name, &mut write)?;
        }
    }
    tree.end(&mut write)
}

fn row(node: &Node<Arc<str>>, text: &mut String) -> [Value; 14] {
    text.clear();
    for _ in 0..node.level {
        text.push_str("--");
    }
    text.push_str(&node.name);
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
        node.path.clone().into(),
        Value::Text(text.as_str().into()),
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hierarchy::Hierarchy;

    proptest! {
        /// The tree that grows in the order of time is the tree of all ranges.
        #[test]
        fn a_growing_tree_is_the_whole_tree(
            raw in prop::collection::vec((0_i64..40, -2_i64..20, 0_i64..3), 0..40)
        ) {
            let spans: Vec<Span> = (0..).zip(&raw).map(|(id, (start, length, thread))| Span {
                id, start: *start, end: start + length, thread: GlobalId(*thread),
            }).collect();
            let whole = Hierarchy::of(&spans);
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
                found.push((span.id, *parent, *level, *children, *children_time, path.to_string()));
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
