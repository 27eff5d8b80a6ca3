//! Writes an example page of charts: `cargo run -p flopgap-report --example charts -- charts.html`.
//!
//! The values come from formulas, not from a GPU.

use std::{error::Error, fs};

use flopgap_report::chart::{Bar, Colour, Interval, Part, ShareBars, Slice, Timeline, TimelineRow};
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
    let part = |(n, label): (usize, &&str)| Part { label: (*label).to_owned(), colour: Colour::nth(n) };
    let parts: Vec<Part> = CLASSES.iter().enumerate().map(part).collect();
    let one = ShareBars::new("One whole", parts.clone(), vec![bar("inference", 0.5)])?;
    let two = ShareBars::new(
        "Two wholes",
        parts,
        vec![bar("inference of a model with a long name", 0.3), bar("training", 0.7)],
    )?;
    let step = |n: i64| {
        let from = n * 40_000_000;
        let range = |label: &str, start, end, colour| Interval {
            label: label.to_owned(),
            start: from + start,
            end: from + end,
            colour: Colour::nth(colour),
        };
        [
            range(&format!("step {n}"), 0, 38_000_000, 0),
            range("forward", 500_000, 14_000_000, 1),
            range("backward", 14_000_000, 32_000_000, 2),
            range("optimizer", 32_000_000, 37_900_000, 3),
        ]
    };
    let kernels = (0..4000_i64).zip((0..7).cycle()).map(|(n, class)| Interval {
        label: format!("kernel {n}"),
        start: n * 50_000,
        end: n * 50_000 + 20_000 + n % 7 * 4_000,
        colour: Colour::nth(class),
    });
    let rows = vec![
        TimelineRow { label: "Host, thread 1".to_owned(), intervals: (0..5).flat_map(step).collect() },
        TimelineRow { label: "GPU 0".to_owned(), intervals: kernels.collect() },
    ];
    let page = Document {
        title: "Charts".to_owned(),
        subtitle: "From formulas.".to_owned(),
        blocks: vec![
            Block::Heading("Shares".to_owned()),
            Block::Text("What a step consists of.".to_owned()),
            Block::Shares(one),
            Block::Shares(two),
            Block::Heading("Time".to_owned()),
            Block::Timeline(Timeline::new("Five steps", rows)?),
        ],
    };
    fs::write(path, page.to_html()?)?;
    Ok(())
}
