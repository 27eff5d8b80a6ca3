//! Selects launches: those of a phase, of an NVTX range, of a report, a record or a whole run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use flopgap_cli::{Exit, Failure};
use flopgap_kernels::Classifier;
use flopgap_ncu::{Instruction, LaunchView};
use flopgap_phases::{Phase, PhaseError, Profile, Sequence, Strictness};
use flopgap_sweep::{
    PlanError, Problem, ProblemKind, Quantity, RawFiles, Record, RecordedLaunch, RunError, Sizes, Stage,
    is_record,
};
use flopgap_timings::RangePattern;

use crate::input::Input;
use crate::{PROGRAM, failure, gaps};

/// Options that select launches of a report, a record or a run directory.
#[derive(clap::Args)]
pub(crate) struct Selection {
    /// Only the launches of this phase: those within its NVTX range, or those after the shorter
    /// report (--setup, --forward)
    #[arg(long, value_enum)]
    phase: Option<PhaseArg>,
    /// Only these ranges, such as `forward`, `layer:*` or `DOMAIN:NAME`: launches within any of
    /// them. Can be repeated
    #[arg(long, value_name = "RANGE")]
    range: Vec<RangePattern>,
    /// Report of the program stopped after setup, with which FILE begins; for --phase setup and
    /// forward
    #[arg(long, value_name = "FILE", requires = "phase")]
    setup: Option<PathBuf>,
    /// Report of the program stopped after the forward pass; for --phase backward, and for forward
    /// if FILE continues after it
    #[arg(long, value_name = "FILE", requires = "phase")]
    forward: Option<PathBuf>,
    /// Layers of the network (n), to choose in a run directory: `2 4 8` or `2..8:2`
    #[arg(long, short = 'n', num_args = 1.., value_delimiter = ',', value_name = "N")]
    layers: Vec<Sizes>,
    /// Width of each layer (d), in the same form
    #[arg(long, short = 'd', num_args = 1.., value_delimiter = ',', value_name = "D")]
    width: Vec<Sizes>,
    /// Columns of the input (m), in the same form
    #[arg(long, short = 'm', num_args = 1.., value_delimiter = ',', value_name = "M")]
    columns: Vec<Sizes>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PhaseArg {
    /// Creation of weights and inputs
    Setup,
    /// The forward pass, without setup
    Forward,
    /// The loss and the backward pass, without setup and forward
    Backward,
}

impl From<PhaseArg> for Phase {
    fn from(phase: PhaseArg) -> Phase {
        match phase {
            PhaseArg::Setup => Phase::Setup,
            PhaseArg::Forward => Phase::Forward,
            PhaseArg::Backward => Phase::Backward,
        }
    }
}

/// The kernels of the selection.
pub(crate) struct Selected {
    pub(crate) profile: Profile,
    /// The selected networks of a run directory.
    pub(crate) configurations: Option<usize>,
}

impl Selection {
    /// The phase as text, if one was selected.
    pub(crate) fn phase(&self) -> Option<&'static str> {
        self.phase.map(|phase| Phase::from(phase).name())
    }

    /// The ranges as the user wrote them.
    pub(crate) fn ranges(&self) -> Vec<&str> {
        self.range.iter().map(RangePattern::as_str).collect()
    }

    /// The selection, for the titles of tables: `, forward`.
    pub(crate) fn title(&self) -> String {
        let mut title = self.phase().map(|phase| format!(", {phase}")).unwrap_or_default();
        for range in &self.range {
            title.push_str(", within `");
            title.push_str(range.as_str());
            title.push('`');
        }
        title
    }

    /// The kernels of a report, a record or a run directory.
    pub(crate) fn load(
        &self,
        path: &Path,
        input: &Input,
        classifier: &Classifier,
    ) -> Result<Selected, Failure> {
        let sizes = [&self.layers, &self.width, &self.columns].iter().any(|sizes| !sizes.is_empty());
        let stages = self.setup.is_some() || self.forward.is_some();
        let usage = |message: &str| Err(Failure::new(message).exit(Exit::Usage));
        let (profile, configurations) = if path.is_dir() {
            if stages {
                return usage("--setup and --forward go with a report; a run directory has its own");
            }
            let (profile, configurations) = self.of_run(path, input, classifier)?;
            (profile, Some(configurations))
        } else if sizes {
            return usage("-n, -d and -m choose among the networks of a run directory");
        } else if is_record(path) {
            if stages {
                return usage("--setup and --forward go with a report; a record has its phases");
            }
            (self.of_record(&read_record(path)?, classifier)?, None)
        } else {
            let shorter = Shorter { setup: self.setup.as_deref(), forward: self.forward.as_deref() };
            (self.of_report(path, &shorter, input, classifier).map_err(|error| failure(&error))?, None)
        };
        flopgap_cli::warn_all(PROGRAM, &profile.warnings);
        if profile.kernels.is_empty() {
            gaps::require_whole(path, profile.lost_at)?;
            return Err(self.nothing(path));
        }
        Ok(Selected { profile, configurations })
    }

