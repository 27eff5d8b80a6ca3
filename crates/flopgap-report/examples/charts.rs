//! Writes an example page of charts: `cargo run -p flopgap-report --example charts -- charts.html`.
//!
//! The values come from formulas, not from a GPU.

use std::{error::Error, fs};

use flopgap_report::chart::{Bar, Color, Part, ShareBars, Slice, Timeline};
use flopgap_report::html::{Block, Document};

const CLASSES: [&str; 7] =
    ["matmul", "elementwise", "softmax", "norm", "optimizer", "copy", "split-k-reduce"];

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: charts FILE")?;
    let bar = |label: &str, ratio: f64| Bar {
        label: label.to_owned(),
        total: "100.0 ms".to_owned(),
        slices: (0..7_i32)
            .map(|n| 60.0 * ratio.powi(n))
            .map(|value| Slice { value, text: format!("{value:.2} ms") })
            .collect(),
    };
    let part = |(n, label): (usize, &&str)| Part { label: (*label).to_owned(), color: Color::nth(n) };
    let parts: Vec<Part> = CLASSES.iter().enumerate().map(part).collect();
    let one = ShareBars::new("One whole", parts.clone(), vec![bar("inference", 0.5)])?;
    let two = ShareBars::new(
        "Two wholes",
        parts,
        vec![bar("inference of a model with a long name", 0.3), bar("training", 0.7)],
    )?;
    let mut timeline = Timeline::new("Five steps", 0..200_000_000)?;
    let host = timeline.row("Host");
    let thread = timeline.lane(host, "thread 1");
    for n in 0..5_i64 {
        let from = n * 40_000_000;
        let ranges = [
            (format!("step {n}"), 0, 38_000_000),
            ("forward".to_owned(), 500_000, 14_000_000),
            ("backward".to_owned(), 14_000_000, 32_000_000),
            ("optimizer".to_owned(), 32_000_000, 37_900_000),
        ];
        for (color, (label, start, end)) in ranges.into_iter().enumerate() {
            let name = timeline.name(&label, Color::nth(color));
            timeline.push(thread, name, from + start..from + end);
        }
    }
    let gpu = timeline.row_of_work("GPU 0");
    let stream = timeline.lane(gpu, "stream 7");
    for class in 0..7 {
        timeline.kind(format!("class {class}"), Color::nth(class));
    }
    for (n, class) in (0..4000_i64).zip((0..7).cycle()) {
        let name = timeline.name(&format!("kernel {n}"), Color::nth(class));
        timeline.push(stream, name, n * 50_000..n * 50_000 + 20_000 + n % 7 * 4_000);
    }
    let page = Document {
        title: "Charts".to_owned(),
        subtitle: "From formulas.".to_owned(),
        blocks: vec![
            Block::Heading("Shares".to_owned()),
            Block::Text("What a step consists of.".to_owned()),
            Block::Shares(one),
            Block::Shares(two),
            Block::Heading("Time".to_owned()),
            Block::Timeline(timeline),
        ],
    };
    fs::write(path, page.to_html()?)?;
    Ok(())
}
