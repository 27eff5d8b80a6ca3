//! Training on a GPU, in half precision: an epoch is one CUDA graph.

use std::time::Instant;

use flopgap_gpu::{Buffer, Context, Stream};
use flopgap_mlp::AdamWSettings;
use flopgap_mlp::cuda::encoding::Encoder;
use flopgap_mlp::cuda::train::{AdamW, ArrayAdamW, MeanSquaredError};
use flopgap_mlp::cuda::{Implementation, Model, Options};
use half::f16;

use super::{Failure, Field, Task, Trained, first_columns, settings};

/// Of the first table.
const SEED: u64 = 2;

struct OnGpu {
    stream: Stream,
    model: Model<f16>,
    encoder: Option<Encoder<f16>>,
    columns: usize,
}

impl OnGpu {
    /// What the network takes of all samples; of positions once they are encoded.
    fn inputs(&self, samples: &[f32], width: usize) -> Result<Buffer<f16>, Failure> {
        Ok(if self.encoder.is_some() {
            self.stream.zeros(samples.len() / width * self.model.network().inputs())?
        } else {
            self.stream.upload(&samples.iter().copied().map(f16::from_f32).collect::<Vec<_>>())?
        })
    }
}

impl Field for OnGpu {
    fn outputs(&mut self, samples: &[f32]) -> Result<Vec<f32>, Failure> {
        let (stream, network) = (&self.stream, self.model.network());
        let width = self.encoder.as_ref().map_or(network.inputs(), |encoder| encoder.encoding().dimensions());
        let mut x = self.inputs(samples, width)?;
        if let Some(encoder) = &self.encoder {
            encoder.forward(stream, &stream.upload(samples)?, &mut x)?;
        }
        let mut y = stream.zeros::<f16>(samples.len() / width * network.outputs())?;
        self.model.forward(stream, &x, &mut y)?;
        let y: Vec<f32> = stream.download(&y)?.into_iter().map(f16::to_f32).collect();
        Ok(first_columns(&y, network.outputs(), self.columns))
    }
}

/// What trains the table of an encoding.
struct Table {
    optimizer: ArrayAdamW<f16>,
    gradients: Buffer<f32>,
    /// By the inputs of the network.
    dx: Buffer<f16>,
}

pub(crate) fn train(task: &Task<'_>, implementation: Implementation) -> Result<Trained, Failure> {
    let context = Context::new(0).map_err(|error| format!("{error}; --cpu does without"))?;
    let (stream, network) = (context.stream()?, task.parameters.network().clone());
    let mut model = Model::<f16>::new(&context, &network, Options::new(implementation))?;
    model.upload(&stream, &task.parameters)?;
    let settings = settings(task.loss_scale);
    let mut optimizer = AdamW::with_master(&stream, &model, &task.parameters, settings)?;
    let mut error = MeanSquaredError::new(&stream, &network, task.columns)?;
    let (batch, columns, inputs) = (task.batch, task.columns, network.inputs());

    let mut table = None;
    let mut encoder = None;
    if let Some(encoding) = &task.encoding {
        let (values, mut of_table) = (encoding.initial_table(SEED), Encoder::new(&context, encoding)?);
        of_table.upload(&stream, &values)?;
        encoder = Some(of_table);
        if !values.is_empty() {
            // Most entries have gradients that are far smaller than those of the network.
            let settings = AdamWSettings { epsilon: 1e-15, ..settings };
            let optimizer = ArrayAdamW::new(&stream, &values, settings)?;
            let (gradients, dx) = (stream.zeros(values.len())?, stream.zeros(batch * inputs)?);
            table = Some(Table { optimizer, gradients, dx });
        }
    }

    let mut field = OnGpu { stream: stream.clone(), model, encoder, columns };
    let mut x = field.inputs(&task.samples, task.width())?;
    let (samples, targets) = (stream.upload(&task.samples)?, stream.upload(&task.targets)?);
    let mut y = stream.zeros::<f16>(batch * network.outputs())?;
    let mut dy = stream.zeros::<f16>(batch * network.outputs())?;
    let mut gradients = stream.zeros::<f32>(network.parameters())?;
    let mut losses = stream.zeros::<f32>(task.steps())?;
    let mut tape = field.model.tape(&stream, batch)?;
    let OnGpu { model, encoder, .. } = &mut field;
    let epoch = stream.capture(|| {
        (0..task.steps()).try_for_each(|step| {
            let rows = |width: usize| step * batch * width..(step + 1) * batch * width;
            let samples = samples.slice(rows(task.width()));
            if let Some(encoder) = encoder {
                encoder.forward(&stream, &samples, &mut x.slice_mut(rows(inputs)))?;
            }
            let (x, targets) = (x.slice(rows(inputs)), targets.slice(rows(columns)));
            let mut loss = losses.slice_mut(step..=step);
            model.forward_train(&stream, &x, &mut y, &mut tape)?;
            error.queue(&stream, &y, &targets, task.loss_scale, &mut dy, &mut loss)?;
            let dx = table.as_mut().map(|table| table.dx.as_view_mut());
            model.backward(&stream, &x, &y, &dy, &mut tape, dx, &mut gradients)?;
            if let (Some(encoder), Some(Table { optimizer, gradients, dx })) = (&mut *encoder, &mut table) {
                encoder.backward(&stream, &samples, dx, Some(gradients.as_view_mut()), None)?;
                optimizer.step(&stream, &mut encoder.table_mut(), gradients)?;
            }
            optimizer.step(&stream, model, &gradients)
        })
    })?;
    epoch.upload()?;
    stream.synchronize()?;

    let mut reported = Vec::new();
    let start = Instant::now();
    for index in 0..task.epochs {
        let rate = task.learning_rate(index);
        optimizer.set_learning_rate(&stream, rate)?;
        table.iter_mut().try_for_each(|table| table.optimizer.set_learning_rate(&stream, rate))?;
        epoch.launch()?;
        task.report(index, &mut reported, || {
            let losses = stream.download(&losses)?;
            Ok(losses.iter().copied().map(f64::from).sum::<f64>() / losses.len() as f64)
        })?;
    }
    stream.synchronize()?;
    let seconds = start.elapsed().as_secs_f64();
    print_skipped("the network", optimizer.steps(&stream)?);
    if let Some(table) = &table {
        print_skipped("the table", table.optimizer.steps(&stream)?);
    }
    Ok(Trained {
        parameters: optimizer.parameters(&stream, &field.model)?,
        losses: reported,
        steps: task.epochs * task.steps(),
        seconds,
        place: format!("{}, {} fp16", context.device().name, field.model.options().implementation),
        field: Box::new(field),
    })
}

fn print_skipped(what: &str, (done, skipped): (u64, u64)) {
    if skipped > 0 {
        let steps = done + skipped;
        eprintln!(
            "{skipped} of {steps} steps of {what} had gradients that were not finite and were left out"
        );
    }
}