    /// Why there is no kernel.
    fn nothing(&self, path: &Path) -> Failure {
        let (what, hint) = match (self.phase(), &self.range[..]) {
            (Some(phase), []) => (
                format!("no launch belongs to the {phase} phase"),
                "a report needs NVTX ranges named setup, forward and backward (`ncu --nvtx`), or the report of the program stopped \
                 after the phase before (--setup, --forward)",
            ),
            (None, []) => (
                "no launch is in the report".to_owned(),
                "check that no filter of ncu (-k, --nvtx-include) excluded all kernels, and record again",
            ),
            (phase, ranges) => {
                let ranges = ranges.iter().map(|range| format!("`{range}`")).collect::<Vec<_>>().join(" or ");
                let phase = phase.map(|phase| format!(" of the {phase} phase")).unwrap_or_default();
                (
                    format!("no launch{phase} lies within a range {ranges}"),
                    "ranges are recorded with ncu --nvtx; a record of hyper-profile has setup, forward and backward. `*` stands for any \
                     text, and upper and lower case differ",
                )
            }
        };
        Failure::new(format!("{}: {what}", path.display())).hint(hint).exit(Exit::Absent)
    }

    /// Whether a launch lies within one of the ranges.
    fn in_ranges(&self, launch: LaunchView<'_>) -> bool {
        let text = |symbol| launch.strings.get(symbol);
        self.range.is_empty()
            || launch.nvtx.iter().any(|range| {
                self.range.iter().any(|pattern| pattern.matches(text(range.domain), text(range.name)))
            })
    }

    fn of_report(
        &self,
        path: &Path,
        shorter: &Shorter<'_>,
        input: &Input,
        classifier: &Classifier,
    ) -> Result<Profile, PhaseError> {
        let Some(phase) = self.phase.map(Phase::from) else {
            return Profile::read_where(input.open(path)?, path, classifier, |launch| {
                Ok(self.in_ranges(launch))
            });
        };
        let Some(cut) = shorter.cut(phase, input)? else {
            return Profile::read_where(input.open(path)?, path, classifier, |launch| {
                Ok(Phase::of_launch(launch) == Some(phase) && self.in_ranges(launch))
            });
        };
        let mut index = 0;
        let profile = Profile::read_where(input.open(path)?, path, classifier, |launch| {
            cut.longest.check(index, path, launch)?;
            let taken = (cut.begin..cut.end).contains(&index) && self.in_ranges(launch);
            index += 1;
            Ok(taken)
        })?;
        cut.longest.check_end(path, index, cut.ends_before)?;
        Ok(profile)
    }

