//! Charts and the page around them: well-formed, complete, and safe against what names may contain.

use flopgap_report::ReportError;
use flopgap_report::axis::AxisLabel;
use flopgap_report::chart::{
    Bar, Color, Fall, Part, Plot, Series, ShareBars, Slice, SmallMultiples, Timeline, Waterfall,
};
use flopgap_report::html::{Block, Document};
use flopgap_report::numbers::ValueFormat;
use flopgap_report::table::{Cell, Column, Table};
use proptest::prelude::*;

use crate::markup::check_well_formed;

fn shares(text: &str) -> ShareBars {
    let slice = |value: f64| Slice { value, text: text.to_owned() };
    let part = |n| Part { label: text.to_owned(), color: Color::nth(n) };
    let bar = Bar { label: text.to_owned(), total: text.to_owned(), slices: vec![slice(3.0), slice(1.0)] };
    ShareBars::new(text, vec![part(0), part(1)], vec![bar.clone(), bar]).unwrap()
}

fn timeline(text: &str) -> Timeline {
    let mut timeline = Timeline::new(text, 0..1_000_000).unwrap().subject(text);
    let parts = timeline.row_of_parts(text);
    let lane = timeline.lane(parts, text);
    let name = timeline.name(text, Color::nth(1));
    timeline.part(text, Color::nth(1));
    timeline.push(lane, name, 0..500_000);
    let row = timeline.row_of_work(text);
    let lane = timeline.lane(row, text);
    let name = timeline.name(text, Color::NEUTRAL);
    timeline.kind(text, Color::NEUTRAL);
    timeline.push(lane, name, 0..1_000_000);
    timeline.push(lane, name, 5..10);
    timeline
}

fn waterfall(text: &str) -> Waterfall {
    let mut table = Table::new(text, [Column::text("a", text)]).unwrap();
    table.push([Cell::text(text)]).unwrap();
    let fall = |at| Fall::new(text, at, Color::nth(2)).text(text);
    let falls = vec![
        fall([0.0, 4.0]).strong(),
        fall([1.0, 4.0]).details(table).marks(vec![text.to_owned()]),
        fall([0.0, 1.0]).unknown(),
    ];
    Waterfall::new(text, falls).unwrap().marks_in(vec![text.to_owned()])
}

fn page(text: &str) -> Document {
    Document {
        title: text.to_owned(),
        subtitle: text.to_owned(),
        blocks: vec![
            Block::Heading(text.to_owned()),
            Block::Text(text.to_owned()),
            Block::List(vec![text.to_owned()]),
            Block::Links(vec![(text.to_owned(), text.to_owned())]),
            Block::Facts(vec![(text.to_owned(), text.to_owned())]),
            Block::Problems(text.to_owned(), vec![text.to_owned()]),
            Block::Shares(shares(text)),
            Block::Waterfall(waterfall(text)),
            Block::Plot(plot(text)),
            Block::Timeline(timeline(text)),
        ],
    }
}

fn plot(text: &str) -> Plot {
    let [x, y] = [0; 2].map(|_| AxisLabel::new(text).unit(text));
    let line = Series::line(text, Color::nth(1), vec![(1.0, 2.0), (3.0, 4.0)]);
    Plot::new(text, x, y, vec![line, Series::points(text, Color::nth(2), vec![(2.0, 3.0)])]).unwrap()
}

/// The charts of a page, and a chart that is a file, without its style sheet, which holds `>` and
/// quotes of its own.
fn check_charts(html: &str, text: &str) -> usize {
    let of_page = html.split("<svg xmlns").skip(1).map(|rest| {
        let ends = ["</svg>\n</div>", "</svg>\n</span>"].map(|end| rest.find(end).unwrap_or(rest.len()));
        &rest[..ends[0].min(ends[1])]
    });
    let elements = of_page.map(|chart| check_well_formed(&format!("<svg xmlns{chart}</svg>")));
    let file = plot(text).to_svg().unwrap();
    let (before, after) = file.split_once("<style>").unwrap();
    check_well_formed(&format!("{before}{}", after.split_once("</style>").unwrap().1))
        + elements.sum::<usize>()
}

#[test]
fn charts_are_whole_svg_documents() {
    assert!(check_charts(&page("a & <b>").to_html().unwrap(), "a & <b>") > 40);
    assert!(plot("a & <b>").to_svg().unwrap().contains("<title>a &amp; &lt;b&gt;</title>"));
}

