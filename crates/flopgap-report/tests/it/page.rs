//! The interactive page: complete, offline, and safe against what names may contain.

use flopgap_report::{
    axis::AxisLabel,
    html::{Block, Document, Explorer, Metric, Point},
    table::{Cell, Column, Table},
};
use proptest::prelude::*;

fn page(text: &str) -> Document {
    let mut table =
        Table::new(text, [Column::text("name", text), Column::number("flops", "work").unit("FLOP")]).unwrap();
    table.push([Cell::text(text), Cell::from(1_234_567_u64)]).unwrap();
    table.push([Cell::text("not measured"), Cell::Absent]).unwrap();
    let point = |x: f64, value| Point {
        selection: vec![text.to_owned()],
        x,
        y: 16.0,
        values: vec![value],
        ..Point::default()
    };
    let explorer = Explorer {
        x: AxisLabel::new(text).unit(text),
        y: AxisLabel::new("m"),
        selectors: vec![text.to_owned()],
        metrics: vec![Metric { label: AxisLabel::new(text), explanation: text.to_owned(), lines: false }],
        lines: None,
        total: None,
        points: vec![point(256.0, Some(0.25)), point(512.0, None)],
    };
    Document {
        title: text.to_owned(),
        subtitle: text.to_owned(),
        blocks: vec![
            Block::Problems("1 damaged".to_owned(), vec![text.to_owned()]),
            Block::Facts(vec![(text.to_owned(), text.to_owned())]),
            Block::Explorer(explorer),
            Block::Table(table),
        ],
    }
}

/// The page without its scripts, and the contents of the scripts in order.
fn split_scripts(html: &str) -> (String, Vec<&str>) {
    let mut markup = String::new();
    let mut scripts = Vec::new();
    let mut rest = html;
    while let Some((before, after)) = rest.split_once("<script") {
        markup.push_str(before);
        let (attributes, after) = after.split_once('>').unwrap();
        assert!(!attributes.contains("src"), "{attributes}");
        let (script, after) = after.split_once("</script>").unwrap();
        scripts.push(script);
        rest = after;
    }
    markup.push_str(rest);
    (markup, scripts)
}

#[test]
fn the_page_is_complete_and_loads_nothing() {
    let html = page("run").to_html().unwrap();
    let html = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "").replace("url(#", "(#");
    assert!((1_700_000..1_900_000).contains(&html.len()), "{} bytes", html.len());
    assert!(html.contains("content=\"default-src 'none'; script-src 'sha256-"));
    let (markup, scripts) = split_scripts(&html);
    for loads in ["http:", "https:", "src=", "href=", "<link", "<iframe", "<img", "@import", "url("] {
        assert!(!markup.contains(loads), "{loads} in the page");
    }
    let [data, plotly, own] = scripts[..] else { panic!("{} scripts", scripts.len()) };
    assert!(plotly.contains("plotly.js (gl3d - minified)"));
    for script in [data, own] {
        for loads in ["http:", "https:", "fetch(", "XMLHttpRequest", "import(", "WebSocket", "sendBeacon"] {
            assert!(!script.contains(loads), "{loads} in a script");
        }
    }
    // plotly.js brings a button that uploads the chart; the page names its buttons, and this one is
    // not among them.
    assert!(own.contains("modeBarButtons: [") && own.contains("plotlyServerURL: \"\""));
    assert!(!own.contains("sendChartToCloud"));
    // The vendored code itself asks for nothing: no request API is called anywhere in it.
    for loads in ["fetch(", "XMLHttpRequest(", "WebSocket(", "importScripts(", "sendBeacon(", "new Worker("] {
        assert!(!plotly.contains(loads), "{loads} in plotly.js");
    }
    assert!(
        html.contains("Permission is hereby granted, free of charge"),
        "the license of plotly.js is in the file"
    );
}

#[test]
fn tables_facts_and_problems_are_readable_without_script() {
    let html = page("a run").to_html().unwrap();
    let (markup, _) = split_scripts(&html);
    for wanted in [
        "<title>a run</title>",
        "<dt>a run</dt><dd>a run</dd>",
        "<li>a run</li>",
        "<th scope=\"col\" class=\"n\">work (FLOP)</th>",
        "<td class=\"n\">1,234,567</td>",
        "<td class=\"n\">-</td>",
        "1 damaged",
    ] {
        assert!(markup.contains(wanted), "{wanted} is not in the page");
    }
}

#[test]
fn without_an_explorer_the_page_is_small() {
    let mut page = page("run");
    let explorer = page.blocks.remove(2);
    let html = page.to_html().unwrap();
    page.blocks.extend([explorer.clone(), explorer]);
    let error = page.to_html().unwrap_err().to_string();
    assert_eq!(error, "report page: 2 explorers: a page has one at most");
    assert!(html.len() < 40_000, "{} bytes", html.len());
    let (markup, scripts) = split_scripts(&html);
    assert_eq!(scripts.len(), 1);
    assert!(!markup.contains("id=\"plot\""));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn hostile_names_change_neither_markup_nor_scripts(
        // Without backticks, which set names.
        prefix in "[^`]{0,12}",
        attack in prop::sample::select(vec![
            "</script><script>alert(1)</script>", "<!--<script>", "<img src=x onerror=alert(1)>", "\"><svg onload=alert(1)>",
            "' onmouseover='alert(1)", "{{ 7 * 7 }}", "{% include 'x' %}", "</title>", "&lt;b&gt;", "]]>",
        ]),
        suffix in "[^`]{0,12}",
    ) {
        let hostile = format!("{prefix}{attack}{suffix}");
        let html = page(&hostile).to_html().unwrap();
        let (markup, scripts) = split_scripts(&html);
        let plain = page("x").to_html().unwrap();
        let (plain_markup, plain_scripts) = split_scripts(&plain);
        prop_assert_eq!(scripts.len(), 3);
        prop_assert_eq!(&scripts[1..], &plain_scripts[1..]);
        let tags = |markup: &str| markup.matches('<').count();
        prop_assert_eq!(tags(&markup), tags(&plain_markup));
        let data: serde_json::Value = serde_json::from_str(scripts[0]).unwrap();
        prop_assert_eq!(data["metrics"][0]["label"].as_str(), Some(hostile.as_str()));
    }
}
