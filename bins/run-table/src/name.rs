//! Names of runs: what they are by default, and how they are spelled in a path.

use std::fmt::Write as _;
use std::path::{Component, Path};

/// What Hive calls a partition without a value.
const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";
/// How many bytes an encoded name may have: file systems allow 255, and `run=` and endings come to
/// it.
const MOST: usize = 200;

/// Endings that say what a file is and not which run it is of.
const ENDINGS: [&str; 11] =
    [".gz", ".zst", ".zstd", ".sqlite", ".sqlite3", ".ncu-rep", ".csv", ".jsonl", ".json", ".trace", ".pt"];

/// The name of a run whose source lies at `path`, below the directory that was searched if one was:
/// `2026-11/rank0` for `2026-11/rank0.sqlite.zst`.
pub(crate) fn of(path: &Path) -> String {
    let parts: Vec<String> = path
        .components()
        .filter_map(|component| match component {
            Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
            _ => None,
        })
        .collect();
    let mut name = parts.join("/");
    while let Some(rest) = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)) {
        // A file that is called `.json` keeps its name.
        if rest.is_empty() || rest.ends_with('/') {
            break;
        }
        name.truncate(rest.len());
    }
    name
}

/// The name as a part of a path, encoded as Hive does, or why it cannot be one.
pub(crate) fn encoded(name: &str) -> Result<String, &'static str> {
    if name.is_empty() {
        return Err("is empty");
    }
    if name == HIVE_NULL {
        return Err("is what engines read as a missing value");
    }
    let mut encoded = String::with_capacity(name.len());
    for (at, sign) in name.char_indices() {
        let is_end = at + sign.len_utf8() == name.len();
        // Names with these do not survive a copy to other file systems.
        let is_lost_at_the_end = is_end && matches!(sign, ' ' | '.');
        if sign.is_control() || "\"#%'*/:=?\\{}[]^<>|".contains(sign) || is_lost_at_the_end {
            let mut bytes = [0; 4];
            for byte in sign.encode_utf8(&mut bytes).bytes() {
                // Writing to a string does not fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
        } else {
            encoded.push(sign);
        }
    }
    if encoded.len() > MOST { Err("is too long") } else { Ok(encoded) }
}

/// The name that a part of a path stands for.
pub(crate) fn decoded(encoded: &str) -> String {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        if let Some(byte) = code {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The rank in a distributed job that a name has: `rank3`, `job_rank_12`, `trace.rank-0`.
pub(crate) fn rank(name: &str) -> Option<i64> {
    let (_, rank, _) = around_rank(name)?;
    rank.parse().ok()
}

/// What is left of a name without its rank: the same for all ranks of a job.
pub(crate) fn job(name: &str) -> String {
    let separators = ['_', '-', '.', ' ', '=', '/'];
    let Some((before, _, after)) = around_rank(name) else { return name.to_owned() };
    let before = before.trim_end_matches(separators);
    let job = format!("{before}{after}");
    job.trim_matches(separators).to_owned()
}

/// A name before `rank`, the digits behind it, and the rest.
fn around_rank(name: &str) -> Option<(&str, &str, &str)> {
    let at = name.to_ascii_lowercase().rfind("rank")?;
    let (before, after) = (&name[..at], &name[at + "rank".len()..]);
    let digits = after.trim_start_matches(['_', '-', '.', ' ', '=']);
    let end = digits.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(digits.len());
    (end > 0).then(|| (before, &digits[..end], &digits[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_path_without_what_says_the_format() {
        for (path, name) in [
            ("a.sqlite", "a"),
            ("./2026-11/rank0.sqlite.zst", "2026-11/rank0"),
            ("host_12.34.pt.trace.json.gz", "host_12.34"),
            ("v1.2.ncu-rep", "v1.2"),
            ("../runs/h200", "runs/h200"),
            (".json", ".json"),
            ("report.txt", "report.txt"),
        ] {
            assert_eq!(of(Path::new(path)), name);
        }
    }

    #[test]
    fn a_name_cannot_leave_its_directory() {
        for (name, path) in [
            ("a/b", "a%2Fb"),
            ("..", ".%2E"),
            ("../../etc/passwd", "..%2F..%2Fetc%2Fpasswd"),
            ("a=b", "a%3Db"),
            ("100%", "100%25"),
            ("line\nbreak", "line%0Abreak"),
            ("ends ", "ends%20"),
            ("größe 1", "größe 1"),
            ("\u{85}", "%C2%85"),
        ] {
            assert_eq!(encoded(name).unwrap(), path);
        }
        assert!(encoded("").is_err() && encoded(HIVE_NULL).is_err() && encoded(&"x".repeat(201)).is_err());
    }

    #[test]
    fn ranks_are_read_from_names() {
        for (name, known) in [
            ("rank3", Some(3)),
            ("job/trace_rank_12_of_16", Some(12)),
            ("RANK=0", Some(0)),
            ("frank", None),
            ("ranking", None),
            ("a", None),
        ] {
            assert_eq!(rank(name), known, "{name}");
        }
        for (name, common) in
            [("a/rank3", "a"), ("trace_rank_12_of_16", "trace_of_16"), ("rank0", ""), ("a", "a")]
        {
            assert_eq!(job(name), common, "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_name_is_one_part_of_a_path_and_reads_back(name in "\\PC{1,20}|.{1,20}") {
            if let Ok(encoded) = encoded(&name) {
                proptest::prop_assert_eq!(decoded(&encoded), name);
                proptest::prop_assert!(!encoded.contains(['/', '\\', '\0']) && encoded != ".." && encoded != ".");
            }
        }
    }
}
