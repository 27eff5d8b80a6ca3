//! Reads files of measurements of any kind.

use std::fs;
use std::path::Path;
use std::time::Instant;

use flopgap_calibration::judge::JudgeError;
use flopgap_calibration::sheet::{self, Role, Sheet, SheetError, SheetFault};
use flopgap_calibration::{Calibration, FileError, FileFault, Header, Origin};
use flopgap_cli::{Console, Exit, Failure};
use flopgap_graph::GraphError;
use flopgap_roofline::Ceilings;
use flopgap_roofline::predict::FitError;

use crate::PROGRAM;

/// A calibration, or a CSV table.
pub(crate) enum Empirical {
    Calibration(Box<Calibration>),
    Table(Sheet),
}

/// Reads measurements. A file that begins with `{` or a zstd frame is a calibration, any other a
/// table; a run directory stands for the calibration file in it.
pub(crate) fn empirical(
    path: &Path,
    role: Role,
    device: Option<&str>,
    console: Console,
) -> Result<Empirical, Failure> {
    let begin = Instant::now();
    let bytes = bytes(path)?;
    let path = &calibration_file(path);
    let read = |what: &str, rows: usize| {
        let seconds = begin.elapsed().as_secs_f64();
        console.detail(format_args!("{}: {what}, {rows} rows, read: {seconds:.3} s", path.display()));
    };
    if is_calibration(&bytes) {
        let calibration = Calibration::parse(&bytes, path).map_err(|error| of_file(&error))?;
        if let Some(device) = device {
            expect_device(path, &calibration.header.origin, device)?;
        }
        read("calibration", calibration.rows.len());
        warn_torn(&calibration, path);
        Ok(Empirical::Calibration(Box::new(calibration)))
    } else {
        let sheet = sheet::parse(&bytes, path, role, device).map_err(|error| of_sheet(&error))?;
        read("table of measurements", sheet.records.len());
        Ok(Empirical::Table(sheet))
    }
}

/// The bytes of such a file.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let path = calibration_file(path);
    fs::read(&path).map_err(|source| of_file(&FileError::new(&path, FileFault::Io { source })))
}

/// Whether they are a calibration rather than a table.
pub(crate) fn is_calibration(bytes: &[u8]) -> bool {
    bytes.first() == Some(&b'{') || bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

/// Reads a calibration; a table is read as one as far as its columns tell what was run.
pub(crate) fn calibration(
    path: &Path,
    device: Option<&str>,
    console: Console,
) -> Result<Calibration, Failure> {
    match empirical(path, Role::Empirical, device, console)? {
        Empirical::Calibration(calibration) => Ok(*calibration),
        Empirical::Table(table) => {
            flopgap_cli::warn_all(PROGRAM, &table.warnings);
            let (origin, rows, without) = sheet::to_rows(&table);
            let path = path.display();
            flopgap_cli::warn_all(PROGRAM, without.iter().map(|warning| format!("{path}: {warning}")));
            Ok(Calibration { header: Header::new(origin, None), rows, torn: false })
        }
    }
}

/// Refuses the calibration of a device that is not the named one.
pub(crate) fn expect_device(path: &Path, origin: &Origin, name: &str) -> Result<(), Failure> {
    let named = origin.device.to_lowercase().contains(&name.to_lowercase());
    if named || name.eq_ignore_ascii_case(&origin.kind) {
        return Ok(());
    }
    let message = format!("{}: a calibration of {}, not of `{name}`", path.display(), origin.device);
    Err(Failure::new(message).exit(Exit::Absent).hint("omit `--machine`, or pass another file"))
}

/// Replaces the ceilings of a calibration by measured ones.
pub(crate) fn set_ceilings(header: &mut Header, path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let ceilings = Ceilings::read(path)?;
    let origin = &header.origin;
    if let Err(error) = ceilings.expect_machine(&origin.kind, &origin.device, &origin.properties) {
        let message = format!("{}: not from the calibration's machine: {error}", path.display());
        return Err(Failure::new(message).hint("pass the ceilings that were measured with the calibration"));
    }
    header.ceilings = Some(ceilings);
    Ok(())
}

/// The calibration file in a run directory; any other path unchanged.
fn calibration_file(path: &Path) -> std::path::PathBuf {
    if path.is_dir() { path.join("calibration.jsonl") } else { path.to_owned() }
}

fn warn_torn(calibration: &Calibration, path: &Path) {
    if calibration.torn {
        let path = path.display();
        flopgap_cli::warn(
            PROGRAM,
            format_args!(
                "{path}: the last row is incomplete and ignored; `sweep --resume` measures it again"
            ),
        );
    }
}

/// A failure of a calibration file, with the options of this program that help.
pub(crate) fn of_file(error: &FileError) -> Failure {
    let failure = Failure::of(error);
    match error.what {
        FileFault::Row { .. } | FileFault::Number { .. } | FileFault::Exists => {
            failure.hint("`sweep --resume` continues a sweep")
        }
        _ => failure,
    }
}

/// A failure of a CSV table, with the options of this program that help.
pub(crate) fn of_sheet(error: &SheetError) -> Failure {
    let failure = Failure::of(error);
    match &error.what {
        SheetFault::MissingColumns { missing, .. }
            if missing.iter().any(|name| name.starts_with("analytical_")) =>
        {
            failure.hint("`--analytical FILE` adds a table of estimates")
        }
        SheetFault::MixedDevices { .. } | SheetFault::NoSuchDevice { .. } => {
            failure.hint("`--machine NAME` chooses a device")
        }
        _ => failure,
    }
}

/// A failure of a fit, with the options of this program that help.
pub(crate) fn of_judge(error: &JudgeError) -> Failure {
    let failure = Failure::of(error);
    match error {
        JudgeError::Fit(FitError::TooFew { .. }) => failure.hint("`sweep --quick` measures 150 rows"),
        _ => failure,
    }
}

/// A failure of a model, with the options of this program that help.
pub(crate) fn of_graph(error: &GraphError) -> Failure {
    let failure = Failure::of(error);
    match error {
        GraphError::Dynamic { .. } | GraphError::Shape { .. } | GraphError::NoSuchShape { .. } => {
            failure.hint("`--shape NAME=SIZES` specifies sizes")
        }
        _ => failure,
    }
}
