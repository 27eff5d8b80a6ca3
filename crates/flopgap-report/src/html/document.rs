//! A page of prose, tables and charts.

use std::fmt::{self, Write as _};

use minijinja::{context, value::Serde};
use serde::Serialize;
use serde_json::Value;

use super::Explorer;
use super::data::{self, ExplorerView, inside_script};
use super::policy::policy;
use super::view::{STYLE, TABLES, TableView, environment};
use crate::ReportError;
use crate::chart::{Drawn, Plot, ShareBars, Stacks, Timeline, Waterfall, timeline_json};
use crate::heatmap::patterns;
use crate::svg::style::page_style;
use crate::table::{Table, TextOptions, escape_markdown};
use crate::text::{columns, printable, shorten, wrap};

const TIMELINE: &str =
    concat!(include_str!("../../assets/page/marks.js"), include_str!("../../assets/page/timeline.js"));
const UPLOT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");
const UPLOT_LICENSE: &str = include_str!("../../assets/uplot/LICENSE");
const EXPLORER: &str = concat!(
    include_str!("../../assets/page/heatmap.js"),
    include_str!("../../assets/page/camera.js"),
    include_str!("../../assets/page/explorer.js"),
);
const PLOTLY: &str = include_str!("../../assets/plotly/plotly-gl3d.min.js");
const PLOTLY_LICENSE: &str = include_str!("../../assets/plotly/LICENSE");

/// A page: the same content as HTML, Markdown, JSON or text for a terminal.
///
/// All text is plain text: markup in it is shown, not obeyed. In paragraphs, points, headings and
/// titles, what stands between two backticks is set as a name.
///
/// ```
/// use flopgap_report::html::{Block, Document};
///
/// let page = Document {
///     title: "A step".to_owned(),
///     blocks: vec![Block::Heading("Kernels".to_owned()), Block::Text("`sort<int>` took > 50%.".to_owned())],
///     ..Document::default()
/// };
/// assert_eq!(page.to_markdown(), "# A step\n\n## Kernels\n\n`sort<int>` took \\> 50%.\n");
/// assert!(page.to_html()?.contains("<code>sort&lt;int&gt;</code> took &gt; 50%.</p>"));
/// # Ok::<(), flopgap_report::ReportError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// Heading and window title.
    pub title: String,
    /// A line below the heading; may be empty.
    pub subtitle: String,
    /// What the page consists of, from top to bottom.
    pub blocks: Vec<Block>,
}

/// A piece of a [`Document`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Block {
    /// Begins a section.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// Points.
    List(Vec<String>),
    /// Names and where they lead, as addresses relative to the page. Addresses with a scheme, such
    /// as `https:`, are shown as text: the page leads nowhere else.
    Links(Vec<(String, String)>),
    /// Names and values.
    Facts(Vec<(String, String)>),
    /// What is missing or wrong: a heading, and a line for each.
    Problems(String, Vec<String>),
    /// A table below its title.
    Table(Table),
    /// Shares as bars; letters in Markdown.
    Shares(ShareBars),
    /// Small bars on one scale; letters in Markdown.
    Stacks(Stacks),
    /// A whole that falls to nothing; letters in Markdown. A part opens what it consists of.
    Waterfall(Waterfall),
    /// A timeline to zoom; Markdown only names it.
    Timeline(Timeline),
    /// Points over two axes; Markdown shows the file that the chart names, or else only names the
    /// chart.
    Plot(Plot),
    /// Heatmaps and surfaces of measured metrics, of which a page has one at most; Markdown only
    /// names them.
    Explorer(Explorer),
}

#[derive(Serialize)]
struct PageView<'a> {
    title: &'a str,
    subtitle: &'a str,
    blocks: Vec<BlockView<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum BlockView<'a> {
    Heading {
        text: Vec<Span<'a>>,
    },
    Text {
        text: Vec<Span<'a>>,
    },
    List {
        items: Vec<Vec<Span<'a>>>,
    },
    Links {
        items: Vec<(&'a str, String)>,
    },
    Facts {
        items: &'a [(String, String)],
    },
    Problems {
        text: &'a str,
        items: Vec<Vec<Span<'a>>>,
    },
    Table {
        title: Vec<Span<'a>>,
        table: TableView<'a>,
    },
    Chart {
        text: Vec<Span<'a>>,
        svg: String,
    },
    Waterfall {
        text: Vec<Span<'a>>,
        falls: Vec<FallView<'a>>,
        hatched: bool,
        opens: bool,
        /// The timelines in which open parts are marked, as JSON; empty without any.
        marks_in: String,
        legend: Vec<(u8, &'a str)>,
    },
    Timeline {
        text: Vec<Span<'a>>,
        subject: &'a str,
        data: String,
    },
    Explorer(ExplorerView<'a>),
}

/// A row of a waterfall or of stacks: its bar, and what it consists of.
#[derive(Serialize)]
struct FallView<'a> {
    label: &'a str,
    text: &'a str,
    is_strong: bool,
    svg: String,
    details: Option<TableView<'a>>,
    /// What is marked while it is open, as JSON; empty without anything.
    marks: String,
}

/// A piece of prose.
#[derive(Serialize)]
struct Span<'a> {
    text: &'a str,
    /// Whether it stands between backticks.
    code: bool,
}

