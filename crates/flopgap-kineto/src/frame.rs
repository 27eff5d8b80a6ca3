//! Frames of Python's stack, as `torch.profiler` names them: `train.py(34): step`.

/// Where Python and PyTorch keep their own functions; files are named from a folder of Python's
/// path on.
const OWN: [&str; 3] = ["torch/", "torch_xla/", "<"];
const STANDARD: [&str; 24] = [
    "_bootstrap",
    "abc.py",
    "asyncio/",
    "collections/",
    "concurrent/",
    "contextlib.py",
    "copy.py",
    "dataclasses.py",
    "enum.py",
    "functools.py",
    "importlib/",
    "inspect.py",
    "json/",
    "logging/",
    "multiprocessing/",
    "pickle.py",
    "queue.py",
    "random.py",
    "runpy.py",
    "selectors.py",
    "socket.py",
    "threading.py",
    "typing.py",
    "weakref.py",
];

/// Whether a frame is that of a file of Python that belongs neither to Python nor to PyTorch.
pub(crate) fn is_users(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let Some((file, _)) = name.split_once(".py(") else { return false };
    let file = match file.rsplit_once("/lib/python3") {
        Some((_, inside)) => match inside.rsplit_once("-packages/") {
            Some((_, package)) => package,
            // The standard library itself.
            None => return false,
        },
        None => file,
    };
    let with_end = format!("{file}.py");
    !OWN.iter().chain(&STANDARD).any(|own| with_end.starts_with(own))
}

#[cfg(test)]
mod tests {
    use super::is_users;

    #[test]
    fn frames_of_libraries_are_not_the_users() {
        for name in ["train.py(34): step", "/home/me/train.py(2): <module>", "src/model/block.py(7): forward"]
        {
            assert!(is_users(name.as_bytes()), "{name}");
        }
        let of_package = "/usr/lib/python3.11/site-packages/transformers/trainer.py(3): train";
        assert!(is_users(of_package.as_bytes()));
        for name in [
            "torch/nn/modules/module.py(1783): _call_impl",
            "/usr/lib/python3.11/site-packages/torch/_tensor.py(576): backward",
            "/usr/lib/python3.11/contextlib.py(81): inner",
            "threading.py(973): _bootstrap",
            "<frozen runpy>(198): _run_module_as_main",
            "<built-in method item of Tensor object at 0x7f>",
            "nn.Module: Linear_0",
        ] {
            assert!(!is_users(name.as_bytes()), "{name}");
        }
    }
}
