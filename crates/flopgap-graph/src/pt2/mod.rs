//! `.pt2` archives of `torch.export.save`: a zip with the graph as JSON, in which every value has a
//! shape.
//!
//! Source of the layout: `torch/_export/serde/schema.py` of PyTorch 2.11, schema 8.17. The file
//! promises no stability, so another major version is refused.

mod aten;
mod call;
mod masks;
mod recurrent;
mod symbols;
mod views;
mod walk;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use serde_json::Value;
use zip::ZipArchive;
use zip::read::{ArchiveOffset, Config};
use zip::result::ZipError;

use crate::error::GraphError;
use crate::graph::Graph;
use crate::shapes::Shapes;

/// The major version of the schema that this crate reads.
const SCHEMA: u64 = 8;
/// What a graph may take unpacked: far more than those of large models do (the largest fixture: 0.9
/// MB), and little enough that its JSON, in memory 30 times the size, does not exhaust a machine.
const LARGEST: u64 = 128 << 20;

/// Reads an archive.
pub(crate) fn read(path: &Path, file: File, shapes: &Shapes, training: bool) -> Result<Graph, GraphError> {
    let damaged = |place: &str, reason: String| GraphError::Damaged {
        path: path.to_owned(),
        place: place.to_owned(),
        reason,
    };
    let mut archive = open(file).map_err(|error| match error {
        ZipError::Io(source) if source.kind() != io::ErrorKind::UnexpectedEof => {
            GraphError::Read { path: path.to_owned(), source }
        }
        // The list of members is the last thing in an archive.
        error => damaged("zip archive", format!("{error}; the file is truncated or damaged")),
    })?;
    let names = names(&archive);
    let member = program(&names).ok_or_else(|| GraphError::Unknown {
        path: path.to_owned(),
        reason: if names.iter().any(|name| name.ends_with("/data.pkl")) {
            "it holds parameters of torch.save or a TorchScript module, not an exported program".to_owned()
        } else {
            "it is a zip archive without models/NAME.json".to_owned()
        },
    })?;
    let mut text = Vec::new();
    let entry = archive.by_name(&member).map_err(|error| damaged(&member, error.to_string()))?;
    entry
        .take(LARGEST + 1)
        .read_to_end(&mut text)
        .map_err(|error| damaged(&member, format!("{error}; the file is truncated or damaged")))?;
    if text.len() as u64 > LARGEST {
        return Err(damaged(&member, format!("larger than {LARGEST} bytes")));
    }
    let program: Value =
        serde_json::from_slice(&text).map_err(|error| damaged(&member, format!("not JSON: {error}")))?;
    check_version(path, &program)?;
    walk::graph(path, &member, &program, shapes, training)
}

/// Whether a zip archive has an exported program. One that is cut off is damaged, whatever it was.
pub(crate) fn is_program(file: File) -> io::Result<bool> {
    match open(file) {
        Ok(archive) => Ok(program(&names(&archive)).is_some()),
        Err(ZipError::Io(error)) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        Err(_) => Ok(false),
    }
}

fn open(file: File) -> Result<ZipArchive<File>, ZipError> {
    // Sample inputs are a zip archive within the archive, whose end must not be taken for that of
    // the whole.
    ZipArchive::with_config(Config { archive_offset: ArchiveOffset::Known(0) }, file)
}

fn names(archive: &ZipArchive<File>) -> Vec<String> {
    archive.file_names().flatten().map(std::borrow::Cow::into_owned).collect()
}

/// The member of the archive that has the graph: `NAME/models/model.json`, or before PyTorch 2.8
/// `serialized_exported_program.json`.
fn program(names: &[String]) -> Option<String> {
    let model = |name: &&String| {
        let mut parts = name.rsplit('/');
        let file = parts.next().unwrap_or_default();
        let json = Path::new(file).extension().is_some_and(|extension| extension == "json");
        json && parts.next() == Some("models")
    };
    let mut models: Vec<&String> = names.iter().filter(model).collect();
    models.sort_unstable();
    let usual = models.iter().find(|name| name.ends_with("/model.json")).or(models.first());
    let old = || names.iter().find(|name| name.ends_with("serialized_exported_program.json"));
    usual.copied().or_else(old).cloned()
}

fn check_version(path: &Path, program: &Value) -> Result<(), GraphError> {
    let version = &program["schema_version"];
    let major = version["major"].as_u64();
    if major == Some(SCHEMA) {
        return Ok(());
    }
    let found = match (major, version["minor"].as_u64()) {
        (Some(major), Some(minor)) => format!("{major}.{minor}"),
        (Some(major), None) => major.to_string(),
        _ if version.is_null() => "none".to_owned(),
        _ => version.to_string(),
    };
    Err(GraphError::Version {
        path: path.to_owned(),
        what: "schema version",
        found,
        known: "8.x, of PyTorch 2.6 to 2.11",
    })
}
