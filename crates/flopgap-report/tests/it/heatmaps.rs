//! Heatmaps to SVG and PNG. The values come from formulas: they exercise the drawing.

use flopgap_report::ReportError;
use flopgap_report::heatmap::{Heatmaps, Panel, WIDTH};
use flopgap_report::surface::AxisLabel;
use proptest::prelude::*;

use crate::markup::check_well_formed;

fn heatmaps(panels: Vec<Panel>) -> Result<Heatmaps, ReportError> {
    let label = AxisLabel::new;
    Heatmaps::new("Overhead <of> all", label("width d"), label("columns m"), label("ε"), panels)
}

fn panel(column: usize, value: impl Fn(f64, f64) -> Option<f64>) -> Panel {
    let steps = |by: u32| (1..=16).map(move |step| f64::from(step * by));
    let points = steps(128).flat_map(|d| steps(16).map(move |m| (d, m)));
    let points = points.map(|(d, m)| (d, m, value(d, m))).collect();
    Panel::new("forward", format!("n = {column}"), points)
}

/// What a tile of 64 columns executes above what is requested.
fn above(_: f64, m: f64) -> f64 {
    (m / 64.0).ceil() * 64.0 / m - 1.0
}

fn padding(n: usize) -> Panel {
    panel(n, |d, m| Some(above(d, m)))
}

fn rectangles(svg: &str, color: &str) -> usize {
    svg.matches(&format!("fill=\"{color}\"")).count()
}

#[test]
fn cells_have_the_color_of_their_value() {
    let svg = heatmaps(vec![padding(2)]).unwrap().to_svg(WIDTH).unwrap();
    assert!(check_well_formed(&svg) > 100);
    // Below 0.1 are four rows without padding, 176 and 240, and above 2 is one row; each row is one
    // rectangle. One more of each color is in the legend.
    assert_eq!((rectangles(&svg, "#F5F992"), rectangles(&svg, "#1E0C45")), (6 + 1, 1 + 1));
    for text in ["Overhead &lt;of&gt; all", "forward", "n = 2", "width d", "columns m", "ε", "2,048", "256"]
    {
        assert!(svg.contains(&format!("\n{text}\n")), "{text}");
    }
    assert!(!svg.contains("missing") && !svg.contains("not measured"));
}

#[test]
fn unmeasured_points_are_hatched_and_counted_and_others_are_blank() {
    let hole = |d: f64, m: f64| (!(1000.0..1100.0).contains(&d)).then(|| above(d, m));
    let whole = heatmaps(vec![padding(2), padding(4)]).unwrap();
    let holed = heatmaps(vec![padding(2), panel(4, hole)]).unwrap();
    assert_eq!((whole.missing(), holed.missing()), (0, 16));
    let svg = holed.to_svg(WIDTH).unwrap();
    assert!(svg.contains("16 of 512 values missing (hatched)") && svg.contains("not measured"));
    let lines = |svg: &str| svg.matches("<polyline").count();
    assert!(lines(&svg) > lines(&whole.to_svg(WIDTH).unwrap()) + 16 * 5, "each cell has several lines");

    // Another depth that was requested at fewer widths leaves no hatching.
    let mut narrow = padding(4);
    narrow.points.retain(|(d, _, _)| *d <= 512.0);
    let plan = heatmaps(vec![padding(2), narrow]).unwrap();
    assert_eq!(plan.missing(), 0);
    assert!(!plan.to_svg(WIDTH).unwrap().contains("missing"));
}

