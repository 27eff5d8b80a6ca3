//! The data of a report: launches, their metrics, and the interned strings that both refer to.

use std::fmt;
use std::ops::Deref;

use rustc_hash::FxHashMap;

/// An interned string of one report: compare and hash it instead of the text, resolve it with
/// [`Strings::get`].
///
/// A symbol only has a meaning together with the [`Strings`] that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(u32);

impl Symbol {
    /// The empty string, the same symbol in every [`Strings`].
    pub const EMPTY: Symbol = Symbol(0);

    /// The position of the string in its table, for callers that keep data in arrays next to it.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The strings of one report, each kept once.
///
/// ncu repeats a kernel's demangled name (often more than 2 kB) in every row of it; here a launch
/// holds four bytes.
#[derive(Debug, Clone)]
pub struct Strings {
    texts: Vec<Box<str>>,
    ids: FxHashMap<Box<str>, Symbol>,
}

impl Default for Strings {
    fn default() -> Self {
        let mut strings = Strings { texts: Vec::new(), ids: FxHashMap::default() };
        strings.intern("");
        strings
    }
}

impl Strings {
    /// The symbol of `text`, which is added when it is new.
    ///
    /// # Panics
    /// When more than 2³² different strings are added.
    pub fn intern(&mut self, text: &str) -> Symbol {
        if let Some(&symbol) = self.ids.get(text) {
            return symbol;
        }
        let symbol = Symbol(u32::try_from(self.texts.len()).expect("fewer than 2^32 different strings"));
        self.texts.push(text.into());
        self.ids.insert(text.into(), symbol);
        symbol
    }

    /// The text of a symbol that this table made.
    ///
    /// # Panics
    /// When the symbol belongs to another, larger table.
    pub fn get(&self, symbol: Symbol) -> &str {
        &self.texts[symbol.index()]
    }

    /// The symbol of `text` if it occurs in the report.
    pub fn find(&self, text: &str) -> Option<Symbol> {
        self.ids.get(text).copied()
    }

    /// All strings in the order of their symbols' [`Symbol::index`], the empty one first.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(AsRef::as_ref)
    }

    /// How many different strings there are, the empty one included.
    #[allow(clippy::len_without_is_empty)] // never empty: "" is always there
    pub fn len(&self) -> usize {
        self.texts.len()
    }
}

/// A metric's value as it stands in the report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A whole number: every hardware counter that was printed in full.
    U64(u64),
    /// A number with decimals, or one that was scaled (`10.53 Mbyte`).
    F64(f64),
    /// Text, such as a device name or a cache policy.
    Text(Symbol),
}

impl Value {
    /// The value as a float; `None` for text.
    pub fn as_f64(self) -> Option<f64> {
        match self {
            Value::U64(count) => Some(count as f64),
            Value::F64(value) => Some(value),
            Value::Text(_) => None,
        }
    }
}

/// One metric of one launch. A metric that ncu could not measure (`n/a`, nan, an empty cell) is not
/// in the list at all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// The name as printed: `smsp__sass_thread_inst_executed_op_ffma_pred_on.sum`, or a label such
    /// as `Duration`. Of both, as `--print-metric-name label-name` prints them, the name.
    pub name: Symbol,
    /// The section of the details page that printed it, empty elsewhere.
    pub section: Symbol,
    /// The unit as printed (`inst`, `Mbyte`, `%`), possibly empty.
    pub unit: Symbol,
    /// The value; in a summary row the average over the row's invocations.
    pub value: Value,
    /// Smallest and largest value over the invocations, in a `--print-summary` row.
    pub spread: Option<(f64, f64)>,
}

/// The metric whose instances are [`Launch::opcodes`].
pub(crate) const OPCODES: &str = "sass__inst_executed_per_opcode";

/// The metric whose instances are [`Launch::modified_opcodes`].
pub(crate) const MODIFIED_OPCODES: &str = "sass__thread_inst_executed_true_per_opcode_with_modifier_all";

/// How often a launch executed instructions of one opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opcode {
    /// The opcode: `FFMA`, `HMMA`.
    pub name: Symbol,
    /// The number of instructions.
    pub count: u64,
}

/// The kind of an NVTX range around a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NvtxKind {
    /// Opened and closed on one thread, nested.
    PushPop,
    /// Opened and closed anywhere in the process.
    StartEnd,
}

/// One NVTX range that was open when the kernel was launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct NvtxRange {
    /// Push/pop or start/end.
    pub kind: NvtxKind,
    /// The domain's name; empty for the default domain.
    pub domain: Symbol,
    /// The range's name.
    pub name: Symbol,
    /// The thread that pushed it, where the report has it.
    pub thread: Option<u64>,
}

/// Three launch dimensions, x first.
pub type Dim3 = [u64; 3];

