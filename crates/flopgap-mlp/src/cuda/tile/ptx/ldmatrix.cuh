// Four 8 x 8 matrices of 16-bit numbers between shared memory and registers, as `mma` and `wgmma`
// have them: of lane 4g + t, word i is columns 2t and 2t + 1 of row g of matrix i. Lane l gives the
// address of row l % 8 of matrix l / 8.
#include "tile/ptx/convert.cuh"

__device__ __forceinline__ void load_matrices(u32 (&words)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
}

// The same of transposed matrices.
__device__ __forceinline__ void load_transposed(u32 (&words)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
}

// The other way round, from sm_90 on.
__device__ __forceinline__ void store_matrices(u32 address, const u32 (&words)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]),
                 "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}
