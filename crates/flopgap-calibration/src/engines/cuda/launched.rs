//! Information about a step from its launched kernels.

use flopgap_gpu::KernelNode;
use flopgap_graph::{Algorithm, KernelLaunch};
use flopgap_kernels::{KernelClass, KernelInfo, classify, demangle};

use super::gemm::thousandths;

/// Longest name that is recorded next to the short one: those of CUTLASS's templates have
/// kilobytes.
const LONGEST: usize = 200;

/// Adds what the launched kernels tell: names, grids and threads; where the library said nothing,
/// the tile and waves of blocks.
pub(super) fn add(algorithm: &mut Algorithm, kernels: &[KernelNode], multiprocessors: u32) {
    let known: Vec<_> = kernels.iter().map(|kernel| classify(&kernel.name)).collect();
    algorithm.kernels = known
        .chunk_by(|one, next| one.short == next.short)
        .map(|alike| match alike {
            [one] => one.short.clone(),
            // A kernel for each group of a convolution, for one.
            _ => format!("{} x{}", alike[0].short, alike.len()),
        })
        .collect();
    let mut place = 0;
    algorithm.launches = known
        .chunk_by(|one, next| one.short == next.short)
        .map(|alike| {
            let first = &kernels[place];
            place += alike.len();
            launch(first, &alike[0])
        })
        .collect();
    // Of several, the one that multiplies: the others pad, transform and add up. Of several of
    // those, the first.
    let multiplies = |class| matches!(class, KernelClass::Matmul | KernelClass::Convolution);
    let main = known.iter().position(|info| info.tile.is_some() && multiplies(info.class));
    let Some(main) = main.or_else(|| (kernels.len() == 1).then_some(0)) else { return };
    if algorithm.tile.is_none() {
        algorithm.tile = known[main].tile.map(|tile| [tile.m, tile.n]);
    }
    if algorithm.waves_thousandths.is_none() {
        #[expect(clippy::cast_possible_truncation, reason = "small, or rounded")]
        let waves = kernels[main].waves(multiprocessors).map(|waves| waves as f32);
        algorithm.waves_thousandths = waves.and_then(thousandths);
    }
    let blocks = i64::try_from(kernels[main].blocks()).unwrap_or(i64::MAX);
    algorithm.attributes.insert("blocks".to_owned(), blocks);
    algorithm.attributes.insert("threads".to_owned(), i64::from(kernels[main].threads));
}

/// How a kernel was launched.
fn launch(kernel: &KernelNode, info: &KernelInfo) -> KernelLaunch {
    let demangled = demangle(&kernel.name);
    let name = without_parameters(demangled.as_deref().unwrap_or(&kernel.name));
    let informative = name != info.short && name.len() <= LONGEST;
    KernelLaunch {
        name: informative.then(|| name.to_owned()),
        grid: kernel.grid,
        threads: kernel.threads,
        shared: kernel.shared,
        registers: kernel.registers,
        resident: kernel.resident,
    }
}

/// A demangled name up to the parentheses of its parameters, without what it returns.
fn without_parameters(name: &str) -> &str {
    const ANONYMOUS: &str = "(anonymous namespace)";
    let name = name.strip_prefix("void ").unwrap_or(name);
    let mut depth = 0;
    for (at, letter) in name.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 && !name[at..].starts_with(ANONYMOUS) => return &name[..at],
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, grid: [u32; 3]) -> KernelNode {
        let (threads, shared) = (384, 0);
        KernelNode { name: name.to_owned(), grid, threads, shared, registers: None, resident: Some(1) }
    }

    #[test]
    fn the_kernel_that_multiplies_has_tile_and_waves() {
        let pad = node("void pad_kernel(float*)", [9, 1, 1]);
        let multiply = node(
            "sm80_xmma_fprop_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x64x64_stage3_warpsize2x2x1_g1_tensor16x8x16_kernel_cudnn",
            [98, 2, 1],
        );
        let mut algorithm = Algorithm::default();
        add(&mut algorithm, &[pad.clone(), multiply], 132);
        assert_eq!(algorithm.tile, Some([128, 64]));
        assert_eq!(algorithm.waves_thousandths, Some(1485));
        assert_eq!(algorithm.kernels.len(), 2);
        assert_eq!(algorithm.attributes["blocks"], 196);
        let [first, second] = algorithm.launches.as_slice() else { panic!("two kernels") };
        assert_eq!((first.grid, first.name.as_deref()), ([9, 1, 1], None));
        assert_eq!((second.grid, second.threads, second.resident), ([98, 2, 1], 384, Some(1)));
        assert!(second.name.as_deref().is_some_and(|name| name.contains("stage3_warpsize2x2x1")));
        let mut unknown = Algorithm::default();
        add(&mut unknown, &[pad.clone(), pad.clone()], 132);
        assert_eq!(unknown.kernels, ["pad_kernel x2"]);
        assert_eq!(unknown.launches.len(), 1);
        assert!(unknown.tile.is_none() && unknown.attributes.is_empty(), "nothing is guessed");
        let mut reported =
            Algorithm { tile: Some([1, 2]), waves_thousandths: Some(7), ..Algorithm::default() };
        add(&mut reported, &[pad], 132);
        assert_eq!(
            (reported.tile, reported.waves_thousandths),
            (Some([1, 2]), Some(7)),
            "the library's word stands"
        );
    }

    #[test]
    fn a_name_keeps_its_template_arguments() {
        let of = |name: &str| without_parameters(name).to_owned();
        assert_eq!(of("void convolve<float, 512, (bool)1>(int, float*)"), "convolve<float, 512, (bool)1>");
        assert_eq!(of("a::(anonymous namespace)::k(int)"), "a::(anonymous namespace)::k");
        assert_eq!(of("void cub::empty<void (*)()>()"), "cub::empty<void (*)()>");
        assert_eq!(of("nvjet_sm90_hsh_64x8"), "nvjet_sm90_hsh_64x8");
    }
}
