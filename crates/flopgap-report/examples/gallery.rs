//! Writes every kind of picture, chart and page: `cargo run -p flopgap-report --example gallery --
//! DIRECTORY`.
//!
//! The values come from formulas, not from a GPU: they exercise the drawing, and say nothing about
//! any hardware.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use flopgap_report::axis::AxisLabel;
use flopgap_report::chart::{
    Bar, Color, Guide, Part, Plot, Series, ShareBars, Slice, SmallMultiples, Timeline,
};
use flopgap_report::heatmap::{Cell, Heatmaps, Panel};
use flopgap_report::html::{Block, Document, Explorer, Metric, Point};
use flopgap_report::surface::Surface;

const LAYERS: [u32; 5] = [2, 4, 8, 16, 32];
const CLASSES: [&str; 5] = ["matmul", "elementwise", "softmax", "norm", "split-k-reduce"];

/// What a tile of 64 columns executes above what is needed, except for one width.
fn overhead(n: u32, d: f64, m: f64) -> Option<f64> {
    let is_missing = n == 4 && (1000.0..1100.0).contains(&d);
    (!is_missing).then(|| (m / 64.0).ceil() * 64.0 / m - 1.0 + 3.0 * f64::from(n) / d)
}

/// Falls with both quantities; cut off where a run might have ended.
fn smooth(d: f64, m: f64) -> Option<f64> {
    (d + 7.0 * m < 3000.0).then(|| 30.0 / d + 12.0 / (m * d.sqrt()))
}

fn grid() -> impl Iterator<Item = (f64, f64)> {
    (1..=16).flat_map(|d| (1..=16).map(move |m| (f64::from(d * 128), f64::from(m * 16))))
}

fn axes() -> [AxisLabel; 2] {
    [AxisLabel::new("width d"), AxisLabel::new("columns m")]
}

fn heatmaps() -> Result<Heatmaps, Box<dyn Error>> {
    let [x, y] = axes();
    let panels = LAYERS.map(|n| {
        let cell = |(x, y): (f64, f64)| Cell {
            x,
            y,
            value: overhead(n, x, y),
            refused: y < 48.0,
            line: y % 64.0 == 0.0,
        };
        let cells = grid().filter(|(d, _)| n < 32 || *d < 1500.0).map(cell).collect();
        Panel { row: "forward pass".to_owned(), column: format!("n = {n}"), cells }
    });
    let heatmaps = Heatmaps::new("Overhead", x, y, AxisLabel::new("ε").unit("of theory"), panels.into())?;
    Ok(heatmaps.subtitle("from a formula").lines("a tile is full"))
}

fn surfaces() -> Result<Vec<(&'static str, Surface)>, Box<dyn Error>> {
    let surface = |points: Vec<(f64, f64, Option<f64>)>| {
        let [x, y] = axes();
        Surface::from_points("Overhead", x, y.unit("samples"), AxisLabel::new("ε"), points)
    };
    let row = [256.0, 512.0, 1024.0, 2048.0].map(|d| (d, 64.0, smooth(d, 64.0)));
    Ok(vec![
        ("tiles", surface(grid().map(|(d, m)| (d, m, overhead(2, d, m))).collect())?),
        ("smooth", surface(grid().map(|(d, m)| (d, m, smooth(d, m))).collect())?),
        ("row", surface(row.to_vec())?),
    ])
}

