//! Charts and the page around them: well-formed, complete, and safe against what names may contain.

use flopgap_report::chart::{Bar, Color, Part, ShareBars, Slice, Timeline};
use flopgap_report::html::{Block, Document};
use proptest::prelude::*;

use crate::markup::check_well_formed;

fn shares(text: &str) -> ShareBars {
    let slice = |value: f64| Slice { value, text: text.to_owned() };
    let part = |n| Part { label: text.to_owned(), color: Color::nth(n) };
    let bar = Bar { label: text.to_owned(), total: text.to_owned(), slices: vec![slice(3.0), slice(1.0)] };
    ShareBars::new(text, vec![part(0), part(1)], vec![bar.clone(), bar]).unwrap()
}

fn timeline(text: &str) -> Timeline {
    let mut timeline = Timeline::new(text, 0..1_000_000).unwrap();
    let row = timeline.row_of_work(text);
    let lane = timeline.lane(row, text);
    let name = timeline.name(text, Color::NEUTRAL);
    timeline.kind(text, Color::NEUTRAL);
    timeline.push(lane, name, 0..1_000_000);
    timeline.push(lane, name, 5..10);
    timeline
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
            Block::Timeline(timeline(text)),
        ],
    }
}

#[test]
fn charts_are_whole_svg_documents() {
    for svg in [shares("a & <b>").to_svg(), timeline("a & <b>").to_svg()] {
        // The style sheet holds `>` and quotes of its own.
        let (before, style) = svg.split_once("<style>").unwrap();
        let (_, after) = style.split_once("</style>").unwrap();
        assert!(check_well_formed(&format!("{before}{after}")) > 5);
        assert!(svg.contains("<title>a &amp; &lt;b&gt;</title>"));
    }
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
        .replace("/*! https://github.com/leeoniya/uPlot", "");
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
        for svg in [shares(&hostile).to_svg(), timeline(&hostile).to_svg()] {
            let (before, style) = svg.split_once("<style>").unwrap();
            check_well_formed(&format!("{before}{}", style.split_once("</style>").unwrap().1));
        }
    }
}
