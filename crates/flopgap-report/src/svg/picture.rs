//! Pictures: drawings of a certain size, as SVG and as PNG.

#[cfg(feature = "png")]
use resvg::{tiny_skia, usvg};

use super::font::fit;
use super::style::picture_style;
use super::{Across, Anchor, Number, Svg};
use crate::ReportError;
use crate::text::escape;
#[cfg(feature = "png")]
use crate::text::on_one_line;

/// Space between the contents and the border of the picture, in pixels.
pub(crate) const MARGIN: f64 = 28.0;
/// Height of the heading: nothing else is drawn above.
pub(crate) const HEADING: f64 = 84.0;
/// Height of the letters of ticks and titles of axes in large plots.
pub(crate) const TICK_SIZE: f64 = 14.0;
pub(crate) const LABEL_SIZE: f64 = 16.0;

/// The largest height of a picture in pixels.
const HIGHEST: f64 = 4000.0;

/// What a picture is, apart from its contents.
pub(crate) struct Picture<'a> {
    pub(crate) title: &'a str,
    pub(crate) subtitle: String,
    /// In pixels.
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Picture<'_> {
    /// The picture as an SVG document. Text stays text.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] when it is higher than 4,000 pixels.
    pub(crate) fn to_svg(&self, draw: impl FnOnce(&mut Svg)) -> Result<String, ReportError> {
        self.draw(false, draw)
    }

    /// The picture as a PNG file, 8-bit RGB on white.
    ///
    /// # Errors
    /// As for [`to_svg`](Self::to_svg); [`ReportError::Drawing`] when the picture cannot be
    /// rendered.
    #[cfg(feature = "png")]
    pub(crate) fn to_png(&self, draw: impl FnOnce(&mut Svg)) -> Result<Vec<u8>, ReportError> {
        let svg = self.draw(true, draw)?;
        let failed = |reason: String| ReportError::Drawing { title: self.title.to_owned(), reason };
        let tree = usvg::Tree::from_str(&svg, &usvg::Options::default())
            .map_err(|error| failed(error.to_string()))?;
        let size = tree.size().to_int_size();
        let mut pixels = tiny_skia::Pixmap::new(size.width(), size.height())
            .ok_or_else(|| failed("it has no pixels".to_owned()))?;
        pixels.fill(tiny_skia::Color::WHITE);
        resvg::render(&tree, tiny_skia::Transform::identity(), &mut pixels.as_mut());
        let rgb: Vec<u8> = pixels.data().chunks_exact(4).flat_map(|pixel| &pixel[..3]).copied().collect();
        self.encode(&rgb, size.width(), size.height()).map_err(|error| failed(error.to_string()))
    }

    fn draw(&self, outlines: bool, draw: impl FnOnce(&mut Svg)) -> Result<String, ReportError> {
        let (width, height, title) = (self.width, self.height.ceil(), self.title);
        if height > HIGHEST {
            let reason = format!("it would be {height} pixels high: at most {HIGHEST} can be read");
            return Err(ReportError::InvalidPlot { title: title.to_owned(), reason });
        }
        let mut svg = Svg { width: Some(width), outlines, ..Svg::default() };
        svg.rect("fg-paper", (Across::Pixels(0.0), 0.0), (Across::Share(1.0), height));
        let lines = [("fg-ink", title, 23.0, 36.0), ("fg-muted", self.subtitle.as_str(), 15.0, 66.0)];
        for (class, text, size, y) in lines {
            let (text, size) = fit(text, size, 11.0, width - 2.0 * MARGIN);
            svg.text(class, &text, (Across::Pixels(MARGIN), y), size, Anchor::Start);
        }
        draw(&mut svg);
        let (width, height) = (Number(width), Number(height));
        let attributes =
            format!("role=\"img\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\"");
        let head = format!("<title>{}</title>\n<style>{}</style>\n", escape(title), picture_style());
        Ok(svg.element(&attributes, &head))
    }

    #[cfg(feature = "png")]
    fn encode(&self, rgb: &[u8], width: u32, height: u32) -> Result<Vec<u8>, png::EncodingError> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        // Areas of one color repeat as they are: filters make a heatmap seven times as large.
        encoder.set_filter(png::Filter::NoFilter);
        encoder.add_itxt_chunk("Title".to_owned(), on_one_line(self.title))?;
        let mut writer = encoder.write_header()?;
        writer.write_image_data(rgb)?;
        writer.finish()?;
        Ok(file)
    }
}
