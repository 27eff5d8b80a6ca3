//! The files of device code, and how they include each other.
//!
//! NVRTC gets one text. A file says with `#include "tile/layout.cuh"` (a path from this folder)
//! what it needs; [`expand`] puts that file there, once.

use std::fmt::Write as _;

/// Paths with the texts that lie there.
macro_rules! files {
    ($($path:literal),* $(,)?) => { &[$(($path, include_str!($path))),*] };
}

/// Every file that can be included, by its path from this folder.
const FILES: &[(&str, &str)] = files![
    "common.cuh",
    "coopmat/cluster.cuh",
    "coopmat/few/backward.cu",
    "coopmat/few/forward.cu",
    "coopmat/few/half.cuh",
    "coopmat/few/operands.cuh",
    "coopmat/few/single.cuh",
    "coopmat/mma/chain.cu",
    "coopmat/mma/forward.cu",
    "coopmat/mma/fused.cu",
    "coopmat/mma/gradients.cu",
    "coopmat/mma/latency.cu",
    "coopmat/mma/layers.cuh",
    "coopmat/mma/sums.cuh",
    "coopmat/simt/backward.cu",
    "coopmat/simt/forward.cu",
    "coopmat/simt/layout.cuh",
    "coopmat/simt/shape.cuh",
    "coopmat/simt/terms/backward.cu",
    "coopmat/simt/terms/chain.cuh",
    "coopmat/simt/terms/forward.cu",
    "coopmat/simt/terms/ring.cuh",
    "coopmat/simt/terms/transpose.cu",
    "coopmat/wgmma/chain.cu",
    "coopmat/wgmma/chain_stream.cu",
    "coopmat/wgmma/forward.cu",
    "coopmat/wgmma/forward_stream.cu",
    "coopmat/wgmma/fused.cu",
    "coopmat/wgmma/gradients.cu",
    "coopmat/wgmma/pair.cu",
    "coopmat/wgmma/layers.cuh",
    "coopvec/deltas.cu",
    "coopvec/forward.cu",
    "coopvec/gradients.cu",
    "coopvec/sliced.cu",
    "coopvec/transpose.cu",
    "coopvec/vectors.cuh",
    "coopvec/weights.cuh",
    "device/device.cuh",
    "encoding/frequency.cu",
    "encoding/hash_grid.cu",
    "forloop/call.cuh",
    "forloop/forloop.cu",
    "forloop/layers.cuh",
    "gradients/gradients.cu",
    "naive/naive.cu",
    "padding/rows.cuh",
    "tangent/tangent.cu",
    "tile/activation.cuh",
    "tile/encoding.cuh",
    "tile/epilogue.cuh",
    "tile/fragment.cuh",
    "tile/layout.cuh",
    "tile/mma.cuh",
    "tile/number.cuh",
    "tile/padded.cuh",
    "tile/ptx/async_copy.cuh",
    "tile/ptx/barrier.cuh",
    "tile/ptx/cluster.cuh",
    "tile/ptx/convert.cuh",
    "tile/ptx/grid.cuh",
    "tile/ptx/ldmatrix.cuh",
    "tile/ptx/memory.cuh",
    "tile/ptx/mma.cuh",
    "tile/ptx/reduction.cuh",
    "tile/ptx/tma.cuh",
    "tile/ptx/wgmma.cuh",
    "tile/reduce.cuh",
    "tile/ring.cuh",
    "tile/scalar.cuh",
    "tile/shared.cuh",
    "tile/wgmma.cuh",
    "train/adamw.cu",
    "train/loss.cu",
];

/// The path of a line `#include "path"`.
fn included(line: &str) -> Option<&str> {
    line.strip_prefix("#include \"")?.strip_suffix('"')
}

/// `text`, whose name the compiler's messages have, with the files that it includes in place. Every
/// file comes once, where it is first asked for (even inside an `#if`). A line that names no file
/// of this crate stays, for NVRTC to refuse.
pub(super) fn expand(name: &str, text: &str) -> String {
    let mut whole = String::new();
    append(&mut whole, name, text, &mut Vec::new());
    whole
}

