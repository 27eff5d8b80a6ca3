//! Ceilings as pictures: bandwidth over the working set, and the roofline.

use std::path::Path;

use flopgap_cli::{Console, Failure};
use flopgap_report::ReportError;
use flopgap_report::axis::AxisLabel;
use flopgap_report::chart::{Color, Guide, Plot, Series};
use flopgap_roofline::{Bandwidth, Ceilings, Level, Peak};

/// Intensities that the roofline spans, FLOP per byte.
const INTENSITIES: (f64, f64) = (0.1, 10_000.0);

/// Writes the pictures into a directory, which is created if missing.
pub(super) fn write(ceilings: &Ceilings, folder: &Path, console: Console) -> Result<(), Failure> {
    flopgap_files::create_folder(folder)?;
    for (name, chart) in charts(ceilings)? {
        let path = folder.join(name);
        let svg = chart.to_svg()?;
        flopgap_files::write_atomic(&path, svg.as_bytes())?;
        console.note(format_args!("wrote {}", path.display()));
    }
    Ok(())
}

fn charts(ceilings: &Ceilings) -> Result<Vec<(&'static str, Plot)>, ReportError> {
    let mut charts = Vec::new();
    let all = if ceilings.kind == "cuda" {
        "Bandwidth over a working set that all multiprocessors share"
    } else {
        "Bandwidth over the working set, all threads"
    };
    let own = "Bandwidth where each multiprocessor has its own part of the working set";
    let details = &ceilings.details;
    let one: &[Bandwidth] = details.one_thread.as_ref().map_or(&[], |one| &one.bandwidth);
    // The sizes of levels are those of all threads together, and a shared set goes past the first
    // level.
    let levels = ceilings.levels.as_slice();
    let beyond = levels.get(usize::from(ceilings.kind == "cuda")..).unwrap_or_default();
    let curves = [
        ("bandwidth.svg", all, ceilings.bandwidth.as_slice(), beyond),
        ("bandwidth-own-slices.svg", own, &details.own_slices, levels),
        ("bandwidth-one-thread.svg", "Bandwidth over the working set, one thread", one, &[]),
    ];
    for (name, title, curve, levels) in curves {
        if !curve.is_empty() {
            charts.push((name, bandwidth(title, curve, levels)?.subtitle(heading(ceilings))));
        }
    }
    if !ceilings.peaks.is_empty() && !ceilings.levels.is_empty() {
        charts.push(("roofline.svg", roofline(ceilings)?));
    }
    Ok(charts)
}

fn heading(ceilings: &Ceilings) -> String {
    format!("{}, measured {}", ceilings.device, ceilings.details.created)
}

/// With upright lines where these levels of the memory are full.
fn bandwidth(title: &str, curve: &[Bandwidth], levels: &[Level]) -> Result<Plot, ReportError> {
    let kibibytes = |bytes: u64| bytes as f64 / 1024.0;
    let group = |index, label: &str, of: fn(&Bandwidth) -> f64| {
        let points = curve.iter().map(|point| (kibibytes(point.bytes), of(point) / 1e9)).collect();
        Series::line(label, Color::nth(index), points)
    };
    let groups = vec![
        group(0, "read", |point| point.read.value),
        group(1, "written", |point| point.write.value),
        group(2, "copied (read and written)", |point| point.copy.value),
    ];
    let rates = || groups.iter().flat_map(|group| &group.points).map(|point| point.1);
    let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    let reached = |bytes: u64| {
        let ends = curve.first().zip(curve.last());
        ends.is_some_and(|(first, last)| (first.bytes..=last.bytes).contains(&bytes))
    };
    let guides = levels.iter().filter_map(|level| {
        let full = kibibytes(level.bytes.filter(|bytes| reached(*bytes))?);
        let points = vec![(full, least), (full, most)];
        Some(Guide { label: format!("size of {}", level.name), points, dashed: true, named: false })
    });
    let guides = guides.collect();
    let axis = |name, unit| AxisLabel::new(name).unit(unit);
    let chart = Plot::new(title, axis("working set", "KiB"), axis("bandwidth", "GB/s"), groups)?;
    Ok(chart.guides(guides))
}

