//! A loss for [`Cpu::train`](super::Cpu::train).

/// The squared distance of outputs from their targets, summed, and its gradients by the outputs,
/// `2 (y - target)`, in `dy`. Of slices with different lengths, the shortest counts.
///
/// ```
/// use flopgap_mlp::cpu::squared_error;
///
/// let mut dy = [0.0; 2];
/// assert_eq!(squared_error(&[1.0, 3.0], &[1.0, 1.0], &mut dy), 4.0);
/// assert_eq!(dy, [0.0, 4.0]);
/// ```
pub fn squared_error(y: &[f32], targets: &[f32], dy: &mut [f32]) -> f64 {
    let mut sum = 0.0;
    for ((y, target), dy) in y.iter().zip(targets).zip(dy) {
        *dy = 2.0 * (y - target);
        sum += f64::from(y - target).powi(2);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::AdamW;
    use crate::{Activation, AdamWSettings, Cpu, Network, Parameters};

    #[test]
    fn steps_make_it_smaller() {
        let network = Network::new(&[16, 64, 64, 8]).unwrap().with_activation(Activation::Relu);
        let network = network.with_output_activation(Activation::Sigmoid);
        let mut cpu = Cpu::new(&Parameters::he(&network, 42));
        let mut optimizer = AdamW::new(&network, AdamWSettings::default());
        let x: Vec<f32> = (0..512 * 16).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect();
        let (targets, mut gradients) = (vec![0.25; 512 * 8], vec![0.0; network.parameters()]);
        let losses: Vec<f64> = (0..20)
            .map(|_| {
                let loss = cpu
                    .train(&x, None, &mut gradients, |samples, y, dy| {
                        squared_error(y, &targets[samples.start * 8..], dy)
                    })
                    .unwrap();
                optimizer.step(&mut cpu, &gradients).unwrap();
                loss
            })
            .collect();
        assert!(losses[19] < 0.7 * losses[0], "{losses:?}");
    }
}
