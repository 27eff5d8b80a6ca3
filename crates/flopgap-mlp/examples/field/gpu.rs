//! Training on a GPU, in half precision: an epoch is one CUDA graph.

use std::time::Instant;

use flopgap_gpu::Context;
use flopgap_mlp::Parameters;
use flopgap_mlp::cuda::train::{AdamW, MeanSquaredError};
use flopgap_mlp::cuda::{Implementation, Model, Options};
use half::f16;

use crate::{BATCH, COLORS, Curve, Failure, Trained, schedule, settings};

/// Gradients in half precision are kept this many times larger.
const LOSS_SCALE: f32 = 4096.0;

pub(crate) fn train(
    parameters: &Parameters,
    features: &[f32],
    colors: &[f32],
    epochs: usize,
    implementation: Implementation,
) -> Result<Trained, Failure> {
    let context = Context::new(0).map_err(|error| format!("{error}; --cpu does without"))?;
    let (stream, network) = (context.stream()?, parameters.network().clone());
    let mut model = Model::<f16>::new(&context, &network, Options::new(implementation))?;
    model.upload(&stream, parameters)?;
    let mut optimizer = AdamW::with_master(&stream, &model, parameters, settings(LOSS_SCALE.into()))?;
    let mut error = MeanSquaredError::new(&stream, &network, COLORS)?;

    let pixels = colors.len() / COLORS;
    let steps = pixels / BATCH;
    let narrow: Vec<f16> = features.iter().map(|&feature| f16::from_f32(feature)).collect();
    let (x, targets) = (stream.upload(&narrow)?, stream.upload(colors)?);
    let mut y = stream.zeros::<f16>(BATCH * network.outputs())?;
    let mut dy = stream.zeros::<f16>(BATCH * network.outputs())?;
    let mut gradients = stream.zeros::<f32>(network.parameters())?;
    let mut losses = stream.zeros::<f32>(steps)?;
    let mut tape = model.tape(&stream, BATCH)?;
    let epoch = stream.capture(|| {
        (0..steps).try_for_each(|step| {
            let x = x.slice(step * BATCH * network.inputs()..(step + 1) * BATCH * network.inputs());
            let targets = targets.slice(step * BATCH * COLORS..(step + 1) * BATCH * COLORS);
            let mut loss = losses.slice_mut(step..=step);
            model.forward_train(&stream, &x, &mut y, &mut tape)?;
            error.queue(&stream, &y, &targets, LOSS_SCALE, &mut dy, &mut loss)?;
            model.backward(&stream, &x, &y, &dy, &mut tape, None, &mut gradients)?;
            optimizer.step(&stream, &mut model, &gradients)
        })
    })?;
    epoch.upload()?;
    stream.synchronize()?;

    let mut curve = Curve::new(epochs, steps);
    let start = Instant::now();
    for index in 0..epochs {
        optimizer.set_learning_rate(&stream, schedule(index, epochs))?;
        epoch.launch()?;
        if curve.is_due(index) {
            let losses = stream.download(&losses)?;
            curve.add(index, losses.iter().copied().map(f64::from).sum::<f64>() / steps as f64);
        }
    }
    stream.synchronize()?;
    let seconds = start.elapsed().as_secs_f64();
    let (done, skipped) = optimizer.steps(&stream)?;
    if skipped > 0 {
        eprintln!(
            "field: {skipped} of {} steps had gradients that were not finite and were left out",
            done + skipped
        );
    }

    let mut picture = stream.zeros::<f16>(pixels * network.outputs())?;
    model.forward(&stream, &x, &mut picture)?;
    let outputs = stream.download(&picture)?.into_iter().map(f16::to_f32).collect();
    let device = context.device().name.clone();
    let place = format!("{device}, {} fp16", model.options().implementation);
    Ok(Trained { outputs, parameters: optimizer.parameters(&stream, &model)?, curve, seconds, place })
}