/// Of each precision its best peak over the slowest memory, and guides for the other levels.
fn roofline(ceilings: &Ceilings) -> Result<Plot, ReportError> {
    let (low, high) = INTENSITIES;
    let memory = ceilings.levels.last().map_or(0.0, |level| level.read);
    let mut best: Vec<&Peak> = Vec::new();
    for peak in &ceilings.peaks {
        if !best.iter().any(|other| other.precision == peak.precision) {
            best.extend(ceilings.peak(peak.precision));
        }
    }
    let groups = best.iter().enumerate().map(|(index, peak)| {
        let peak_rate = peak.ops_per_second.value;
        let ridge = peak_rate / memory;
        let label = format!("{}: {:.1} TFLOP/s, ridge {ridge:.0}", peak.precision, peak_rate / 1e12);
        let points = vec![(low, low * memory / 1e12), (ridge, peak_rate / 1e12), (high, peak_rate / 1e12)];
        Series::line(label, Color::nth(index), points)
    });
    let most = best.iter().map(|peak| peak.ops_per_second.value).fold(0.0, f64::max);
    let faster = ceilings.levels.split_last().map_or(&[][..], |(_, faster)| faster);
    let guides = faster.iter().map(|level| Guide {
        label: format!("{}: {:.0} GB/s", level.name, level.read / 1e9),
        points: vec![(low, low * level.read / 1e12), (most / level.read, most / 1e12)],
        dashed: true,
        named: false,
    });
    let x = AxisLabel::new("intensity").unit("FLOP/B");
    let y = AxisLabel::new("arithmetic").unit("TFLOP/s");
    let chart = Plot::new("Roofline, as measured", x, y, groups.collect())?;
    let slowest = ceilings.levels.last().map_or("", |level| level.name.as_str());
    Ok(chart
        .subtitle(format!("{}; solid: {slowest}, {:.0} GB/s", heading(ceilings), memory / 1e9))
        .guides(guides.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_has_three_pictures_with_the_levels_and_ridges() {
        let quantity = r#"{"value":4e12,"spread":0.01}"#;
        let point = |bytes: u64| {
            format!(r#"{{"bytes":{bytes},"read":{quantity},"write":{quantity},"copy":{quantity}}}"#)
        };
        let curve = format!("[{},{},{}]", point(1 << 20), point(1 << 24), point(1 << 30));
        let text = format!(
            r#"{{"device":"NVIDIA H200","kind":"cuda","units":132,
            "peaks":[{{"precision":"fp16","tensor":true,"ops_per_second":{{"value":8e14,"spread":0.0}}}}],
            "bandwidth":{curve},
            "levels":[{{"name":"L1","bytes":30000000,"read":3e13,"copy":8e12}},{{"name":"L2","bytes":52428800,"read":8e12,"copy":6e12}},{{"name":"HBM","bytes":null,"read":4e12,"copy":4e12}}],
            "launch_ns":{quantity},"details":{{"created":"2026-11-22T10:20:00Z","own_slices":{curve}}}}}"#
        );
        let ceilings: Ceilings = serde_json::from_str(&text).unwrap();
        let charts = charts(&ceilings).unwrap();
        let names: Vec<&str> = charts.iter().map(|chart| chart.0).collect();
        assert_eq!(names, ["bandwidth.svg", "bandwidth-own-slices.svg", "roofline.svg"]);
        let svg = |index: usize| charts[index].1.to_svg().unwrap();
        assert!(
            svg(0).contains("size of L2") && svg(0).contains("NVIDIA H200, measured 2026-11-22T10:20:00Z")
        );
        assert!(svg(2).contains("fp16: 800.0 TFLOP/s, ridge 200"));
        assert!(svg(2).contains("L2: 8000 GB/s") && svg(2).contains("solid: HBM, 4000 GB/s"));
    }
}
