//! Small multiples to SVG and PNG. The values come from formulas: they exercise the drawing.

use flopgap_report::ReportError;
use flopgap_report::chart::Color;
use flopgap_report::multiples::{Plot, PlotLine, SmallMultiples, WIDTH};
use flopgap_report::numbers::ValueFormat;
use flopgap_report::surface::AxisLabel;

use crate::markup::check_well_formed;

/// A plot for each of 16 columns, with two lines over 16 widths.
fn picture(value: impl Fn(f64, f64) -> Option<f64>) -> Result<SmallMultiples, ReportError> {
    let widths = || (1..=16).map(|step| f64::from(step) * 128.0);
    let line =
        |label: &str, index, points| PlotLine { label: label.to_owned(), color: Color::nth(index), points };
    let plots = (1..=16).map(|step| {
        let m = f64::from(step) * 16.0;
        let counted = widths().rev().map(|d| (d, value(d, m))).collect();
        let formula = widths().map(|d| (d, Some(-1.0 / (2.0 * d + 1.0)))).collect();
        Plot {
            name: format!("m = {m}"),
            lines: vec![line("counted", 0, counted), line("formula", 1, formula)],
        }
    });
    let (x, y) = (AxisLabel::new("width d"), AxisLabel::new("above theory"));
    SmallMultiples::new("FLOPs <all>", x, y, plots.collect())
        .map(|picture| picture.format(ValueFormat::Percent))
}

#[test]
fn each_line_has_a_plot_of_its_own_and_two_entries_are_in_the_legend() {
    let svg = picture(|d, m| Some(900.0 / (d * m))).unwrap().to_svg(WIDTH).unwrap();
    check_well_formed(&svg);
    let texts = |text: &str| svg.matches(&format!("\n{text}\n")).count();
    assert_eq!((texts("m = 16"), texts("m = 256"), texts("counted"), texts("formula")), (1, 1, 1, 1));
    // A dot and its rim for each value, and for each line of the legend.
    assert_eq!(svg.matches("<circle").count(), 2 * (16 * 32 + 2));
    assert_eq!(texts("above theory (symlog scale)"), 1);
    assert!(!svg.contains("missing"));
}

#[test]
fn a_line_breaks_where_a_value_is_missing() {
    let gap = picture(|d, m| (!(1000.0..1100.0).contains(&d)).then_some(900.0 / (d * m))).unwrap();
    let whole = picture(|d, m| Some(900.0 / (d * m))).unwrap();
    let (gap, whole) = (gap.to_svg(WIDTH).unwrap(), whole.to_svg(WIDTH).unwrap());
    assert!(gap.contains("16 of 512 values missing (×)"));
    // One line more and the two of a cross, in each of 16 plots.
    let lines = |svg: &str| svg.matches("<polyline").count();
    assert_eq!(lines(&gap), lines(&whole) + 16 * 3);
}

#[test]
fn narrow_pictures_and_errors() {
    let picture = picture(|d, m| Some(900.0 / (d * m))).unwrap();
    let png = picture.to_png(600).unwrap();
    let reader = png::Decoder::new(png.as_slice()).read_info().unwrap();
    assert!(reader.info().height > 1600, "two plots beside each other: {}", reader.info().height);
    let error = self::picture(|_, _| Some(f64::NAN)).unwrap_err().to_string();
    assert!(error.contains("m = 16, counted`: the value at width d = 2,048"), "{error}");
    let (x, y) = (AxisLabel::new("d"), AxisLabel::new("y"));
    assert!(matches!(SmallMultiples::new("t", x, y, Vec::new()), Err(ReportError::NothingToDraw { .. })));
}
