//! The text of the instructions for as many columns as a network needs: there are 32 of each kind,
//! and an operand for every accumulator.

use std::fmt::Write as _;

use crate::Precision;

/// A function `wgmma(sums, a..., b, accumulate)` for every number of columns: `sums` has half as
/// many numbers, `a` is an operand in shared memory or four registers, and sums are overwritten
/// unless `accumulate`. `TRANSPOSE_A` and `TRANSPOSE_B` say that an operand in shared memory has
/// its rows along the sum.
pub(in crate::cuda) fn functions(precision: Precision, columns: impl IntoIterator<Item = usize>) -> String {
    let mut columns: Vec<usize> = columns.into_iter().collect();
    columns.sort_unstable();
    columns.dedup();
    let mut text = String::new();
    for columns in columns {
        function(&mut text, precision, columns, false);
        function(&mut text, precision, columns, true);
    }
    text
}

fn function(text: &mut String, precision: Precision, columns: usize, registers: bool) {
    let element = if precision == Precision::F16 { "f16" } else { "bf16" };
    let sums = columns / 2;
    let list = |from: usize, to: usize| (from..to).map(|i| format!("%{i}")).collect::<Vec<_>>().join(", ");
    let after_a = if registers { sums + 4 } else { sums + 1 };
    let (template, parameters, a, inputs, flags, transposes) = if registers {
        (
            "template <int TRANSPOSE_B = 0>",
            "unsigned a0, unsigned a1, unsigned a2, unsigned a3",
            format!("{{{}}}", list(sums, after_a)),
            "\"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3)",
            format!("%{}", after_a + 2),
            "\"n\"(TRANSPOSE_B)",
        )
    } else {
        (
            "template <int TRANSPOSE_A = 0, int TRANSPOSE_B = 0>",
            "unsigned long long a",
            list(sums, after_a),
            "\"l\"(a)",
            format!("%{}, %{}", after_a + 2, after_a + 3),
            "\"n\"(TRANSPOSE_A), \"n\"(TRANSPOSE_B)",
        )
    };
    let outputs = (0..sums).map(|i| format!("\"+f\"(d[{i}])")).collect::<Vec<_>>().join(", ");
    let _ = write!(
        text,
        "{template} __device__ __forceinline__ void wgmma(float (&d)[{sums}], {parameters}, unsigned long long b, int accumulate) {{\n\
         asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{}, 0;\\n\"\n\
         \"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{element}.{element} {{{}}}, {a}, %{after_a}, p, 1, 1, {flags};\\n}}\"\n\
         : {outputs} : {inputs}, \"l\"(b), \"r\"(accumulate), {transposes});\n}}\n",
        after_a + 1,
        list(0, sums),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_columns_comes_once() {
        let text = functions(Precision::Bf16, [16, 8, 16]);
        assert_eq!(text.matches("m64n16k16.f32.bf16.bf16").count(), 2);
        assert_eq!(text.matches("m64n8k16").count(), 2);
        assert!(text.contains("m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, %7, %8;"), "{text}");
        assert!(text.contains("{%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, 1, %10;"), "{text}");
    }
}
