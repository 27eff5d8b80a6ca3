//! Training of a network from samples, on a GPU or the CPU, and pictures: what examples share.

pub(crate) mod cpu;
pub(crate) mod gpu;

use std::error::Error;
use std::f64::consts::PI;
use std::path::Path;

use flopgap_mlp::encoding::Encoding;
use flopgap_mlp::{AdamWSettings, Parameters};
use flopgap_report::axis::AxisLabel;
use flopgap_report::chart::{Color, Plot, Series};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// What is to be learned.
pub(crate) struct Task<'a> {
    /// To begin with.
    pub(crate) parameters: Parameters,
    /// What makes the network's inputs of positions; none where `samples` are inputs already.
    pub(crate) encoding: Option<Encoding>,
    /// A row for each sample: a position, or inputs.
    pub(crate) samples: Vec<f32>,
    /// `samples x columns`: the first outputs of the network, which may have more.
    pub(crate) targets: Vec<f32>,
    pub(crate) columns: usize,
    /// Samples of a step. An epoch is as many whole steps as there are.
    pub(crate) batch: usize,
    pub(crate) epochs: usize,
    /// What a GPU multiplies gradients by, so that half precision keeps them.
    pub(crate) loss_scale: f32,
    /// Called some 20 times with the steps so far and the mean loss of the epoch that ended there.
    pub(crate) report: &'a dyn Fn(usize, f64),
}

impl Task<'_> {
    /// Numbers of a sample.
    fn width(&self) -> usize {
        self.encoding.as_ref().map_or(self.parameters.network().inputs(), Encoding::dimensions)
    }

    fn steps(&self) -> usize {
        self.samples.len() / self.width() / self.batch
    }

    /// Parameters of the network and of the encoding.
    pub(crate) fn parameters(&self) -> usize {
        self.parameters.values().len() + self.encoding.as_ref().map_or(0, Encoding::parameters)
    }

    /// From 0.01 to nearly 0 along a cosine.
    fn learning_rate(&self, epoch: usize) -> f64 {
        0.005 * (1.0 + (PI * epoch as f64 / self.epochs as f64).cos()) + 1e-5
    }

    /// Passes the loss on where it is due.
    fn report(
        &self,
        epoch: usize,
        losses: &mut Vec<(usize, f64)>,
        loss: impl FnOnce() -> Result<f64, Failure>,
    ) -> Result<(), Failure> {
        if epoch == 0 || (epoch + 1).is_multiple_of(self.epochs.div_ceil(20)) {
            let (step, loss) = ((epoch + 1) * self.steps(), loss()?);
            losses.push((step, loss));
            (self.report)(step, loss);
        }
        Ok(())
    }
}

fn settings(loss_scale: f32) -> AdamWSettings {
    let loss_scale = f64::from(loss_scale);
    AdamWSettings { weight_decay: 0.0, betas: (0.9, 0.99), loss_scale, ..AdamWSettings::default() }
}

/// A network with its encoding, wherever it lies.
pub(crate) trait Field {
    /// The first columns of the outputs of samples like those of the [`Task`].
    fn outputs(&mut self, samples: &[f32]) -> Result<Vec<f32>, Failure>;
}

/// What came out.
pub(crate) struct Trained {
    pub(crate) field: Box<dyn Field>,
    pub(crate) parameters: Parameters,
    /// Steps, and the mean loss of the epoch that ended there.
    pub(crate) losses: Vec<(usize, f64)>,
    pub(crate) steps: usize,
    pub(crate) seconds: f64,
    /// On what.
    pub(crate) place: String,
}

impl Trained {
    /// Steps per second, and how many samples these are.
    pub(crate) fn speed(&self, batch: usize) -> String {
        let rate = self.steps as f64 / self.seconds;
        format!(
            "{} steps in {:.3} s on {}: {rate:.0} steps/s, {:.1} million samples/s",
            self.steps,
            self.seconds,
            self.place,
            rate * batch as f64 / 1e6
        )
    }
}

/// Writes a chart of the loss.
pub(crate) fn write_losses(path: &Path, title: &str, batch: usize, trained: &Trained) -> Result<(), Failure> {
    let points = trained.losses.iter().map(|&(step, loss)| (step as f64, loss.log10())).collect();
    let line = Series::line("training", Color::nth(0), points);
    let (x, y) = (AxisLabel::new("step"), AxisLabel::new("mean squared error, log10"));
    let subtitle = format!("{}, {batch} samples a step; {}", trained.parameters.network(), trained.place);
    let chart = Plot::new(title, x, y, vec![line])?.ticks_at_points().linear().subtitle(subtitle);
    Ok(std::fs::write(path, chart.to_svg()?)?)
}

/// The first `columns` of rows of `width` numbers.
fn first_columns(rows: &[f32], width: usize, columns: usize) -> Vec<f32> {
    rows.chunks_exact(width).flat_map(|row| &row[..columns]).copied().collect()
}

/// Writes two square pictures, 3 bytes for each pixel, next to each other.
pub(crate) fn write_pair(path: &Path, side: usize, left: &[u8], right: &[u8]) -> Result<(), Failure> {
    let file = std::fs::File::create(path)?;
    let height = u32::try_from(side)?;
    let mut encoder = png::Encoder::new(std::io::BufWriter::new(file), 2 * height, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    encoder.set_filter(png::Filter::Adaptive);
    let rows = left.chunks_exact(3 * side).zip(right.chunks_exact(3 * side));
    let pixels: Vec<u8> = rows.flat_map(|(left, right)| [left, right].concat()).collect();
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(())
}

/// A number from 0 to 1 in a byte.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 255")]
pub(crate) fn byte(value: f32) -> u8 {
    (value.clamp(0.0, 1.0) * 255.0).round() as u8
}
