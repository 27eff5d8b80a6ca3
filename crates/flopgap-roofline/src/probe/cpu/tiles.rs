//! Loops of products of tiles: AMX, the tensor cores of Intel's server CPUs. Rust has no stable
//! functions for its instructions, so that they are written as they are.
#![expect(
    unsafe_code,
    reason = "instructions without a function of their own, and the system call that allows them"
)]

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::hint::black_box;

use flopgap_flops::Precision;

use super::looped::Loop;
use crate::Instruction;

/// A tile: 16 rows of 64 bytes.
const ROWS: usize = 16;
const ROW_BYTES: usize = 64;
/// Tiles of sums; of the eight that there are, two hold the operands.
const SUMS: usize = 6;
/// Multiply-adds of a product of tiles for each element of a row on the left.
const PER_ELEMENT: u64 = (ROWS * ROWS) as u64;

/// The AMX features of this CPU: `cpuid`, leaf 7, by Intel's manual.
struct Features {
    tile: bool,
    bf16: bool,
    int8: bool,
}

fn features() -> Features {
    let bits = __cpuid_count(7, 0).edx;
    let has = |bit: u32| bits >> bit & 1 == 1;
    Features { tile: has(24), bf16: has(22), int8: has(25) }
}

/// The loops of tiles that this CPU can run and the system allows.
pub(super) fn loops() -> Vec<Loop> {
    let features = features();
    if !features.tile || !allow() {
        return Vec::new();
    }
    let one = |precision, length: u64, run| Loop {
        precision,
        instruction: Instruction::Amx,
        multiply_adds: SUMS as u64 * PER_ELEMENT * length,
        run,
    };
    let bf16 = features.bf16.then(|| one(Precision::Bf16, 32, bf16));
    let int8 = features.int8.then(|| one(Precision::Int8, 64, int8));
    bf16.into_iter().chain(int8).collect()
}

/// Whether the CPU has tiles that the system does not allow.
pub(super) fn refused() -> bool {
    features().tile && !allow()
}

/// Requests permission from Linux for this process to use tiles: their registers are so large that
/// they are only saved for processes that requested them.
fn allow() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
    const XFEATURE_XTILEDATA: i64 = 18;
    let result: i64;
    // SAFETY: a system call with numbers alone, which changes nothing but what this process may
    // use. It overwrites rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

