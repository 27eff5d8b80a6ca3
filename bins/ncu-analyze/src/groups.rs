//! The kernels of a profile in the rows of a table: one by one, by class, or by a shorter name.

use clap::ValueEnum;
use flopgap_flops::FlopError;
use flopgap_kernels::{distinct_names, simple_kernel};
use flopgap_phases::{KernelProfile, Profile, Totals};

/// The meaning of a row.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// The kernel's full name.
    Kernel,
    /// The class that follows from the name: matmul, split-k-reduce, elementwise, …
    Class,
    /// The "Simple Kernel" column of the MLP notebook, which drops names that its pattern does not
    /// match.
    Simple,
}

impl By {
    /// The beginning of a table's title.
    pub(crate) fn title(self) -> &'static str {
        match self {
            By::Kernel => "By kernel",
            By::Class => "By class",
            By::Simple => "By the notebook's simple name",
        }
    }

    /// The keys of the columns that identify a row.
    pub(crate) fn labels(self) -> &'static [&'static str] {
        match self {
            By::Kernel => &["kernel", "class", "library"],
            By::Class => &["class"],
            By::Simple => &["simple_kernel"],
        }
    }
}

/// A row of a table: its labels and its totals.
pub(crate) struct Group {
    /// One for each of [`By::labels`].
    pub(crate) labels: Vec<Option<String>>,
    /// The kernel's name as the report has it, of a row that stands for one kernel.
    pub(crate) name: Option<String>,
    pub(crate) totals: Totals,
}

/// The rows of a table, and what those that are not shown add up to.
pub(crate) struct Groups {
    pub(crate) rows: Vec<Group>,
    /// How many are not shown, and their totals.
    pub(crate) more: Option<(usize, Totals)>,
}

impl Groups {
    /// The first rows.
    pub(crate) fn top(mut self, top: Option<usize>) -> Groups {
        let rest = self.rows.split_off(top.unwrap_or(usize::MAX).min(self.rows.len()));
        let mut more = Totals::default();
        // The sum over all rows exists, so this partial sum does, too.
        let fits = rest.iter().all(|group| more.merge(&group.totals).is_ok());
        self.more = (fits && !rest.is_empty()).then_some((rest.len(), more));
        self
    }
}

/// The rows of a profile.
///
/// # Errors
/// When a sum leaves `u64`.
pub(crate) fn groups(profile: &Profile, by: By) -> Result<Groups, FlopError> {
    let plain = |labels, totals| Group { labels, name: None, totals };
    let rows = match by {
        By::Kernel => kernel_groups(profile),
        By::Class => profile
            .by_class()?
            .into_iter()
            .map(|(class, totals)| plain(vec![Some(class.to_string())], totals))
            .collect(),
        By::Simple => profile
            .group(|kernel| simple_kernel(&kernel.name).map(str::to_owned))?
            .into_iter()
            .map(|(name, totals)| plain(vec![name], totals))
            .collect(),
    };
    Ok(Groups { rows, more: None })
}

fn kernel_groups(profile: &Profile) -> Vec<Group> {
    let names: Vec<(&str, &str)> =
        profile.kernels.iter().map(|kernel| (kernel.name.as_str(), kernel.info.short.as_str())).collect();
    let labels = distinct_names(&names).into_iter();
    let group = |(label, kernel): (String, &KernelProfile)| Group {
        labels: vec![Some(label), Some(kernel.info.class.to_string()), Some(kernel.info.library.to_string())],
        name: Some(kernel.name.clone()),
        totals: kernel.totals.clone(),
    };
    labels.zip(&profile.kernels).map(group).collect()
}

/// The share of the FLOPs that are known.
pub(crate) fn share(part: &Totals, whole: &Totals) -> Option<f64> {
    // The denominator is what is known; a warning names what is not.
    let known = Some(whole.known(whole.flops)).filter(|&flops| flops > 0)?;
    Some(part.complete(part.flops)? as f64 / known as f64)
}
