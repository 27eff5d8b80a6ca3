//! The kernels of a profile in the rows of a table: one by one, by class, or by a shorter name.

use clap::ValueEnum;
use flopgap_flops::FlopError;
use flopgap_kernels::{distinct_names, simple_kernel};
use flopgap_phases::{Gpu, KernelProfile, Profile, Totals};

/// The meaning of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// The kernel's full name.
    #[default]
    Kernel,
    /// The class that follows from the name: matmul, split-k-reduce, elementwise, …
    Class,
    /// The Simple Kernel column of the MLP notebook, which drops names that its pattern does not
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
    /// The keys of the labels of each row.
    pub(crate) keys: Vec<&'static str>,
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
    let gpus = Gpus::new(profile);
    let grouped = |key: &dyn Fn(&KernelProfile) -> Option<String>| {
        let rows = profile.group(|kernel| (key(kernel), gpus.label(kernel.gpu)))?.into_iter();
        let row = |((label, gpu), totals): ((_, Option<String>), _)| {
            let labels = std::iter::once(label).chain(gpu.map(Some)).collect();
            Group { labels, name: None, totals }
        };
        Ok::<_, FlopError>(rows.map(row).collect())
    };
    let rows = match by {
        By::Kernel => kernel_groups(profile, &gpus),
        By::Class => grouped(&|kernel| Some(kernel.info.class.to_string()))?,
        By::Simple => grouped(&|kernel| simple_kernel(&kernel.name).map(str::to_owned))?,
    };
    let mut keys = by.labels().to_vec();
    keys.extend(gpus.several().then_some("gpu"));
    Ok(Groups { keys, rows, more: None })
}

/// The GPUs of a profile, each with its own rows: the times of two do not add up to one time.
pub(crate) struct Gpus(Vec<Gpu>);

impl Gpus {
    pub(crate) fn new(profile: &Profile) -> Gpus {
        Gpus(profile.gpus().into_iter().collect())
    }

    pub(crate) fn several(&self) -> bool {
        self.0.len() > 1
    }

    /// What a GPU is called among several.
    pub(crate) fn label(&self, gpu: Gpu) -> Option<String> {
        self.several().then(|| self.name(gpu))
    }

    /// `0`, and where another has this number what distinguishes them: `0 (sm_90)`,
    /// `0 (PCI 0:26:00)`.
    fn name(&self, gpu: Gpu) -> String {
        let number = gpu.device.map_or("unknown".to_owned(), |device| device.to_string());
        let alike: Vec<&Gpu> = self.0.iter().filter(|other| other.device == gpu.device).collect();
        let mut marks = Vec::new();
        if alike.iter().any(|other| other.capability != gpu.capability) {
            marks.extend(gpu.capability.map(|(major, minor)| format!("sm_{major}{minor}")));
        }
        let same = |other: &&&Gpu| other.capability == gpu.capability;
        if alike.iter().filter(same).any(|other| other.pci != gpu.pci) {
            let address = |[domain, bus, device]: [u64; 3]| format!("PCI {domain}:{bus:02x}:{device:02x}");
            marks.push(gpu.pci.map_or("no PCI address".to_owned(), address));
        }
        if marks.is_empty() { number } else { format!("{number} ({})", marks.join(", ")) }
    }
}

fn kernel_groups(profile: &Profile, gpus: &Gpus) -> Vec<Group> {
    // A kernel has a row for each GPU, under one name.
    let names: Vec<(&str, &str)> =
        profile.kernels.iter().map(|kernel| (kernel.name.as_str(), kernel.info.short.as_str())).collect();
    let labels = distinct_names(&names).into_iter();
    let group = |(label, kernel): (String, &KernelProfile)| {
        let mut labels =
            vec![Some(label), Some(kernel.info.class.to_string()), Some(kernel.info.library.to_string())];
        labels.extend(gpus.label(kernel.gpu).map(Some));
        Group { labels, name: Some(kernel.name.clone()), totals: kernel.totals.clone() }
    };
    labels.zip(&profile.kernels).map(group).collect()
}

/// The share of the FLOPs that are known.
pub(crate) fn share(part: &Totals, whole: &Totals) -> Option<f64> {
    // The denominator is what is known; a warning names what is not.
    let known = Some(whole.known(whole.flops)).filter(|&flops| flops > 0)?;
    Some(part.complete(part.flops)? as f64 / known as f64)
}

/// The share of the time on the GPU.
pub(crate) fn time_share(part: &Totals, whole: &Totals) -> Option<f64> {
    let all = whole.complete(whole.duration_ns).filter(|&ns| ns > 0)?;
    Some(part.complete(part.duration_ns)? as f64 / all as f64)
}
