//! Selects launches: those of a phase, of an NVTX range, of a report, a record or a whole run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use flopgap_cli::{Console, Exit, Failure};
use flopgap_kernels::Classifier;
use flopgap_ncu::{Instruction, NvtxRange, Strings};
use flopgap_phases::sweep::{
    PlanError, Problem, ProblemKind, Quantity, RawFiles, Record, RecordedLaunch, RunFault, Sizes, Stage,
    is_record,
};
use flopgap_phases::{Phase, PhaseError, Profile, Strictness};
use flopgap_report::numbers::group_thousands;
use flopgap_timings::RangePattern;

use crate::files::Listed;
use crate::filter::{Filter, Met};
use crate::input::Input;
use crate::part::Part;
use crate::shorter::Shorter;
use crate::{PROGRAM, failure, files, missing};

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
    #[command(flatten)]
    filter: Filter,
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
    /// Those of all parts.
    pub(crate) profile: Profile,
    pub(crate) parts: Vec<Part>,
    /// Why reports of a directory are not among the parts.
    unread: Vec<Failure>,
}

impl Selected {
    /// The selected networks of run directories.
    pub(crate) fn configurations(&self) -> Option<usize> {
        self.parts.iter().map(|part| part.configurations).sum()
    }

    /// Warns of what a part lacks, and of what only some parts have.
    pub(crate) fn warn(&self) {
        for part in &self.parts {
            missing::warn(&part.path, &part.profile);
        }
        missing::warn_across(&self.parts, &self.profile.totals);
    }

    /// The failures of reports that were not read, or not to their end.
    pub(crate) fn failures(self) -> Vec<Failure> {
        let mut failures = self.unread;
        failures.extend(self.parts.iter().filter_map(missing::not_whole));
        failures
    }
}

/// Fails if there is any failure; all of them are printed.
pub(crate) fn fail(failures: impl IntoIterator<Item = Failure>) -> Result<(), Failure> {
    let mut failures = failures.into_iter().peekable();
    while let Some(failure) = failures.next() {
        if failures.peek().is_none() {
            return Err(failure);
        }
        flopgap_cli::outcome(PROGRAM, || Err(failure));
    }
    Ok(())
}

