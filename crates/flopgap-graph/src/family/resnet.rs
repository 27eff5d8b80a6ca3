//! Residual networks (He et al. 2015), as torchvision builds them: the step of a bottleneck block
//! is in its 3x3 convolution. Batch norms are folded into the convolutions, which have biases
//! instead.

use flopgap_flops::{Activation, ElementType};

use super::spec::ResnetSpec;
use crate::build::Builder;
use crate::error::GraphError;
use crate::graph::Graph;
use crate::op::{Conv, Elementwise, ElementwiseFunction, Gemm, Op, Pool, PoolFunction};

/// An image between layers.
#[derive(Clone, Copy)]
struct Image {
    tensor: usize,
    channels: u64,
    size: u64,
}

struct Network {
    builder: Builder,
    batch: u64,
}

pub(crate) fn resnet(spec: &ResnetSpec) -> Result<Graph, GraphError> {
    let (blocks, bottleneck) = match spec.depth {
        18 => ([2, 2, 2, 2], false),
        34 => ([3, 4, 6, 3], false),
        50 => ([3, 4, 6, 3], true),
        101 => ([3, 4, 23, 3], true),
        152 => ([3, 8, 36, 3], true),
        _ => return Err(refused(spec, "expected a depth of 18, 34, 50, 101 or 152")),
    };
    if !(1..=1 << 24).contains(&spec.batch) {
        return Err(refused(spec, "expected a batch of 1 to 16,777,216"));
    }
    // Five halvings leave at least one pixel, and a size that large is a slip.
    if !(32..=1 << 13).contains(&spec.image) {
        return Err(refused(spec, "expected an image 32 to 8,192 pixels wide"));
    }
    let mut network = Network { builder: Builder::new(spec.label(), ElementType::Fp32), batch: spec.batch };
    let input = network.builder.input("input", &[spec.batch, 3, spec.image, spec.image]);
    let image = Image { tensor: input, channels: 3, size: spec.image };
    let image = network.convolution("conv1", image, 64, 7, 2)?;
    let image = network.relu("relu", image)?;
    let mut image = network.pool("maxpool", image, PoolFunction::Max, 3, 2, 1)?;
    for (stage, &count) in blocks.iter().enumerate() {
        for index in 0..count {
            let stride = if stage > 0 && index == 0 { 2 } else { 1 };
            let name = format!("layer{}.{index}", stage + 1);
            image = network.block(&name, image, 64 << stage, stride, bottleneck)?;
        }
    }
    let image = network.pool("avgpool", image, PoolFunction::Average, image.size, 1, 0)?;
    let Network { mut builder, batch } = network;
    let k = image.channels;
    let flat = builder.layer("flatten", "Flatten", Op::View, vec![image.tensor], &[batch, k])?;
    let weights = builder.parameter("fc.weight".to_owned(), &[1000, k]);
    let bias = builder.parameter("fc.bias".to_owned(), &[1000]);
    let op = Op::Gemm(Gemm { batch: 1, m: batch, n: 1000, k });
    let output = builder.layer("fc", "Gemm", op, vec![flat, weights, bias], &[batch, 1000])?;
    Ok(builder.finish(output))
}

fn refused(spec: &ResnetSpec, reason: &str) -> GraphError {
    GraphError::Workload { what: spec.label(), reason: reason.to_owned() }
}

impl Network {
    fn block(
        &mut self,
        name: &str,
        input: Image,
        width: u64,
        stride: u64,
        bottleneck: bool,
    ) -> Result<Image, GraphError> {
        let outputs = if bottleneck { 4 * width } else { width };
        // Before the other branch, so that the sum follows the convolution that an engine fuses it
        // with.
        let shortcut = if stride == 1 && input.channels == outputs {
            input
        } else {
            self.convolution(&format!("{name}.downsample.0"), input, outputs, 1, stride)?
        };
        let convolutions: &[(u64, u64, u64)] = if bottleneck {
            &[(width, 1, 1), (width, 3, stride), (outputs, 1, 1)]
        } else {
            &[(width, 3, stride), (outputs, 3, 1)]
        };
        let mut image = input;
        for (index, &(channels, kernel, stride)) in convolutions.iter().enumerate() {
            image =
                self.convolution(&format!("{name}.conv{}", index + 1), image, channels, kernel, stride)?;
            if index + 1 < convolutions.len() {
                image = self.relu(&format!("{name}.relu{}", index + 1), image)?;
            }
        }
        let elements = self.elements(image);
        let add = Elementwise { function: ElementwiseFunction::Add, elements, read: 2 * elements };
        let inputs = vec![image.tensor, shortcut.tensor];
        let shape = self.shape(image);
        let tensor =
            self.builder.layer(&format!("{name}.add"), "Add", Op::Elementwise(add), inputs, &shape)?;
        self.relu(&format!("{name}.relu"), Image { tensor, ..image })
    }