    fn of_record(&self, record: &Record, classifier: &Classifier) -> Result<Profile, PhaseError> {
        let wanted = |launch: &RecordedLaunch<'_>| {
            self.phase.is_none_or(|phase| launch.phase == Phase::from(phase))
                && (self.range.is_empty()
                    || self.range.iter().any(|pattern| pattern.matches("", launch.phase.name())))
        };
        let launches = record.launches().filter(wanted).map(|launch| {
            let executed = launch.quantities.iter().zip(launch.values);
            let executed = executed.filter_map(|(quantity, &value)| Some((instruction(*quantity)?, value)));
            (launch.kernel, executed, launch.get(Quantity::DurationNs))
        });
        Ok(Profile::of(launches, classifier)?)
    }

    /// The kernels of all networks of a run that were chosen; what is damaged or incomplete is
    /// skipped with a warning.
    fn of_run(
        &self,
        run: &Path,
        input: &Input,
        classifier: &Classifier,
    ) -> Result<(Profile, usize), Failure> {
        let raw = run.join("raw");
        if !raw.is_dir() {
            return Err(RunError::NotARun { path: run.to_owned() }.into());
        }
        let failed = |source| RunError::Io { path: raw.clone(), source };
        let wanted = self.wanted()?;
        let mut profile = Profile::default();
        let mut configurations = 0;
        for (config, stages) in RawFiles::list(&raw).map_err(failed)?.configs {
            let sizes = [config.n, config.d, config.m];
            if !wanted
                .iter()
                .zip(sizes)
                .all(|(axis, size)| axis.as_ref().is_none_or(|axis| axis.contains(&size)))
            {
                continue;
            }
            match self.of_configuration(&stages, input, classifier) {
                Ok(one) => {
                    profile.merge(one).map_err(PhaseError::from)?;
                    configurations += 1;
                }
                Err(kind) => {
                    let problem = Problem { config: Some(config), kind };
                    flopgap_cli::warn(PROGRAM, format_args!("skipped: {}", Failure::of(&problem)));
                }
            }
        }
        if configurations == 0 {
            let message = format!("{}: no network that was asked for is complete", run.display());
            return Err(Failure::new(message)
                .hint("`hyper-profile analyze` lists what is complete")
                .exit(Exit::Absent));
        }
        Ok((profile, configurations))
    }

    fn of_configuration(
        &self,
        stages: &std::collections::BTreeMap<Stage, PathBuf>,
        input: &Input,
        classifier: &Classifier,
    ) -> Result<Profile, ProblemKind> {
        let of_report =
            |path: &Path, shorter: &Shorter<'_>| Ok(self.of_report(path, shorter, input, classifier)?);
        if let Some(path) = stages.get(&Stage::Whole) {
            if !is_record(path) {
                return of_report(path, &Shorter::default());
            }
            let record = Record::read(path)?;
            // What `hyper-profile analyze` refuses is in no sum here, either.
            record.analyze(path, classifier, Strictness::Strict)?;
            return Ok(self.of_record(&record, classifier)?);
        }
        let of = |stage| stages.get(&stage).map(PathBuf::as_path);
        let (setup, forward) = (of(Stage::Setup), of(Stage::Forward));
        let (Some(_), Some(_), Some(whole)) = (setup, forward, of(Stage::ForwardBackward)) else {
            let needed = [Stage::Setup, Stage::Forward, Stage::ForwardBackward];
            let missing = needed.into_iter().filter(|stage| !stages.contains_key(stage)).collect();
            return Err(ProblemKind::Incomplete { missing });
        };
        let shorter = if self.phase.is_some() { Shorter { setup, forward } } else { Shorter::default() };
        of_report(whole, &shorter)
    }

    fn wanted(&self) -> Result<[Option<BTreeSet<u64>>; 3], PlanError> {
        let axis = |name, written: &[Sizes]| match written {
            [] => Ok(None),
            written => Sizes::join(name, written).map(|sizes| Some(sizes.into_iter().collect())),
        };
        Ok([axis("n", &self.layers)?, axis("d", &self.width)?, axis("m", &self.columns)?])
    }
}

/// Reports of the same program that end earlier.
#[derive(Default)]
struct Shorter<'a> {
    setup: Option<&'a Path>,
    forward: Option<&'a Path>,
}

/// Which launches of a run are a phase's, by their place.
struct Cut {
    begin: usize,
    end: usize,
    /// What the run must begin with.
    longest: Sequence,
    /// The phase behind which the longest shorter run ends.
    ends_before: Phase,
}

impl Shorter<'_> {
    /// Where a phase begins and ends; `None` where no shorter report is given.
    fn cut(&self, phase: Phase, input: &Input) -> Result<Option<Cut>, PhaseError> {
        let read = |path: &Path| Sequence::read(input.open(path), path);
        let cut = match (phase, self.setup, self.forward) {
            (_, None, None) => return Ok(None),
            (Phase::Setup, Some(setup), _) => {
                let longest = read(setup)?;
                Cut { begin: 0, end: longest.len(), longest, ends_before: Phase::Setup }
            }
            (Phase::Forward, Some(setup), None) => {
                let longest = read(setup)?;
                Cut { begin: longest.len(), end: usize::MAX, longest, ends_before: Phase::Forward }
            }
            (Phase::Forward, Some(setup), Some(forward)) => {
                let setup = read(setup)?;
                let longest = read(forward)?;
                setup.check_begins(&longest)?;
                Cut { begin: setup.len(), end: longest.len(), longest, ends_before: Phase::Setup }
            }
            (Phase::Backward, _, Some(forward)) => {
                let longest = read(forward)?;
                Cut { begin: longest.len(), end: usize::MAX, longest, ends_before: Phase::Backward }
            }
            (phase, ..) => {
                let run = self.setup.or(self.forward).unwrap_or(Path::new("-")).to_owned();
                return Err(PhaseError::EmptyPhase { run, phase });
            }
        };
        Ok(Some(cut))
    }
}

fn read_record(path: &Path) -> Result<Record, Failure> {
    if let Err(error) = fs::metadata(path) {
        return Err(Failure::new(format!("{}: {error}", path.display())));
    }
    Ok(Record::read(path)?)
}

/// The instruction that a column of a record counts.
fn instruction(quantity: Quantity) -> Option<Instruction> {
    Instruction::ALL.into_iter().find(|instruction| instruction.label() == quantity.name())
}