impl Selection {
    fn shorter(&self) -> Shorter<'_> {
        Shorter { setup: self.setup.as_deref(), forward: self.forward.as_deref() }
    }

    /// The phase as text, if one was selected.
    pub(crate) fn phase(&self) -> Option<&'static str> {
        self.phase.map(|phase| Phase::from(phase).as_str())
    }

    /// The ranges as the user wrote them.
    pub(crate) fn ranges(&self) -> Vec<&str> {
        self.range.iter().map(RangePattern::as_str).collect()
    }

    /// The selection, for the titles of tables: `, forward`.
    pub(crate) fn title(&self) -> String {
        let mut title = String::new();
        if let Some(phase) = self.phase.map(Phase::from) {
            title = format!(", {phase}{}", self.shorter().open_end(phase).unwrap_or_default());
        }
        for range in &self.range {
            title.push_str(", within `");
            title.push_str(range.as_str());
            title.push('`');
        }
        title + &self.filter.title()
    }

    /// How much of the reports the selection is, for titles: `, 61 of 141 launches`.
    pub(crate) fn extent(&self, selected: &Selected) -> String {
        let (all, some) = (selected.profile.whole.launches, selected.profile.totals.launches);
        let active = self.phase.is_some() || !self.range.is_empty() || self.filter.is_active();
        if !active || all == 0 {
            return String::new();
        }
        format!(", {} of {} launches", group_thousands(some), group_thousands(all))
    }

    /// The kernels of reports, records and run directories, and of directories with such.
    pub(crate) fn load(
        &self,
        paths: &[PathBuf],
        input: &Input,
        classifier: &Classifier,
        console: Console,
    ) -> Result<Selected, Failure> {
        let mut parts: Vec<Part> = Vec::new();
        let mut met = Met::default();
        let mut unread = Vec::new();
        let listed = files::expand(paths, input)?;
        for Listed { path, of_directory } in &listed {
            let what = format!("{}: read", path.display());
            let part = match console.timed(what, || self.load_one(path, input, classifier, &mut met)) {
                Ok(part) => part,
                Err(failure) if *of_directory && failure.code() == Exit::Absent => {
                    flopgap_cli::warn(PROGRAM, format_args!("skipped: {failure}"));
                    continue;
                }
                Err(failure) if *of_directory && failure.code() == Exit::Failed => {
                    unread.push(failure);
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            flopgap_cli::warn_all(PROGRAM, &part.profile.warnings);
            let same = |known: &&Part| part.profile.whole.is_recording_of(&known.profile.whole);
            if let Some(known) = parts.iter().find(same) {
                flopgap_cli::warn(
                    PROGRAM,
                    format_args!(
                        "{}: left out, because {} holds the same launches of the same processes",
                        path.display(),
                        known.path.display()
                    ),
                );
                continue;
            }
            self.tell(&part, console);
            parts.push(part);
        }
        let mut profiles = parts.iter().map(|part| part.profile.clone());
        let mut profile = profiles.next().unwrap_or_default();
        for more in profiles {
            profile.merge(more).map_err(PhaseError::from)?;
        }
        if profile.kernels.is_empty() {
            fail(Selected { profile, parts, unread }.failures())?;
            return Err(match (&self.phase, &self.range[..]) {
                (None, []) if self.filter.is_active() => self.filter.nothing(&met),
                _ => self.nothing(&listed),
            });
        }
        Ok(Selected { profile, parts, unread })
    }

    fn load_one(
        &self,
        path: &Path,
        input: &Input,
        classifier: &Classifier,
        met: &mut Met,
    ) -> Result<Part, Failure> {
        let sizes = [&self.layers, &self.width, &self.columns].iter().any(|sizes| !sizes.is_empty());
        let stages = self.setup.is_some() || self.forward.is_some();
        let usage = |message: &str| Err(Failure::new(message).exit(Exit::Usage));
        let mut configurations = None;
        let profile = if path.is_dir() {
            if stages {
                return usage("--setup and --forward go with a report; a run directory has its own");
            }
            let (profile, count) = self.of_run(path, input, classifier, met)?;
            configurations = Some(count);
            profile
        } else if sizes {
            return usage("-n, -d and -m choose among the networks of a run directory");
        } else if is_record(path) {
            if stages {
                return usage("--setup and --forward go with a report; a record has its phases");
            }
            self.of_record(&read_record(path)?, classifier)?
        } else {
            let shorter = self.shorter();
            let profile =
                self.of_report(path, &shorter, input, classifier, met).map_err(|error| failure(&error))?;
            self.check_end(path, &profile)?;
            profile
        };
        Ok(Part { path: path.to_owned(), profile, configurations })
    }

    /// Refuses a forward pass that is one and what follows it.
    fn check_end(&self, path: &Path, profile: &Profile) -> Result<(), Failure> {
        let Some(kernel) = self.phase.and_then(|phase| self.shorter().beyond(phase.into(), profile)) else {
            return Ok(());
        };
        let message = format!(
            "{}: the recording goes on after the forward pass, with `{}`",
            path.display(),
            kernel.info.short
        );
        Err(Failure::new(message)
            .hint("name the report of the program stopped after the forward pass with --forward"))
    }

    /// Says which launches belong to a range although it is not around them in the report, and
    /// which may.
    fn tell(&self, part: &Part, console: Console) {
        let (path, whole) = (part.path.display(), &part.profile.whole);
        let wanted = self.wanted_ranges();
        if let Some(missing) = &whole.by_process {
            console.note(format_args!(
                "{path}: {} of the launches within {wanted} have no such range on their own thread: another thread \
                 launched them while it was open ({})",
                group_thousands(missing.launches),
                missing.describe()
            ));
        }
        if let Some(missing) = &whole.undecided {
            let products = match whole.undecided_products {
                0 => String::new(),
                1 => ", 1 of them a matrix product,".to_owned(),
                count => format!(", {} of them matrix products,", group_thousands(count)),
            };
            flopgap_cli::warn(
                PROGRAM,
                format_args!(
                    "{path}: {} of {} launches{products} may lie within {wanted} or not and are in no sum ({}): they \
                     have no range and follow launches within it, and a CSV lists only the ranges of the launching \
                     thread; the .ncu-rep lists those of all threads, and `ncu --nvtx-push-pop-scope process` prints \
                     them",
                    group_thousands(missing.launches),
                    group_thousands(whole.launches),
                    missing.describe()
                ),
            );
        }
        if self.is_whole() && whole.processes.len() > 1 {
            let processes: Vec<String> = whole.processes.iter().take(4).map(u64::to_string).collect();
            let more = if whole.processes.len() > processes.len() { ", …" } else { "" };
            console.note(format_args!(
                "{path}: launches of {} processes ({}{more}) are added up, and each process counts GPUs from 0; \
                 --process PID selects one",
                whole.processes.len(),
                processes.join(", ")
            ));
        }
    }

    fn is_whole(&self) -> bool {
        !self.filter.by_process()
    }

    /// The selected ranges, for messages: `` `forward` or `layer:*` ``.
    fn wanted_ranges(&self) -> String {
        let phase = self.phase().map(|phase| format!("`{phase}`"));
        let ranges = self.range.iter().map(|range| format!("`{range}`")).collect::<Vec<_>>().join(" or ");
        match (phase, ranges.is_empty()) {
            (Some(phase), true) => phase,
            (Some(phase), false) => format!("{phase} and {ranges}"),
            (None, _) => ranges,
        }
    }

    /// Why there is no kernel.
    fn nothing(&self, files: &[Listed]) -> Failure {
        let path = match files {
            [one] => one.path.display().to_string(),
            several => format!("{} files", several.len()),
        };
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
                    "ranges are recorded with ncu --nvtx; a record of flopgap profile has setup, forward and backward. `*` stands for any \
                     text, and upper and lower case differ",
                )
            }
        };
        Failure::new(format!("{path}: {what}")).hint(hint).exit(Exit::Absent)
    }

    /// Whether ranges have one of the selected ones among them.
    fn in_ranges(&self, around: &[NvtxRange], strings: &Strings) -> bool {
        self.range.is_empty()
            || around.iter().any(|range| {
                let (domain, name) = (strings.get(range.domain), strings.get(range.name));
                self.range.iter().any(|pattern| pattern.matches(domain, name))
            })
    }

    fn of_report(
        &self,
        path: &Path,
        shorter: &Shorter<'_>,
        input: &Input,
        classifier: &Classifier,
        met: &mut Met,
    ) -> Result<Profile, PhaseError> {
        let phase = self.phase.map(Phase::from);
        let cut = phase.map(|phase| shorter.cut(phase, input)).transpose()?.flatten();
        // A cut finds the phase by place, without ranges.
        let by_range = phase.filter(|_| cut.is_none());
        let matches = |around: &[NvtxRange], strings: &Strings| {
            by_range.is_none_or(|phase| Phase::of_ranges(around, strings) == Some(phase))
                && self.in_ranges(around, strings)
        };
        let within = (by_range.is_some() || !self.range.is_empty())
            .then_some(&matches as &flopgap_phases::Matches<'_>);
        let mut index = 0;
        let profile = Profile::read_within(input.open(path)?, path, classifier, within, |launch| {
            let mut taken = self.filter.takes(launch, classifier, met);
            if let Some(cut) = &cut {
                cut.longest.check(index, path, launch)?;
                taken &= (cut.begin..cut.end).contains(&index);
            }
            index += 1;
            Ok(taken)
        })?;
        if let Some(cut) = &cut {
            cut.longest.check_end(path, index, cut.ends_before)?;
        }
        Ok(profile)
    }

    fn of_record(&self, record: &Record, classifier: &Classifier) -> Result<Profile, Failure> {
        if self.filter.by_place() {
            let message = "--device, --process and --stream go with reports: a record does not name them";
            return Err(Failure::new(message).exit(Exit::Usage));
        }
        Ok(self.profile_of(record, classifier)?)
    }

    fn profile_of(&self, record: &Record, classifier: &Classifier) -> Result<Profile, PhaseError> {
        let wanted = |launch: &RecordedLaunch<'_>| {
            self.phase.is_none_or(|phase| launch.phase == Phase::from(phase))
                && self.filter.takes_kernel(launch.kernel, classifier)
                && (self.range.is_empty()
                    || self.range.iter().any(|pattern| pattern.matches("", launch.phase.as_str())))
        };
        let launches = record.launches().filter(wanted).map(|launch| {
            let executed = launch.quantities.iter().zip(launch.values);
            let executed = executed.filter_map(|(quantity, &value)| Some((instruction(*quantity)?, value)));
            (launch.kernel, executed, launch.get(Quantity::DurationNs))
        });
        Ok(Profile::new(launches, classifier)?)
    }

    /// The kernels of all networks of a run that were chosen; what is damaged or incomplete is
    /// skipped with a warning.
    fn of_run(
        &self,
        run: &Path,
        input: &Input,
        classifier: &Classifier,
        met: &mut Met,
    ) -> Result<(Profile, usize), Failure> {
        if self.filter.by_place() {
            let message = "--device, --process and --stream go with reports, not with run directories";
            return Err(Failure::new(message).exit(Exit::Usage));
        }
        let raw = run.join("raw");
        if !raw.is_dir() {
            return Err(RunFault::NotARun.at(run).into());
        }
        let failed = |source| RunFault::Io { source }.at(&raw);
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
            match self.of_configuration(&stages, input, classifier, met) {
                Ok(one) => {
                    profile.merge(one).map_err(PhaseError::from)?;
                    configurations += 1;
                }
                Err(kind) => {
                    let problem = Problem::from((config, kind));
                    flopgap_cli::warn(PROGRAM, format_args!("skipped: {}", Failure::of(&problem)));
                }
            }
        }
        if configurations == 0 {
            let message = format!("{}: no network that was asked for is complete", run.display());
            return Err(Failure::new(message)
                .hint("`flopgap profile analyze` lists what is complete")
                .exit(Exit::Absent));
        }
        Ok((profile, configurations))
    }

    fn of_configuration(
        &self,
        stages: &std::collections::BTreeMap<Stage, PathBuf>,
        input: &Input,
        classifier: &Classifier,
        met: &mut Met,
    ) -> Result<Profile, ProblemKind> {
        let mut of_report =
            |path: &Path, shorter: &Shorter<'_>| Ok(self.of_report(path, shorter, input, classifier, met)?);
        if let Some(path) = stages.get(&Stage::Whole) {
            if !is_record(path) {
                return of_report(path, &Shorter::default());
            }
            let record = Record::read(path)?;
            // What `flopgap profile analyze` refuses is in no sum here, either.
            record.analyze(path, classifier, Strictness::Strict)?;
            return Ok(self.profile_of(&record, classifier)?);
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

fn read_record(path: &Path) -> Result<Record, Failure> {
    if let Err(error) = fs::metadata(path) {
        return Err(Failure::new(format!("{}: {error}", path.display())));
    }
    Ok(Record::read(path)?)
}

/// The instruction that a column of a record counts.
fn instruction(quantity: Quantity) -> Option<Instruction> {
    Instruction::ALL.into_iter().find(|instruction| instruction.as_str() == quantity.name())
}
