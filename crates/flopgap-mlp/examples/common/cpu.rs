//! Training on all cores of the CPU, in 32 bits.

use std::time::Instant;

use flopgap_mlp::Cpu;
use flopgap_mlp::cpu::{AdamW, squared_error};
use flopgap_mlp::encoding::Encoding;

use super::{Failure, Field, Task, Trained, first_columns, settings};

struct OnCpu {
    network: Cpu,
    encoding: Option<Encoding>,
    columns: usize,
}

impl OnCpu {
    /// The inputs of the network.
    #[expect(clippy::cast_possible_truncation, reason = "the network takes 32 bits")]
    fn inputs(&self, samples: &[f32]) -> Result<Vec<f32>, Failure> {
        let Some(encoding) = &self.encoding else { return Ok(samples.to_vec()) };
        Ok(encoding.encode(&[], samples)?.into_iter().map(|x| x as f32).collect())
    }
}

impl Field for OnCpu {
    fn outputs(&mut self, samples: &[f32]) -> Result<Vec<f32>, Failure> {
        let x = self.inputs(samples)?;
        let (inputs, outputs) = (self.network.network().inputs(), self.network.network().outputs());
        let mut y = vec![0.0; x.len() / inputs * outputs];
        self.network.forward(&x, &mut y)?;
        Ok(first_columns(&y, outputs, self.columns))
    }
}

/// Encodes all samples once: a table, which changes in each step, is for a GPU.
pub(crate) fn train(task: &Task<'_>) -> Result<Trained, Failure> {
    if task.encoding.as_ref().is_some_and(|encoding| encoding.parameters() > 0) {
        return Err("the table of a hash grid is trained on a GPU; use another encoding with --cpu".into());
    }
    let (columns, batch, steps) = (task.columns, task.batch, task.steps());
    let mut field = OnCpu { network: Cpu::new(&task.parameters), encoding: task.encoding.clone(), columns };
    let network = task.parameters.network();
    let x = field.inputs(&task.samples)?;
    let mut optimizer = AdamW::new(network, settings(1.0));
    let mut gradients = vec![0.0; network.parameters()];
    let mut losses = Vec::new();
    let start = Instant::now();
    for epoch in 0..task.epochs {
        optimizer.set_learning_rate(task.learning_rate(epoch));
        let mut sum = 0.0;
        let targets = task.targets.chunks_exact(batch * columns);
        for (x, targets) in x.chunks_exact(batch * network.inputs()).zip(targets) {
            let count = targets.len() as f32;
            sum += field.network.train(x, None, &mut gradients, |samples, y, dy| {
                let rows = y.chunks_exact(network.outputs()).zip(dy.chunks_exact_mut(network.outputs()));
                let targets = targets.chunks_exact(columns).skip(samples.start);
                let of_row = |((y, dy), target): ((&[f32], &mut [f32]), &[f32])| {
                    dy.fill(0.0);
                    let loss = squared_error(y, target, dy);
                    for dy in dy {
                        *dy /= count;
                    }
                    loss
                };
                rows.zip(targets).map(of_row).sum::<f64>() / f64::from(count)
            })?;
            optimizer.step(&mut field.network, &gradients)?;
        }
        task.report(epoch, &mut losses, || Ok(sum / steps as f64))?;
    }
    Ok(Trained {
        parameters: field.network.parameters().clone(),
        losses,
        steps: task.epochs * steps,
        seconds: start.elapsed().as_secs_f64(),
        place: format!("{} threads of the CPU, fp32", field.network.threads()),
        field: Box::new(field),
    })
}
