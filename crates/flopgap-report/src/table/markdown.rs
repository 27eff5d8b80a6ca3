//! GitHub Markdown.

use std::fmt::Write as _;

use super::{Align, Cell, NO_ROWS, Table};

impl Table {
    /// A GitHub Markdown table, its title in bold above it. Text is escaped so that it shows
    /// exactly as it is.
    pub fn to_markdown(&self) -> String {
        let title =
            if self.title.is_empty() { String::new() } else { format!("**{}**\n\n", escape(&self.title)) };
        title + &self.markdown(false)
    }

    /// [`Table::to_markdown`] without the title and with its columns lined up, for readers of the
    /// source.
    #[cfg(feature = "pages")]
    pub(crate) fn to_aligned_markdown(&self) -> String {
        self.markdown(true)
    }

    fn markdown(&self, aligned: bool) -> String {
        let mut lines = vec![self.columns.iter().map(|column| escape(&column.heading())).collect::<Vec<_>>()];
        lines.extend(self.rows.iter().map(|row| row.iter().map(cell_text).collect()));
        let length = |text: &String| text.chars().count();
        let width = |at: usize| lines.iter().map(|line| length(&line[at])).max().unwrap_or_default().max(3);
        let widths: Vec<usize> =
            (0..self.columns.len()).map(|at| if aligned { width(at) } else { 0 }).collect();
        let mut out = String::new();
        for (index, line) in lines.iter().enumerate() {
            let fields = line.iter().zip(&widths).zip(&self.columns).map(|((text, width), column)| {
                let room = " ".repeat(width.saturating_sub(length(text)));
                if column.align == Align::Left { format!("{text}{room}") } else { format!("{room}{text}") }
            });
            push_line(&mut out, fields);
            if index == 0 {
                let rules = widths.iter().zip(&self.columns).map(|(width, column)| match column.align {
                    Align::Left => "-".repeat(if aligned { *width } else { 3 }),
                    Align::Right => "-".repeat(if aligned { width - 1 } else { 3 }) + ":",
                });
                push_line(&mut out, rules);
            }
        }
        self.push_no_rows(&mut out);
        out
    }

    /// A paragraph of its own below an empty table: the next line would be a row.
    fn push_no_rows(&self, out: &mut String) {
        if self.is_empty() {
            let _ = writeln!(out, "\n{NO_ROWS}");
        }
    }
}

fn cell_text(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => escape(text),
        other => other.display(),
    }
}

fn push_line(out: &mut String, fields: impl Iterator<Item = String>) {
    for field in fields {
        let _ = write!(out, "| {field} ");
    }
    out.push_str("|\n");
}

/// Backslashes before what GitHub would read as markup. An underscore inside a word is left alone
/// (it never starts emphasis there), so that kernel names stay readable in the source.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut previous = ' ';
    let mut rest = text.chars().peekable();
    // Brackets mean something before an address, and at the beginning of a point as a box to tick.
    let ticks = ["[ ]", "[x]", "[X]"].iter().any(|tick| text.starts_with(tick));
    while let Some(c) = rest.next() {
        match c {
            '\\' | '`' | '*' | '|' | '<' | '>' | '~' | '$' | '&' | '#' => {
                out.push('\\');
                out.push(c);
            }
            '[' if ticks && out.is_empty() => out.push_str("\\["),
            ']' if matches!(rest.peek(), Some('(' | '[' | ':')) => out.push_str("\\]"),
            '_' => {
                let inside_word =
                    previous.is_alphanumeric() && rest.peek().is_some_and(|next| next.is_alphanumeric());
                out.push_str(if inside_word { "_" } else { "\\_" });
            }
            '\r' if rest.peek() == Some(&'\n') => {}
            '\n' | '\r' => out.push_str("<br>"),
            _ => out.push(c),
        }
        previous = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::Column;
    use super::*;

    #[test]
    fn renders_with_alignment_and_units() {
        let columns =
            [Column::text("k", "kernel"), Column::number("t", "time").unit("µs"), Column::number("e", "ε")];
        let mut table = Table::new("Slowest kernels", columns).unwrap();
        table
            .push([
                Cell::from("void gemm<float*, 3>(int)|x"),
                Cell::float(1234.5, 1),
                Cell::signed_percent(0.05, 1),
            ])
            .unwrap();
        table.push([Cell::from("__half_add_"), Cell::Absent, Cell::Absent]).unwrap();
        assert_eq!(
            table.to_markdown(),
            "\
**Slowest kernels**

| kernel | time (µs) | ε |
| --- | ---: | ---: |
| void gemm\\<float\\*, 3\\>(int)\\|x | 1,234.5 | +5.0% |
| \\_\\_half_add\\_ | - | - |
"
        );
    }

    #[test]
    fn an_empty_table_says_so() {
        let table = Table::new("None", [Column::text("a", "a")]).unwrap();
        assert_eq!(table.to_markdown(), "**None**\n\n| a |\n| --- |\n\n(no rows)\n");
        assert_eq!(table.to_aligned_markdown(), "| a   |\n| --- |\n\n(no rows)\n");
    }

    #[test]
    fn lined_up_it_says_the_same() {
        let mut table = Table::new("", [Column::text("k", "kernel"), Column::number("n", "n")]).unwrap();
        table.push([Cell::from("a|b"), Cell::from(1234_u64)]).unwrap();
        table.push([Cell::from("é"), Cell::Absent]).unwrap();
        assert_eq!(
            table.to_aligned_markdown(),
            "\
| kernel |     n |
| ------ | ----: |
| a\\|b   | 1,234 |
| é      |     - |
"
        );
    }

    #[test]
    fn a_cell_never_breaks_its_row() {
        assert_eq!(escape("a\r\nb\nc\rd"), "a<br>b<br>c<br>d");
        assert_eq!(escape("&lt;"), "\\&lt;");
        assert_eq!(escape("kernel [mul]"), "kernel [mul]");
        assert_eq!(escape("[a](b) [c][d] [e]: f"), "[a\\](b) [c\\][d] [e\\]: f");
        assert_eq!(escape("[ ] to do [ ]"), "\\[ ] to do [ ]");
    }

    proptest::proptest! {
        #[test]
        fn every_line_has_one_bar_more_than_columns(words in proptest::collection::vec(".*", 1..5)) {
            let mut table = Table::new("", [Column::text("a", "a"), Column::text("b", "b")]).unwrap();
            for word in &words {
                table.push([Cell::text(word), Cell::text(word)]).unwrap();
            }
            for line in table.to_markdown().split('\n').filter(|line| !line.is_empty()) {
                let mut bars = 0;
                let mut escaped = false;
                for c in line.chars() {
                    match c {
                        '\\' if !escaped => escaped = true,
                        '|' if !escaped => bars += 1,
                        _ => escaped = false,
                    }
                    if c != '\\' { escaped = false; }
                }
                proptest::prop_assert_eq!(bars, 3, "{}", line);
            }
        }
    }
}
