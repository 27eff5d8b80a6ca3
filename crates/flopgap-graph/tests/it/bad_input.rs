//! Files that are wrong, and what is said about them.

use std::path::Path;

use flopgap_files::Hint as _;
use flopgap_graph::{GraphError, Shapes, read};
use rten_onnx::onnx::{DataLocation, GraphProto, OperatorSetIdProto, StringStringEntryProto};

use crate::support::{file, fixture, integers, model, node, read_bytes, read_nodes, shapes, value, weights};

/// An error without the directory of the file in it.
fn message(path: &Path, error: &GraphError) -> String {
    error.to_string().replace(&format!("{}/", path.parent().unwrap().display()), "")
}

fn refused(name: &str, bytes: &[u8]) -> (String, Option<String>) {
    let (_directory, path) = file(name, bytes);
    let error = read(&path, &Shapes::default()).unwrap_err();
    (message(&path, &error), error.hint().map(Into::into))
}

#[test]
fn what_is_not_a_model_is_refused_by_its_content() {
    for (bytes, reason) in [
        (&b""[..], "it is empty"),
        (b"PK\x05\x06\0\0", "it is an empty zip archive"),
        (b"\x80\x02}q\0.", "it is a pickle, which holds code, not a graph"),
        (b"layer,flops\nconv1,3\n", "a field has an unknown type, at byte 1"),
        (b"\x08\x09", "it has neither the version nor the graph of an ONNX model"),
    ] {
        let (message, hint) = refused("file", bytes);
        assert_eq!(
            message,
            format!("file: neither an ONNX model nor a `.pt2` archive of `torch.export`: {reason}")
        );
        assert!(hint.unwrap().contains("torch.export.save"));
    }
    let missing = read(Path::new("no/such/model.onnx"), &Shapes::default()).unwrap_err();
    assert!(missing.is_absence());
    assert_eq!(missing.to_string(), "no/such/model.onnx: cannot be read");
    let directory = read(&fixture(""), &Shapes::default()).unwrap_err();
    assert!(matches!(directory, GraphError::Read { .. }) && !directory.is_absence(), "{directory}");
}

#[test]
fn archives_that_are_cut_short_are_refused() {
    let whole = std::fs::read(fixture("resnet18.pt2")).unwrap();
    for length in [100, whole.len() / 2, whole.len() - 10] {
        let (message, hint) = refused("cut.pt2", &whole[..length]);
        assert!(message.starts_with("cut.pt2: zip archive: "), "{message}");
        assert!(message.ends_with("the file is truncated or damaged"), "{message}");
        assert_eq!(hint.as_deref(), Some("copy or export the model again"));
    }
    // Bytes within the graph that are others.
    let mut damaged = whole.clone();
    damaged[200..240].fill(0xAA);
    let (message, _) = refused("damaged.pt2", &damaged);
    assert!(message.starts_with("damaged.pt2: resnet18/models/model.json: "), "{message}");
}

#[test]
fn models_that_are_cut_short_are_refused() {
    let whole = std::fs::read(fixture("resnet18_old.onnx")).unwrap();
    for length in [100, whole.len() / 2, whole.len() - 1] {
        let (message, _) = refused("cut.onnx", &whole[..length]);
        assert!(message.starts_with("cut.onnx: byte "), "{message}");
        assert!(message.contains("extends beyond the end of the file"), "{message}");
    }
}

/// An archive with one member.
fn archive(name: &str, text: &str) -> Vec<u8> {
    use std::io::Write as _;
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
    writer.write_all(text.as_bytes()).unwrap();
    writer.finish().unwrap().into_inner()
}

