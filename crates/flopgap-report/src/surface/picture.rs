//! SVG and PNG output.

use plotters::prelude::{BitMapBackend, DrawingBackend, IntoDrawingArea, SVGBackend};

use super::{
    Surface,
    canvas::{Canvas, printable},
    line, scene,
};
use crate::ReportError;

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

/// The size for which distances and letters are designed; other sizes are enlarged or reduced to it.
const DESIGN: (f64, f64) = (1000.0, 760.0);

/// Backend pixels to one SVG unit: plotters rounds to whole ones, which would show as uneven grid lines.
const SVG_PRECISION: u32 = 8;

/// Pieces of surface in an SVG, about 100 bytes each.
const SVG_PIECES: usize = 1_000;
/// Pieces of surface in a PNG, where they cost time alone.
const PNG_PIECES: usize = 8_000;

impl Surface {
    /// The picture as an SVG document. Text stays text.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] when the size is out of bounds or no axis can hold the values.
    pub fn to_svg(&self, size: Size) -> Result<String, ReportError> {
        self.check(size)?;
        let (width, height) = (size.width * SVG_PRECISION, size.height * SVG_PRECISION);
        let mut svg = String::new();
        self.draw_on(
            SVGBackend::with_string(&mut svg, (width, height)),
            size,
            f64::from(SVG_PRECISION),
            SVG_PIECES,
        )?;
        // The view box keeps the fine coordinates; the picture's own size is the one asked for.
        let header = format!(r#"<svg width="{width}" height="{height}" "#);
        let body = svg.strip_prefix(&header).ok_or_else(|| ReportError::Drawing {
            title: self.title.clone(),
            reason: "the drawing library changed how it begins an SVG document".to_owned(),
        })?;
        let (root, body) = body.split_once('>').unwrap_or((body, ""));
        // A fifth of the file, and the default. Text cannot hold it: quotes are escaped there.
        let body = body.replace(" opacity=\"1\"", "");
        Ok(format!(
            "<svg width=\"{}\" height=\"{}\" role=\"img\" {root}>\n<title>{}</title>{body}",
            size.width,
            size.height,
            escape(&printable(&self.title))
        ))
    }

    /// The picture as a PNG file, 8-bit RGB on white.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] when the size is out of bounds or no axis can hold the values.
    pub fn to_png(&self, size: Size) -> Result<Vec<u8>, ReportError> {
        self.check(size)?;
        // Plotters' bitmap polygons have hard edges: draw larger and average.
        let factor = if size.width.max(size.height) <= 1600 { 3 } else { 2 };
        let (width, height) = (size.width * factor, size.height * factor);
        let mut pixels = vec![0_u8; width as usize * height as usize * 3];
        self.draw_on(
            BitMapBackend::with_buffer(&mut pixels, (width, height)),
            size,
            f64::from(factor),
            PNG_PIECES,
        )?;
        let pixels = averaged(&pixels, size, factor as usize);
        self.encode(&pixels, size)
            .map_err(|error| ReportError::Drawing { title: self.title.clone(), reason: error.to_string() })
    }

    fn encode(&self, pixels: &[u8], size: Size) -> Result<Vec<u8>, png::EncodingError> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, size.width, size.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.add_itxt_chunk("Title".to_owned(), printable(&self.title))?;
        let mut writer = encoder.write_header()?;
        writer.write_image_data(pixels)?;
        writer.finish()?;
        Ok(file)
    }

    /// The one drawing routine behind both formats.
    fn draw_on<DB: DrawingBackend>(
        &self,
        backend: DB,
        size: Size,
        pixels: f64,
        pieces: usize,
    ) -> Result<(), ReportError> {
        let scale = self.scale()?;
        let enlarged = (f64::from(size.width) / DESIGN.0).min(f64::from(size.height) / DESIGN.1);
        let area = backend.into_drawing_area();
        let failed = |reason| ReportError::Drawing { title: self.title.clone(), reason };
        let canvas = Canvas::new(&area, pixels * enlarged, pieces).map_err(failed)?;
        let drawn = if self.x.values.len() > 1 && self.y.values.len() > 1 {
            scene::draw(&canvas, self, &scale)
        } else {
            line::draw(&canvas, self, &scale)
        };
        drawn.map_err(failed)?;
        area.present().map_err(|error| failed(error.to_string()))
    }

    fn check(&self, size: Size) -> Result<(), ReportError> {
        let allowed = 400..=4000;
        if allowed.contains(&size.width) && allowed.contains(&size.height) {
            return Ok(());
        }
        let reason = format!("{} by {} pixels: each side must be from 400 to 4,000", size.width, size.height);
        Err(ReportError::InvalidPlot { title: self.title.clone(), reason })
    }
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