    fn convolution(
        &mut self,
        name: &str,
        input: Image,
        outputs: u64,
        kernel: u64,
        stride: u64,
    ) -> Result<Image, GraphError> {
        let conv = Conv {
            output_padding: Vec::new(),
            ..Conv::new(self.batch, [input.channels, outputs], &[input.size; 2], kernel, stride)
        };
        let size = conv.output().map_err(GraphError::count(name))?[0];
        let weights =
            self.builder.parameter(format!("{name}.weight"), &[outputs, input.channels, kernel, kernel]);
        let bias = self.builder.parameter(format!("{name}.bias"), &[outputs]);
        let output = Image { tensor: 0, channels: outputs, size };
        let shape = self.shape(output);
        let inputs = vec![input.tensor, weights, bias];
        let tensor = self.builder.layer(name, "Conv", Op::Conv(conv), inputs, &shape)?;
        Ok(Image { tensor, ..output })
    }

    fn relu(&mut self, name: &str, image: Image) -> Result<Image, GraphError> {
        let elements = self.elements(image);
        let function = ElementwiseFunction::Activation(Activation::Relu);
        let op = Op::Elementwise(Elementwise { function, elements, read: elements });
        let shape = self.shape(image);
        let tensor = self.builder.layer(name, "Relu", op, vec![image.tensor], &shape)?;
        Ok(Image { tensor, ..image })
    }

    fn pool(
        &mut self,
        name: &str,
        image: Image,
        function: PoolFunction,
        kernel: u64,
        stride: u64,
        padding: u64,
    ) -> Result<Image, GraphError> {
        let size = (image.size + 2 * padding - kernel) / stride + 1;
        let pool = Pool {
            function,
            planes: self.batch * image.channels,
            image: vec![image.size; 2],
            output: vec![size; 2],
            kernel: vec![kernel; 2],
            stride: vec![stride; 2],
            padding: vec![[padding; 2]; 2],
        };
        let operator = match function {
            PoolFunction::Max => "MaxPool",
            PoolFunction::Average => "GlobalAveragePool",
        };
        let output = Image { size, ..image };
        let shape = self.shape(output);
        let tensor = self.builder.layer(name, operator, Op::Pool(pool), vec![image.tensor], &shape)?;
        Ok(Image { tensor, ..output })
    }

    fn shape(&self, image: Image) -> [u64; 4] {
        [self.batch, image.channels, image.size, image.size]
    }

    fn elements(&self, image: Image) -> u64 {
        self.shape(image).iter().product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(depth: u32) -> Graph {
        resnet(&ResnetSpec { depth, batch: 1, image: 224 }).unwrap()
    }

    /// Multiply-adds of convolutions and the fully connected layer, and torchvision's parameters.
    /// Folding leaves one bias of the two vectors of each batch norm.
    #[test]
    fn counts_are_the_published_ones() {
        for (depth, multiply_adds, parameters, channels) in [
            (18, 1_814_073_344, 11_689_512, 4_800),
            (34, 3_663_761_408, 21_797_672, 8_512),
            (50, 4_089_184_256, 25_557_032, 26_560),
            (101, 7_801_405_440, 44_549_160, 52_672),
            (152, 11_513_626_624, 60_192_808, 75_712),
        ] {
            let graph = graph(depth);
            assert_eq!(graph.multiply_adds().unwrap(), multiply_adds, "{depth}");
            assert_eq!(graph.parameters().unwrap() + channels, parameters, "{depth}");
        }
    }

    #[test]
    fn shapes_end_at_7_pixels() {
        let graph = graph(50);
        let last = graph.layers.iter().rfind(|layer| layer.operator == "Conv").unwrap();
        assert_eq!(last.name, "layer4.2.conv3");
        assert_eq!(graph.tensors[last.outputs[0]].shape, [1, 2048, 7, 7]);
    }

    #[test]
    fn other_sizes_are_refused_with_the_reason() {
        let error = resnet(&ResnetSpec { depth: 20, batch: 1, image: 224 }).unwrap_err().to_string();
        assert_eq!(error, "resnet20 batch 1: expected a depth of 18, 34, 50, 101 or 152");
        let error = resnet(&ResnetSpec { depth: 18, batch: 1, image: 8 }).unwrap_err().to_string();
        assert_eq!(error, "resnet18 batch 1 image 8: expected an image 32 to 8,192 pixels wide");
    }
}
