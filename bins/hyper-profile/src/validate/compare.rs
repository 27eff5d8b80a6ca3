//! The numbers of all sources for one network, class by class.

use flopgap_flops::{ClassFlops, FlopError, Pass, SquareMlp};
use flopgap_phases::sweep::Config;
use serde::Serialize;

/// The classes in the order of the tables.
pub(crate) const CLASSES: [&str; 5] = ["GEMM", "split-K", "activation", "other", "total"];

/// The FLOPs of a pass from one source. Classes that the source does not cover are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    pub(crate) gemm: Option<u64>,
    pub(crate) split_k: Option<u64>,
    pub(crate) activation: Option<u64>,
    pub(crate) other: Option<u64>,
    /// The sum of the classes that are present.
    pub(crate) total: u64,
}

impl Counts {
    /// All four classes.
    pub(crate) fn all(classes: &ClassFlops) -> Result<Counts, FlopError> {
        let ClassFlops { gemm, split_k, activation, other } = *classes;
        let total = classes.total()?;
        Ok(Counts {
            gemm: Some(gemm),
            split_k: Some(split_k),
            activation: Some(activation),
            other: Some(other),
            total,
        })
    }

    /// Only the classes that a framework's formula covers.
    pub(crate) fn of_framework(gemm: Option<u64>, activation: Option<u64>) -> Result<Counts, FlopError> {
        let present = ClassFlops {
            gemm: gemm.unwrap_or(0),
            activation: activation.unwrap_or(0),
            ..ClassFlops::default()
        };
        Ok(Counts { gemm, activation, total: present.total()?, ..Counts::default() })
    }

    /// In the order of [`CLASSES`].
    pub(crate) fn by_class(&self) -> [Option<u64>; 5] {
        [self.gemm, self.split_k, self.activation, self.other, Some(self.total)]
    }
}

/// The source of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// The framework's formula over the shapes that a trace recorded.
    FrameworkTrace,
    /// The framework's formula over the shapes that follow from the network; nothing was run.
    FrameworkShapes,
    /// Recorded counters of the hardware.
    Recorded,
    /// Hardware counters, read now in this process.
    Live,
    /// Hardware counters, read now by Nsight Compute in a separate process.
    Ncu,
}

impl Kind {
    /// The column's key.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Kind::FrameworkTrace => "framework",
            Kind::FrameworkShapes => "framework_formula",
            Kind::Recorded => "counters",
            Kind::Live => "live_counters",
            Kind::Ncu => "ncu",
        }
    }

    /// The column's heading.
    pub(crate) fn heading(self) -> String {
        self.key().replace('_', " ")
    }

    pub(crate) const fn is_framework(self) -> bool {
        matches!(self, Kind::FrameworkTrace | Kind::FrameworkShapes)
    }
}

/// One source of numbers for both passes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Source {
    pub(crate) kind: Kind,
    /// A description: the file, the device, the formula.
    pub(crate) origin: String,
    pub(crate) forward: Counts,
    pub(crate) backward: Counts,
    /// What the framework does not count, by pass: `10 aten::sigmoid`.
    #[serde(skip)]
    pub(crate) uncounted: [Option<String>; 2],
}

impl Source {
    pub(crate) fn of(&self, pass: Pass) -> &Counts {
        match pass {
            Pass::Forward => &self.forward,
            Pass::Backward => &self.backward,
        }
    }

    pub(crate) fn uncounted(&self, pass: Pass) -> Option<&str> {
        match pass {
            Pass::Forward => self.uncounted[0].as_deref(),
            Pass::Backward => self.uncounted[1].as_deref(),
        }
    }
}

/// One network with the numbers of every source.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) network: SquareMlp,
    pub(crate) sources: Vec<Source>,
}

impl Comparison {
    /// The closed form of a pass.
    pub(crate) fn theory(&self, pass: Pass) -> Result<Counts, FlopError> {
        Counts::all(&self.network.theory(pass)?)
    }
}

/// `found − theory`, and the same relative to theory where theory is not 0.
pub(crate) fn difference(found: u64, theory: u64) -> (i128, Option<f64>) {
    let difference = i128::from(found) - i128::from(theory);
    (difference, (theory != 0).then(|| difference as f64 / theory as f64))
}
/// One pass of one network.
pub(crate) struct Row {
    pub(crate) config: Config,
    pub(crate) pass: Pass,
    pub(crate) theory: Counts,
    pub(crate) framework: Counts,
    pub(crate) framework_kind: Kind,
    pub(crate) counted: Option<Counts>,
}