/// One kernel launch of a report, or one row of a `--print-summary` page, which stands for several
/// launches alike.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Launch {
    /// The kind of page that it stands on.
    pub layout: Layout,
    /// Which header (CSV) or block sequence (`.ncu-rep`) of the file it came under; a file of
    /// concatenated runs has several.
    pub segment: u32,
    /// ncu's launch id; absent in a summary.
    pub id: Option<u64>,
    /// The process that launched it.
    pub process_id: Option<u64>,
    /// That process's executable.
    pub process_name: Symbol,
    /// The host it ran on.
    pub host: Symbol,
    /// The CUDA device index.
    pub device: Option<u64>,
    /// The device's compute capability, major and minor.
    pub compute_capability: Option<(u32, u32)>,
    /// The CUDA context id.
    pub context: Option<u64>,
    /// The CUDA stream id.
    pub stream: Option<u64>,
    /// Blocks in the grid.
    pub grid: Option<Dim3>,
    /// Threads in a block.
    pub block: Option<Dim3>,
    /// The kernel's name exactly as the report has it (demangled unless ncu was asked otherwise),
    /// without the range that `--print-nvtx-rename kernel` puts before it: that is among `nvtx`.
    pub name: Symbol,
    /// The ranges open at launch: push/pop ranges outermost first, then start/end ranges.
    pub nvtx: Vec<NvtxRange>,
    /// The push/pop ranges that were open on other threads of the process, thread by thread. Only
    /// an `.ncu-rep` has them: a CSV lists those of the launching thread alone. Empty where `nvtx`
    /// has them already (`--nvtx-push-pop-scope process`).
    pub nvtx_of_others: Vec<NvtxRange>,
    /// How many launches this stands for: 1, or a summary row's `Invocations`.
    pub invocations: u64,
    /// The metrics, in the report's order.
    pub metrics: Vec<Metric>,
    /// All instructions by their opcode (`sass__inst_executed_per_opcode` of the section
    /// `InstructionStats`), where the report lists them; empty elsewhere. An instruction of a warp
    /// counts once.
    pub opcodes: Vec<Opcode>,
    /// All instructions by their opcode with its modifiers, such as `HMMA.16816.F32.BF16`
    /// (`sass__thread_inst_executed_true_per_opcode_with_modifier_all`, from ncu 2023.3 on), where
    /// the report lists them; empty elsewhere. An instruction counts once for each thread for which
    /// its predicate was true.
    pub modified_opcodes: Vec<Opcode>,
    /// Where it begins: the line of the file (CSV, from 1) or the result's index (`.ncu-rep`, from
    /// 0).
    pub position: u64,
}

impl Default for Launch {
    fn default() -> Self {
        Launch {
            layout: Layout::Long,
            segment: 0,
            id: None,
            process_id: None,
            process_name: Symbol::EMPTY,
            host: Symbol::EMPTY,
            device: None,
            compute_capability: None,
            context: None,
            stream: None,
            grid: None,
            block: None,
            name: Symbol::EMPTY,
            nvtx: Vec::new(),
            nvtx_of_others: Vec::new(),
            invocations: 1,
            metrics: Vec::new(),
            opcodes: Vec::new(),
            modified_opcodes: Vec::new(),
            position: 0,
        }
    }
}

impl Launch {
    /// The first metric with this name.
    pub fn metric(&self, name: Symbol) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// Whether two launches of one report are of the same kernel with the same shape on the same
    /// stream: parts of one launch are.
    pub fn is_same_kernel(&self, other: &Launch) -> bool {
        let identity = |launch: &Launch| {
            let Launch { name, grid, block, device, context, stream, .. } = *launch;
            (name, grid, block, device, context, stream)
        };
        identity(self) == identity(other)
    }
}

/// A launch together with the strings that its symbols point into; dereferences to the [`Launch`].
#[derive(Debug, Clone, Copy)]
pub struct LaunchView<'a> {
    /// The launch.
    pub launch: &'a Launch,
    /// The report's strings so far.
    pub strings: &'a Strings,
}

impl<'a> LaunchView<'a> {
    /// The kernel's name as the report has it.
    pub fn kernel_name(&self) -> &'a str {
        self.strings.get(self.launch.name)
    }

    /// The first metric with this name.
    pub fn metric_named(&self, name: &str) -> Option<&'a Metric> {
        self.launch.metric(self.strings.find(name)?)
    }
}

impl Deref for LaunchView<'_> {
    type Target = Launch;

    fn deref(&self) -> &Launch {
        self.launch
    }
}

/// The kind of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// CSV with one metric a row: `ncu --csv`, the details page.
    Long,
    /// CSV with one launch a row: `--page raw`.
    Wide,
    /// CSV with minimum, maximum and average over the launches of one kernel and shape:
    /// `--print-summary per-kernel` or `per-gpu`.
    Summary,
    /// The same for every NVTX range and domain: `--print-summary per-nvtx`. A launch is in several
    /// rows.
    NvtxSummary,
    /// The binary `.ncu-rep`.
    Report,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layout::Long => "long CSV (one metric a row)",
            Layout::Wide => "wide CSV (one launch a row)",
            Layout::Summary => "summary CSV (one kernel and metric a row)",
            Layout::NvtxSummary => "summary CSV by NVTX range",
            Layout::Report => "ncu-rep",
        })
    }
}
