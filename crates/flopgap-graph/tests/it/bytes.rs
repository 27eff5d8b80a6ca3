//! No bytes make a reader panic.

use flopgap_graph::{Shapes, plan, read};
use proptest::prelude::*;

use crate::support::{file, fixture};

/// Reads, and plans what can be read. Both must end, with a graph or an error.
fn survives(bytes: &[u8]) {
    let (_directory, path) = file("model", bytes);
    let stated: Shapes = ["batch=2".parse().unwrap()].into_iter().collect();
    for shapes in [Shapes::default(), stated] {
        if let Ok(graph) = read(&path, &shapes) {
            let _ = (plan(&graph), graph.work(), graph.multiply_adds(), graph.parameter_bytes());
            let _ = graph.peak_bytes();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        survives(&bytes);
        survives(&[b"PK\x03\x04", bytes.as_slice()].concat());
        survives(&[b"\x08\x09\x3A", bytes.as_slice()].concat());
    }

    /// Models with a few bytes that are others: most stay readable, and their sizes and names go
    /// wrong.
    #[test]
    fn changed_models(
        model in 0..5_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let names = ["mlp_old.onnx", "lstm.onnx", "unet.onnx", "transformer_layer.onnx", "llama.onnx"];
        let mut bytes = std::fs::read(fixture(names[model])).unwrap();
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        survives(&bytes);
    }

    /// The JSON of an archive with numbers and names that are others.
    #[test]
    fn changed_programs(
        model in 0..4_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), "[0-9a-z{}\\[\\]\":,_-]{1,6}"), 1..4),
    ) {
        use std::io::{Read as _, Write as _};
        let names = ["mlp_core.pt2", "lstm.pt2", "unet.pt2", "llama.pt2"];
        let mut archive = zip::ZipArchive::new(std::fs::File::open(fixture(names[model])).unwrap()).unwrap();
        let mut text = Vec::new();
        archive.by_index(0).unwrap().read_to_end(&mut text).unwrap();
        for (place, value) in changes {
            let place = place.index(text.len());
            let end = (place + value.len()).min(text.len());
            text.splice(place..end, value.bytes());
        }
        let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        writer.start_file("m/models/model.json", zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(&text).unwrap();
        survives(&writer.finish().unwrap().into_inner());
    }
}

/// Sizes as large as they come, in every place.
#[test]
fn extreme_sizes() {
    use crate::support::{integer, integers, list, model, node, text, value, weights};
    use rten_onnx::onnx::GraphProto;
    let sizes = [0, 1, 2, i64::from(i32::MAX), i64::MAX];
    for a in sizes {
        for b in sizes {
            let dims = format!("{a} x {b} x {a} x {b}");
            for call in [
                "MatMul x x -> r",
                "Conv x w -> r",
                "ConvTranspose x w -> r",
                "MaxPool x -> r",
                "GlobalAveragePool x -> r",
                "Softmax x -> r",
                "Reshape x c -> r",
                "Expand x c -> r",
                "Tile x c -> r",
                "Pad x c -> r",
                "Slice x c c -> r",
                "Gather x c -> r",
                "Range a c b -> r",
                "ConstantOfShape c -> r",
                "DepthToSpace x -> r",
                "Split x c -> r s t u",
                "Concat x x -> r",
                "Attention x x x -> r",
                "LSTM x x x -> r",
                "LayerNormalization x w -> r",
                "GroupNormalization x w w -> r",
                "Einsum x x -> r",
                "Resize x _ _ c -> r",
                "OneHot x a c -> r",
                "TopK x a -> r s",
                "MatMulNBits x w -> r",
                "ReduceSum x c -> r",
                "GatherND x c -> r",
                "LRN x -> r",
            ] {
                let attributes = vec![
                    list("strides", &[a, b]),
                    list("dilations", &[b, a]),
                    list("pads", &[a, b, a, b]),
                    list("kernel_shape", &[b, a]),
                    list("output_padding", &[a, b]),
                    integer("group", b),
                    integer("num_groups", a),
                    integer("blocksize", b),
                    integer("axis", a),
                    integer("size", b),
                    integer("K", a),
                    integer("N", b),
                    integer("q_num_heads", a),
                    integer("kv_num_heads", b),
                    text("equation", "abcd,abce->abde"),
                ];
                let mut one = node(call, attributes);
                if call.starts_with("MatMulNBits") {
                    one.domain = Some("com.microsoft".to_owned());
                }
                let graph = GraphProto {
                    node: vec![one],
                    initializer: vec![
                        weights("w", &[b, a, 1, 3]),
                        integers("c", &[a, b, -1, 0]),
                        integers("a", &[a]),
                        integers("b", &[b]),
                    ],
                    input: vec![value("x", &dims)],
                    output: vec![],
                    value_info: vec![],
                };
                survives(&model(graph).write_buf().unwrap());
            }
        }
    }
}
