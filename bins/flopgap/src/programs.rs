//! The programs of flopgap, each a subcommand of `flopgap`.

use std::ffi::OsString;

use clap::{Arg, ArgAction, value_parser};
use flopgap_cli::{Exit, Restart};

use crate::PROGRAM;
use crate::elsewhere::{self, Then};

/// A program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    /// On its own: `nsys-analyze`.
    pub(crate) name: &'static str,
    /// The package that has it.
    package: &'static str,
    /// Absent where it is not part of this executable.
    linked: Option<Linked>,
    /// What it does, where it is not.
    about: &'static str,
}

/// A program that is part of this executable.
#[derive(Debug, Clone, Copy)]
struct Linked {
    run: fn(&Restart, Vec<OsString>) -> Exit,
    command: fn() -> clap::Command,
}

/// A program of a feature.
macro_rules! of_feature {
    ($feature:literal, $command:path, $run:expr) => {{
        #[cfg(feature = $feature)]
        let linked = Some(Linked { run: $run, command: $command });
        #[cfg(not(feature = $feature))]
        let linked = None;
        linked
    }};
}

pub(crate) const NSYS: Program = Program {
    name: "nsys-analyze",
    package: "nsys-analyze",
    linked: Some(Linked { run: |_, arguments| nsys_analyze::run(arguments), command: nsys_analyze::command }),
    about: "",
};

pub(crate) const NCU: Program = Program {
    name: "ncu-analyze",
    package: "ncu-analyze",
    linked: Some(Linked { run: |_, arguments| ncu_analyze::run(arguments), command: ncu_analyze::command }),
    about: "",
};

pub(crate) const PROFILE: Program = Program {
    name: "hyper-profile",
    package: "hyper-profile",
    linked: of_feature!("profile", hyper_profile::command, hyper_profile::run_as),
    about: "Profile MLPs over (n, d, m) grids",
};

pub(crate) const VALIDATE: Program = Program {
    name: "mlp-validate",
    package: "hyper-profile",
    linked: of_feature!("validate", hyper_profile::validate::command, hyper_profile::validate::run_as),
    about: "Compare FLOPs of an MLP by theory, framework and counters",
};

pub(crate) const BENCH: Program = Program {
    name: "mlp-bench",
    package: "mlp-bench",
    linked: of_feature!("bench", mlp_bench::command, |_, arguments| mlp_bench::run(arguments)),
    about: "Time one small MLP in several implementations",
};

pub(crate) const CALIBRATE: Program = Program {
    name: "model-calibrate",
    package: "model-calibrate",
    linked: of_feature!("calibrate", model_calibrate::command, |_, arguments| model_calibrate::run(
        arguments
    )),
    about: "Measure networks on this machine, predict any network, and report the errors",
};

/// Links Polars, which no other program does.
pub(crate) const TABLE: Program = Program {
    name: "run-table",
    package: "run-table",
    linked: None,
    about: "Many reports, traces and runs as one Parquet data set, and questions to it (the program run-table)",
};

/// All programs, in the order of the help.
pub(crate) const ALL: [Program; 7] = [NSYS, NCU, PROFILE, VALIDATE, BENCH, CALIBRATE, TABLE];

impl Program {
    /// As a subcommand: `nsys`.
    pub(crate) fn subcommand(&self) -> &'static str {
        flopgap_cli::subcommand(self.name).unwrap_or(self.name)
    }

    /// `flopgap nsys`.
    pub(crate) fn within(&self) -> String {
        format!("{PROGRAM} {}", self.subcommand())
    }

    /// Runs it with these arguments; the first is its name. `restart` starts it again.
    pub(crate) fn run(&self, restart: &Restart, then: Then, arguments: Vec<OsString>) -> Exit {
        if let Some(linked) = self.linked {
            return (linked.run)(restart, arguments);
        }
        let arguments = arguments.get(1..).unwrap_or_default();
        crate::ended(|| elsewhere::run(self.name, self.package, &self.within(), then, arguments))
    }

    /// Its own commands and options, where it is part of this executable.
    pub(crate) fn command(&self) -> Option<clap::Command> {
        self.linked.map(|linked| (linked.command)().name(self.name))
    }

    /// Its commands and options as those of a subcommand.
    pub(crate) fn as_subcommand(&self) -> clap::Command {
        match self.linked {
            Some(linked) => (linked.command)().name(self.subcommand()),
            None => clap::Command::new(self.subcommand()).about(self.about).disable_help_flag(true).arg(
                Arg::new("arguments")
                    .value_name("ARGUMENTS")
                    .help(format!("Arguments of {}", self.name))
                    .action(ArgAction::Append)
                    .num_args(0..)
                    .trailing_var_arg(true)
                    .allow_hyphen_values(true)
                    .value_parser(value_parser!(OsString)),
            ),
        }
    }
}
