//! `model-calibrate fit`.

use flopgap_cli::Failure;

#[derive(clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_: &Arguments) -> Result<(), Failure> {
    Err(Failure::new("this command is not built in yet"))
}
