//! GPUs that others measured: times of the kernels of language models, interpolated between the
//! rows of public tables, with intervals of 90 %.
//!
//! ```
//! use flopgap_graph::language::{Format, Kernel};
//! use flopgap_roofline::machines;
//!
//! let product = Kernel::Product { m: 4096, n: 4096, k: 4096, format: Format::Bf16 };
//! let estimate = machines::named("h100").unwrap().estimate(&product).unwrap();
//! assert!(estimate.low < estimate.nanoseconds && estimate.nanoseconds < estimate.high);
//! ```

mod class;
mod file;
mod pass;
mod table;
mod transfer;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use flopgap_graph::language::Kernel;
use serde::{Deserialize, Serialize};

pub use self::class::Class;
pub use self::file::MachineError;
pub(crate) use self::file::unpacked;
pub use self::pass::{PartEstimate, PassEstimate, sum};
use self::table::Table;
pub use self::table::{Judged, Row};
pub use self::transfer::{Bound, Transfer};
use crate::floor::Floor;

/// The machine that kinds without a table are transferred from.
pub const REFERENCE: &str = "h200";

/// What a GPU can do at most, as the origin of its tables states it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Peaks {
    /// Bytes per second of the memory.
    pub bytes_per_second: f64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Dense FLOP/s in 16 bits.
    pub bf16: f64,
    /// Dense FLOP/s in 8 bits; `None` where the GPU has no such arithmetic.
    pub fp8: Option<f64>,
    /// Dense FLOP/s in 4 bits.
    pub fp4: Option<f64>,
    /// Bytes per second that a GPU sends to the others of its node.
    pub link_bytes_per_second: f64,
    /// GPUs of a node.
    pub gpus: u64,
    /// Multiprocessors, by which tiles are divided into waves.
    pub units: f64,
}

/// A GPU and its tables.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Its name as an option: `h100`.
    pub name: String,
    /// As the driver calls it.
    pub device: String,
    /// The programs that were measured: `vLLM 0.24.0`.
    pub software: Vec<String>,
    /// Its peaks.
    pub peaks: Peaks,
    transfer: BTreeMap<String, Transfer>,
    tables: BTreeMap<Class, Table>,
}

/// A table in a list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Listed {
    /// What it has.
    pub class: Class,
    /// Rows.
    pub rows: usize,
    /// Errors on a fifth of them.
    pub judged: Judged,
}

/// What an estimate of a kernel comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A table of this machine.
    Table,
    /// The utilization on the reference machine, at the peaks of this one.
    Transferred,
    /// Bytes at the bandwidth of the memory, as element-wise kernels of an H200 use it.
    Bandwidth,
    /// The floor; the kernel may take one to ten times as long: nothing like it was measured.
    Floor,
}

impl Basis {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Transferred => "transferred",
            Self::Bandwidth => "bandwidth",
            Self::Floor => "floor, 1 to 10 times",
        }
    }
}

/// The time of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KernelEstimate {
    /// Nanoseconds.
    pub nanoseconds: f64,
    /// Lower bound of the interval of 90 %.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// What bounds it.
    pub bound: Bound,
    /// What the time comes from.
    pub basis: Basis,
}

impl Machine {
    /// Fits tables to measured rows. `reference` is the machine that other kinds are transferred
    /// from, whose errors on these rows become the intervals of such transfers.
    pub fn fit(
        [name, device]: [&str; 2],
        software: Vec<String>,
        peaks: Peaks,
        rows: Vec<(Class, Vec<Row>)>,
        reference: Option<&Machine>,
    ) -> Self {
        let mut machine = Self {
            name: name.to_owned(),
            device: device.to_owned(),
            software,
            peaks,
            transfer: BTreeMap::new(),
            tables: Table::fit(rows, &peaks),
        };
        if let Some(reference) = reference {
            machine.transfer = transfer::judge(&machine, reference);
        }
        machine
    }

    /// Its tables.
    pub fn tables(&self) -> impl Iterator<Item = Listed> + '_ {
        self.tables.iter().map(|(class, table)| Listed {
            class: *class,
            rows: table.rows.len(),
            judged: table.judged,
        })
    }

    /// How well times are transferred from the reference to this machine.
    pub fn transfers(&self) -> impl Iterator<Item = (&str, Transfer)> + '_ {
        self.transfer.iter().map(|(bound, transfer)| (bound.as_str(), *transfer))
    }

    /// How well times of kernels with this bound are transferred; `None` of the reference.
    pub fn transfer(&self, bound: Bound) -> Option<Transfer> {
        self.transfer.get(bound.name()).copied()
    }

    /// Errors on products whose sizes are all values that the fit has not seen: between those that
    /// it has, and beyond.
    pub fn unseen(&self, class: Class) -> Option<[Judged; 2]> {
        table::unseen(class, self.tables.get(&class)?, &self.peaks)
    }

    /// The time of a kernel. `None` where the machine lacks the arithmetic; element-wise kernels,
    /// whose bytes decide, run at the bandwidth of the memory.
    pub fn estimate(&self, kernel: &Kernel) -> Option<KernelEstimate> {
        let Some(class) = Class::of(kernel) else { return self.streamed(kernel.bytes()) };
        class.peak(&self.peaks)?;
        let floor = Floor::of(kernel, class, &self.peaks);
        let bound = Bound::of(floor);
        let latent = matches!(kernel, Kernel::Prefill(attend) | Kernel::Decode(attend)
            if attend.value_width != attend.head_width);
        let of = |[nanoseconds, low, high]: [f64; 3], basis| KernelEstimate {
            nanoseconds,
            low,
            high,
            bound,
            basis,
        };
        if !latent {
            if let Some(table) = self.tables.get(&class) {
                return Some(of(table.at(kernel, class, &self.peaks)?, Basis::Table));
            }
            if let Some(moved) = transfer::moved(self, class, kernel) {
                return Some(of(moved, Basis::Transferred));
            }
        }
        let least = (floor.compute.max(floor.bytes) + transfer::NODE_SECONDS) * 1e9;
        Some(of([least * 10_f64.sqrt(), least, least * 10.0], Basis::Floor))
    }
}

macro_rules! built_in {
    ($($name:literal),*) => {
        /// The names of the machines that are built in.
        pub const NAMES: &[&str] = &[$($name),*];

        /// A machine that is built in, ignoring case.
        pub fn named(name: &str) -> Option<&'static Machine> {
            $(
                if name.eq_ignore_ascii_case($name) {
                    static READ: OnceLock<Option<Machine>> = OnceLock::new();
                    let bytes = include_bytes!(concat!("../../machines/", $name, ".machine.zst"));
                    return READ.get_or_init(|| Machine::parse(bytes, $name).ok()).as_ref();
                }
            )*
            None
        }
    };
}

built_in!("h200", "a100", "h100", "l40s", "b200", "gb200", "gb300", "rtx-pro-6000");
