//! Dates as metadata has them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The end of the years that have four digits, in seconds since 1970.
const YEAR_10000: u64 = 253_402_300_800;

/// A time in UTC to the millisecond, as RFC 3339 writes it: texts of one length, which sort as the
/// times do. None before 1970 and after 9999.
///
/// ```
/// use flopgap_table::parquet::date;
///
/// let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_795_225_586_417);
/// assert_eq!(date(time).as_deref(), Some("2026-11-21T01:46:26.417Z"));
/// ```
pub fn date(time: SystemTime) -> Option<String> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    (since.as_secs() < YEAR_10000).then(|| humantime::format_rfc3339_millis(time).to_string())
}

/// The date of a time in nanoseconds since 1970.
pub(crate) fn since_1970(nanoseconds: i64) -> Option<String> {
    date(UNIX_EPOCH.checked_add(Duration::from_nanos(nanoseconds.try_into().ok()?))?)
}

/// The date that a text in UTC spells, with or without a zone.
pub(crate) fn spelled(text: &str) -> Option<String> {
    date(humantime::parse_rfc3339_weak(text).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_spelled_in_one_way_or_absent() {
        let date = Some("2026-11-21T01:46:26.000Z".to_owned());
        for text in ["2026-11-21T01:46:26", "2026-11-21 01:46:26", "2026-11-21T01:46:26Z"] {
            assert_eq!(spelled(text), date, "{text}");
        }
        assert_eq!(since_1970(1_795_225_586_000_000_000), date);
        for text in ["", "yesterday", "2026-13-01T00:00:00Z"] {
            assert_eq!(spelled(text), None, "{text}");
        }
        assert_eq!(since_1970(-1), None);
        assert_eq!(super::date(UNIX_EPOCH + Duration::from_secs(YEAR_10000)), None);
    }
}
