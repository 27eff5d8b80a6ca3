//! Text for terminals: from files, without characters that would disturb what shows it, and in
//! lines of a given width.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

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

/// Text within an element or an attribute of XML or HTML, on one line.
pub fn escape(text: &str) -> String {
    on_one_line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Columns of a terminal that a text without line feeds takes.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// Breaks text between words into lines of at most `width` columns. A longer word has a line of its
/// own, which is longer, so that it can be copied. Line feeds stay.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        let mut words = paragraph.split(' ');
        let mut line = words.next().unwrap_or_default().to_owned();
        for word in words {
            if columns(&line) + 1 + columns(word) > width {
                lines.push(std::mem::replace(&mut line, word.to_owned()));
            } else {
                line.push(' ');
                line.push_str(word);
            }
        }
        lines.push(line);
    }
    lines
}

/// A name in at most `width` columns, its middle as `…`: the end distinguishes tiles, types and
/// operations.
pub(crate) fn shorten(name: &str, width: usize) -> String {
    if columns(name) <= width {
        return name.to_owned();
    }
    let (first, last) = (width / 2, width.saturating_sub(width / 2 + 1));
    let start = within(name.chars(), first);
    let end = within(name.chars().rev(), last);
    start.into_iter().chain(['…']).chain(end.into_iter().rev()).collect()
}

/// As many characters as fit.
fn within(characters: impl Iterator<Item = char>, width: usize) -> Vec<char> {
    let mut left = width;
    characters
        .map_while(|c| {
            left = left.checked_sub(c.width().unwrap_or_default())?;
            Some(c)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_names_in_their_middle() {
        assert_eq!(wrap("a step of 40.861 ms", 10), ["a step of", "40.861 ms"]);
        assert_eq!(wrap("flopgap_report", 10), ["flopgap_report"]);
        assert_eq!(shorten("ampere_sgemm_128x64_tn", 14), "ampere_…x64_tn");
        assert_eq!(shorten("sigmoid", 14), "sigmoid");
    }

    proptest::proptest! {
        #[test]
        fn a_short_name_fits_and_lines_hold_all_words(text in "[a-zé漢_ ]{0,60}", width in 1_usize..40) {
            proptest::prop_assert!(columns(&shorten(&text, width)) <= width);
            let lines = wrap(&text, width);
            proptest::prop_assert_eq!(lines.join(" "), text);
            for line in lines {
                proptest::prop_assert!(columns(&line) <= width || !line.trim().contains(' '), "{}", line);
            }
        }
    }
}
