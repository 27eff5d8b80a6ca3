//! Text that comes from files, such as names, without characters that would disturb what shows it.

/// Text for a terminal: control characters, which would move its cursor or change its colors,
/// become U+FFFD, and tabs spaces. Line feeds stay.
///
/// ```
/// assert_eq!(flopgap_report::text::printable("a\u{1b}[2J\r.csv\tb\n"), "a\u{FFFD}[2J\u{FFFD}.csv b\n");
/// ```
pub fn printable(text: &str) -> String {
    let one = |c: char| match c {
        '\t' => ' ',
        '\n' => c,
        c if c.is_control() => '\u{FFFD}',
        c => c,
    };
    text.chars().map(one).collect()
}

/// Text for a picture, on one line and without what XML 1.0 cannot hold even escaped.
pub(crate) fn on_one_line(text: &str) -> String {
    let one = |c: char| match c {
        '\n' => ' ',
        '\u{FFFE}' | '\u{FFFF}' => '\u{FFFD}',
        c => c,
    };
    printable(&text.replace('\r', " ")).chars().map(one).collect()
}