#[test]
fn other_versions_and_archives_are_refused() {
    let with = |version: &str| {
        let (message, hint) =
            refused("m.pt2", &archive("m/models/m.json", &format!("{{\"schema_version\":{version}}}")));
        assert!(hint.is_some());
        message
    };
    let supported = "supported: 8.x, of PyTorch 2.6 to 2.11";
    assert_eq!(
        with(r#"{"major":9,"minor":1}"#),
        format!("m.pt2: unsupported schema version 9.1; {supported}")
    );
    assert_eq!(with("5"), format!("m.pt2: unsupported schema version 5; {supported}"));
    assert_eq!(with("null"), format!("m.pt2: unsupported schema version none; {supported}"));
    assert_eq!(
        with(r#"{"major":8,"minor":1}"#),
        "m.pt2: m/models/m.json: `tensor_values` is missing or not an object"
    );
    let (message, _) = refused("m.pt2", &archive("m/models/m.json", "{"));
    assert!(message.starts_with("m.pt2: m/models/m.json: not JSON: "), "{message}");
    let (message, _) = refused("m.zip", &archive("notes.txt", "hello"));
    assert!(message.ends_with("it is a zip archive without models/NAME.json"), "{message}");
    let (message, _) = refused("m.pt", &archive("m/data.pkl", "hello"));
    assert!(message.ends_with("a TorchScript module, not an exported program"), "{message}");
}

#[test]
fn open_dimensions_are_asked_for() {
    let path = fixture("mlp_old.onnx");
    let read = |stated: &[&str]| read(&path, &shapes(stated));
    let error = read(&[]).unwrap_err();
    assert_eq!(message(&path, &error), "mlp_old.onnx: the file leaves the sizes of `batch` open");
    assert_eq!(error.hint().as_deref(), Some("specify the sizes, such as `input=1x784`"));
    // What the hint says works.
    assert!(read(&["input=1x784"]).is_ok() && read(&["batch=1"]).is_ok());
    let error = read(&["input=32x100"]).unwrap_err();
    assert_eq!(
        message(&path, &error),
        "mlp_old.onnx: input `input` is batchx784 in the file, but 32x100 was given"
    );
    let error = read(&["batch=2", "bath=2"]).unwrap_err();
    assert!(error.is_absence());
    let text = message(&path, &error);
    assert_eq!(text, "mlp_old.onnx: no input or dimension `bath`; the model has `batch`, `input`");
    let inputs = vec![value("a", "? x 3"), value("b", "n x m")];
    let nodes = vec![node("Relu a -> r", vec![])];
    let error = read_nodes(inputs, vec![], nodes, &["r"], &[]).unwrap_err();
    assert!(error.to_string().ends_with("the file leaves the sizes of `a[0]`, `n`, `m` open"), "{error}");
}

/// The same in a program of `torch.export` with symbolic sizes.
#[test]
fn symbols_are_asked_for() {
    let program = |size: &str| {
        let tensor = |sizes: &str| {
            format!(r#"{{"dtype":7,"sizes":[{sizes}],"strides":[{{"as_int":4}},{{"as_int":1}}]}}"#)
        };
        let symbol = r#"{"as_expr":{"expr_str":"s77","hint":{"as_int":3}}}"#;
        format!(
            r#"{{"schema_version":{{"major":8,"minor":17}},"graph_module":{{
                "signature":{{"input_specs":[{{"user_input":{{"arg":{{"as_tensor":{{"name":"x"}}}}}}}}]}},
                "graph":{{"outputs":[{{"as_tensor":{{"name":"y"}}}}],
                  "nodes":[{{"target":"torch.ops.aten.cat.default","inputs":[{{"name":"tensors","arg":{{"as_tensors":[{{"name":"x"}},{{"name":"x"}}]}}}}],"outputs":[{{"as_tensor":{{"name":"y"}}}}],"metadata":{{}}}}],
                  "tensor_values":{{"x":{},"y":{}}}}}}}}}"#,
            tensor(&format!(r#"{symbol},{{"as_int":4}}"#)),
            tensor(&format!(r#"{{"as_expr":{{"expr_str":"{size}"}}}},{{"as_int":4}}"#)),
        )
    };
    let bytes = archive("m/models/model.json", &program("2*s77"));
    let error = read_bytes("m.pt2", &bytes, &[]).unwrap_err();
    assert!(error.to_string().ends_with("the file leaves the sizes of `s77` open"), "{error}");
    assert_eq!(error.hint().as_deref(), Some("specify the sizes, such as `x=3x4`"));
    for stated in [&["x=5x4"], &["s77=5"]] {
        let graph = read_bytes("m.pt2", &bytes, stated).unwrap();
        assert_eq!(graph.tensors[graph.outputs[0]].shape, [10, 4]);
        assert_eq!(graph.inputs.len(), 1);
    }
    let error = read_bytes("m.pt2", &bytes, &["x=5x5"]).unwrap_err();
    assert!(error.to_string().ends_with("input `x` is s77x4 in the file, but 5x5 was given"), "{error}");
    let error = read_bytes("m.pt2", &bytes, &["z=5"]).unwrap_err();
    assert!(error.to_string().ends_with("no input or dimension `z`; the model has `s77`, `x`"), "{error}");
    let strange = archive("m/models/model.json", &program("s77 $ 2"));
    let error = read_bytes("m.pt2", &strange, &["s77=5"]).unwrap_err();
    assert!(error.to_string().contains("value `y` has the invalid size `s77 $ 2`"), "{error}");
}

#[test]
fn unsupported_operator_sets_are_refused() {
    for (version, found) in [(Some(99), "99"), (Some(6), "6"), (None, "none")] {
        let graph = GraphProto {
            node: vec![node("Relu x -> r", vec![])],
            input: vec![value("x", "3")],
            ..GraphProto::default()
        };
        let mut proto = model(graph);
        proto.opset_import = vec![OperatorSetIdProto { domain: Some(String::new()), version }];
        let (message, hint) = refused("m.onnx", &proto.write_buf().unwrap());
        assert_eq!(message, format!("m.onnx: unsupported opset {found}; supported: 7 to 28"));
        assert_eq!(hint.as_deref(), Some("convert the model with `onnx.version_converter`"));
    }
    // Trees and the like, which no converter turns into layers.
    let graph = GraphProto { input: vec![value("x", "3")], ..GraphProto::default() };
    let mut proto = model(graph);
    proto.opset_import = vec![OperatorSetIdProto { domain: Some("ai.onnx.ml".to_owned()), version: Some(3) }];
    let (message, hint) = refused("m.onnx", &proto.write_buf().unwrap());
    let expected =
        "m.onnx: unsupported operators ai.onnx.ml; supported: those of ai.onnx, operator sets 7 to 28";
    assert_eq!((message.as_str(), hint), (expected, None));
}

#[test]
fn parameters_outside_the_file_must_be_there() {
    let outside = |name: &str| {
        let mut tensor = weights(name, &[4, 3]);
        let entry = |key: &str, value: &str| StringStringEntryProto {
            key: Some(key.to_owned()),
            value: Some(value.to_owned()),
        };
        tensor.external_data =
            vec![entry("location", "model.onnx.data"), entry("offset", "16"), entry("length", "48")];
        tensor.data_location = Some(DataLocation::EXTERNAL);
        tensor
    };
    let graph = GraphProto {
        node: vec![node("MatMul w x -> r", vec![]), node("Add r v -> s", vec![])],
        initializer: vec![outside("w"), outside("v")],
        input: vec![value("x", "3 x 3")],
        output: vec![],
        value_info: vec![],
    };
    let (directory, path) = file("model.onnx", &model(graph).write_buf().unwrap());
    let read_it = || read(&path, &Shapes::default());
    // Shapes are all that is needed of weights.
    assert_eq!(read_it().unwrap().multiply_adds().unwrap(), 36);
    let data = directory.path().join("model.onnx.data");
    std::fs::write(&data, [0; 63]).unwrap();
    assert_eq!(
        message(&path, &read_it().unwrap_err()),
        "model.onnx.data: tensor `w`: it ends at byte 64 of 63; the file is truncated"
    );
    std::fs::write(&data, [0; 64]).unwrap();
    assert_eq!(read_it().unwrap().multiply_adds().unwrap(), 36);
}

/// Values that decide about shapes are read from the file beside the model.
#[test]
fn shapes_outside_the_file_must_be_there() {
    let entry = |key: &str, value: &str| StringStringEntryProto {
        key: Some(key.to_owned()),
        value: Some(value.to_owned()),
    };
    let mut target = integers("target", &[]);
    target.dims = vec![2];
    target.external_data = vec![entry("location", "sizes"), entry("offset", "8"), entry("length", "16")];
    target.data_location = Some(DataLocation::EXTERNAL);
    let graph = GraphProto {
        node: vec![node("Identity target -> same", vec![]), node("Reshape x same -> r", vec![])],
        initializer: vec![target],
        input: vec![value("x", "4 x 3")],
        output: vec![value("r", "a x b")],
        value_info: vec![],
    };
    let (directory, path) = file("model.onnx", &model(graph).write_buf().unwrap());
    let error = read(&path, &Shapes::default()).unwrap_err();
    assert_eq!(message(&path, &error), "model.onnx: `sizes` with 1 tensors (first `target`) is missing");
    assert_eq!(error.hint().as_deref(), Some("copy `sizes` to the directory of the model"));
    assert!(error.is_absence());
    let values: Vec<u8> = [7_i64, 2, -1].iter().flat_map(|value| value.to_le_bytes()).collect();
    std::fs::write(directory.path().join("sizes"), values).unwrap();
    let graph = read(&path, &Shapes::default()).unwrap();
    assert_eq!(graph.tensors[graph.outputs[0]].shape, [2, 6]);
}

#[test]
fn graphs_that_contradict_themselves_are_refused() {
    let place = |error: GraphError| error.to_string().rsplit_once("model.onnx: ").unwrap().1.to_owned();
    let one = |call: &str| {
        let nodes = vec![node(call, vec![])];
        place(
            read_nodes(vec![value("x", "2 x 3")], vec![integers("c", &[-1, 4])], nodes, &["r"], &[])
                .unwrap_err(),
        )
    };
    assert_eq!(one("Relu gone -> r"), "node `the Relu`: nothing before it writes `gone`");
    assert_eq!(one("Relu x -> s"), "output `r`: no node writes it");
    // What does not fit has no shape, and then it is requested.
    assert_eq!(one("Reshape x c -> r"), "the file leaves the sizes of `r` open");
    // A shape that the file keeps of other inputs is not that of the result.
    let graph = GraphProto {
        node: vec![node("Relu x -> r", vec![])],
        input: vec![value("x", "2 x 3")],
        output: vec![value("r", "9 x 3")],
        ..GraphProto::default()
    };
    let stale = read_bytes("model.onnx", &model(graph).write_buf().unwrap(), &[]).unwrap();
    assert_eq!(stale.tensors[stale.outputs[0]].shape, [2, 3]);
    let negative = vec![weights("w", &[-3])];
    let error = read_nodes(vec![], negative, vec![], &[], &[]).unwrap_err();
    assert_eq!(place(error), "tensor `w`: it has a negative size");
}

/// Sizes that cannot go together are said with both sides, in the file or specified.
#[test]
fn operands_that_do_not_fit_are_refused() {
    for (call, dims, message) in [
        ("MatMul x w -> r", "4 x 15", "node `the MatMul`: MatMul cannot combine 4x15 and 16x8"),
        ("Add x w -> r", "3 x 8", "node `the Add`: Add cannot combine 3x8 and 16x8"),
        ("Conv x k -> r", "1 x 4 x 9 x 9", "node `the Conv`: Conv cannot combine 1x4x9x9 and 8x3x3x3"),
    ] {
        let constants = || vec![weights("w", &[16, 8]), weights("k", &[8, 3, 3, 3])];
        let nodes = || vec![node(call, vec![])];
        let refused = |dims: &str, stated: &[&str]| {
            read_nodes(vec![value("x", dims)], constants(), nodes(), &["r"], stated).unwrap_err()
        };
        let error = refused(dims, &[]);
        assert!(error.to_string().ends_with(message), "{error}");
        assert_eq!(error.hint().as_deref(), Some("export the model again"));
        let open = dims.replacen(|c: char| c.is_ascii_digit(), "n", 1);
        let first = dims.split(' ').next().unwrap();
        let error = refused(&open, &[&format!("n={first}")]);
        assert!(error.to_string().ends_with(message), "{error}");
        assert_eq!(error.hint().as_deref(), Some("check the sizes that are specified"));
    }
}

/// Products of sizes that no integer holds.
#[test]
fn counts_that_overflow_are_refused() {
    let inputs = vec![value("x", "4000000000 x 4000000000"), value("y", "4000000000 x 4000000000")];
    let error = read_nodes(inputs, vec![], vec![node("MatMul x y -> r", vec![])], &["r"], &[]).unwrap_err();
    let text = flopgap_files::chain(&error).to_string();
    assert!(text.contains("the MatMul: ") && text.contains("overflows its integer"), "{text}");
}
