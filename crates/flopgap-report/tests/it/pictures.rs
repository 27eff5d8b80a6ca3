//! Surfaces to SVG and PNG. The values come from formulas: they exercise the drawing.

use flopgap_report::{
    ReportError,
    numbers::ValueFormat,
    surface::{AxisLabel, Size, Surface},
};
use proptest::prelude::*;

use crate::markup::check_well_formed;

const WIDTHS: [f64; 4] = [256.0, 512.0, 1024.0, 2048.0];
const BATCHES: [f64; 3] = [16.0, 64.0, 256.0];

fn surface<V: Into<Option<f64>>>(
    xs: &[f64],
    ys: &[f64],
    value: impl Fn(f64, f64) -> V,
) -> Result<Surface, ReportError> {
    let points = xs.iter().flat_map(|x| ys.iter().map(|y| (*x, *y, value(*x, *y).into())));
    Surface::from_points(
        "Overhead <forward> & more",
        AxisLabel::new("layer width d"),
        AxisLabel::new("batch m").unit("rows"),
        AxisLabel::new("ε"),
        points,
    )
}

fn overhead(d: f64, m: f64) -> f64 {
    30.0 / d + 12.0 / (m * d.sqrt())
}

fn text_of(svg: &str) -> Vec<&str> {
    let texts = svg.split("<text ").skip(1);
    texts.map(|text| text.split_once('>').unwrap().1.split('<').next().unwrap().trim()).collect()
}

fn decode(png: &[u8]) -> (u32, u32, Vec<u8>) {
    let mut reader = png::Decoder::new(png).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
    (info.width, info.height, pixels)
}

