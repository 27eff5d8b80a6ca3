//! Commands and formats of features that a program was built without. They stay in its help: what
//! is missing is easier to find than what is not there.

use std::ffi::OsString;

use crate::{Exit, Failure};

/// The arguments of a command that is not part of the program, whatever they are.
#[derive(Debug, Clone, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Absent {
    /// Arguments of the command
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// The failure of what needs a feature that the program was built without.
///
/// ```
/// let failure = flopgap_cli::built_without("pages", "pages");
/// assert!(failure.to_string().contains("pages need the feature `pages`"));
/// ```
pub fn built_without(what: &str, feature: &str) -> Failure {
    Failure::new(format!("{what} need the feature `{feature}`, which this program was built without"))
        .hint(format!("install flopgap with its default features, or with `--features {feature}`"))
        .exit(Exit::Absent)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Demo {
        #[command(flatten)]
        absent: Absent,
    }

    #[test]
    fn any_arguments_are_taken() {
        let words = ["demo", "a.sqlite", "-o", "page.html", "--help", "--", "-x"];
        let taken =
            Demo::try_parse_from(words).map(|demo| demo.absent.arguments).map_err(|error| error.kind());
        assert_eq!(taken.unwrap().len(), 6);
    }
}
