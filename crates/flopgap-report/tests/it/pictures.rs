//! Surfaces to SVG and PNG. The values come from formulas: they exercise the drawing.

use flopgap_report::{ReportError, axis::AxisLabel, surface::Surface};
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
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
    (info.width, info.height, pixels)
}

#[test]
fn svg_names_everything_a_reader_needs() {
    let plot = surface(&WIDTHS, &BATCHES, overhead).unwrap().subtitle("n = 2");
    let svg = plot.to_svg().unwrap();
    assert!(check_well_formed(&svg) > 600);
    assert!(svg.contains(r#" width="1000" height="760" viewBox="0 0 1000 760">"#), "{}", &svg[..200]);
    assert!(svg.contains("<title>Overhead &lt;forward&gt; &amp; more</title>"));
    let texts = text_of(&svg);
    for wanted in [
        "Overhead &lt;forward&gt; &amp; more",
        "n = 2",
        "layer width d (log scale)",
        "batch m (rows, log scale)",
        "256",
        "512",
        "1,024",
        "2,048",
        "16",
        "64",
        "0.015625",
        "0.125",
        "0.25",
    ] {
        assert!(texts.contains(&wanted), "{wanted} is not in {texts:?}");
    }
    // Once next to its axis and once above the color bar.
    assert_eq!(texts.iter().filter(|text| **text == "ε (log scale)").count(), 2);
}

#[test]
fn every_text_stays_on_the_page() {
    let plot = surface(&WIDTHS, &BATCHES, |d, m| d * d * m * 1e6).unwrap();
    let svg = plot.to_svg().unwrap();
    let (width, height) = (1000.0, 760.0);
    for text in svg.split("<text ").skip(1) {
        let attribute = |name: &str, usual: &'static str| {
            let value = text.split_once(&format!(" {name}=\"")).map_or(usual, |(_, value)| value);
            value.split('"').next().unwrap()
        };
        let number = |name, usual| attribute(name, usual).parse::<f64>().unwrap();
        let (x, y) = (number("x", ""), number("y", ""));
        let label = text.split_once('>').unwrap().1.split('<').next().unwrap().trim();
        // No letter of the font is wider than its em; most are about 0.6 of it.
        let long = label.chars().count() as f64 * number("font-size", "13") * 0.62;
        let (left, right) = match attribute("text-anchor", "start") {
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
    let (width, height, pixels) = decode(&plot.to_png().unwrap());
    assert_eq!((width, height), (1000, 760));
    assert_eq!(&pixels[..3], &[255, 255, 255], "the paper is white");
    let share = |is: &dyn Fn(&[u8]) -> bool| {
        pixels.chunks_exact(3).filter(|pixel| is(pixel)).count() as f64 / f64::from(width * height)
    };
    let colored = share(&|p| p.iter().max().unwrap() - p.iter().min().unwrap() > 60);
    assert!((0.08..0.6).contains(&colored), "{colored} of the picture is colored");
    // Letters and lines: without the outlines of texts, a third of it.
    let dark = share(&|p| p.iter().max().unwrap() < &100);
    assert!((0.004..0.06).contains(&dark), "{dark} of the picture is dark");
}

/// What neighbors leave between them would be paper.
#[test]
fn a_surface_has_no_seams() {
    let plot = surface(&WIDTHS, &BATCHES, |d, m| 1.0 + (d + m) / 1e6).unwrap();
    let (width, _, pixels) = decode(&plot.to_png().unwrap());
    let pixel = |x: usize, y: usize| &pixels[3 * (y * width as usize + x)..][..3];
    let middle = (380..420).flat_map(|y| (440..500).map(move |x| (x, y)));
    let pale = middle.filter(|&(x, y)| pixel(x, y).iter().min().unwrap() > &220).count();
    assert_eq!(pale, 0);
}

#[test]
fn a_gap_is_left_out() {
    let full = surface(&WIDTHS, &BATCHES, overhead).unwrap();
    let cut = surface(&WIDTHS, &BATCHES, |d, m| (d < 1000.0).then(|| overhead(d, m))).unwrap();
    // The edges of its cells: four for each, of which eleven points have six and six have two.
    let edges = |plot: &Surface| plot.to_svg().unwrap().matches("stroke-width=\"0.75\"").count();
    assert_eq!([edges(&full), edges(&cut)], [4 * 6, 4 * 2]);
    assert!(cut.to_svg().unwrap().contains("6 of 12 values missing"));
    // Scattered points bound no cell: they are marked one by one.
    let lone = surface(&WIDTHS[..3], &BATCHES, |d, m| [4.0, 16.0].contains(&(d / m)).then_some(1.0)).unwrap();
    assert!(lone.to_svg().unwrap().contains("<circle"));
}

#[test]
fn a_single_row_or_column_becomes_a_line() {
    for (xs, ys, fixed, shown) in [
        (&WIDTHS[..], &BATCHES[1..2], "batch m = 64 rows", "layer width d (log scale)"),
        (&WIDTHS[2..3], &BATCHES[..], "layer width d = 1,024", "batch m (rows, log scale)"),
        (&WIDTHS[..1], &BATCHES[..1], "batch m = 16 rows", "layer width d"),
    ] {
        let plot = surface(xs, ys, overhead).unwrap();
        let svg = plot.to_svg().unwrap();
        check_well_formed(&svg);
        let texts = text_of(&svg);
        assert!(texts.contains(&fixed), "{fixed} is not in {texts:?}");
        assert!(texts.contains(&shown), "{shown} is not in {texts:?}");
        assert_eq!(svg.matches("<circle").count(), xs.len() * ys.len());
        decode(&plot.to_png().unwrap());
    }
}

#[test]
fn flat_negative_and_huge_values_are_drawn() {
    for factor in [0.0, -1.0, 1e300, -1e300, 1e-300, 1e15] {
        let plot = surface(&WIDTHS, &BATCHES, |d, m| factor * d * m).unwrap();
        check_well_formed(&plot.to_svg().unwrap());
    }
    let flat = surface(&WIDTHS, &BATCHES, |_, _| 5.0).unwrap();
    assert!(flat.to_svg().unwrap().contains("all values are equal"));
    let wide = surface(&WIDTHS, &BATCHES, |d, _| if d > 300.0 { f64::MAX } else { f64::MIN }).unwrap();
    let error = wide.to_svg().unwrap_err().to_string();
    assert_eq!(
        error,
        "plot `Overhead <forward> & more`: no axis can hold values from -1.7976931348623157e308 to 1.7976931348623157e308"
    );
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
                check_well_formed(&plot.to_svg().unwrap());
            }
            Err(error) => prop_assert!(matches!(error, ReportError::NothingToDraw { .. }), "{error}"),
        }
    }
}
