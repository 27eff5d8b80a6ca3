"""Writes models into a folder and executes them with ONNX Runtime, which says what it computed.

Prints a line for each model: its name, the multiply-adds of all products that ran, by the shapes of
the operands that each kernel got, and the shapes of its results.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, parser

HEAD = '<ir_version: 9, opset_import: ["" : 20, "local" : 1]>'
MODELS = {
    "functions": HEAD
    + """ net (float[2,3,5] x, float[3,4] w, float[4,7] v, float[7,7] u, float[7] b) => (float[2,5,7] z) {
        y = local.Layer <order = [0, 2, 1], slope = 0.2> (x, w)
        h = local.Affine (y, v, b)
        z = local.Affine (h, u, b)
    }
    <opset_import: ["" : 20, "local" : 1], domain: "local">
    Layer <order, slope> (a, m) => (r) {
        t = local.Turned <order: ints = @order> (a)
        p = MatMul (t, m)
        r = LeakyRelu <alpha: float = @slope> (p)
    }
    <opset_import: ["" : 20], domain: "local">
    Turned <order> (a) => (r) { r = Transpose <perm: ints = @order> (a) }
    <opset_import: ["" : 20], domain: "local">
    Affine (a, m, c) => (r) { p = MatMul (a, m) r = Add (p, c) }
    """,
    "loop": HEAD
    + """ net (float[2,4] x, float[4,4] w) => (float[r,4] y, float[5,2,4] z, float[5,4] last) {
        n = Constant <value = int64 {5}> ()
        go = Constant <value = bool {1}> ()
        h, y, z, last = Loop (n, go, x, x) <body = turn (int64 i, bool c, float[2,4] h, float[p,4] all)
            => (bool d, float[2,4] g, float[q,4] more, float[2,4] out, float[4] row) {
            d = Identity (c)
            g = MatMul (h, w)
            more = Concat <axis = 0> (all, g)
            s = MatMul (more, w)
            out = Identity (g)
            k = Constant <value = int64[1] {0}> ()
            row = ReduceMax <keepdims = 0> (s, k)
        }>
    }""",
    "until": HEAD
    + """ net (float[2,4] x, float[4,4] w) => (float[2,4] y) {
        go = Constant <value = bool {1}> ()
        y = Loop ("", go, x) <body = turn (int64 i, bool c, float[2,4] h) => (bool d, float[2,4] g) {
            g = MatMul (h, w)
            three = Constant <value = int64 {3}> ()
            d = Less (i, three)
        }>
    }""",
    "scan": HEAD
    + """ net (float[3,4] h, float[6,3,5] x, float[5,4] w) => (float[3,4] y, float[3,6,4] z) {
        y, z = Scan <num_scan_inputs = 1, scan_output_axes = [1], body = turn (float[3,4] a, float[3,5] b)
            => (float[3,4] c, float[3,4] d) {
            p = MatMul (b, w)
            c = Add (a, p)
            d = Tanh (c)
        }> (h, x)
    }""",
    "choice": HEAD
    + """ net (float[2,4] x, float[4,8] w) => (float[2,8] y) {
        s = Shape <end = 1> (x)
        two = Constant <value = int64[1] {2}> ()
        e = Equal (s, two)
        c = Squeeze (e)
        y = If (c) <then_branch = yes () => (float[2,8] t) { t = MatMul (x, w) },
            else_branch = no () => (float[2,8] f) { o = MatMul (x, w) f = Add (o, o) }>
    }""",
    "signals": HEAD
    + """ net (float[2,64,1] s, float[2,3,8,9] image, float[2,5,6,2] grid)
        => (float[a,b,c,2] y, float[d,e,2] z, float[2,3,5,6] g) {
        step = Constant <value = int64 {8}> ()
        length = Constant <value = int64 {16}> ()
        window = HannWindow (length)
        y = STFT (s, step, window, length)
        at = Constant <value = int64 {-2}> ()
        z = DFT <onesided = 1> (s, "", at)
        g = GridSample <mode = "linear", padding_mode = "border"> (image, grid)
    }""",
    "recurrent": HEAD
    + """ net (float[5,3,6] x, float[2,16,6] w, float[2,16,4] r, float[2,32] b, float[2,12] p, float[1,12,6] u,
        float[1,12,4] v) => (float[5,2,3,4] y, float[5,1,3,4] z) {
        y = LSTM <hidden_size = 4, direction = "bidirectional"> (x, w, r, b, "", "", "", p)
        z = GRU <hidden_size = 4, direction = "reverse", linear_before_reset = 1> (x, u, v)
    }""",
    # Each reads what a later one writes.
    "unsorted": HEAD
    + """ net (float[2,4] x, float[4,4] w) => (float[2,4] y) { y = Relu (h) h = MatMul (x, w) }""",
}


def nets() -> dict[str, onnx.ModelProto]:
    made = {name: parser.parse_model(text) for name, text in MODELS.items()}
    # Shapes of another batch, as after a change of the input alone.
    net = "net (float[6,4] x, float[4,4] w) => (float[n,4] y) { h = MatMul (x, w) y = Relu (h) }"
    old = parser.parse_model(HEAD + net)
    old.graph.value_info.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, [1, 4]))
    made["stale"] = old
    sparse = parser.parse_model(HEAD + "net (float[2,4] x) => (float[2,3] y) { y = MatMul (x, w) }")
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])
    places = helper.make_tensor("places", TensorProto.INT64, [2], [0, 5])
    sparse.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4, 3]))
    made["sparse"] = sparse
    return made


def convolutions(path: Path) -> None:
    """A network as ONNX Runtime saves it for this processor, with channels side by side."""
    random = np.random.default_rng(0)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        return helper.make_tensor(name, TensorProto.FLOAT, shape, random.random(math.prod(shape)))

    net = parser.parse_model(
        HEAD
        + """ net (float[1,3,32,32] x) => (float[1,16,24,24] y) {
        a = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (x, first)
        b = Relu (a)
        c = Conv <kernel_shape = [3,3], group = 32, strides = [2,2], pads = [1,1,1,1]> (b, depth)
        d = Conv <kernel_shape = [1,1]> (c, point)
        e = MaxPool <kernel_shape = [2,2], strides = [2,2]> (d)
        f = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (e, residual)
        g = Add (f, e)
        s = Constant <value = float[4] {1, 1, 3, 3}> ()
        y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (g, "", s)
    }"""
    )
    net.graph.initializer.extend(
        [
            weights("first", 32, 3, 3, 3),
            weights("depth", 32, 1, 3, 3),
            weights("point", 16, 32, 1, 1),
            weights("residual", 16, 16, 3, 3),
        ]
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(net.SerializeToString(), options, providers=["CPUExecutionProvider"])


def multiply_adds(kernel: str, inputs: list[list[int]], outputs: list[list[int]]) -> int:
    """Those of one kernel that ran."""
    count = math.prod
    if kernel in ("MatMul", "FusedMatMul"):
        return count(outputs[0]) * inputs[0][-1]
    if kernel == "Gemm":
        return math.isqrt(count(inputs[0]) * count(inputs[1]) * count(outputs[0]))
    if kernel in ("Conv", "FusedConv"):
        return count(outputs[0]) * count(inputs[1][1:])
    if kernel in ("LSTM", "GRU"):
        steps, samples, features = inputs[0]
        return steps * samples * count(inputs[2][:2]) * (features + inputs[2][2])
    return 0


def executed(path: Path) -> tuple[int, list[list[int]]]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.enable_profiling = True
    options.profile_file_prefix = str(path)
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    results = session.run(None, {i.name: np.ones(i.shape, np.float32) for i in session.get_inputs()})
    total = 0
    for event in json.loads(Path(session.end_profiling()).read_text()):
        about = event.get("args", {})
        if event["name"].endswith("_kernel_time"):
            shapes = [
                [next(iter(one.values())) for one in about[f"{side}_type_shape"]]
                for side in ("input", "output")
            ]
            total += multiply_adds(about["op_name"], *shapes)
    return total, [list(result.shape) for result in results]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name, net in nets().items():
        onnx.save(net, folder / f"{name}.onnx")
    convolutions(folder / "convolutions.onnx")
    for path in sorted(folder.glob("*.onnx")):
        total, shapes = executed(path)
        print(path.stem, total, json.dumps(shapes))