/// The pieces of a text; a backtick without a second one is a letter.
fn spans(text: &str) -> Vec<Span<'_>> {
    let mut spans = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`')
        && let Some((code, after)) = after.split_once('`')
    {
        spans.push(Span { text: before, code: false });
        spans.push(Span { text: code, code: true });
        rest = after;
    }
    spans.push(Span { text: rest, code: false });
    spans.retain(|span| !span.text.is_empty());
    spans
}

/// Prose in Markdown.
fn prose(text: &str) -> String {
    let piece = |span: Span<'_>| {
        // A line break would end the paragraph or point.
        let text = span.text.replace(['\n', '\r'], " ");
        if span.code { format!("`{text}`") } else { escape_markdown(&text) }
    };
    spans(text).into_iter().map(piece).collect()
}

/// Characters of a bar in Markdown.
const BLOCKS: usize = 40;

impl Document {
    /// The page as one HTML document that loads nothing.
    ///
    /// # Errors
    /// [`ReportError::Template`] when the template cannot be rendered, [`ReportError::Json`] when a
    /// timeline cannot be written, [`ReportError::Drawing`] when a chart cannot be drawn;
    /// [`ReportError::InvalidPage`] when a point of the explorer does not fit its selectors or
    /// metrics, and for two explorers; [`ReportError::InvalidPlot`] for two points at one place, or
    /// one that is not finite.
    pub fn to_html(&self) -> Result<String, ReportError> {
        let view = PageView {
            title: &self.title,
            subtitle: &self.subtitle,
            blocks: self.blocks.iter().map(view).collect::<Result<_, _>>()?,
        };
        let count = |is: fn(&Block) -> bool| self.blocks.iter().filter(|block| is(block)).count();
        let mut style = format!("{STYLE}{}", page_style());
        let mut script = TABLES.to_owned();
        // Name, license and code of the plotting libraries.
        let mut libraries = Vec::new();
        if count(|block| matches!(block, Block::Timeline(_))) > 0 {
            libraries.push(("uPlot", UPLOT_LICENSE, UPLOT));
            style.push_str(UPLOT_STYLE);
            script.push_str(TIMELINE);
        }
        match count(|block| matches!(block, Block::Explorer(_))) {
            0 => {}
            1 => {
                libraries.push(("plotly.js", PLOTLY_LICENSE, PLOTLY));
                script.push_str(EXPLORER);
            }
            explorers => {
                let reason = format!("{explorers} explorers: a page has one at most");
                return Err(ReportError::InvalidPage { reason });
            }
        }
        let scripts: Vec<&str> = libraries.iter().map(|library| library.2).chain([script.as_str()]).collect();
        let environment = environment()?;
        let template = environment.get_template("document.html").map_err(ReportError::template)?;
        let html = template.render(context! {
            page => Serde(view),
            version => env!("CARGO_PKG_VERSION"),
            style,
            policy => policy(&scripts),
            patterns => patterns(),
            libraries,
            script,
        });
        html.map_err(ReportError::template)
    }

    /// The page as GitHub Markdown, its tables lined up so that the source is readable, too.
    pub fn to_markdown(&self) -> String {
        let mut out = format!("# {}\n", escape_markdown(&self.title));
        if !self.subtitle.is_empty() {
            let _ = write!(out, "\n{}\n", escape_markdown(&self.subtitle));
        }
        for block in &self.blocks {
            out.push('\n');
            markdown(&mut out, block);
        }
        out
    }

    /// The page as text for a terminal, without markup: headings are underlined, and lines are as
    /// long as `options` permits.
    pub fn to_text(&self, options: &TextOptions) -> String {
        let width = options.width.map_or(usize::MAX, usize::from);
        let mut out = underlined(&self.title, '═', width);
        if !self.subtitle.is_empty() {
            out += &point("", &self.subtitle, width);
        }
        for block in &self.blocks {
            out.push('\n');
            out += &text(block, options, width);
        }
        out
    }

