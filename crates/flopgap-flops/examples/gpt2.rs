//! FLOPs, compulsory bytes and intensity of every operation in a forward pass of GPT-2.

#![allow(clippy::print_stdout, reason = "an example prints its result")]

use flopgap_flops::transformer::{Block, Optimizer, Transformer};
use flopgap_flops::{Convention, ElementType, FlopError, Pass, Work};

fn row(name: impl std::fmt::Display, work: &Work) -> Result<(), FlopError> {
    let intensity = work.intensity()?.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    println!("{name:<20}{:>16}{:>14}{intensity:>12}", work.flops, work.bytes()?);
    Ok(())
}

fn main() -> Result<(), FlopError> {
    let gpt2 = Transformer {
        layers: 12,
        block: Block::gpt2(768, 12),
        vocabulary: 50_257,
        learned_positions: Some(1024),
        tied_head: true,
    };
    println!("{:<20}{:>16}{:>14}{:>12}", "operation", "FLOPs", "bytes", "FLOP/byte");
    let forward = gpt2.count(Pass::Forward, 4, 512, &Convention::ARITHMETIC, ElementType::Fp32)?;
    for entry in forward.operations() {
        row(entry.operation, &entry.work)?;
    }
    row("forward", &forward.total()?)?;
    let backward = gpt2.count(Pass::Backward, 4, 512, &Convention::ARITHMETIC, ElementType::Fp32)?;
    row("backward", &backward.total()?)?;
    row("adam_w step", &Optimizer::AdamW.step(gpt2.parameters()?, ElementType::Fp32)?)
}
