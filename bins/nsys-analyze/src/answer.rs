//! Answers: tables, and what they say in sentences.

use flopgap_answers::Answer;
use flopgap_cli::{Console, Failure, OutputArgs};
use flopgap_report::table::Format;
use flopgap_timings::Error;
use serde::Serialize;
use serde_json::Value;

/// How an error of the library ends this program, with what its options can do about it.
pub(crate) fn unanswered(error: &Error) -> Failure {
    let failure = Failure::of(error);
    match error {
        Error::NoRange { .. } => failure.hint(crate::NO_RANGE),
        Error::NoPasses { .. } | Error::NoSteps { .. } => failure
            .hint("name the ranges with --range; `flopgap nsys stats TRACE --report nvtx_sum` lists them"),
        Error::OnlyWarmUp { .. } => failure
            .hint("--warmup 0 keeps the first instances, and --warmup-range names another range as warm-up"),
        Error::NoWork { .. } | Error::NoKernels { within: Some(_), .. } => failure
            .hint("`flopgap nsys stats TRACE --report nvtx_gpu_proj_sum` lists the ranges that launch work"),
        _ => failure,
    }
}

/// Prints tables one below the other and then the sentences; for JSON the data, whole nanoseconds
/// and unrounded, with the sentences; for CSV the tables alone.
pub(crate) fn print(
    answer: &Answer<impl Serialize>,
    output: &OutputArgs,
    console: Console,
) -> Result<(), Failure> {
    let format = output.format();
    if format == Format::Json {
        let mut data = serde_json::to_value(&answer.data)
            .map_err(|error| Failure::new(format!("the answer does not fit into JSON: {error}")))?;
        if let Value::Object(fields) = &mut data {
            fields.insert("sentences".to_owned(), answer.sentences.as_slice().into());
        }
        let text = serde_json::to_string_pretty(&data).map_err(|error| Failure::from_error(&error))?;
        return output.write(console, &text);
    }
    let mut parts = Vec::new();
    for table in &answer.tables {
        let text = table.render(format, &output.text())?;
        parts.push(text.trim_end().to_owned());
    }
    if !format.is_csv() && !answer.sentences.is_empty() {
        let between = if format == Format::Markdown { "\n\n" } else { "\n" };
        parts.push(format.sentences(&answer.sentences.join(between), &output.text()));
    }
    output.write(console, &parts.join("\n\n"))
}
