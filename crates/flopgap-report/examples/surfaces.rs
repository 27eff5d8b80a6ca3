//! Draws example surfaces into a folder: `cargo run -p flopgap-report --example surfaces -- FOLDER`.
//!
//! The values come from formulas, not from a GPU: they exercise the drawing, and say nothing about any hardware.

use std::{error::Error, fs, path::PathBuf};

use flopgap_report::{
    numbers::ValueFormat,
    surface::{AxisLabel, Size, Surface},
};

type Formula = fn(f64, f64) -> Option<f64>;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: surfaces FOLDER")?);
    fs::create_dir_all(&folder)?;
    let dense: (Vec<f64>, Vec<f64>) = (steps(128, 2048, 128), steps(16, 256, 16));
    let coarse = (vec![256.0, 512.0, 1024.0, 2048.0], vec![16.0, 64.0, 256.0]);
    let plots: [(&str, &(Vec<f64>, Vec<f64>), &str, AxisLabel, ValueFormat, Formula); 8] = [
        (
            "overhead",
            &dense,
            "Total overhead ε, forward pass, n = 10 layers",
            AxisLabel::new("ε"),
            ValueFormat::Percent,
            overhead,
        ),
        (
            "work",
            &dense,
            "FLOPs executed, forward pass, n = 10 layers",
            AxisLabel::new("executed").unit("FLOP"),
            ValueFormat::Number,
            work,
        ),
        (
            "difference",
            &dense,
            "Difference, backward pass, n = 10 layers",
            AxisLabel::new("δ"),
            ValueFormat::Number,
            difference,
        ),
        (
            "holes",
            &dense,
            "Total overhead ε, interrupted run",
            AxisLabel::new("ε"),
            ValueFormat::Percent,
            holes,
        ),
        (
            "coarse_overhead",
            &coarse,
            "Total overhead ε, forward pass, n = 2 layers",
            AxisLabel::new("ε"),
            ValueFormat::Percent,
            overhead,
        ),
        (
            "coarse_work",
            &coarse,
            "FLOPs executed, forward pass, n = 2 layers",
            AxisLabel::new("executed").unit("FLOP"),
            ValueFormat::Number,
            work,
        ),
        (
            "coarse_holes",
            &coarse,
            "Total overhead ε, interrupted run",
            AxisLabel::new("ε"),
            ValueFormat::Percent,
            holes,
        ),
        (
            "flat",
            &coarse,
            "A metric without variation",
            AxisLabel::new("κ"),
            ValueFormat::Percent,
            |_, _| Some(0.0),
        ),
    ];
    for (name, (ds, ms), title, z, format, formula) in plots {
        let points = ds.iter().flat_map(|d| ms.iter().map(|m| (*d, *m, formula(*d, *m))));
        write(&folder, name, surface(title, z, points)?.format(format))?;
    }
    let line = coarse.0.iter().map(|d| (*d, 64.0, overhead(*d, 64.0)));
    write(&folder, "line", surface("Total overhead ε, forward pass", AxisLabel::new("ε"), line)?)?;
    let long = dense.1.iter().map(|m| (1024.0, *m, work(1024.0, *m).filter(|_| *m != 128.0)));
    write(&folder, "long_line", surface("FLOPs executed", AxisLabel::new("executed").unit("FLOP"), long)?)?;
    Ok(())
}

fn steps(first: u32, last: u32, by: usize) -> Vec<f64> {
    (first..=last).step_by(by).map(f64::from).collect()
}

fn surface(
    title: &str,
    z: AxisLabel,
    points: impl Iterator<Item = (f64, f64, Option<f64>)>,
) -> Result<Surface, Box<dyn Error>> {
    let (d, m) = (AxisLabel::new("layer width d"), AxisLabel::new("batch m").unit("rows"));
    Ok(Surface::from_points(title, d, m, z, points)?.subtitle("values from a formula, not measured"))
}

fn write(folder: &std::path::Path, name: &str, surface: Surface) -> Result<(), Box<dyn Error>> {
    let size = Size::default();
    fs::write(folder.join(name).with_extension("svg"), surface.to_svg(size)?)?;
    fs::write(folder.join(name).with_extension("png"), surface.to_png(size)?)?;
    Ok(())
}

/// Twice the multiply-adds of ten square layers.
fn work(d: f64, m: f64) -> Option<f64> {
    Some(2.0 * 10.0 * m * d * d)
}

/// Falls with both quantities, with some ripple.
fn overhead(d: f64, m: f64) -> Option<f64> {
    Some(30.0 / d + 12.0 / (m * d.sqrt()) + 0.002 * (d / 128.0 + m / 16.0).sin())
}

/// Of both signs.
fn difference(d: f64, m: f64) -> Option<f64> {
    Some(0.02 * (d / 300.0).sin() * (m / 40.0).cos() - 0.004)
}

/// [`overhead`], cut off where a run might have ended, with one hole.
fn holes(d: f64, m: f64) -> Option<f64> {
    let hole = (d - 512.0).abs() < 1.0 && (m - 64.0).abs() < 1.0;
    overhead(d, m).filter(|_| d + 7.0 * m < 3000.0 && !hole)
}