#[test]
fn svg_names_everything_a_reader_needs() {
    let plot = surface(&WIDTHS, &BATCHES, overhead).unwrap().format(ValueFormat::Percent).subtitle("n = 2");
    let svg = plot.to_svg(Size::default()).unwrap();
    assert!(check_well_formed(&svg) > 600);
    assert!(svg.starts_with(r#"<svg width="1000" height="760" "#), "{}", &svg[..120]);
    assert!(svg.contains("<title>Overhead &lt;forward&gt; &amp; more</title>"));
    let texts = text_of(&svg);
    for wanted in [
        "Overhead &lt;forward&gt; &amp; more",
        "n = 2",
        "layer width d (log2 scale)",
        "batch m (rows, log2 scale)",
        "256",
        "512",
        "1,024",
        "2,048",
        "16",
        "64",
        "1%",
        "16%",
        "32%",
    ] {
        assert!(texts.contains(&wanted), "{wanted} is not in {texts:?}");
    }
    // Once next to its axis and once above the color bar.
    assert_eq!(texts.iter().filter(|text| **text == "ε (log scale)").count(), 2);
}

#[test]
fn every_text_stays_on_the_page() {
    let plot = surface(&WIDTHS, &BATCHES, |d, m| d * d * m * 1e6).unwrap();
    let svg = plot.to_svg(Size::default()).unwrap();
    let view_box = svg.split_once("viewBox=\"0 0 ").unwrap().1.split('"').next().unwrap();
    let (width, height) = view_box.split_once(' ').unwrap();
    let (width, height): (f64, f64) = (width.parse().unwrap(), height.parse().unwrap());
    for text in svg.split("<text ").skip(1) {
        let attribute = |name: &str| {
            let value = text.split_once(&format!("{name}=\"")).unwrap().1;
            value.split('"').next().unwrap()
        };
        let (x, y): (f64, f64) = (attribute("x").parse().unwrap(), attribute("y").parse().unwrap());
        let label = text.split_once('>').unwrap().1.split('<').next().unwrap().trim();
        // No letter of the font is wider than its em; most are about 0.6 of it.
        let long = label.chars().count() as f64 * attribute("font-size").parse::<f64>().unwrap() * 0.62;
        let (left, right) = match attribute("text-anchor") {
            "start" => (x, x + long),
            "end" => (x - long, x),
            _ => (x - long / 2.0, x + long / 2.0),
        };
        if text.contains("rotate(") {
            assert!(y - long / 2.0 > 0.0 && y + long / 2.0 < height && x > 0.0, "{label}");
        } else {
            assert!(left > 0.0 && right < width && y > 0.0 && y < height, "{label} spans {left} to {right}");
        }
    }
}

#[test]
fn png_has_its_size_and_shows_the_colors() {
    let plot = surface(&WIDTHS, &BATCHES, overhead).unwrap();
    for size in [Size::default(), Size { width: 640, height: 400 }, Size { width: 1700, height: 1300 }] {
        let (width, height, pixels) = decode(&plot.to_png(size).unwrap());
        assert_eq!((width, height), (size.width, size.height));
        assert_eq!(&pixels[..3], &[255, 255, 255], "the paper is white");
        let colored =
            pixels.chunks_exact(3).filter(|p| p.iter().max().unwrap() - p.iter().min().unwrap() > 60);
        let share = colored.count() as f64 / f64::from(width * height);
        assert!((0.08..0.6).contains(&share), "{share} of the picture is colored");
    }
}

#[test]
fn a_gap_is_left_out() {
    let full = surface(&WIDTHS, &BATCHES, overhead).unwrap();
    let cut = surface(&WIDTHS, &BATCHES, |d, m| (d < 1000.0).then(|| overhead(d, m))).unwrap();
    assert_eq!(cut.missing(), 6);
    let cells = |plot: &Surface| plot.to_svg(Size::default()).unwrap().matches("<polygon").count();
    assert!(cells(&cut) < cells(&full) * 2);
    assert!(cut.to_svg(Size::default()).unwrap().contains("6 of 12 values missing"));
    // Scattered points bound no cell: they are marked one by one.
    let lone = surface(&WIDTHS[..3], &BATCHES, |d, m| [4.0, 16.0].contains(&(d / m)).then_some(1.0)).unwrap();
    assert!(lone.to_svg(Size::default()).unwrap().contains("<circle"));
}

#[test]
fn a_single_row_or_column_becomes_a_line() {
    for (xs, ys, fixed, shown) in [
        (&WIDTHS[..], &BATCHES[1..2], "batch m = 64 rows", "layer width d (log2 scale)"),
        (&WIDTHS[2..3], &BATCHES[..], "layer width d = 1,024", "batch m (rows, log2 scale)"),
        (&WIDTHS[..1], &BATCHES[..1], "batch m = 16 rows", "layer width d"),
    ] {
        let plot = surface(xs, ys, overhead).unwrap();
        let svg = plot.to_svg(Size::default()).unwrap();
        check_well_formed(&svg);
        let texts = text_of(&svg);
        assert!(texts.contains(&fixed), "{fixed} is not in {texts:?}");
        assert!(texts.contains(&shown), "{shown} is not in {texts:?}");
        assert_eq!(svg.matches("<circle").count(), 2 * xs.len() * ys.len());
        decode(&plot.to_png(Size::default()).unwrap());
    }
}

#[test]
fn flat_negative_and_huge_values_are_drawn() {
    for factor in [0.0, -1.0, 1e300, -1e300, 1e-300, 1e15] {
        let plot = surface(&WIDTHS, &BATCHES, |d, m| factor * d * m).unwrap();
        check_well_formed(&plot.to_svg(Size::default()).unwrap());
    }
    let flat = surface(&WIDTHS, &BATCHES, |_, _| 5.0).unwrap();
    assert!(flat.to_svg(Size::default()).unwrap().contains("all values are equal"));
    let wide = surface(&WIDTHS, &BATCHES, |d, _| if d > 300.0 { f64::MAX } else { f64::MIN }).unwrap();
    let error = wide.to_svg(Size::default()).unwrap_err().to_string();
    assert_eq!(
        error,
        "plot `Overhead <forward> & more`: no axis can hold values from -1.7976931348623157e308 to 1.7976931348623157e308"
    );
}

#[test]
fn sizes_out_of_bounds_are_refused() {
    let plot = surface(&WIDTHS, &BATCHES, overhead).unwrap();
    let error = plot.to_png(Size { width: 100_000, height: 760 }).unwrap_err().to_string();
    assert!(error.ends_with("100000 by 760 pixels: each side must be from 400 to 4,000"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_grid_gives_a_well_formed_picture(
        title in ".{0,40}",
        columns in 1_usize..7,
        rows in 1_usize..7,
        values in proptest::collection::vec(proptest::option::weighted(0.8, -1e12_f64..1e12), 36),
    ) {
        let points = (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c)));
        let points = points.map(|(r, c)| (c as f64, f64::from(1 << r), values[r * 6 + c]));
        let label = |text: &str| AxisLabel::new(text);
        match Surface::from_points(title.clone(), label(&title), label("m"), label(&title), points) {
            Ok(plot) => {
                check_well_formed(&plot.to_svg(Size::default()).unwrap());
            }
            Err(error) => prop_assert!(matches!(error, ReportError::NothingToDraw { .. }), "{error}"),
        }
    }
}
