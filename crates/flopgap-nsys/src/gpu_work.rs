//! What ran on the GPUs: kernels, copies, sets, and whole graphs.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::launched::Kinds;
use crate::row::Row;
use crate::tables::{Column, GRAPH, KERNEL, MEMCPY, MEMSET, TableSpec, need, want};
use crate::{Error, GlobalId, KernelName, Name, Names, Trace};

/// What a piece of GPU work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Kernel,
    Copy,
    Set,
    Graph,
}

/// A piece of GPU work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) kind: Kind,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) device: i64,
    pub(crate) process: Option<GlobalId>,
    pub(crate) correlation: Option<i64>,
}

/// What is done with work that ends before it starts. [`Trace::warnings`] counts such rows either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backward {
    /// It counts with a negative duration, as in the reports of nsys.
    AsNsys,
    /// It is left out: a time below zero would be subtracted from sums without a word.
    LeftOut,
}

impl Backward {
    #[inline]
    fn keeps(self, start: i64, end: i64) -> bool {
        self == Backward::AsNsys || start <= end
    }
}

impl Work {
    /// The columns that [`Work::of`] reads; others follow them.
    const COLUMNS: [Column; 5] =
        [need("start"), need("end"), need("deviceId"), want("correlationId"), want("globalPid")];

    /// The work of a row that begins with [`Work::COLUMNS`]; nothing when the row lacks a number, or is left out because it ends
    /// before it starts.
    #[inline]
    fn of(row: &Row<'_>, kind: Kind, backward: Backward) -> Option<Work> {
        let (start, end) = (row.int(0)?, row.int(1)?);
        let (device, correlation, process) = (row.int(2)?, row.int(3), row.int(4).map(GlobalId));
        backward.keeps(start, end).then_some(Work { kind, start, end, device, process, correlation })
    }

    pub(crate) fn duration(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// The tables of GPU work; whole graphs on request.
pub(crate) fn tables(whole_graphs: bool) -> &'static [(Kind, TableSpec)] {
    static ALL: [(Kind, TableSpec); 4] =
        [(Kind::Kernel, KERNEL), (Kind::Copy, MEMCPY), (Kind::Set, MEMSET), (Kind::Graph, GRAPH)];
    if whole_graphs { &ALL } else { &ALL[..3] }
}

impl Trace {
    /// Calls `visit` with every kernel, copy and set, and on request with every graph that was traced as a whole.
    ///
    /// # Errors
    /// [`Error::NoTable`] when there is none of all of them.
    pub(crate) fn gpu_work(
        &self,
        whole_graphs: bool,
        backward: Backward,
        mut visit: impl FnMut(Work),
    ) -> Result<(), Error> {
        any_of(tables(whole_graphs), |kind, table| {
            self.scan(table, &Work::COLUMNS, |row| {
                visit(Work::of(row, kind, backward)?);
                Some(())
            })
        })
    }

    /// [`Trace::gpu_work`] without what ends before it starts, each piece with its place among the kinds that are returned. Kernels
    /// differ by the ids of their demangled names, graphs by their own, copies and sets by their bytes.
    pub(crate) fn identified_work(
        &self,
        whole_graphs: bool,
        mut visit: impl FnMut(Work, u32),
    ) -> Result<Kinds, Error> {
        let mut kinds = Kinds::default();
        any_of(tables(whole_graphs), |kind, table| {
            let id = match kind {
                Kind::Kernel => Some(want("demangledName")),
                Kind::Graph => Some(need("graphId")),
                Kind::Copy | Kind::Set => Some(want("bytes")),
            };
            let columns: Vec<Column> = Work::COLUMNS.into_iter().chain(id).collect();
            self.scan(table, &columns, |row| {
                let work = Work::of(row, kind, Backward::LeftOut)?;
                let id = id.and_then(|_| row.int(5));
                if id.is_none() && kind == Kind::Kernel {
                    kinds.unnamed.add(row.id());
                }
                visit(work, kinds.place(kind, id));
                Some(())
            })
        })?;
        Ok(kinds)
    }

    /// Calls `visit` with every kernel and the number of its name among those that are returned. Names of one text have one
    /// number. On request a graph that was traced as a whole is a kernel called `[CUDA graph N]`, N being its id.
    ///
    /// # Errors
    /// [`Error::NoTable`] when there are none.
    pub(crate) fn named_kernels(
        &self,
        names: KernelName,
        whole_graphs: bool,
        backward: Backward,
        mut visit: impl FnMut(Work, Name),
    ) -> Result<Names, Error> {
        let mut texts = Names::default();
        let mut known: FxHashMap<(Kind, i64), Name> = FxHashMap::default();
        let mut failure = None;
        let tables = [(Kind::Kernel, KERNEL), (Kind::Graph, GRAPH)];
        any_of(&tables[..=usize::from(whole_graphs)], |kind, table| {
            let [first, second] =
                if kind == Kind::Graph { [need("graphId"), want("graphId")] } else { names.columns() };
            let columns: Vec<Column> = Work::COLUMNS.into_iter().chain([first, second]).collect();
            // Kernels of one name often follow each other.
            let mut last = None;
            self.scan(table, &columns, |row| {
                let work = Work::of(row, kind, backward)?;
                let id = row.int(5).or_else(|| row.int(6))?;
                let recent = last.filter(|(same, _)| *same == id).map(|(_, name)| name);
                let name = if let Some(name) = recent.or_else(|| known.get(&(kind, id)).copied()) {
                    name
                } else {
                    let text = match kind {
                        Kind::Graph => Ok(graph_name(id)),
                        _ => self.string_or_id(id),
                    };
                    match text {
                        Ok(text) => *known.entry((kind, id)).or_insert_with(|| texts.intern(&text)),
                        Err(error) => {
                            failure.get_or_insert(error);
                            return Some(());
                        }
                    }
                };
                last = Some((id, name));
                visit(work, name);
                Some(())
            })
        })?;
        failure.map_or(Ok(texts), Err)
    }
}

/// What a graph that was traced as a whole is called as a kernel.
pub(crate) fn graph_name(id: i64) -> Arc<str> {
    format!("[CUDA graph {id}]").into()
}

/// Reads several tables of which one suffices.
///
/// # Errors
/// [`Error::NoTable`] of the first when all are absent.
fn any_of<K: Copy>(
    tables: &[(K, TableSpec)],
    mut read: impl FnMut(K, &TableSpec) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut found = false;
    let mut absence = None;
    for (kind, table) in tables {
        match read(*kind, table) {
            Ok(()) => found = true,
            Err(error) if error.is_no_table() => absence = absence.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    match absence {
        Some(error) if !found => Err(error),
        _ => Ok(()),
    }
}