fn plots() -> Result<Vec<(&'static str, String)>, Box<dyn Error>> {
    let lines = (0..4).map(|index| {
        let speed = |power: usize| (f64::from(1 << power), 0.2 + 0.01 * (power * (5 - index)) as f64);
        Series::line(format!("implementation {index}"), Color::nth(index), (7..17).map(speed).collect())
    });
    let (x, y) = (AxisLabel::new("batch").unit("samples"), AxisLabel::new("part of the floor"));
    let lines = Plot::new("How near the floor", x, y, lines.collect())?.ticks_at_points().linear();
    let times = (0..60).map(|k| 2.0 * 1.2_f64.powi(k)).map(|x| (x, x * (1.0 + 0.2 * (x * 7.0).sin())));
    let times = vec![Series::points("fp16", Color::nth(0), times.collect())];
    let [x, y] = ["measured", "estimated"].map(|name| AxisLabel::new(name).unit("µs"));
    let equal = vec![(1e-6, 1e-6), (1e9, 1e9)];
    let guides = vec![Guide { label: "equal".to_owned(), points: equal, dashed: true, named: false }];
    let times = Plot::new("Estimated against measured time", x, y, times)?.same_scale().guides(guides);
    let multiples = (1..=16).map(|step| {
        let m = f64::from(step * 16);
        let at = |d: i32| (f64::from(d * 128), overhead(4, f64::from(d * 128), m));
        let points = (1..=16).map(at).filter_map(|(d, value)| Some((d, value?))).collect();
        let missing = (1..=16).map(at).filter(|(_, value)| value.is_none()).map(|(d, _)| d).collect();
        (format!("m = {m}"), vec![Series { missing, ..Series::line("counted", Color::nth(0), points) }])
    });
    let [x, _] = axes();
    let multiples = SmallMultiples::new("Overhead", x, AxisLabel::new("ε"), multiples.collect())?;
    Ok(vec![("lines", lines.to_svg()?), ("scatter", times.to_svg()?), ("multiples", multiples.to_svg()?)])
}

fn shares() -> Result<ShareBars, Box<dyn Error>> {
    let part = |(n, label): (usize, &&str)| Part { label: (*label).to_owned(), color: Color::nth(n) };
    let bar = |label: &str, ratio: f64| {
        let values = (0..5).map(|n| 60.0 * ratio.powi(n));
        let slices = values.map(|value| Slice { value, text: format!("{value:.2} ms") }).collect();
        Bar { label: label.to_owned(), total: "100.0 ms".to_owned(), slices }
    };
    let bars = vec![bar("inference of a model with a long name", 0.3), bar("training", 0.7)];
    Ok(ShareBars::new("Two wholes", CLASSES.iter().enumerate().map(part).collect(), bars)?)
}

fn timeline() -> Result<Timeline, Box<dyn Error>> {
    let mut timeline = Timeline::new("Five steps", 0..200_000_000)?;
    let gpu = timeline.row_of_work("GPU 0");
    let stream = timeline.lane(gpu, "stream 7");
    for (class, label) in CLASSES.iter().enumerate() {
        timeline.kind(*label, Color::nth(class));
    }
    for (n, class) in (0..4000_i64).zip((0..CLASSES.len()).cycle()) {
        let name = timeline.name(&format!("kernel {n}"), Color::nth(class));
        timeline.push(stream, name, n * 50_000..n * 50_000 + 20_000 + n % 7 * 4_000);
    }
    Ok(timeline)
}

fn explorer() -> Explorer {
    let [x, y] = axes();
    let metric = |label: &str, unit: &str| Metric {
        label: AxisLabel::new(label).unit(unit),
        explanation: "From a formula.".to_owned(),
        lines: true,
    };
    let points =
        LAYERS.into_iter().flat_map(|n| grid().map(move |(d, m)| (n, d, m))).map(|(n, d, m)| Point {
            selection: vec![n.to_string()],
            x: d,
            y: m,
            values: vec![overhead(n, d, m), Some(4.0 * m * d * d)],
            line: m % 64.0 == 0.0,
            ..Point::default()
        });
    Explorer {
        x,
        y,
        selectors: vec!["layers n".to_owned()],
        metrics: vec![metric("ε", "of theory"), metric("executed", "FLOP")],
        lines: Some("a tile is full".to_owned()),
        total: None,
        points: points.collect(),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: gallery DIRECTORY")?);
    fs::create_dir_all(&directory)?;
    let write = |name: &str, bytes: &[u8]| fs::write(directory.join(name), bytes);
    write("heatmaps.svg", heatmaps()?.to_svg()?.as_bytes())?;
    write("heatmaps.png", &heatmaps()?.to_png()?)?;
    for (name, surface) in surfaces()? {
        write(&format!("{name}.svg"), surface.to_svg()?.as_bytes())?;
        write(&format!("{name}.png"), &surface.to_png()?)?;
    }
    for (name, svg) in plots()? {
        write(&format!("{name}.svg"), svg.as_bytes())?;
    }
    let blocks = vec![Block::Shares(shares()?), Block::Timeline(timeline()?), Block::Explorer(explorer())];
    let page = Document { title: "Gallery".to_owned(), subtitle: "From formulas.".to_owned(), blocks };
    write("page.html", page.to_html()?.as_bytes())?;
    Ok(())
}
