"""Runs networks with PyTorch for flopgap.

A request is a line of JSON on standard input, its answer a line of JSON on standard output:
{"id": 1, "do": "hello", ...} -> {"id": 1, "answer": {...}} or {"id": 1, "error": {"kind": ..., "message": ...}}.
"""

import ctypes
import gc
import json
import logging
import math
import os
import sys
import time

PROTOCOL = 1

# Whatever else prints, prints to standard error.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


class Collector(logging.Handler):
    """Keeps the last warning: errors of PyTorch point to it."""

    last = ""

    def emit(self, record):
        Collector.last = record.getMessage()


class Refused(Exception):
    """What cannot be run here, with the reason."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


def unsupported(message):
    return Refused("unsupported", message)


try:
    import torch
    import torch.nn.functional as F
except Exception as error:  # A broken installation raises much besides ImportError.
    torch = None
    MISSING = f"{type(error).__name__}: {error}"

DEVICE = None
SESSIONS = {}


def hello(request):
    """Chooses the device and says what is here."""
    global DEVICE
    if torch is None:
        raise Refused("missing", f"{sys.executable}: {MISSING}")
    DEVICE = torch.device(request["device"])
    torch.set_num_threads(request["threads"])
    name = None
    if DEVICE.type == "cuda":
        if not torch.cuda.is_available():
            raise Refused("missing", f"PyTorch {torch.__version__} at {torch.__file__} sees no GPU")
        if DEVICE.index >= torch.cuda.device_count():
            raise Refused("missing", f"PyTorch sees {torch.cuda.device_count()} GPUs, none with the number {DEVICE.index}")
        torch.cuda.set_device(DEVICE)
        name = torch.cuda.get_device_name(DEVICE)
    return {
        "protocol": PROTOCOL,
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if DEVICE.type == "cuda" else None,
        "device": name,
    }


# Networks, from the layers of a graph.

ACTIVATIONS = {
    "identity": lambda: torch.nn.Identity(),
    "relu": lambda: torch.nn.ReLU(),
    "leaky_relu": lambda: torch.nn.LeakyReLU(0.01),
    "sigmoid": lambda: torch.nn.Sigmoid(),
    "tanh": lambda: torch.nn.Tanh(),
    "gelu": lambda: torch.nn.GELU(),
    "gelu_tanh": lambda: torch.nn.GELU(approximate="tanh"),
    "silu": lambda: torch.nn.SiLU(),
}


class Builder:
    """Turns a graph into a module with the code that a person would write: submodules where PyTorch has them."""

    def __init__(self, graph, dtype, seed):
        self.graph = graph
        self.dtype = dtype
        self.root = torch.nn.Module()
        self.fx = torch.fx.Graph()
        self.generator = torch.Generator(device=DEVICE).manual_seed(seed)
        self.nodes = {}
        # Longest inner sum, and products one after the other: what bounds of errors grow with.
        self.terms = 1
        self.products = 0

    def uniform(self, shape, bound, dtype=None):
        tensor = torch.empty(shape, device=DEVICE, dtype=torch.float32)
        return tensor.uniform_(-bound, bound, generator=self.generator).to(dtype or self.dtype)

    def parameter(self, index, inner):
        shape = self.graph["tensors"][index]["shape"]
        return torch.nn.Parameter(self.uniform(shape, math.sqrt(3.0 / max(inner, 1))), requires_grad=False)

    def stored(self, index):
        return self.graph["tensors"][index]["parameter"]

    def operand(self, index):
        """The node of a tensor; parameters become attributes."""
        if index not in self.nodes:
            if not self.stored(index):
                raise unsupported(f"tensor {self.graph['tensors'][index]['name']} is read before it is written")
            name = f"parameter{index}"
            self.root.register_parameter(name, self.parameter(index, 1))
            self.nodes[index] = self.fx.get_attr(name)
        return self.nodes[index]

    def module(self, layer, module, *operands):
        name = f"layer{layer}"
        self.root.add_module(name, module)
        return self.fx.call_module(name, tuple(operands))

    def call(self, function, *operands, **named):
        return self.fx.call_function(function, tuple(operands), named)

    def build(self):
        for index in self.graph["inputs"]:
            self.nodes[index] = self.fx.placeholder(f"input{index}")
        for place, layer in enumerate(self.graph["layers"]):
            op = layer["op"]
            if op is None:
                raise unsupported(f"layer {layer['name']} has no known operation")
            make = getattr(self, "make_" + op["op"], None)
            if make is None:
                raise unsupported(f"layer {layer['name']}: there is no {op['op']} here")
            self.nodes[layer["outputs"][0]] = make(place, op, layer["inputs"], layer["outputs"][0])
        self.fx.output(tuple(self.nodes[index] for index in self.graph["outputs"]))
        self.fx.lint()
        return torch.fx.GraphModule(self.root, self.fx).eval().requires_grad_(False)

    def inputs(self):
        made = []
        for index in self.graph["inputs"]:
            tensor = self.graph["tensors"][index]
            if tensor["element"] is None:
                # Indexes: any row that every table has.
                made.append(torch.zeros(tensor["shape"], device=DEVICE, dtype=torch.int64))
            else:
                made.append(self.uniform(tensor["shape"], 1.0))
        return made

    def product(self, inner):
        self.terms = max(self.terms, inner)
        self.products += 1

    def make_gemm(self, place, op, inputs, output):
        self.product(op["k"])
        if op["batch"] > 1 or not self.stored(inputs[1]):
            second = self.operand(inputs[1])
            if op["batch"] == 1:
                return self.call(F.linear, self.operand(inputs[0]), second)
            return self.call(torch.matmul, self.operand(inputs[0]), second)
        bias = len(inputs) > 2
        linear = torch.nn.Linear(op["k"], op["n"], bias=bias, device="meta")
        linear.weight = self.parameter(inputs[1], op["k"])
        if bias:
            linear.bias = self.parameter(inputs[2], op["k"])
        return self.module(place, linear, self.operand(inputs[0]))

    def make_conv(self, place, op, inputs, output):
        dimensions = len(op["image"])
        if dimensions not in (1, 2, 3):
            raise unsupported(f"a convolution over {dimensions} dimensions")
        inner = op["inputs"] // op["groups"] * math.prod(op["kernel"])
        self.product(inner)
        x, padding = self.padded(op, self.operand(inputs[0]), 0.0)
        kind = ("ConvTranspose" if op["transposed"] else "Conv") + f"{dimensions}d"
        named = {"output_padding": op["output_padding"] or 0} if op["transposed"] else {}
        bias = len(inputs) > 2
        conv = getattr(torch.nn, kind)(
            op["inputs"], op["outputs"], op["kernel"], stride=op["stride"], padding=padding, dilation=op["dilation"],
            groups=op["groups"], bias=bias, device="meta", **named,
        )
        conv.weight = self.parameter(inputs[1], inner)
        if bias:
            conv.bias = self.parameter(inputs[2], inner)
        return self.module(place, conv, x)

    def padded(self, op, x, value):
        """Padding that is the same on both sides is the operation's own; other padding comes before it."""
        pads = op.get("padding") or [[0, 0]] * len(op["image"])
        if all(before == after for before, after in pads):
            return x, [before for before, _ in pads]
        if op.get("transposed"):
            raise unsupported("a transposed convolution with other padding at the end than at the beginning")
        sides = [size for before, after in reversed(pads) for size in (before, after)]
        return self.call(F.pad, x, sides, value=value), [0] * len(pads)

    def make_pool(self, place, op, inputs, output):
        dimensions = len(op["image"])
        average = op["function"] == "average"
        if average and op["kernel"] == op["image"] and math.prod(op["output"]) == 1:
            return self.module(place, getattr(torch.nn, f"AdaptiveAvgPool{dimensions}d")(1), self.operand(inputs[0]))
        x, padding = self.padded(op, self.operand(inputs[0]), 0.0 if average else -math.inf)
        pads = op.get("padding") or [[0, 0]] * dimensions
        sizes = zip(op["image"], pads, op["kernel"], op["stride"], op["output"])
        ceil = any((image + sum(pad) - kernel) // stride + 1 != size for image, pad, kernel, stride, size in sizes)
        kind = ("AvgPool" if average else "MaxPool") + f"{dimensions}d"
        pool = getattr(torch.nn, kind)(op["kernel"], op["stride"], padding, ceil_mode=ceil)
        return self.module(place, pool, x)

    def make_elementwise(self, place, op, inputs, output):
        function = op["function"]
        x = self.operand(inputs[0])
        if isinstance(function, dict):
            return self.module(place, ACTIVATIONS[function["activation"]](), x)
        if function in ("simple", "transcendental"):
            return self.call(torch.abs if function == "simple" else torch.exp, x)
        two = {"add": torch.add, "mul": torch.mul, "div": torch.div, "compare": torch.maximum}.get(function)
        if two is None:
            raise unsupported(f"there is no element-wise {function} here")
        if len(inputs) > 1:
            return self.call(two, x, self.operand(inputs[1]))
        return self.call(torch.clamp_min if function == "compare" else two, x, 1.5)

    def make_softmax(self, place, op, inputs, output):
        return self.module(place, torch.nn.Softmax(dim=-1), self.operand(inputs[0]))

    def make_norm(self, place, op, inputs, output):
        x, *parameters = [self.operand(index) for index in inputs]
        first, second = (parameters + [None, None])[:2]
        function = op["function"]
        if function == "rms":
            return self.call(F.rms_norm, x, [op["columns"]], first, 1e-5)
        if function == "batch_inference":
            if len(parameters) != 4:
                raise unsupported("a batch norm without its four vectors")
            # A variance is positive.
            getattr(self.root, f"parameter{inputs[4]}").data.abs_().add_(0.1)
            return self.call(F.batch_norm, x, parameters[2], parameters[3], first, second)
        return self.call(F.layer_norm, x, [op["columns"]], first, second)

    def make_attention(self, place, op, inputs, output):
        self.product(op["head_width"])
        self.product(op["keys"])
        operands = [self.operand(index) for index in inputs[:3]]
        causal = op["mask"] == "causal"
        grouped = op["heads"] != op["kv_heads"]
        return self.call(F.scaled_dot_product_attention, *operands, is_causal=causal, enable_gqa=grouped)

    def make_gather(self, place, op, inputs, output):
        return self.call(F.embedding, self.operand(inputs[1]), self.operand(inputs[0]))

    def make_reduce(self, place, op, inputs, output):
        return self.call(torch.sum, self.operand(inputs[0]), -1)

    def make_copy(self, place, op, inputs, output):
        shape = self.graph["tensors"][inputs[0]]["shape"]
        order = list(reversed(range(len(shape))))
        return self.fx.call_method("contiguous", (self.fx.call_method("permute", (self.operand(inputs[0]), order)),))

    def make_view(self, place, op, inputs, output):
        shape = self.graph["tensors"][output]["shape"]
        return self.call(torch.reshape, self.operand(inputs[0]), shape)


def load(path):
    """Loads an archive; one whose inputs or outputs are of a library's types needs that library."""
    collector = Collector()
    logging.getLogger("torch").addHandler(collector)
    try:
        return torch.export.load(path)
    except RuntimeError:
        try:
            import transformers.cache_utils
            import transformers.modeling_outputs
        except Exception:
            lines = [line.strip() for line in Collector.last.splitlines() if line.strip()]
            reason = f" ({lines[-1]})" if lines else ""
            raise Refused(
                "failed",
                f"torch.export.load refuses {path}{reason}; if the model is one of transformers, install that package",
            ) from None
        return torch.export.load(path)
    finally:
        logging.getLogger("torch").removeHandler(collector)


def exported(path, dtype, seed, shapes):
    """A model that torch.export.save wrote, and inputs of the shapes that it was exported with."""
    program = load(path)
    generator = torch.Generator().manual_seed(seed)
    values = {}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            values[node.name] = node.meta.get("val")
    inputs = []
    for name in program.graph_signature.user_inputs:
        value = values.get(name) if isinstance(name, str) else name
        if not isinstance(value, torch.Tensor):
            inputs.append(value)
            continue
        given = shapes.get(name)
        if given is None and any(not isinstance(size, int) for size in value.shape):
            raise unsupported(f"input {name} has open dimensions; specify `{name}=SIZES`")
        shape = given or list(value.shape)
        if value.dtype.is_floating_point:
            inputs.append(torch.empty(shape).uniform_(-1, 1, generator=generator).to(DEVICE, dtype))
        elif value.dtype == torch.bool:
            inputs.append(torch.ones(shape, device=DEVICE, dtype=torch.bool))
        else:
            # 0 or 1: in every vocabulary, and a mask of some.
            inputs.append(torch.randint(0, 2, shape, generator=generator).to(DEVICE, value.dtype))
    return program.module().to(DEVICE).to(dtype), inputs


# Sessions.

DTYPES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def resident():
    """Bytes of this process in memory, and its high-water mark; None where the system does not tell."""
    fields = {}
    with open("/proc/self/status") as status:
        for line in status:
            name, _, value = line.partition(":")
            if name in ("VmRSS", "VmHWM"):
                fields[name] = int(value.split()[0]) * 1024
    return fields["VmRSS"], fields["VmHWM"]


class Session:
    def __init__(self, request):
        self.how = request["how"]
        self.precision = request["precision"]
        if self.precision not in DTYPES:
            raise unsupported(f"it does not support {self.precision}")
        if self.how == "graph" and DEVICE.type != "cuda":
            raise unsupported("a CPU has no CUDA graphs")
        dtype = getattr(torch, DTYPES[self.precision])
        self.settings()
        cuda = DEVICE.type == "cuda"
        before = None
        if cuda:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            free, allocated = torch.cuda.mem_get_info()[0], torch.cuda.memory_allocated()
        else:
            try:
                # What earlier networks have freed goes back to the system, or it would serve this one unseen.
                gc.collect()
                ctypes.CDLL(None).malloc_trim(0)
                with open("/proc/self/clear_refs", "w") as mark:
                    mark.write("5")
                before = resident()[0]
            except (OSError, KeyError, AttributeError):
                pass
        self.file = "file" in request
        if self.file:
            self.module, self.inputs = exported(request["file"], dtype, request["seed"], request.get("shapes", {}))
            self.terms, self.products = 4096, 64
        else:
            builder = Builder(request["graph"], dtype, request["seed"])
            self.module, self.inputs = builder.build(), builder.inputs()
            self.terms, self.products = builder.terms, max(builder.products, 1)
        self.forward = torch.compile(self.module) if self.how == "compile" else self.module
        with torch.inference_mode():
            for _ in range(3):
                self.forward(*self.inputs)
            if self.how == "graph":
                self.capture()
        self.synchronize()
        if cuda:
            self.memory = torch.cuda.max_memory_allocated() - allocated
            self.device_memory = max(free - torch.cuda.mem_get_info()[0], 0)
        else:
            # PyTorch's allocator on a CPU keeps no account.
            self.memory = None
            growth = 0 if before is None else resident()[1] - before
            stored = [*self.module.parameters(), *self.module.buffers()]
            # Less than the parameters: free memory of the process served, and nothing was measured.
            least = sum(tensor.numel() * tensor.element_size() for tensor in stored)
            self.device_memory = growth if growth > 0 and growth >= least else None

    def settings(self):
        """What is fp32 is computed in fp32."""
        tf32 = self.precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.allow_tf32 = tf32

    def capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.module(*self.inputs)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.captured = self.module(*self.inputs)
        self.forward = self.replay

    def replay(self, *_):
        self.graph.replay()
        return self.captured

    def synchronize(self):
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()

    def opened(self):
        return {"memory": self.memory, "device_memory": self.device_memory}

    def run(self, runs):
        """So many runs, with the time that they took."""
        self.settings()
        forward, inputs = self.forward, self.inputs
        with torch.inference_mode():
            if DEVICE.type == "cuda":
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                torch.cuda.synchronize()
                begin.record()
                for _ in range(runs):
                    forward(*inputs)
                end.record()
                end.synchronize()
                return {"device_ns": begin.elapsed_time(end) * 1e6}
            thread, wall = time.thread_time_ns(), time.monotonic_ns()
            for _ in range(runs):
                forward(*inputs)
            return {"wall_ns": time.monotonic_ns() - wall, "thread_ns": time.thread_time_ns() - thread}

    def run_for(self, seconds):
        self.settings()
        end, runs = time.monotonic() + seconds, 0
        with torch.inference_mode():
            while runs == 0 or time.monotonic() < end:
                # Launches are not waited for one by one, nor do they pile up.
                batch_end = time.monotonic() + 0.01
                while True:
                    self.forward(*self.inputs)
                    runs += 1
                    if time.monotonic() >= batch_end:
                        break
                self.synchronize()
        return {"runs": runs}

    def check(self):
        self.settings()
        with torch.inference_mode():
            found = flat(self.forward(*self.inputs))
            self.synchronize()
            reference, expected = self.reference()
        if found.shape != expected.shape:
            raise Refused("failed", f"{found.numel()} outputs, where the reference has {expected.numel()}")
        magnitude = expected.abs().max().item() if expected.numel() else 0.0
        # Models whose parameters were left out compute zeros alone.
        zeros = self.file and found.numel() > 0 and not found.any() and not expected.any()
        error = 0.0 if zeros else (found - expected).abs().max().item() / magnitude if magnitude > 0 else None
        if error is not None and not math.isfinite(error):
            error = None
        size = math.sqrt(self.products * max(self.terms / 512, 1.0))
        each = {"fp32": 1e-5, "tf32": 2e-3, "fp16": 2e-3, "bf16": 1e-2}[self.precision]
        most = {"fp32": 1e-3, "tf32": 0.03, "fp16": 0.03, "bf16": 0.1}[self.precision]
        return {"reference": reference, "error": error, "bound": min(each * size, most), "zeros": zeros}

    def reference(self):
        """The same numbers in 64 bits; for what cannot be, on a CPU without its library of fast kernels."""
        import copy

        try:
            module = copy.deepcopy(self.module).double()
            inputs = [wide(x) for x in self.inputs]
            return "fp64", flat(module(*inputs))
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
        except RuntimeError:
            pass
        cpu = torch.device("cpu")
        module = copy.deepcopy(self.module).to(cpu).float()
        inputs = [x.to(cpu).float() if floating(x) else on(x, cpu) for x in self.inputs]
        with torch.backends.mkldnn.flags(enabled=False):
            return "fp32 on the CPU, without oneDNN", flat(module(*inputs))


def floating(x):
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def on(x, device):
    return x.to(device) if isinstance(x, torch.Tensor) else x


def wide(x):
    return x.double() if floating(x) else x


def flat(outputs):
    """All floating-point outputs, one after the other, in 64 bits on the CPU."""
    found = []

    def gather(value):
        if floating(value):
            found.append(value.detach().double().cpu().flatten())
        elif isinstance(value, (list, tuple)):
            for each in value:
                gather(each)
        elif isinstance(value, dict):
            for each in value.values():
                gather(each)
        elif hasattr(value, "to_tuple"):
            gather(value.to_tuple())

    gather(outputs)
    return torch.cat(found) if found else torch.empty(0, dtype=torch.float64)


def answer(request):
    do = request["do"]
    if do == "hello":
        return hello(request)
    if do == "open":
        session = Session(request)
        SESSIONS[request["session"]] = session
        return session.opened()
    if do == "close":
        SESSIONS.pop(request["session"], None)
        if DEVICE.type == "cuda":
            torch.cuda.empty_cache()
        return {}
    session = SESSIONS[request["session"]]
    if do == "check":
        return session.check()
    if do == "run":
        return session.run(request["runs"])
    if do == "run_for":
        return session.run_for(request["seconds"])
    raise Refused("failed", f"there is no request {do!r}")


def main():
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = {"answer": answer(request)}
        except Refused as refused:
            reply = {"error": {"kind": refused.kind, "message": str(refused)}}
        except MemoryError as error:
            reply = {"error": {"kind": "memory", "message": str(error)}}
        except Exception as error:
            kind = "failed"
            if torch is not None and isinstance(error, torch.cuda.OutOfMemoryError):
                kind = "memory"
                torch.cuda.empty_cache()
            # The first lines say what it is; compilers write pages.
            message = "\n".join(str(error).strip().splitlines()[:6])
            reply = {"error": {"kind": kind, "message": f"{type(error).__name__}: {message}"}}
        ANSWERS.write(json.dumps({"id": request["id"], **reply}) + "\n")
        ANSWERS.flush()


main()