/// What was measured and refused is not called unmeasured.
#[test]
fn refused_points_have_a_pattern_and_a_count_of_their_own() {
    let hole = |d: f64, m: f64| (!(1000.0..1100.0).contains(&d)).then(|| above(d, m));
    let mut some = panel(2, hole);
    some.refused = vec![(1024.0, 16.0), (1024.0, 32.0), (128.0, 16.0)];
    let picture = heatmaps(vec![some.clone()]).unwrap();
    // The third has a value: it is drawn.
    assert_eq!((picture.missing(), picture.refused()), (14, 2));
    let svg = picture.to_svg(WIDTH).unwrap();
    for text in
        ["14 of 256 values missing (hatched) · 2 of 256 values refused (crossed)", "not measured", "refused"]
    {
        assert!(svg.contains(text), "{text}");
    }
    some.refused = some.points.iter().map(|(d, m, _)| (*d, *m)).collect();
    let svg = heatmaps(vec![some]).unwrap().to_svg(WIDTH).unwrap();
    assert!(svg.contains("16 of 256 values refused (crossed)"));
    assert!(!svg.contains("missing") && !svg.contains("not measured"));
}

/// Lines stand at the upper edges of the cells that have one, and the picture says what they mean.
#[test]
fn lines_are_drawn_where_they_are_and_explained() {
    let lines_of = |svg: &str| svg.matches("stroke=\"#1F2430\"").count();
    let plain = heatmaps(vec![padding(2)]).unwrap();
    let mut lined = padding(2);
    // Two cells next to each other, one apart, and one in the last row, above which is nothing.
    lined.lines = vec![(128.0, 64.0), (256.0, 64.0), (1024.0, 128.0), (128.0, 256.0)];
    let meaning = "a tile is full";
    let without = heatmaps(vec![lined.clone()]).unwrap().to_svg(WIDTH).unwrap();
    let with = heatmaps(vec![lined]).unwrap().lines(meaning).to_svg(WIDTH).unwrap();
    assert_eq!(lines_of(&without), lines_of(&plain.to_svg(WIDTH).unwrap()));
    assert_eq!(lines_of(&with), lines_of(&without) + 2 + 1, "two lines and one in the legend");
    assert!(with.contains(meaning) && !without.contains(meaning));
    // Nothing is explained that is not there.
    assert!(!plain.lines(meaning).to_svg(WIDTH).unwrap().contains(meaning));
}

#[test]
fn narrow_pictures_have_their_grids_below_each_other() {
    let picture = heatmaps((1..=5).map(padding).collect()).unwrap();
    let height = |width: u32| {
        let svg = picture.to_svg(width).unwrap();
        assert!(svg.starts_with(&format!("<svg width=\"{width}\" ")));
        let height = svg.split_once("height=\"").unwrap().1.split('"').next().unwrap();
        height.parse::<u32>().unwrap()
    };
    assert!(height(480) > 2 * height(1240), "{} {}", height(480), height(1240));
    let png = picture.to_png(480).unwrap();
    let reader = png::Decoder::new(png.as_slice()).read_info().unwrap();
    assert_eq!((reader.info().width, reader.info().height), (480, height(480)));
    // Flat colors take little: less than a bit for each pixel.
    assert!(png.len() < 480 * height(480) as usize / 8, "{} bytes", png.len());
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let twice = heatmaps(vec![padding(2), padding(2)]).unwrap_err().to_string();
    assert!(twice.contains("forward, n = 2`: there are two panels"), "{twice}");
    let empty = heatmaps(vec![panel(2, |_, _| None)]).unwrap_err();
    assert!(matches!(empty, ReportError::NothingToDraw { .. }), "{empty}");
    assert!(matches!(heatmaps(Vec::new()).unwrap_err(), ReportError::NothingToDraw { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_grids_give_a_well_formed_picture(
        name in ".{0,30}",
        columns in 1_usize..7,
        rows in 1_usize..9,
        width in 400_u32..1500,
        values in proptest::collection::vec(proptest::option::weighted(0.8, -1e6_f64..1e9), 64),
    ) {
        let panels = (0..columns).map(|column| {
            let point = |row: usize| (row as f64, f64::from(1 << row), values[row * 7 + column]);
            Panel::new(name.clone(), format!("{column} {name}"), (0..rows).map(point).collect())
        });
        match heatmaps(panels.collect()) {
            Ok(picture) => { check_well_formed(&picture.to_svg(width).unwrap()); }
            Err(error) => prop_assert!(matches!(error, ReportError::NothingToDraw { .. }), "{error}"),
        }
    }
}
