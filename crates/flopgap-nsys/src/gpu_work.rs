//! What ran on the GPUs: kernels, copies, memsets, and whole graphs.

use std::sync::Arc;

use flopgap_trace::Kinds;
use rustc_hash::FxHashMap;

pub(crate) use flopgap_trace::{Work, WorkKind as Kind};

pub(crate) use crate::tables::gpu::Backward;
use crate::tables::gpu::{IdentifiedWork, KERNEL, NamedWork, all_work, identified_work, named_work};
use crate::trace::Tally;
use crate::warning::Oddity;
use crate::{Error, GraphId, KernelName, Name, Names, StringId, Trace};

impl Trace {
    /// Calls `visit` with every kernel, copy and memset, and on request with every graph that was
    /// traced as a whole.
    ///
    /// # Errors
    /// [`Error::NoTable`] when there is none of all of them.
    pub(crate) fn gpu_work(
        &self,
        whole_graphs: bool,
        backward: Backward,
        mut visit: impl FnMut(Work),
    ) -> Result<(), Error> {
        for rows in recorded(Kind::all(whole_graphs), |kind| all_work(self, kind, backward))? {
            for work in rows {
                visit(work?);
            }
        }
        Ok(())
    }

    /// Whether there is a kernel, copy or memset.
    ///
    /// # Errors
    /// [`Error::NoTable`] when none of them has a table.
    pub(crate) fn has_gpu_work(&self) -> Result<bool, Error> {
        for mut rows in recorded(Kind::all(false), |kind| all_work(self, kind, Backward::LeftOut))? {
            if rows.next().transpose()?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// [`Trace::gpu_work`] without what ends before it starts, each piece with its place among the
    /// kinds that are returned. Kernels differ by the ids of their demangled names, graphs by their
    /// own, copies and memsets by their bytes.
    pub(crate) fn identified_work(
        &self,
        whole_graphs: bool,
        mut visit: impl FnMut(Work, u32),
    ) -> Result<Kinds, Error> {
        let mut kinds = Kinds::default();
        let mut unnamed = Tally::default();
        for rows in recorded(Kind::all(whole_graphs), |kind| identified_work(self, kind))? {
            for work in rows {
                let IdentifiedWork { work, id, row } = work?;
                if id.is_none() && work.kind == Kind::Kernel {
                    unnamed.add(row);
                }
                visit(work, kinds.place(work.kind, id));
            }
        }
        if let Ok(table) = self.require(&KERNEL) {
            self.warn(table, &unnamed, Oddity::Unusable);
        }
        Ok(kinds)
    }

    /// Calls `visit` with every kernel and the number of its name among those that are returned.
    /// Names of one text have one number. On request a graph that was traced as a whole is a kernel
    /// called `[CUDA graph N]`, N being its id.
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
        let kinds = &[Kind::Kernel, Kind::Graph][..=usize::from(whole_graphs)];
        for rows in recorded(kinds, |kind| named_work(self, kind, names, backward))? {
            // Kernels of one name often follow each other.
            let mut last = None;
            for work in rows {
                let NamedWork { work, name: id } = work?;
                let recent = last.filter(|(same, _)| *same == id).map(|(_, name)| name);
                let name = if let Some(name) = recent.or_else(|| known.get(&(work.kind, id)).copied()) {
                    name
                } else {
                    let text = match work.kind {
                        Kind::Graph => graph_name(GraphId(id)),
                        _ => self.string_or_id(StringId(id))?,
                    };
                    *known.entry((work.kind, id)).or_insert_with(|| texts.intern(&text))
                };
                last = Some((id, name));
                visit(work, name);
            }
        }
        Ok(texts)
    }
}

/// What a graph that was traced as a whole is called as a kernel.
pub(crate) fn graph_name(id: GraphId) -> Arc<str> {
    format!("[CUDA graph {id}]").into()
}

/// The rows of those kinds of work that were recorded.
///
/// # Errors
/// [`Error::NoTable`] of the first kind when none was.
pub(crate) fn recorded<R>(
    kinds: &[Kind],
    mut open: impl FnMut(Kind) -> Result<R, Error>,
) -> Result<Vec<R>, Error> {
    let (mut found, mut absence) = (Vec::new(), None);
    for kind in kinds {
        match open(*kind) {
            Ok(rows) => found.push(rows),
            Err(error) if error.is_no_table() => absence = absence.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    match absence {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}
