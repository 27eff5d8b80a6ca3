//! Decomposes the counted FLOPs of a ten-layer network into its overheads.

#![allow(clippy::print_stdout, reason = "an example prints its result")]

use flopgap_flops::{ClassFlops, Decomposition, Exactness, FlopError, Pass, Plausibility, SquareMlp};

fn main() -> Result<(), FlopError> {
    let model = SquareMlp::new(10, 1024, 128)?;
    let counted = [
        (
            Pass::Forward,
            ClassFlops { gemm: 2_702_704_640, split_k: 3_932_160, activation: 20_969_786, other: 0 },
        ),
        (
            Pass::Backward,
            ClassFlops { gemm: 5_120_196_608, split_k: 10_824_176, activation: 3_932_160, other: 0 },
        ),
    ];
    println!("{model}");
    for (pass, counted) in counted {
        let Decomposition { factors, reconstructed, .. } = Decomposition::new(model, pass, counted)?;
        println!(
            "{pass:<8}  epsilon {:.4}  rho {:.4}  kappa {:>7.4}  omega {:.4}  total {}  reconstructed {reconstructed}",
            factors.epsilon,
            factors.rho,
            factors.kappa,
            factors.omega,
            counted.total()?,
        );
    }
    let half = ClassFlops { gemm: 1_351_352_320, ..ClassFlops::default() };
    println!("{}", Plausibility::of_gemm(model, Pass::Forward, &half, Exactness::Exact)?);
    Ok(())
}
