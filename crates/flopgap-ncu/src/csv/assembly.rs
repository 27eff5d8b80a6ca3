//! Assembles rows into launches: the launch under construction, the launches held back until the
//! number format is known, and warnings.

use std::collections::VecDeque;
use std::path::PathBuf;

use crate::error::Error;
use crate::model::{Launch, Layout, Metric, Symbol, Value};
use crate::source::Context;
use crate::warning::WarningKind;

use super::cell::{Cell, Decimal};
use super::header::Columns;
use super::launch::{Identity, Key, Seen};
use super::noise::Noise;
use super::pending::{MAX_WAITING, Numbers, Place, Slot};
use super::record::Record;

/// Properties of a metric that precede its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct MetricKind {
    pub(super) section: Symbol,
    pub(super) name: Symbol,
    pub(super) unit: Symbol,
    /// See [`super::kind::is_whole`].
    pub(super) whole: bool,
}

/// Launches under construction.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) path: PathBuf,
    pub(super) identity: Identity,
    pub(super) numbers: Numbers,
    pub(super) noise: Noise,
    pub(super) segment: u32,
    layout: Layout,
    seen: Seen,
    open: Launch,
    open_key: Option<Key>,
    /// The key of the launch that was closed last.
    closed_key: Option<Key>,
    /// The number of launches before the open one.
    sequence: u64,
    queue: VecDeque<Launch>,
    queued: usize,
    spare: Vec<Launch>,
    pub(super) has_launch: bool,
}

impl Assembly {
    pub(super) fn new(path: PathBuf, decimal: Option<Decimal>) -> Self {
        Assembly {
            path,
            identity: Identity::default(),
            numbers: Numbers::chosen(decimal),
            noise: Noise::default(),
            segment: 0,
            layout: Layout::Long,
            seen: Seen::default(),
            open: Launch::default(),
            open_key: None,
            closed_key: None,
            sequence: 0,
            queue: VecDeque::new(),
            queued: 0,
            spare: Vec::new(),
            has_launch: false,
        }
    }

    /// The key of the launch under construction.
    pub(super) fn open_key(&self) -> Option<Key> {
        self.open_key
    }

    /// The launch under construction.
    pub(super) fn open(&self) -> &Launch {
        &self.open
    }

    /// Whether a row with the open launch's id is of that launch: reports of one process that were
    /// put together without their headers give one id to two kernels.
    pub(super) fn is_of_open(
        &mut self,
        columns: &Columns,
        record: &Record,
        bytes: &[u8],
        context: &mut Context,
    ) -> bool {
        let mut row = Launch::default();
        self.identity.fill(columns, record, bytes, &mut context.strings, &mut row);
        row.is_same_kernel(&self.open)
    }

    /// Adds a whole number to the open launch.
    #[inline]
    pub(super) fn push_whole(&mut self, kind: MetricKind, value: u64) {
        let MetricKind { section, name, unit, .. } = kind;
        self.open.metrics.push(Metric { name, section, unit, value: Value::U64(value), spread: None });
    }

    /// Begins the launch of the row in `record`.
    pub(super) fn begin(
        &mut self,
        columns: &Columns,
        record: &Record,
        bytes: &[u8],
        key: Key,
        line: u64,
        context: &mut Context,
    ) {
        self.identity.fill(columns, record, bytes, &mut context.strings, &mut self.open);
        self.began(key, line, context);
    }

    /// Begins a launch that differs from a known one by its id.
    #[inline]
    pub(super) fn begin_known(&mut self, known: &Launch, id: u64, line: u64, context: &mut Context) {
        let mut nvtx = std::mem::take(&mut self.open.nvtx);
        nvtx.extend_from_slice(&known.nvtx);
        let metrics = std::mem::take(&mut self.open.metrics);
        self.open = Launch {
            id: Some(id),
            nvtx,
            nvtx_of_others: Vec::new(),
            metrics,
            opcodes: Vec::new(),
            modified_opcodes: Vec::new(),
            ..*known
        };
        self.began(Key { process_id: known.process_id, id: Some(id) }, line, context);
    }

    fn began(&mut self, key: Key, line: u64, context: &mut Context) {
        self.open.segment = self.segment;
        self.open.layout = self.layout;
        self.open.position = line;
        self.open_key = Some(key);
        self.has_launch = true;
        let is_shared = self.closed_key.take() == Some(key) && key.id.is_some();
        if !self.seen.insert(key) {
            let (id, process) = (key.id.unwrap_or_default(), key.process_id);
            let repeated = WarningKind::LaunchRepeated { id, process };
            let kind = if is_shared { WarningKind::IdShared { id, process } } else { repeated };
            self.noise.warn(context, line, kind);
        }
    }

