//! What identifies the file of a record, and its fixed columns.

use flopgap_files::run::Format;

/// The format of every record.
pub(super) static FORMAT: Format = Format { name: "flopgap-counts", version: 1, noun: "record of counts" };

/// The ending of a record's file, behind the configuration's name and a dot.
pub(crate) const RECORD_ENDING: &str = "counts.json.zst";

/// The columns in front of the quantities.
pub(super) const FIXED: [&str; 7] = ["kernel", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"];