/// A plot for each of 16 columns, with two lines over 16 widths.
fn multiples(value: impl Fn(f64, f64) -> Option<f64>) -> Result<SmallMultiples, ReportError> {
    let widths = || (1..=16).map(|step| f64::from(step) * 128.0);
    let plots = (1..=16).map(|step| {
        let m = f64::from(step) * 16.0;
        let counted = widths().rev().filter_map(|d| Some((d, value(d, m)?))).collect();
        let missing = widths().filter(|d| value(*d, m).is_none()).collect();
        let formula = widths().map(|d| (d, -1.0 / (2.0 * d + 1.0))).collect();
        let counted = Series { missing, ..Series::line("counted", Color::nth(0), counted) };
        (format!("m = {m}"), vec![counted, Series::line("formula", Color::nth(1), formula)])
    });
    let (x, y) = (AxisLabel::new("width d"), AxisLabel::new("above theory"));
    SmallMultiples::new("FLOPs <all>", x, y, plots.collect())
        .map(|picture| picture.format(ValueFormat::Percent))
}

#[test]
fn each_line_has_a_plot_of_its_own_and_a_gap_breaks_it() {
    let whole = multiples(|d, m| Some(900.0 / (d * m))).unwrap().to_svg().unwrap();
    let gap = multiples(|d, m| (!(1000.0..1100.0).contains(&d)).then_some(900.0 / (d * m)));
    let gap = gap.unwrap().to_svg().unwrap();
    for (svg, marks, lines, crosses) in [(&whole, 16 * 32, 16 * 30, 0), (&gap, 16 * 31, 16 * 28, 16 * 2)] {
        let (before, after) = svg.split_once("<style>").unwrap();
        check_well_formed(&format!("{before}{}", after.split_once("</style>").unwrap().1));
        let texts = |text: &str| svg.matches(&format!(">{text}</text>")).count();
        assert_eq!((texts("m = 16"), texts("m = 256"), texts("counted"), texts("formula")), (1, 1, 1, 1));
        assert_eq!(texts("above theory (symlog scale)"), 1);
        let classes = ["<circle", " fg-series\"", "class=\"fg-missing\""];
        assert_eq!(classes.map(|class| svg.matches(class).count()), [marks, lines, crosses]);
    }
    assert!(!whole.contains("values missing") && gap.contains("16 of 512 values missing (×)"));
    let error = multiples(|_, _| Some(f64::NAN)).unwrap_err().to_string();
    assert_eq!(error, "plot `FLOPs <all>`: series `counted`: the point (128, NaN)");
    let label = || AxisLabel::new("d");
    let empty = SmallMultiples::new("t", label(), label(), Vec::new());
    assert!(matches!(empty, Err(ReportError::NothingToDraw { .. })));
}

#[test]
fn the_page_loads_nothing() {
    let html = page("run").to_html().unwrap();
    assert!(html.contains("content=\"default-src 'none'; script-src 'sha256-"));
    assert!(
        html.contains("uPlot (v1.6.32)") && html.contains("Permission is hereby granted, free of charge")
    );
    let html = html
        .replace("xmlns=\"http://www.w3.org/2000/svg\"", "")
        .replace("/*! https://github.com/leeoniya/uPlot", "")
        .replace("url(#", "(#");
    for loads in ["http:", "https:", "src=", "<link", "<iframe", "<img", "@import", "url(", "fetch("] {
        assert!(!html.contains(loads), "{loads} in the page");
    }
    assert!(html.contains("<a href=\"run\">run</a>"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn hostile_names_change_no_markup(
        prefix in "[a-z<\"&]{0,6}",
        attack in prop::sample::select(vec![
            "</script><script>alert(1)</script>", "</svg>", "\"><svg onload=alert(1)>", "' onmouseover='alert(1)", "{{ 7 * 7 }}",
            "javascript:alert(1)", "&lt;b&gt;", "](javascript:alert(1))",
        ]),
    ) {
        let hostile = format!("{prefix}{attack}");
        let html = page(&hostile).to_html().unwrap();
        // As long as an ordinary name of as many letters, so that the same labels fit.
        let plain = page(&"m".repeat(hostile.len())).to_html().unwrap();
        prop_assert_eq!(html.matches("<script").count(), plain.matches("<script").count());
        prop_assert!(!html.contains("href=\"javascript:") && !html.contains(" onload=alert(1)>"));
        // Indented lines are shown as they are, and an escaped bracket is none.
        let markdown = page(&hostile).to_markdown().replace("\\]", "");
        let obeyed = markdown.lines().filter(|line| !line.starts_with("    "));
        prop_assert!(obeyed.clone().count() > 10);
        prop_assert!(obeyed.into_iter().all(|line| !line.contains("](javascript:")));
        check_charts(&html, &hostile);
    }
}
