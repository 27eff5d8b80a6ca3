//! Results as the answer of a command.

use flopgap_cli::{Console, Failure, OutputArgs};
use flopgap_report::table::Format;

use crate::results::Results;
use crate::{failed, table};

/// Writes results in a format to where the options say.
pub(crate) fn write(
    output: &OutputArgs,
    format: Format,
    results: &Results,
    console: Console,
) -> Result<(), Failure> {
    let text = match format {
        Format::Json => serde_json::to_string_pretty(results).map_err(failed)?,
        format => table::render(results, format, &output.text()).map_err(failed)?,
    };
    output.write(console, &text)
}
