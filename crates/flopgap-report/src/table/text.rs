//! Lined-up text for terminals.

use std::collections::HashMap;
use std::io::IsTerminal as _;

use super::fit::{self, Fit, GAP, Need};
use super::{Align, NO_ROWS, Table};
use crate::text::{columns, printable, shorten, wrap};

/// Names are not made shorter than this; columns are left out instead.
const SHORTEST_NAME: usize = 28;

/// Other text, such as the class of a kernel, is not made shorter than this.
const SHORTEST_TEXT: usize = 14;

/// How a table is fitted into a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns of the terminal. `None` lets every line be as long as it needs: right for files and
    /// pipes.
    pub width: Option<u16>,
    /// Lines that prose may fill in one cell before it ends in `…`. Only used together with a
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
    /// Fits standard output, as [`terminal_width`].
    pub fn for_stdout() -> Self {
        Self { width: terminal_width(), ..Self::default() }
    }
}

/// Width of standard output in columns: the environment variable `COLUMNS` if it is a number above
/// zero, else the width of the terminal, 80 if it does not tell. `None` when standard output is a
/// file or a pipe and `COLUMNS` is not set: what programs read does not depend on a window.
pub fn terminal_width() -> Option<u16> {
    let set = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    width_of(set, std::io::stdout().is_terminal(), || {
        terminal_size::terminal_size().map(|(width, _)| width.0)
    })
}

fn width_of(set: Option<u16>, is_terminal: bool, measured: impl FnOnce() -> Option<u16>) -> Option<u16> {
    const USUAL: u16 = 80;
    let terminal = || is_terminal.then(|| measured().filter(|width| *width > 0).unwrap_or(USUAL));
    set.filter(|width| *width > 0).or_else(terminal)
}

/// A cell of a line: one or more lines of text.
type Lines = Vec<String>;

impl Table {
    /// Lined-up text: two spaces between columns, a rule under the header. Where `options` has a
    /// width, names are shortened in their middle, prose and headings wrap, and columns that do
    /// not fit are left out and named below the table. Numbers are never broken or cut.
    pub fn to_text(&self, options: &TextOptions) -> String {
        let width = options.width.map(usize::from);
        let cells: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(|cell| one_line(&cell.display())).collect()).collect();
        let needs: Vec<Need> = (0..self.columns.len()).map(|at| self.need(at, &cells)).collect();
        let fit = fit::fit(&needs, width);
        let mut out = String::new();
        if !self.title.is_empty() {
            push_wrapped(&mut out, &printable(&self.title), width);
        }
        let heads: Vec<Lines> = fit
            .shown
            .iter()
            .map(|&(at, width)| wrap(&one_line(&self.columns[at].heading()), width))
            .collect();
        self.push_row(&mut out, &fit, &bottom_aligned(heads));
        out.push_str(&"─".repeat(fit::line(fit.shown.iter().map(|column| column.1))));
        out.push('\n');
        let columns: Vec<Vec<Lines>> =
            fit.shown.iter().map(|&(at, width)| self.lines(at, width, &cells, options)).collect();
        for row in 0..cells.len() {
            let lines: Vec<Lines> = columns.iter().map(|column| column[row].clone()).collect();
            self.push_row(&mut out, &fit, &lines);
        }
        if self.rows.is_empty() {
            out.push_str(NO_ROWS);
            out.push('\n');
        }
        if !fit.left_out.is_empty() {
            let names: Vec<String> =
                fit.left_out.iter().map(|&at| one_line(&self.columns[at].heading())).collect();
            let all = fit::line(needs.iter().map(|need| need.whole));
            let width = width.unwrap_or_default();
            let note =
                format!("Not shown in {width} columns: {}. COLUMNS={all} shows all.", names.join(", "));
            push_wrapped(&mut out, &note, Some(width));
        }
        out
    }

    /// What a column needs.
    fn need(&self, at: usize, cells: &[Vec<String>]) -> Need {
        let column = &self.columns[at];
        let is_text = column.align == Align::Left;
        let heading = one_line(&column.heading());
        let word = heading.split(' ').map(columns).max().unwrap_or_default();
        let values = cells.iter().map(|row| columns(&row[at])).max().unwrap_or_default();
        // The first column of text has the names, by which rows are distinguished.
        let is_name = is_text && self.columns[..at].iter().all(|column| column.align == Align::Right);
        let shortest = if is_name || column.prose { SHORTEST_NAME } else { SHORTEST_TEXT };
        let least = if is_text { values.min(shortest) } else { values };
        let rank = column.rank.unwrap_or(u8::from(at > 0 && !is_name));
        Need { whole: values.max(columns(&heading)), least: least.max(word), is_text, rank }
    }

    /// The cells of a column, in its width.
    fn lines(&self, at: usize, width: usize, cells: &[Vec<String>], options: &TextOptions) -> Vec<Lines> {
        let values = cells.iter().map(|row| row[at].as_str());
        let column = &self.columns[at];
        if column.prose {
            let most = options.max_lines.max(1);
            return values.map(|text| cut(wrap(text, width), width, most)).collect();
        }
        if column.align == Align::Right {
            return values.map(|text| vec![text.to_owned()]).collect();
        }
        distinct(values, width).into_iter().map(|name| vec![name]).collect()
    }

    fn push_row(&self, out: &mut String, fit: &Fit, cells: &[Lines]) {
        let height = cells.iter().map(Vec::len).max().unwrap_or_default();
        for line in 0..height {
            let mut text = String::new();
            for (&(at, width), lines) in fit.shown.iter().zip(cells) {
                let cell = lines.get(line).map_or("", String::as_str);
                let room = " ".repeat(width.saturating_sub(columns(cell)));
                match self.columns[at].align {
                    Align::Left => text.extend([cell, &room]),
                    Align::Right => text.extend([&room, cell]),
                }
                text.push_str(&" ".repeat(GAP));
            }
            out.push_str(text.trim_end());
            out.push('\n');
        }
    }
}