    /// The page as JSON: `title`, `subtitle`, and `sections`, each with `heading`, `text`
    /// (paragraphs and points), `facts`, `problems`, and `tables` by title with an array of
    /// objects each, numbers unformatted. Charts show what tables say and are left out.
    ///
    /// # Errors
    /// [`ReportError::Json`] when a table cannot be written.
    pub fn to_json(&self) -> Result<String, ReportError> {
        let mut sections: Vec<Section<'_>> = Vec::new();
        for block in &self.blocks {
            if let Block::Heading(heading) = block {
                sections.push(Section { heading, ..Section::default() });
                continue;
            }
            if sections.is_empty() {
                sections.push(Section::default());
            }
            let Some(section) = sections.last_mut() else { continue };
            match block {
                Block::Text(text) => section.text.push(text),
                Block::List(items) => section.text.extend(items.iter().map(String::as_str)),
                Block::Links(items) => {
                    section.links.extend(items.iter().map(|(name, to)| LinkJson { name, to }));
                }
                Block::Facts(facts) => {
                    section
                        .facts
                        .extend(facts.iter().map(|(name, value)| (name.clone(), value.as_str().into())));
                }
                Block::Problems(_, items) => section.problems.extend(items.iter().map(String::as_str)),
                Block::Table(table) => {
                    section.tables.push(TableJson { title: table.title(), rows: table });
                }
                Block::Heading(_)
                | Block::Shares(_)
                | Block::Stacks(_)
                | Block::Waterfall(_)
                | Block::Timeline(_)
                | Block::Plot(_)
                | Block::Explorer(_) => {}
            }
        }
        let page = DocumentJson { title: &self.title, subtitle: &self.subtitle, sections };
        let mut json = serde_json::to_string_pretty(&page).map_err(ReportError::json)?;
        json.push('\n');
        Ok(json)
    }
}

#[derive(Serialize)]
struct DocumentJson<'a> {
    title: &'a str,
    subtitle: &'a str,
    sections: Vec<Section<'a>>,
}

#[derive(Default, Serialize)]
struct Section<'a> {
    heading: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    text: Vec<&'a str>,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    facts: serde_json::Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<LinkJson<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tables: Vec<TableJson<'a>>,
}

#[derive(Serialize)]
struct LinkJson<'a> {
    name: &'a str,
    to: &'a str,
}

#[derive(Serialize)]
struct TableJson<'a> {
    title: &'a str,
    rows: &'a Table,
}

fn view(block: &Block) -> Result<BlockView<'_>, ReportError> {
    Ok(match block {
        Block::Heading(text) => BlockView::Heading { text: spans(text) },
        Block::Text(text) => BlockView::Text { text: spans(text) },
        Block::List(items) => BlockView::List { items: items.iter().map(|item| spans(item)).collect() },
        Block::Links(items) => {
            BlockView::Links { items: items.iter().map(|(name, to)| (name.as_str(), address(to))).collect() }
        }
        Block::Facts(items) => BlockView::Facts { items },
        Block::Problems(text, items) => {
            BlockView::Problems { text, items: items.iter().map(|item| spans(item)).collect() }
        }
        Block::Table(table) => BlockView::Table { title: spans(table.title()), table: table.into() },
        Block::Shares(chart) => BlockView::Chart { text: spans(chart.title()), svg: chart.to_page() },
        Block::Waterfall(chart) => BlockView::Waterfall {
            text: spans(chart.title()),
            falls: chart.to_page().map(fall).collect::<Result<_, _>>()?,
            hatched: chart.has_unknown(),
            opens: chart.to_page().any(|fall| fall.details.is_some()),
            marks_in: names(chart.subjects())?,
            legend: Vec::new(),
        },
        Block::Stacks(chart) => BlockView::Waterfall {
            text: spans(chart.title()),
            falls: chart.to_page().map(fall).collect::<Result<_, _>>()?,
            hatched: false,
            opens: false,
            marks_in: String::new(),
            legend: chart.legend(),
        },
        Block::Plot(chart) => BlockView::Chart { text: spans(chart.title()), svg: chart.to_page()? },
        Block::Timeline(chart) => BlockView::Timeline {
            text: spans(chart.title()),
            subject: chart.subject_name(),
            data: inside_script(&timeline_json(chart)?),
        },
        Block::Explorer(explorer) => BlockView::Explorer(data::view(explorer)?),
    })
}