/// The operand of `ldtilecfg`: the palette, and bytes and rows of each tile.
#[repr(C, align(64))]
struct Shape {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Shape {
    /// All eight tiles whole.
    fn whole() -> Self {
        let mut shape =
            Shape { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        shape.row_bytes[..8].fill(64);
        shape.rows[..8].fill(16);
        shape
    }
}

#[repr(C, align(64))]
struct Tile([[u8; ROW_BYTES]; ROWS]);

impl Tile {
    fn of(byte: [u8; 2]) -> Self {
        let mut row = [0; ROW_BYTES];
        for pair in row.as_chunks_mut::<2>().0 {
            *pair = byte;
        }
        Tile([row; ROWS])
    }
}

/// So many steps of a product of tiles to each of the tiles of sums, which are stored in the end.
macro_rules! multiply {
    ($instruction:literal, $steps:expr, $left:expr, $right:expr, $sums:expr) => {{
        let (shape, left, right): (Shape, &Tile, &Tile) = (Shape::whole(), $left, $right);
        let sums: &mut [Tile; SUMS] = $sums;
        // SAFETY: the system has allowed tiles, and the CPU has the instruction: `loops` gives this
        // function out only then. All addresses are of whole tiles, six in a row for the sums. No
        // code of the compiler uses tiles, and in the end they are given back.
        unsafe {
            asm!(
                "ldtilecfg [{shape}]",
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "tilezero tmm4",
                "tilezero tmm5",
                "tileloadd tmm6, [{left} + {row}*1]",
                "tileloadd tmm7, [{right} + {row}*1]",
                "2:",
                concat!($instruction, " tmm0, tmm6, tmm7"),
                concat!($instruction, " tmm1, tmm6, tmm7"),
                concat!($instruction, " tmm2, tmm6, tmm7"),
                concat!($instruction, " tmm3, tmm6, tmm7"),
                concat!($instruction, " tmm4, tmm6, tmm7"),
                concat!($instruction, " tmm5, tmm6, tmm7"),
                "dec {steps}",
                "jnz 2b",
                "tilestored [{sums} + {row}*1], tmm0",
                "tilestored [{sums} + {row}*1 + 1024], tmm1",
                "tilestored [{sums} + {row}*1 + 2048], tmm2",
                "tilestored [{sums} + {row}*1 + 3072], tmm3",
                "tilestored [{sums} + {row}*1 + 4096], tmm4",
                "tilestored [{sums} + {row}*1 + 5120], tmm5",
                "tilerelease",
                shape = in(reg) &raw const shape,
                left = in(reg) left,
                right = in(reg) right,
                sums = in(reg) sums.as_mut_ptr(),
                row = in(reg) ROW_BYTES,
                steps = inout(reg) u64::from($steps).max(1) => _,
                options(nostack),
            );
        }
    }};
}

fn empty() -> [Tile; SUMS] {
    std::array::from_fn(|_| Tile::of([0, 0]))
}

/// The sum of all sums.
fn total(sums: &[Tile; SUMS], number: fn([u8; 4]) -> f64) -> f64 {
    let rows = sums.iter().flat_map(|tile| &tile.0);
    rows.flat_map(|row| row.as_chunks::<4>().0).map(|bytes| number(*bytes)).sum()
}

fn int8(steps: u32, ones: bool) -> f64 {
    let (left, right) = if ones { (1, 1) } else { (113, 0xa5) };
    let (left, right) = (Tile::of([black_box(left); 2]), Tile::of([black_box(right); 2]));
    let mut sums = empty();
    multiply!("tdpbusd", steps, &left, &right, &mut sums);
    total(&sums, |bytes| f64::from(i32::from_le_bytes(bytes)))
}

fn bf16(steps: u32, ones: bool) -> f64 {
    // 1.0, and 2^-24, with which sums stay small.
    let bits: u16 = if ones { 0x3f80 } else { 0x3380 };
    let operand = Tile::of(black_box(bits).to_le_bytes());
    let mut sums = empty();
    multiply!("tdpbf16ps", steps, &operand, &operand, &mut sums);
    total(&sums, |bytes| f64::from(f32::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_is_as_the_instruction_reads_it() {
        let shape = Shape::whole();
        assert_eq!(size_of::<Shape>(), 64);
        assert_eq!((std::mem::offset_of!(Shape, row_bytes), std::mem::offset_of!(Shape, rows)), (16, 48));
        assert_eq!((shape.palette, shape.row_bytes[7], shape.row_bytes[8]), (1, 64, 0));
        assert_eq!((shape.rows[7], shape.rows[8]), (16, 0));
    }

    #[test]
    fn a_product_of_tiles_of_ones_counts_its_multiply_adds() {
        let loops = loops();
        assert!(loops.is_empty() || !refused());
        if loops.is_empty() {
            return flopgap_testing::skip("amx", "the CPU has no tiles, or the system does not allow them");
        }
        for one in loops {
            let sum = (one.run)(100, true);
            assert!((sum - (one.multiply_adds * 100) as f64).abs() < 0.5, "{}: {sum}", one.precision);
        }
    }

    #[test]
    fn sums_of_all_tiles_are_added_up() {
        let mut sums = empty();
        sums[0].0[0][..4].copy_from_slice(&7_i32.to_le_bytes());
        sums[5].0[15][60..].copy_from_slice(&(-2_i32).to_le_bytes());
        assert!((total(&sums, |bytes| f64::from(i32::from_le_bytes(bytes))) - 5.0).abs() < 1e-12);
    }
}
