//! Lined-up text for terminals.

use std::io::IsTerminal as _;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, TableStyle};

use super::{Align, Table};
use crate::text::printable;

/// How a table is fitted into a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns of the terminal. `None` lets every line be as long as it needs: right for files and
    /// pipes.
    pub width: Option<u16>,
    /// Lines that a long text may fill in one cell before it ends in `…`. Only used together with a
    /// width.
    pub max_lines: usize,
}

impl Default for TextOptions {
    /// Lines as long as they need.
    fn default() -> Self {
        Self { width: None, max_lines: 3 }
    }
}

impl TextOptions {
    /// Fits standard output: its width when it is a terminal, unlimited otherwise.
    pub fn for_stdout() -> Self {
        Self { width: terminal_width(), ..Self::default() }
    }
}

/// Width of the terminal on standard output, in columns; `None` when standard output is a file or a
/// pipe.
pub fn terminal_width() -> Option<u16> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| width.0)
}

/// No borders, two spaces between columns, one rule under the header: what a reader's eye and `awk`
/// both like.
fn style() -> TableStyle {
    use comfy_table::{ContentLineStyle, LineStyle};
    TableStyle::new()
        .header_lines(ContentLineStyle::none())
        .header_separator(LineStyle::none().fill('─').junction('─'))
        .content_lines(ContentLineStyle::none())
}

impl Table {
    /// Lined-up text. Numbers are never broken or cut; when the width is too small, text columns
    /// wrap, and after `max_lines` lines they end in `…`.
    pub fn to_text(&self, options: &TextOptions) -> String {
        let mut out = String::new();
        if !self.title.is_empty() {
            out.push_str(&self.title);
            out.push('\n');
        }
        for line in self.layout(options).lines() {
            out.push_str(line.trim_end());
            out.push('\n');
        }
        if self.rows.is_empty() {
            out.push_str("(no rows)\n");
        }
        out
    }

    fn layout(&self, options: &TextOptions) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table.load_style(style());
        table.set_header(self.columns.iter().map(|column| printable(&column.heading())));
        for cells in &self.rows {
            let mut row = comfy_table::Row::from(cells.iter().map(|cell| printable(&cell.display())));
            if options.width.is_some() {
                row.max_height(options.max_lines.max(1));
            }
            table.add_row(row);
        }
        if let Some(width) = options.width {
            table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
        }
        for (layout, column) in table.column_iter_mut().zip(&self.columns) {
            // One space of padding and one that comfy-table puts where a border would stand.
            layout.set_padding((0, 1));
            if column.align() == Align::Right {
                layout.set_cell_alignment(CellAlignment::Right);
                layout.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        if let Some(last) = self.columns.len().checked_sub(1).and_then(|last| table.column_mut(last)) {
            last.set_padding((0, 0));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cell, Column};
    use super::*;

    fn table() -> Table {
        let columns = [
            Column::text("kernel", "kernel"),
            Column::number("calls", "calls"),
            Column::number("flops", "work").unit("FLOP"),
        ];
        let mut table = Table::new("Kernels", columns).unwrap();
        table
            .push([
                Cell::from("ampere_sgemm_128x64_tn with a rather long explanation"),
                Cell::from(12_u64),
                Cell::from(1_234_567_890_u64),
            ])
            .unwrap();
        table.push([Cell::from("sigmoid"), Cell::from(3_u64), Cell::Absent]).unwrap();
        table
    }

    #[test]
    fn unlimited_width_keeps_one_line_a_row() {
        assert_eq!(
            table().to_text(&TextOptions::default()),
            "\
Kernels
kernel                                                 calls    work (FLOP)
───────────────────────────────────────────────────────────────────────────
ampere_sgemm_128x64_tn with a rather long explanation     12  1,234,567,890
sigmoid                                                    3              -
"
        );
    }

    #[test]
    fn a_narrow_terminal_wraps_words_and_never_numbers() {
        let text = table().to_text(&TextOptions { width: Some(46), max_lines: 3 });
        for line in text.lines() {
            assert!(line.chars().count() <= 46, "{text}");
        }
        assert!(text.contains("   12  1,234,567,890"), "{text}");
        assert!(text.contains("explanation"), "{text}");

        let text = table().to_text(&TextOptions { width: Some(30), max_lines: 1 });
        assert!(text.contains("1,234,567,890"), "{text}");
        assert!(text.contains("ampere_…"), "{text}");
    }

    #[test]
    fn an_empty_table_says_so() {
        let table = Table::new("None", [Column::text("a", "a")]).unwrap();
        assert_eq!(table.to_text(&TextOptions::default()), "None\na\n─\n(no rows)\n");
    }

    #[test]
    fn names_cannot_send_escape_codes_to_the_terminal() {
        let mut table = Table::new("", [Column::text("a", "a")]).unwrap();
        table.push([Cell::from("x\u{1b}[31m\ty")]).unwrap();
        let text = table.to_text(&TextOptions::default());
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert!(text.contains("x\u{FFFD}[31m y"), "{text:?}");
    }
}