fn fall(fall: Drawn<'_>) -> Result<FallView<'_>, ReportError> {
    let Drawn { label, text, is_strong, svg, details, marks } = fall;
    Ok(FallView { label, text, is_strong, svg, details: details.map(TableView::from), marks: names(marks)? })
}

/// Names as JSON for an attribute; nothing without any.
fn names(names: &[String]) -> Result<String, ReportError> {
    if names.is_empty() {
        return Ok(String::new());
    }
    serde_json::to_string(names).map_err(ReportError::json)
}

fn markdown(out: &mut String, block: &Block) {
    let _ = match block {
        Block::Heading(text) => writeln!(out, "## {}", prose(text)),
        Block::Text(text) => writeln!(out, "{}", prose(text)),
        Block::List(items) => items.iter().try_for_each(|item| writeln!(out, "- {}", prose(item))),
        Block::Links(items) => items
            .iter()
            .try_for_each(|(name, to)| writeln!(out, "- [{}]({})", escape_markdown(name), address(to))),
        Block::Facts(items) => items.iter().try_for_each(|(name, value)| {
            writeln!(out, "- {}: {}", escape_markdown(name), escape_markdown(value))
        }),
        Block::Problems(text, items) => {
            let heading = writeln!(out, "**{}**\n", escape_markdown(text));
            heading.and(items.iter().try_for_each(|item| writeln!(out, "- {}", prose(item))))
        }
        Block::Table(table) => {
            let title = table.title();
            let heading = if title.is_empty() { Ok(()) } else { writeln!(out, "**{}**\n", prose(title)) };
            heading.and(write!(out, "{}", table.to_aligned_markdown()))
        }
        // Indented text is shown as it is.
        Block::Shares(chart) => letters(out, chart.title(), &chart.to_text(BLOCKS)),
        Block::Stacks(chart) => letters(out, chart.title(), &chart.to_text(BLOCKS)),
        Block::Waterfall(chart) => letters(out, chart.title(), &chart.to_text(BLOCKS)),
        Block::Timeline(_) | Block::Plot(_) | Block::Explorer(_) => match picture(block) {
            (title, "") => writeln!(out, "{}: see the page in HTML.", prose(title)),
            (title, file) => writeln!(out, "![{}]({})", escape_markdown(title), address(file)),
        },
    };
}

/// A chart in letters below its title, in Markdown.
fn letters(out: &mut String, title: &str, text: &str) -> fmt::Result {
    writeln!(out, "**{}**\n", prose(title))?;
    text.lines().try_for_each(|line| writeln!(out, "    {}", line.trim_end()))
}

/// The title of what is drawn in HTML alone, and the file that shows it elsewhere; empty without
/// one.
fn picture(block: &Block) -> (&str, &str) {
    match block {
        Block::Timeline(chart) => (chart.title(), ""),
        Block::Plot(chart) => (chart.title(), chart.file_name()),
        _ => ("Heatmaps and surfaces", ""),
    }
}

/// A heading above a line of its length.
fn underlined(heading: &str, line: char, width: usize) -> String {
    let lines = wrap(&plain(heading), width);
    let length = lines.iter().map(|line| columns(line)).max().unwrap_or_default();
    let line: String = std::iter::repeat_n(line, length).collect();
    format!("{}\n{line}\n", lines.join("\n"))
}

/// A paragraph, or a point after its mark.
fn point(mark: &str, text: &str, width: usize) -> String {
    let indent = columns(mark);
    let lines = wrap(&plain(text), width.saturating_sub(indent));
    format!("{mark}{}\n", lines.join(&format!("\n{}", " ".repeat(indent))))
}

fn plain(text: &str) -> String {
    printable(&text.replace(['\n', '\r'], " "))
}

fn text(block: &Block, options: &TextOptions, width: usize) -> String {
    let points = |items: &[String]| items.iter().map(|item| point("- ", item, width)).collect::<String>();
    match block {
        Block::Heading(text) => underlined(text, '─', width),
        Block::Text(text) => point("", text, width),
        Block::List(items) => points(items),
        Block::Links(items) => {
            items.iter().map(|(name, to)| point("- ", &format!("{name}: {to}"), width)).collect()
        }
        Block::Facts(items) => {
            items.iter().map(|(name, value)| point("- ", &format!("{name}: {value}"), width)).collect()
        }
        Block::Problems(text, items) => point("", &format!("{text}:"), width) + &points(items),
        Block::Table(table) => table.to_text(options),
        Block::Shares(chart) => point("", chart.title(), width) + &bars(chart, width),
        Block::Stacks(chart) => point("", chart.title(), width) + &chart.to_text_within(BLOCKS, width),
        Block::Waterfall(chart) => point("", chart.title(), width) + &chart.to_text_within(BLOCKS, width),
        Block::Timeline(_) | Block::Plot(_) | Block::Explorer(_) => match picture(block) {
            (title, "") => point("", &format!("{title}: see the page in HTML."), width),
            (title, file) => point("", &format!("{title}: {file}"), width),
        },
    }
}

/// Bars that leave room for their names and values.
fn bars(chart: &ShareBars, width: usize) -> String {
    const SHORTEST: usize = 10;
    let longest = chart.to_text(BLOCKS).lines().map(columns).max().unwrap_or_default();
    let blocks = BLOCKS.saturating_sub(longest.saturating_sub(width)).max(SHORTEST);
    let text = chart.to_text(blocks);
    text.lines().map(|line| shorten(line.trim_end(), width) + "\n").collect()
}

/// A relative address, with everything escaped that could be a scheme or end a Markdown link.
fn address(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for &byte in path.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::table::{Cell, Column};

    fn document() -> Document {
        let mut table = Table::new("T", [Column::text("a", "a"), Column::number("n", "n")]).unwrap();
        table.push([Cell::text("x"), Cell::from(1234_u64)]).unwrap();
        Document {
            title: "Page".to_owned(),
            subtitle: "below".to_owned(),
            blocks: vec![
                Block::Text("first".to_owned()),
                Block::Heading("One".to_owned()),
                Block::List(vec!["point".to_owned()]),
                Block::Facts(vec![("device".to_owned(), "GPU".to_owned())]),
                Block::Problems("1 skipped".to_owned(), vec!["why".to_owned()]),
                Block::Links(vec![("trace".to_owned(), "a b/c:d.html".to_owned())]),
                Block::Table(table),
            ],
        }
    }

    #[test]
    fn markdown_holds_all_in_order() {
        assert_eq!(
            document().to_markdown(),
            "# Page\n\nbelow\n\nfirst\n\n## One\n\n- point\n\n- device: GPU\n\n**1 skipped**\n\n- why\n\n\
             - [trace](a%20b/c%3Ad.html)\n\n**T**\n\n| a   |     n |\n| --- | ----: |\n| x   | 1,234 |\n"
        );
    }

    #[test]
    fn every_format_says_that_a_table_is_empty() {
        let mut page = document();
        let full = [page.to_html().unwrap(), page.to_markdown(), page.to_text(&TextOptions::default())];
        let table = Table::new("T", [Column::text("a", "a")]).unwrap();
        page.blocks = vec![Block::Table(table)];
        let empty = [page.to_html().unwrap(), page.to_markdown(), page.to_text(&TextOptions::default())];
        assert_eq!(full.map(|text| text.matches("(no rows)").count()), [0; 3]);
        assert_eq!(empty.map(|text| text.matches("(no rows)").count()), [1; 3]);
    }

    #[test]
    fn a_terminal_gets_no_markup() {
        let mut page = document();
        page.blocks.push(Block::Text("`step_*` takes *40 ms* <of> 50 | a_b_ and [x](y)".to_owned()));
        let text = page.to_text(&TextOptions { width: Some(24), max_lines: 3 });
        assert_eq!(
            text,
            "Page\n════\nbelow\n\nfirst\n\nOne\n───\n\n- point\n\n- device: GPU\n\n1 skipped:\n- why\n\n\
             - trace: a b/c:d.html\n\nT\na      n\n────────\nx  1,234\n\n\
             `step_*` takes *40 ms*\n<of> 50 | a_b_ and\n[x](y)\n"
        );
        assert!(page.to_markdown().contains("\\*40 ms\\*"));
    }

    #[test]
    fn names_between_backticks_are_inert() {
        let texts =
            |text: &str| spans(text).iter().map(|span| (span.text.to_owned(), span.code)).collect::<Vec<_>>();
        assert_eq!(
            texts("a `b` c`"),
            [("a ".to_owned(), false), ("b".to_owned(), true), (" c`".to_owned(), false)]
        );
        assert_eq!(prose("`a_*`: *b*\nc `d"), "`a_*`: \\*b\\* c \\`d");
    }

    #[test]
    fn json_has_raw_numbers_by_section() {
        let json: Value = serde_json::from_str(&document().to_json().unwrap()).unwrap();
        assert_eq!(json["sections"][0]["text"][0], "first");
        assert_eq!(json["sections"][1]["facts"]["device"], "GPU");
        assert_eq!(
            json["sections"][1]["tables"][0],
            json!({ "title": "T", "rows": [{ "a": "x", "n": 1234 }] })
        );
    }
}
