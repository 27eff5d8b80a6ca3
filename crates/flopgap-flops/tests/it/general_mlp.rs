//! The general MLP against the square model, against published sizes and against its own parts.

use flopgap_flops::{
    Activation, Convention, ElementType, LayerWork, LossGradient, Mlp, Pass, SquareMlp, Work,
};
use proptest::prelude::*;

const CONVENTIONS: [Convention; 2] = [Convention::SQUARE, Convention::ARITHMETIC];

#[test]
fn parameters_of_the_common_benchmark_networks() {
    for (sizes, parameters) in [
        ([64, 64, 16], 5_200),
        ([128, 128, 32], 20_640),
        ([256, 256, 64], 82_240),
        ([512, 512, 128], 328_320),
    ] {
        assert_eq!(Mlp::new(sizes, 256).unwrap().with_bias(true).parameters(), Ok(parameters));
    }
}

proptest! {
    /// Same sizes, same convention, same numbers.
    #[test]
    fn equal_sizes_are_the_square_model(layers in 1_u64..40, width in 1_u64..3_000, tokens in 1_u64..3_000) {
        let square = SquareMlp::new(layers, width, tokens).unwrap();
        let sizes = vec![width; usize::try_from(layers).unwrap() + 1];
        let general = Mlp::new(sizes, tokens).unwrap().with_activation(Activation::Sigmoid);
        prop_assert_eq!(general.parameters(), square.parameters());
        for pass in Pass::ALL {
            let work = general.count(pass, &Convention::SQUARE, ElementType::Fp32).unwrap();
            prop_assert_eq!(work.total.flops.classes(), square.theory(pass));
        }
    }

    /// Totals are the sums of the layers, and bytes are proportional to the element size.
    #[test]
    fn totals_and_element_sizes(
        sizes in prop::collection::vec(1_u64..5_000, 2..8),
        batch in 1_u64..10_000,
        bias: bool,
        input_gradient: bool,
        activation in prop::sample::select(Activation::ALL.to_vec()),
        output in prop::sample::select(Activation::ALL.to_vec()),
    ) {
        let mlp = Mlp::new(sizes, batch).unwrap()
            .with_bias(bias)
            .with_activation(activation)
            .with_output_activation(output)
            .with_input_gradient(input_gradient);
        for convention in CONVENTIONS {
            for pass in Pass::ALL {
                let fp64 = mlp.count(pass, &convention, ElementType::Fp64).unwrap();
                let mut sum = LayerWork::default();
                for layer in &fp64.layers {
                    sum = sum.checked_add(layer).unwrap();
                }
                prop_assert_eq!(sum, fp64.total);
                prop_assert_eq!(sum.flops.classes().unwrap().total(), sum.flops.total());
                for element in ElementType::ALL {
                    let other = mlp.count(pass, &convention, element).unwrap().total;
                    prop_assert_eq!(other.flops, sum.flops);
                    prop_assert_eq!(other.bytes_read * 8, sum.bytes_read * element.bytes());
                    prop_assert_eq!(other.bytes_written * 8, sum.bytes_written * element.bytes());
                }
            }
        }
    }

    /// Each layer counts as that of a network where all layers have a bias, or none.
    #[test]
    fn layers_with_and_without_a_bias_count_by_themselves(
        layers in prop::collection::vec((1_u64..5_000, any::<bool>()), 1..8),
        batch in 1_u64..10_000,
    ) {
        let sizes: Vec<u64> = [7].into_iter().chain(layers.iter().map(|(size, _)| *size)).collect();
        let biases: Vec<bool> = layers.iter().map(|(_, bias)| *bias).collect();
        let bare = Mlp::new(sizes.clone(), batch).unwrap().with_activation(Activation::Gelu);
        let mixed = bare.clone().with_biases(&biases).unwrap();
        for pass in Pass::ALL {
            let count = |mlp: &Mlp| mlp.count(pass, &Convention::ARITHMETIC, ElementType::Fp16).unwrap();
            let (found, with, without) = (count(&mixed), count(&bare.clone().with_bias(true)), count(&bare));
            for (layer, &bias) in biases.iter().enumerate() {
                prop_assert_eq!(found.layers[layer], if bias { &with } else { &without }.layers[layer]);
            }
        }
        let added = sizes[1..].iter().zip(&biases).map(|(size, &bias)| size * u64::from(bias)).sum::<u64>();
        prop_assert_eq!(mixed.parameters().unwrap(), bare.parameters().unwrap() + added);
    }

    /// A backward pass with the gradient of the input costs twice the products of the forward pass;
    /// without, less by the first layer.
    #[test]
    fn backward_products(sizes in prop::collection::vec(1_u64..5_000, 2..8), batch in 1_u64..10_000) {
        let first = 2 * batch * sizes[0] * sizes[1];
        let mlp = Mlp::new(sizes, batch).unwrap();
        let gemm = |mlp: &Mlp, pass| {
            mlp.count(pass, &Convention::ARITHMETIC, ElementType::Fp32).unwrap().total.flops.gemm().unwrap()
        };
        let forward = gemm(&mlp, Pass::Forward);
        prop_assert_eq!(gemm(&mlp, Pass::Backward), 2 * forward - first);
        prop_assert_eq!(gemm(&mlp.with_input_gradient(true), Pass::Backward), 2 * forward);
    }

    /// Without bias and activation a layer is one matrix product, bytes included.
    #[test]
    fn a_bare_layer_is_a_gemm(inputs in 1_u64..5_000, outputs in 1_u64..5_000, batch in 1_u64..10_000) {
        let mlp = Mlp::new([inputs, outputs], batch).unwrap();
        let layer = mlp.count(Pass::Forward, &Convention::ARITHMETIC, ElementType::Bf16).unwrap().total;
        prop_assert_eq!(layer.work(), Work::gemm(batch, outputs, inputs, ElementType::Bf16));
    }
}

#[test]
fn a_tensor_as_loss_gradient_adds_one_flop_and_one_read_per_output() {
    let mlp = Mlp::new([7, 5, 3], 11).unwrap().with_activation(Activation::Sigmoid);
    let tensor = Convention { loss_gradient: LossGradient::Tensor, ..Convention::SQUARE };
    let total = |convention| mlp.count(Pass::Backward, convention, ElementType::Fp32).unwrap().total;
    let (constant, tensor) = (total(&Convention::SQUARE), total(&tensor));
    assert_eq!(tensor.flops.activation_gradient - constant.flops.activation_gradient, 33);
    assert_eq!(tensor.bytes_read - constant.bytes_read, 4 * 33);
}

/// With many columns the intensity of a wide layer approaches that of its weights' reuse; with few
/// it is bound by them.
#[test]
fn intensity_follows_the_batch() {
    let intensity = |batch| {
        let mlp = Mlp::new([4096, 4096], batch).unwrap();
        let layer = mlp.count(Pass::Forward, &Convention::ARITHMETIC, ElementType::Fp32).unwrap().total;
        format!("{:.2}", layer.intensity().unwrap().unwrap())
    };
    assert_eq!(intensity(1), "0.50");
    assert_eq!(intensity(16), "7.94");
    assert_eq!(intensity(4096), "682.67");
}
