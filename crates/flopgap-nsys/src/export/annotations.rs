//! NVTX ranges and marks, streamed.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Strings;
use crate::tables::{NVTX, need, want};
use crate::{Error, GlobalId, NvtxKind, Trace};

/// What an annotation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    PushPop,
    StartEnd,
    Mark,
}

/// A row of `NVTX_EVENTS`.
#[derive(Clone, Debug)]
pub(super) struct Annotation {
    pub(super) row: i64,
    pub(super) kind: Kind,
    pub(super) start: i64,
    /// None for a mark, and for a range that was open at the end of the recording.
    pub(super) end: Option<i64>,
    pub(super) thread: Option<GlobalId>,
    /// The thread that ended it, when that is another.
    pub(super) end_thread: Option<GlobalId>,
    /// None in the default domain.
    pub(super) domain: Option<Arc<str>>,
    pub(super) category: Option<i64>,
    pub(super) text: Arc<str>,
}

/// Calls `visit` with every range and mark, in the order of the file.
pub(super) fn annotations(
    trace: &Trace,
    strings: &mut Strings<'_>,
    mut visit: impl FnMut(Annotation),
) -> Result<(), Error> {
    let mut failure = None;
    let mut lookup = |id: Option<i64>, text: Option<&str>| match id {
        Some(id) => strings.get(id).unwrap_or_else(|error| {
            failure.get_or_insert(error);
            "".into()
        }),
        None => text.unwrap_or_default().into(),
    };
    // Domains may be created on a later row than the first range that uses them.
    let mut domains: FxHashMap<(GlobalId, i64), Arc<str>> = FxHashMap::default();
    let columns = [need("eventType"), want("text"), want("textId"), want("globalTid"), want("domainId")];
    trace.scan(&NVTX, &columns, |row| {
        if row.int(0).map(NvtxKind::of) == Some(NvtxKind::DomainCreate) {
            let process = GlobalId(row.int(3).unwrap_or_default()).process();
            let name = lookup(row.int(2), row.text(1));
            domains.entry((process, row.int(4).unwrap_or_default())).or_insert(name);
        }
        Some(())
    })?;
    let columns = [
        need("start"),
        want("end"),
        need("eventType"),
        want("text"),
        want("textId"),
        want("globalTid"),
        want("endGlobalTid"),
        want("domainId"),
        want("category"),
    ];
    trace.scan(&NVTX, &columns, |row| {
        let (start, kind) = (row.int(0)?, row.int(2)?);
        let kind = match NvtxKind::of(kind) {
            NvtxKind::PushPop => Kind::PushPop,
            NvtxKind::StartEnd => Kind::StartEnd,
            NvtxKind::Mark => Kind::Mark,
            _ => return Some(()),
        };
        let thread = row.int(5).map(GlobalId);
        let process = thread.unwrap_or(GlobalId(0)).process();
        visit(Annotation {
            row: row.id(),
            kind,
            start,
            end: row.int(1).filter(|_| kind != Kind::Mark),
            thread,
            end_thread: row.int(6).map(GlobalId),
            domain: domains.get(&(process, row.int(7).unwrap_or_default())).cloned(),
            category: row.int(8),
            text: lookup(row.int(4), row.text(3)),
        });
        Some(())
    })?;
    failure.map_or(Ok(()), Err)
}
