//! Draws example surfaces into a directory: `cargo run -p flopgap-report --example surfaces --
//! DIRECTORY`.
//!
//! The values come from formulas, not from a GPU: they exercise the drawing, and say nothing about
//! any hardware.

use std::{error::Error, fs, path::Path};

use flopgap_report::{
    numbers::ValueFormat,
    surface::{AxisLabel, Size, Surface},
};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).ok_or("usage: surfaces DIRECTORY")?;
    let directory = Path::new(&directory);
    fs::create_dir_all(directory)?;
    let dense = (steps(128, 2048, 128), steps(16, 256, 16));
    let coarse = (vec![256, 512, 1024, 2048], vec![16, 64, 256]);

    for (name, (ds, ms)) in [("dense", &dense), ("coarse", &coarse)] {
        let grid = || ds.iter().flat_map(|d| ms.iter().map(|m| (*d, *m)));
        let share = |title: &str, value: fn(u32, u32) -> Option<f64>| {
            surface(title, AxisLabel::new("ε"), grid().map(|(d, m)| (d, m, value(d, m))))
                .map(|surface| surface.format(ValueFormat::Percent))
        };
        let overhead_plot =
            share("Total overhead ε, forward pass, n = 2 layers", |d, m| Some(overhead(d, m)))?;
        write(&directory.join(format!("{name}_overhead")), &overhead_plot)?;
        write(&directory.join(format!("{name}_holes")), &share("Total overhead ε, interrupted run", holes)?)?;
        write(
            &directory.join(format!("{name}_flat")),
            &share("A metric without variation", |_, _| Some(0.0))?,
        )?;
        let waves = share("Difference, backward pass", |d, m| Some(difference(d, m)))?;
        write(&directory.join(format!("{name}_difference")), &waves)?;
        let work = grid().map(|(d, m)| (d, m, Some(work(d, m))));
        let work = surface("FLOPs executed, forward pass", AxisLabel::new("executed").unit("FLOP"), work)?;
        write(&directory.join(format!("{name}_work")), &work)?;
        let line = ds.iter().map(|d| (*d, 64, Some(overhead(*d, 64))));
        let line = surface("Total overhead ε, forward pass", AxisLabel::new("ε"), line)?;
        write(&directory.join(format!("{name}_line")), &line)?;
    }
    Ok(())
}

fn steps(first: u32, last: u32, by: usize) -> Vec<u32> {
    (first..=last).step_by(by).collect()
}

fn surface(
    title: &str,
    z: AxisLabel,
    points: impl Iterator<Item = (u32, u32, Option<f64>)>,
) -> Result<Surface, Box<dyn Error>> {
    let (d, m) = (AxisLabel::new("layer width d"), AxisLabel::new("batch m").unit("rows"));
    let points = points.map(|(d, m, value)| (f64::from(d), f64::from(m), value));
    Ok(Surface::from_points(title, d, m, z, points)?.subtitle("values from a formula, not measured"))
}

fn write(path: &Path, surface: &Surface) -> Result<(), Box<dyn Error>> {
    fs::write(path.with_extension("svg"), surface.to_svg(Size::default())?)?;
    fs::write(path.with_extension("png"), surface.to_png(Size::default())?)?;
    fs::write(path.with_extension("small.png"), surface.to_png(Size { width: 800, height: 608 })?)?;
    Ok(())
}

/// Twice the multiply-adds of two square layers.
fn work(d: u32, m: u32) -> f64 {
    2.0 * 2.0 * f64::from(m) * f64::from(d) * f64::from(d)
}

/// Falls with both quantities, with some ripple.
fn overhead(d: u32, m: u32) -> f64 {
    let (d, m) = (f64::from(d), f64::from(m));
    30.0 / d + 12.0 / (m * d.sqrt()) + 0.002 * (d / 128.0 + m / 16.0).sin()
}

/// Of both signs.
fn difference(d: u32, m: u32) -> f64 {
    0.02 * (f64::from(d) / 300.0).sin() * (f64::from(m) / 40.0).cos() - 0.004
}

/// [`overhead`], cut off where a run might have ended, with one hole.
fn holes(d: u32, m: u32) -> Option<f64> {
    (d + 7 * m < 3000 && (d, m) != (512, 64)).then(|| overhead(d, m))
}
