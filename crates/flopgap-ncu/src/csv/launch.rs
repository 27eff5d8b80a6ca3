//! The columns that identify a row's launch.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::model::{Dim3, Launch, NvtxKind, NvtxRange, Strings, Symbol};

use super::header::Columns;
use super::nvtx::{self, Lead};
use super::plain;
use super::record::Record;
use super::renamed;
use super::text::{Interner, lossy};

/// The key of a launch; absent columns are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) process_id: Option<u64>,
    pub(super) id: Option<u64>,
}

/// Reads the columns of a launch and keeps what repeats from launch to launch.
#[derive(Debug, Default)]
pub(super) struct Identity {
    pub(super) interner: Interner,
    /// The last NVTX cells and what they meant: ranges enclose many launches.
    nvtx_cells: [Vec<u8>; 3],
    nvtx: Vec<NvtxRange>,
}

impl Identity {
    /// The key of a row; `None` if the row's id is not a number, so it is no row.
    pub(super) fn key(columns: &Columns, record: &Record, bytes: &[u8]) -> Option<Key> {
        let number =
            |column: Option<usize>| column.and_then(|at| record.raw(bytes, at)).and_then(plain::read_id);
        let id = number(columns.id);
        if columns.id.is_some() && id.is_none() {
            return None;
        }
        Some(Key { process_id: number(columns.process_id), id })
    }

    /// Fills everything but the metrics.
    pub(super) fn fill(
        &mut self,
        columns: &Columns,
        record: &Record,
        bytes: &[u8],
        strings: &mut Strings,
        launch: &mut Launch,
    ) {
        let key = Self::key(columns, record, bytes);
        let number =
            |column: Option<usize>| column.and_then(|at| record.raw(bytes, at)).and_then(plain::read_id);
        let mut text = |column: Option<usize>| {
            let field = column.and_then(|at| record.get(bytes, at));
            field.map_or(Symbol::EMPTY, |field| self.interner.intern(strings, &field))
        };
        launch.process_name = text(columns.process_name);
        launch.host = text(columns.host);
        launch.id = key.and_then(|key| key.id);
        launch.process_id = key.and_then(|key| key.process_id);
        launch.device = number(columns.device);
        launch.context = number(columns.context);
        launch.stream = number(columns.stream);
        launch.invocations = number(columns.invocations).unwrap_or(1);
        launch.grid = columns.grid.and_then(|at| record.raw(bytes, at)).and_then(dimensions);
        launch.block = columns.block.and_then(|at| record.raw(bytes, at)).and_then(dimensions);
        launch.compute_capability =
            columns.cc.and_then(|at| record.raw(bytes, at)).and_then(compute_capability);
        self.fill_nvtx(columns, record, bytes, strings, launch);
        self.fill_name(columns, record, bytes, strings, launch);
    }

    /// The kernel's name, and the range that `--print-nvtx-rename kernel` puts before it where no
    /// column names it.
    fn fill_name(
        &mut self,
        columns: &Columns,
        record: &Record,
        bytes: &[u8],
        strings: &mut Strings,
        launch: &mut Launch,
    ) {
        let cell = columns.kernel.and_then(|at| record.get(bytes, at)).unwrap_or_default();
        if memchr::memchr(b'/', &cell).is_none() {
            launch.name = self.interner.intern(strings, &cell);
            return;
        }
        let cell = lossy(&cell);
        let pushed = launch.nvtx.iter().filter(|range| range.kind == NvtxKind::PushPop);
        let (range, kernel) = match renamed::split(&cell, pushed.map(|range| strings.get(range.name))) {
            Some((range, kernel)) => (Some(range), kernel),
            None => (None, &*cell),
        };
        launch.name = self.interner.intern(strings, kernel.as_bytes());
        if let (Some(range), true) = (range, launch.nvtx.is_empty()) {
            let name = strings.intern(range);
            let domain = Symbol::EMPTY;
            launch.nvtx.push(NvtxRange { kind: NvtxKind::PushPop, domain, name, thread: None });
        }
    }

    fn fill_nvtx(
        &mut self,
        columns: &Columns,
        record: &Record,
        bytes: &[u8],
        strings: &mut Strings,
        launch: &mut Launch,
    ) {
        let cells = [columns.push_pop.or(columns.ranges), columns.start_end, columns.domain]
            .map(|column| column.and_then(|at| record.raw(bytes, at)).unwrap_or(b""));
        if cells[0].is_empty() && cells[1].is_empty() {
            return;
        }
        if self.nvtx_cells.each_ref().map(Vec::as_slice) != cells {
            self.parse_nvtx(columns, record, bytes, strings);
            for (kept, cell) in self.nvtx_cells.iter_mut().zip(cells) {
                kept.clear();
                kept.extend_from_slice(cell);
            }
        }
        launch.nvtx.extend_from_slice(&self.nvtx);
    }

    fn parse_nvtx(&mut self, columns: &Columns, record: &Record, bytes: &[u8], strings: &mut Strings) {
        self.nvtx.clear();
        let domain = columns.domain.and_then(|at| record.get(bytes, at)).unwrap_or_default();
        let domain =
            if &*domain == b"<default domain>" { Symbol::EMPTY } else { strings.intern(&lossy(&domain)) };
        let cells = [
            (columns.push_pop, Lead::Domain, NvtxKind::PushPop),
            (columns.ranges, Lead::Nothing, NvtxKind::PushPop),
            (columns.start_end, Lead::IdAndDomain, NvtxKind::StartEnd),
        ];
        for (column, lead, kind) in cells {
            let Some(cell) = column.and_then(|at| record.get(bytes, at)) else { continue };
            let cell = lossy(&cell);
            nvtx::items(&cell, lead, |item| {
                let mut text = |range| strings.intern(cell.get::<Range<usize>>(range).unwrap_or_default());
                self.nvtx.push(NvtxRange {
                    kind,
                    domain: if lead == Lead::Nothing { domain } else { text(item.domain) },
                    name: text(item.name),
                    thread: item.thread,
                });
            });
        }
    }
}

/// `(256, 1, 1)`.
fn dimensions(cell: &[u8]) -> Option<Dim3> {
    let mut sizes = [1; 3];
    let mut count = 0;
    for part in cell.split(|byte| !byte.is_ascii_digit()).filter(|part| !part.is_empty()) {
        *sizes.get_mut(count)? = plain::read_id(part)?;
        count += 1;
    }
    (count > 0).then_some(sizes)
}

/// `9.0`.
fn compute_capability(cell: &[u8]) -> Option<(u32, u32)> {
    let text = std::str::from_utf8(cell).ok()?;
    let (major, minor) = text.split_once(['.', ','])?;
    Some((major.trim().parse().ok()?, minor.trim().parse().ok()?))
}

/// Which launches of a segment have been seen, 64 ids a word: ids are dense in every file that ncu
/// writes.
#[derive(Debug, Default)]
pub(super) struct Seen {
    words: FxHashMap<(Option<u64>, u64), u64>,
}

impl Seen {
    /// Adds a launch; `false` if it was there.
    pub(super) fn insert(&mut self, key: Key) -> bool {
        let Some(id) = key.id else { return true };
        let word = self.words.entry((key.process_id, id / 64)).or_default();
        let bit = 1 << (id % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
    }
}
