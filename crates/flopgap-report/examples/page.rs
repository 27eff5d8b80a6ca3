//! Writes an example page: `cargo run -p flopgap-report --example page -- report.html`.
//!
//! The values come from formulas, not from a GPU: they exercise the page, and say nothing about any
//! hardware.

use std::{error::Error, fs};

use flopgap_report::{
    html::{Explorer, Metric, Point, ReportPage},
    numbers::ValueFormat,
    surface::AxisLabel,
    table::{Cell, Column, Table},
};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: page FILE [dense]")?;
    let dense = std::env::args().nth(2).is_some();
    let (ds, ms): (Vec<u32>, Vec<u32>) = if dense {
        ((128..=2048).step_by(128).collect(), (16..=256).step_by(16).collect())
    } else {
        (vec![256, 512, 1024, 2048], vec![16, 64, 256])
    };
    let percent = |label: &str, explanation: &str| Metric {
        label: AxisLabel::new(label),
        explanation: explanation.to_owned(),
        format: ValueFormat::Percent,
        lines: false,
    };
    let metrics = vec![
        percent("ε", "Executed FLOPs beyond the closed form, as a share of the closed form."),
        percent("ρ", "The part of ε that stems from padding matrix tiles."),
        Metric {
            label: AxisLabel::new("executed").unit("FLOP"),
            explanation: "FLOPs that the hardware counters saw.".to_owned(),
            format: ValueFormat::Number,
            lines: false,
        },
    ];
    let mut table = Table::new(
        "Configurations",
        [
            Column::number("n", "n"),
            Column::number("d", "d"),
            Column::number("m", "m"),
            Column::text("pass", "pass"),
            Column::number("executed", "executed").unit("FLOP"),
            Column::number("epsilon", "ε"),
        ],
    )?;
    let mut points = Vec::new();
    for n in [2_u32, 4, 8] {
        for pass in ["forward", "backward"] {
            for d in &ds {
                for m in &ms {
                    let (work, overhead) = example(n, *d, *m, pass);
                    let known = !(n == 8 && *d == 1024 && *m == 64);
                    table.push([
                        Cell::from(n),
                        Cell::from(*d),
                        Cell::from(*m),
                        Cell::from(pass),
                        Cell::from(work),
                        Cell::optional(known.then_some(overhead), |fraction| {
                            Cell::signed_percent(fraction, 2)
                        }),
                    ])?;
                    let epsilon = known.then_some(overhead);
                    points.push(Point {
                        selection: vec![n.to_string(), pass.to_owned()],
                        x: f64::from(*d),
                        y: f64::from(*m),
                        values: vec![epsilon, epsilon.map(|epsilon| epsilon * 0.4), Some(work as f64)],
                        ..Point::default()
                    });
                }
            }
        }
    }
    let page = ReportPage {
        title: "Overhead of square MLPs".to_owned(),
        subtitle: "Example: values from a formula, not measured".to_owned(),
        facts: [("GPU", "none"), ("Tool", "example page")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        explorer: Some(Explorer {
            x: AxisLabel::new("layer width d"),
            y: AxisLabel::new("batch m").unit("rows"),
            selectors: vec!["layers n".to_owned(), "pass".to_owned()],
            metrics,
            lines: None,
            total: None,
            points,
        }),
        tables: vec![table],
        problems: vec!["n = 8, d = 1024, m = 64: the recording ends in the middle of a row".to_owned()],
    };
    fs::write(path, page.to_html()?)?;
    Ok(())
}

fn example(n: u32, d: u32, m: u32, pass: &str) -> (u64, f64) {
    let passes = if pass == "backward" { 2 } else { 1 };
    let work = passes * 2 * u64::from(n) * u64::from(m) * u64::from(d) * u64::from(d);
    let (n, d, m) = (f64::from(n), f64::from(d), f64::from(m));
    (work, 30.0 / d + 12.0 / (m * d.sqrt()) + 0.01 / n)
}