    /// Reads the cells of one metric into the open launch: its value and, in a summary, minimum and
    /// maximum.
    #[inline]
    pub(super) fn push(
        &mut self,
        kind: MetricKind,
        value: &[u8],
        spread: Option<(&[u8], &[u8])>,
        line: u64,
        context: &mut Context,
    ) -> Result<(), Error> {
        let MetricKind { section, name, unit, whole } = kind;
        let common =
            self.numbers.decimal().and_then(|decimal| super::plain::read_common(value, decimal, whole));
        if let (Some(value), None) = (common, spread) {
            self.open.metrics.push(Metric { name, section, unit, value, spread: None });
            return Ok(());
        }
        self.push_uncommon(kind, value, spread, line, context)
    }

    fn push_uncommon(
        &mut self,
        kind: MetricKind,
        value: &[u8],
        spread: Option<(&[u8], &[u8])>,
        line: u64,
        context: &mut Context,
    ) -> Result<(), Error> {
        let place = Place { launch: self.sequence, metric: self.open.metrics.len(), slot: Slot::Value, line };
        let value = match self.numbers.read(value, kind.whole, place, &self.path)? {
            Cell::Number(number, _) => {
                if kind.whole && matches!(number, Value::F64(number) if number >= 2_f64.powi(64)) {
                    self.noise.warn(context, line, WarningKind::CountRounded);
                }
                number
            }
            Cell::Ambiguous => Value::U64(0),
            Cell::Absent => return Ok(()),
            Cell::Text => {
                let text = super::number::without_instances(value);
                Value::Text(self.identity.interner.intern(&mut context.strings, text))
            }
            Cell::Malformed | Cell::Contradicts => {
                let text = super::noise::excerpt(value);
                self.noise.warn(context, line, WarningKind::NotANumber { text });
                return Ok(());
            }
        };
        let spread = match spread {
            None => None,
            Some((minimum, maximum)) => {
                let low = self.read_float(minimum, kind.whole, Place { slot: Slot::Minimum, ..place })?;
                let high = self.read_float(maximum, kind.whole, Place { slot: Slot::Maximum, ..place })?;
                low.zip(high)
            }
        };
        let MetricKind { section, name, unit, .. } = kind;
        self.open.metrics.push(Metric { name, section, unit, value, spread });
        Ok(())
    }

    fn read_float(&mut self, text: &[u8], whole: bool, place: Place) -> Result<Option<f64>, Error> {
        Ok(match self.numbers.read(text, whole, place, &self.path)? {
            Cell::Number(value, _) => value.as_f64(),
            Cell::Ambiguous => Some(0.0),
            _ => None,
        })
    }

    /// Ends the open launch. `true`: it is in `launch`; otherwise there was none, or it is held
    /// back.
    pub(super) fn close(&mut self, launch: &mut Launch) -> bool {
        self.closed_key = self.open_key.take();
        if self.closed_key.is_none() {
            return false;
        }
        self.sequence += 1;
        let direct = self.queue.is_empty() && !self.numbers.waiting();
        if direct {
            std::mem::swap(&mut self.open, launch);
        } else {
            let spare = self.spare.pop().unwrap_or_default();
            self.queued += self.open.metrics.len() + 4;
            self.queue.push_back(std::mem::replace(&mut self.open, spare));
        }
        self.open.metrics.clear();
        self.open.nvtx.clear();
        direct
    }

    /// The next held-back launch, once all its values are decided. `at_end`: no further row will
    /// decide.
    pub(super) fn pop(&mut self, launch: &mut Launch, at_end: bool) -> Result<bool, Error> {
        if self.numbers.ready() {
            self.resolve()?;
        } else if self.numbers.waiting()
            && (at_end || self.queued > MAX_WAITING || self.open.metrics.len() > MAX_WAITING)
        {
            self.numbers.decide(&self.path)?;
            self.resolve()?;
        }
        if self.numbers.waiting() {
            return Ok(false);
        }
        let Some(mut next) = self.queue.pop_front() else { return Ok(false) };
        self.queued -= next.metrics.len() + 4;
        std::mem::swap(&mut next, launch);
        if self.queue.is_empty() {
            // Nothing more is held back in this file, so the memory is freed.
            self.spare = Vec::new();
            self.queue = VecDeque::new();
        } else if self.spare.len() < 16 {
            self.spare.push(next);
        }
        Ok(true)
    }

    /// A new header: ids start over, and the numbers may be printed differently.
    pub(super) fn next_table(&mut self, first: bool, layout: Layout) -> Result<(), Error> {
        self.layout = layout;
        if !first {
            self.segment += 1;
        }
        if self.numbers.waiting() {
            if !self.numbers.ready() {
                self.numbers.decide(&self.path)?;
            }
            self.resolve()?;
        }
        self.numbers.next_table();
        self.seen.clear();
        Ok(())
    }

    fn resolve(&mut self) -> Result<(), Error> {
        let front = self.sequence - self.queue.len() as u64;
        self.numbers.resolve(&mut self.queue, front, &mut self.open, &self.path)
    }
}