fn one_line(text: &str) -> String {
    printable(text).replace('\n', " ")
}

fn push_wrapped(out: &mut String, text: &str, width: Option<usize>) {
    for line in wrap(text, width.unwrap_or(usize::MAX)) {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// Headings of fewer lines stand directly above the rule.
fn bottom_aligned(mut heads: Vec<Lines>) -> Vec<Lines> {
    let height = heads.iter().map(Vec::len).max().unwrap_or_default();
    for head in &mut heads {
        let missing = height - head.len();
        head.splice(..0, std::iter::repeat_n(String::new(), missing));
    }
    heads
}

/// At most so many lines, the last of which ends in `…` if there were more.
fn cut(lines: Lines, width: usize, most: usize) -> Lines {
    let is_cut = lines.len() > most;
    let mut lines: Lines = lines.into_iter().take(most).map(|line| shorten(&line, width)).collect();
    if let Some(last) = lines.last_mut().filter(|_| is_cut) {
        while columns(last) + 1 > width && last.pop().is_some() {}
        last.push('…');
    }
    lines
}

/// Names in a width; different names stay different.
fn distinct<'a>(names: impl Iterator<Item = &'a str>, width: usize) -> Vec<String> {
    // For each short name, the names that it stands for.
    let mut known: HashMap<String, Vec<&'a str>> = HashMap::new();
    let mut out = Vec::new();
    for name in names {
        let mut short = shorten(name, width);
        let same = known.entry(short.clone()).or_default();
        let number = same.iter().position(|other| *other == name).unwrap_or_else(|| {
            same.push(name);
            same.len() - 1
        });
        if number > 0 {
            let suffix = format!("({})", number + 1);
            short = shorten(name, width.saturating_sub(suffix.len())) + &suffix;
        }
        out.push(short);
    }
    out
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
    fn a_narrow_terminal_shortens_names_and_never_numbers() {
        let text = |width| table().to_text(&TextOptions { width: Some(width), max_lines: 3 });
        assert_eq!(
            text(60),
            "\
Kernels
kernel                                  calls    work (FLOP)
────────────────────────────────────────────────────────────
ampere_sgemm_128x64…r long explanation     12  1,234,567,890
sigmoid                                     3              -
"
        );
        // Then columns are left out, and named.
        assert_eq!(
            text(46),
            "\
Kernels
kernel                                   calls
──────────────────────────────────────────────
ampere_sgemm_128x64…er long explanation     12
sigmoid                                      3
Not shown in 46 columns: work (FLOP).
COLUMNS=75 shows all.
"
        );
        assert_eq!(text(75), table().to_text(&TextOptions::default()));
    }

    #[test]
    fn headings_wrap_before_names_are_shortened() {
        let columns = [Column::text("k", "kernel"), Column::number("t", "GPU projected, median").unit("ms")];
        let mut table = Table::new("", columns).unwrap();
        table.push([Cell::from("sigmoid_forward"), Cell::float(1.5, 3)]).unwrap();
        assert_eq!(
            table.to_text(&TextOptions { width: Some(31), max_lines: 3 }),
            "                 GPU projected,
kernel              median (ms)
───────────────────────────────
sigmoid_forward           1.500
"
        );
    }

    #[test]
    fn prose_wraps_and_different_names_stay_different() {
        let mut table = Table::new("", [Column::text("k", "kernel"), Column::prose("m", "meaning")]).unwrap();
        for middle in ["first", "other", "first"] {
            let name =
                format!("void at::native::vectorized_elementwise<{middle}>(int, a, b, std::array<char*>)");
            table.push([Cell::from(name), Cell::from("what a reader reads from left to right")]).unwrap();
        }
        assert_eq!(
            table.to_text(&TextOptions { width: Some(60), max_lines: 2 }),
            "\
kernel                         meaning
────────────────────────────────────────────────────────────
void at::nativ…:array<char*>)  what a reader reads from left
                               to right
void at::nati…rray<char*>)(2)  what a reader reads from left
                               to right
void at::nativ…:array<char*>)  what a reader reads from left
                               to right
"
        );
    }

    #[test]
    fn the_width_is_that_of_the_environment_then_of_the_terminal() {
        assert_eq!(width_of(Some(120), true, || Some(80)), Some(120));
        assert_eq!(width_of(Some(120), false, || None), Some(120));
        assert_eq!(width_of(None, true, || Some(132)), Some(132));
        assert_eq!(width_of(Some(0), true, || Some(0)), Some(80));
        assert_eq!(width_of(None, true, || None), Some(80));
        assert_eq!(width_of(None, false, || Some(80)), None);
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
