//! SVG and PNG from one drawing routine, with a bundled font: the machine needs no fonts.

pub(crate) mod canvas;
pub(crate) mod frame;

use plotters::prelude::{BitMapBackend, DrawingBackend, IntoDrawingArea, SVGBackend};

use canvas::{Canvas, Drawn};

use crate::text::on_one_line;

use crate::ReportError;

/// Something to draw.
pub(crate) trait Painting {
    /// Its title, for messages and screen readers.
    fn title(&self) -> &str;

    /// The size in pixels for which its distances and letters are designed; other sizes are
    /// enlarged or reduced to it. `None` where they follow the picture's size.
    fn design(&self) -> Option<(f64, f64)>;

    /// Draws it, background included.
    fn paint<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Drawn;
}

/// Width and height of a picture in pixels, each from 400 to 4,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
}

impl Default for Size {
    /// 1000 by 760.
    fn default() -> Self {
        Self { width: 1000, height: 760 }
    }
}

/// Backend pixels to one SVG unit: plotters rounds to whole ones, which would show as uneven grid
/// lines.
const SVG_PRECISION: u32 = 8;

/// Pieces of surface in an SVG, about 100 bytes each.
const SVG_PIECES: usize = 1_000;
/// Pieces of surface in a PNG, where they cost time alone.
const PNG_PIECES: usize = 8_000;

/// The picture as an SVG document. Text stays text.
pub(crate) fn svg(painting: &impl Painting, size: Size) -> Result<String, ReportError> {
    check(painting, size)?;
    let (width, height) = (size.width * SVG_PRECISION, size.height * SVG_PRECISION);
    let mut svg = String::new();
    let backend = SVGBackend::with_string(&mut svg, (width, height));
    draw_on(painting, backend, size, f64::from(SVG_PRECISION), SVG_PIECES)?;
    // The view box keeps the fine coordinates; the picture's own size is the one asked for.
    let header = format!(r#"<svg width="{width}" height="{height}" "#);
    let body = svg.strip_prefix(&header).ok_or_else(|| ReportError::Drawing {
        title: painting.title().to_owned(),
        reason: "the drawing library changed how it begins an SVG document".to_owned(),
    })?;
    let (root, body) = body.split_once('>').unwrap_or((body, ""));
    // A fifth of the file, and the default. Text cannot hold it: quotes are escaped there.
    let body = body.replace(" opacity=\"1\"", "");
    Ok(format!(
        "<svg width=\"{}\" height=\"{}\" role=\"img\" {root}>\n<title>{}</title>{body}",
        size.width,
        size.height,
        escape(&on_one_line(painting.title()))
    ))
}

/// The picture as a PNG file, 8-bit RGB on white.
pub(crate) fn png(painting: &impl Painting, size: Size) -> Result<Vec<u8>, ReportError> {
    check(painting, size)?;
    // Plotters' bitmap polygons have hard edges: draw larger and average.
    let factor = if size.width.max(size.height) <= 1600 { 3 } else { 2 };
    let (width, height) = (size.width * factor, size.height * factor);
    let mut pixels = vec![0_u8; width as usize * height as usize * 3];
    let backend = BitMapBackend::with_buffer(&mut pixels, (width, height));
    draw_on(painting, backend, size, f64::from(factor), PNG_PIECES)?;
    let pixels = averaged(&pixels, size, factor as usize);
    encode(painting, &pixels, size).map_err(|error| ReportError::Drawing {
        title: painting.title().to_owned(),
        reason: error.to_string(),
    })
}

fn encode(painting: &impl Painting, pixels: &[u8], size: Size) -> Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, size.width, size.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    // Areas of one color repeat as they are: filters and the library's fastest level make a heatmap
    // seven times as large.
    encoder.set_filter(png::FilterType::NoFilter);
    encoder.set_compression(png::Compression::Default);
    encoder.add_itxt_chunk("Title".to_owned(), on_one_line(painting.title()))?;
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(file)
}

/// The one drawing routine behind both formats.
fn draw_on<DB: DrawingBackend>(
    painting: &impl Painting,
    backend: DB,
    size: Size,
    pixels: f64,
    pieces: usize,
) -> Result<(), ReportError> {
    let enlarged = painting
        .design()
        .map_or(1.0, |(width, height)| (f64::from(size.width) / width).min(f64::from(size.height) / height));
    let area = backend.into_drawing_area();
    let failed = |reason| ReportError::Drawing { title: painting.title().to_owned(), reason };
    let canvas = Canvas::new(&area, pixels * enlarged, pieces).map_err(failed)?;
    painting.paint(&canvas).map_err(failed)?;
    area.present().map_err(|error| failed(error.to_string()))
}

fn check(painting: &impl Painting, size: Size) -> Result<(), ReportError> {
    let allowed = 400..=4000;
    if allowed.contains(&size.width) && allowed.contains(&size.height) {
        return Ok(());
    }
    let reason = format!("{} by {} pixels: each side must be from 400 to 4,000", size.width, size.height);
    Err(ReportError::InvalidPlot { title: painting.title().to_owned(), reason })
}

/// Each output pixel is the mean of `factor` by `factor` input pixels.
fn averaged(pixels: &[u8], size: Size, factor: usize) -> Vec<u8> {
    let row_bytes = size.width as usize * factor * 3;
    let samples = u32::try_from(factor * factor).unwrap_or(1);
    let mut out = Vec::with_capacity(size.width as usize * size.height as usize * 3);
    let mut sums = vec![0_u32; size.width as usize * 3];
    for rows in pixels.chunks_exact(row_bytes * factor) {
        sums.fill(0);
        for row in rows.chunks_exact(row_bytes) {
            for (sum, block) in sums.chunks_exact_mut(3).zip(row.chunks_exact(factor * 3)) {
                for pixel in block.chunks_exact(3) {
                    for (sum, channel) in sum.iter_mut().zip(pixel) {
                        *sum += u32::from(*channel);
                    }
                }
            }
        }
        out.extend(sums.iter().map(|sum| u8::try_from((sum + samples / 2) / samples).unwrap_or(u8::MAX)));
    }
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averaging_is_the_rounded_mean() {
        let size = Size { width: 2, height: 1 };
        let top = [0, 10, 20, 4, 10, 20, 255, 255, 255, 255, 255, 255];
        let bottom = [0, 10, 20, 4, 10, 21, 255, 255, 255, 0, 0, 0];
        let pixels: Vec<u8> = top.into_iter().chain(bottom).collect();
        assert_eq!(averaged(&pixels, size, 2), [2, 10, 20, 191, 191, 191]);
    }
}
