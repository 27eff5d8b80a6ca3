// Products of the tensor cores by `mma.sync`: 16 rows and 8 columns of sums, in two registers a
// row. Of lane 4g + t, (d0, d1) are columns 2t and 2t + 1 of row g, (d2, d3) those of row g + 8.
// Operands are pairs of 16-bit numbers.
#include "tile/ptx/convert.cuh"

#if STORAGE == STORAGE_BF16
#define MMA_TYPES "f32.bf16.bf16.f32"
#else
#define MMA_TYPES "f32.f16.f16.f32"
#endif

// The number one twice: a product with ones sums.
constexpr u32 ONES = STORAGE == STORAGE_F16 ? 0x3c003c00 : 0x3f803f80;

// 8 along the inner dimension.
__device__ __forceinline__ void mma_k8(float &d0, float &d1, float &d2, float &d3, u32 a0, u32 a1, u32 b0) {
    asm("mma.sync.aligned.m16n8k8.row.col." MMA_TYPES " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
        : "r"(a0), "r"(a1), "r"(b0));
}

// The same with sums in half precision, two to a register.
__device__ __forceinline__ void mma_k8(u32 &above, u32 &below, u32 a0, u32 a1, u32 b0) {
    asm("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
        : "+r"(above), "+r"(below)
        : "r"(a0), "r"(a1), "r"(b0));
}

// 16 along the inner dimension; before sm_80 twice 8.
__device__ __forceinline__ void mma_k16(float &d0, float &d1, float &d2, float &d3, u32 a0, u32 a1, u32 a2, u32 a3,
                                        u32 b0, u32 b1) {
#if ARCHITECTURE >= 800
    asm("mma.sync.aligned.m16n8k16.row.col." MMA_TYPES
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
    mma_k8(d0, d1, d2, d3, a0, a1, b0);
    mma_k8(d0, d1, d2, d3, a2, a3, b1);
#endif
}

__device__ __forceinline__ void mma_k16(u32 &above, u32 &below, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
#if ARCHITECTURE >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
        : "+r"(above), "+r"(below)
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
    mma_k8(above, below, a0, a1, b0);
    mma_k8(above, below, a2, a3, b1);
#endif
}
