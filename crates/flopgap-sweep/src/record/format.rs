//! What identifies the file of a record, and its fixed columns.

/// The `format` field of every record.
pub const RECORD_FORMAT: &str = "flopgap-counts";

/// The version of the format that this crate writes, and the newest that it reads.
pub const RECORD_VERSION: u32 = 1;

/// The ending of a record's file, behind the configuration's name and a dot.
pub const RECORD_ENDING: &str = "counts.json.zst";

/// The columns in front of the quantities.
pub(super) const FIXED: [&str; 7] = ["kernel", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"];