fn append(whole: &mut String, name: &str, text: &str, seen: &mut Vec<&'static str>) {
    let _ = writeln!(whole, "#line 1 \"{name}\"");
    for (index, line) in text.lines().enumerate() {
        let file = included(line).and_then(|path| FILES.iter().find(|(known, _)| *known == path));
        let Some(&(path, body)) = file else {
            let _ = writeln!(whole, "{line}");
            continue;
        };
        if !seen.contains(&path) {
            seen.push(path);
            append(whole, path, body, seen);
        }
        let _ = writeln!(whole, "#line {} \"{name}\"", index + 2);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    /// The files below a folder whose names end so.
    fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, endings, found);
            } else if path.extension().is_some_and(|ending| endings.iter().any(|one| ending == *one)) {
                found.push(path);
            }
        }
    }

    /// The files of this crate whose names end so, and their texts.
    fn texts(endings: &[&str]) -> Vec<(PathBuf, String)> {
        let mut paths = Vec::new();
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), endings, &mut paths);
        assert!(paths.len() > 20, "{paths:?}");
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path).unwrap();
            (path, text)
        };
        paths.into_iter().map(read).collect()
    }

    fn words(text: &str) -> impl Iterator<Item = &str> {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
    }

    #[test]
    fn every_include_names_a_file_of_this_crate() {
        for (path, text) in texts(&["cu", "cuh"]) {
            for line in text.lines().filter(|line| line.trim_start().starts_with("#include")) {
                let known = included(line).is_some_and(|of| FILES.iter().any(|(file, _)| *file == of));
                assert!(known, "{}: {line}", path.display());
            }
        }
    }

    /// Also in the Rust code that writes some of it.
    #[test]
    fn inline_assembly_lies_in_tile_ptx() {
        let (inside, outside): (Vec<_>, Vec<_>) = texts(&["cu", "cuh", "rs"])
            .into_iter()
            .filter(|(_, text)| words(text).any(|word| word == concat!("as", "m")))
            .map(|(path, _)| path)
            .partition(|path| path.parent().is_some_and(|folder| folder.ends_with("cuda/tile/ptx")));
        assert!(inside.len() > 8, "{inside:?}");
        assert_eq!(outside, Vec::<PathBuf>::new(), "inline assembly outside of tile/ptx");
    }

    /// A profile knows kernels by their names.
    #[test]
    fn kernels_of_different_files_have_different_names() {
        let mut kernels = Vec::new();
        for (path, text) in texts(&["cu", "cuh"]) {
            for declaration in text.split("__global__").skip(1) {
                // The first word in front of a parenthesis that is no attribute.
                let mut before = declaration.split('(').filter_map(|before| words(before).last());
                let name = before.find(|name| !name.is_empty() && !name.starts_with("__"));
                let name = name.unwrap_or_else(|| panic!("{}: a kernel without a name", path.display()));
                kernels.push((name.to_owned(), path.clone()));
            }
        }
        kernels.sort();
        kernels.dedup();
        assert!(kernels.iter().any(|(name, _)| name == "coopmat_mlp_forward_wgmma"), "{kernels:?}");
        assert!(kernels.len() > 40, "{kernels:?}");
        for pair in kernels.windows(2) {
            assert_ne!(pair[0].0, pair[1].0, "in {} and {}", pair[0].1.display(), pair[1].1.display());
        }
    }

    /// `docs/kernels.md` shows lines of kernels, in their order; it may leave out some.
    #[test]
    fn the_guide_shows_kernels_as_they_are() {
        let guide = include_str!("../../docs/kernels.md");
        let texts = texts(&["cu"]);
        let excerpts: Vec<&str> = guide.split("```").skip(1).step_by(2).collect();
        assert!(excerpts.len() > 5, "{}", excerpts.len());
        for excerpt in excerpts {
            let mut lines = excerpt.lines().skip(1);
            let path = lines.next().and_then(|line| line.strip_prefix("// ")).expect("the name of a file");
            let (_, text) = texts.iter().find(|(file, _)| file.ends_with(path)).expect(path);
            let mut rest = text.lines();
            for line in lines {
                assert!(rest.any(|other| other == line), "{path} has no such line there: {line}");
            }
        }
    }

    #[test]
    fn a_file_comes_once_and_lines_keep_their_numbers() {
        let text = "first\n#include \"tile/ptx/grid.cuh\"\n#include \"tile/ptx/grid.cuh\"\nlast";
        let whole = expand("kernel.cu", text);
        assert_eq!(whole.matches("griddepcontrol.wait;").count(), 1);
        assert!(whole.starts_with("#line 1 \"kernel.cu\"\nfirst\n#line 1 \"tile/ptx/grid.cuh\"\n"));
        assert!(whole.ends_with("#line 3 \"kernel.cu\"\n#line 4 \"kernel.cu\"\nlast\n"), "{whole}");
        assert!(expand("kernel.cu", "#include \"stdio.h\"").contains("#include \"stdio.h\""));
    }
}
