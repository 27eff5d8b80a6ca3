// Peaks of `wgmma`: both operands in shared memory, 64 x 256 sums in the registers of a warpgroup.
// Comes after `peak.cu` and the functions `wgmma_fp16`, ..., for compute capability 9.0 alone.
//
// Rows of 128 bytes, swizzled: 64 of each warpgroup on the left, 256 on the right. A product takes
// 32 bytes of each row, whatever the type.

// The rows that begin at this address, a multiple of 1024: 8 rows are 1024 bytes; the swizzle of
// 128 bytes.
__device__ __forceinline__ u64 operand(u32 address) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

// A step is 16 products of each warpgroup.
#define PEAK_WGMMA(NAME, SUM, WGMMA)                                                                                                \
    extern "C" __global__ void __launch_bounds__(256, 1) NAME(u32 steps, u32 keep, u32 set, float *sums, u64 *clock) {              \
        __shared__ __align__(1024) u32 rows[(2 * 64 + 256) * 32];                                                                   \
        for (u32 i = threadIdx.x; i < sizeof(rows) / 4; i += blockDim.x) rows[i] = mix(thread_number() * 64 + i) & keep | set;      \
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");                                                                \
        __syncthreads();                                                                                                            \
        const u32 base = (u32)__cvta_generic_to_shared(rows), group = __shfl_sync(~0u, threadIdx.x / 128, 0);                       \
        const u64 a = operand(base + group * 64 * 128), b = operand(base + 2 * 64 * 128);                                           \
        SUM d[128];                                                                                                                 \
        _Pragma("unroll") for (int i = 0; i < 128; ++i) d[i] = 0;                                                                   \
        Clock watch;                                                                                                                \
        watch.begin();                                                                                                              \
        _Pragma("unroll 1") for (u32 step = 0; step < steps; ++step) {                                                              \
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");                                                                 \
            _Pragma("unroll") for (int j = 0; j < 16; ++j) WGMMA(d, a + 2 * (j % 4), b + 2 * (j % 4));                              \
            asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");                        \
        }                                                                                                                           \
        watch.end(clock);                                                                                                           \
        SUM sum = 0;                                                                                                                \
        _Pragma("unroll") for (int i = 0; i < 128; ++i) sum += d[i];                                                                \
        sums[thread_number()] = (float)sum;                                                                                         \
    }
PEAK_WGMMA(peak_wgmma_fp16, float, wgmma_fp16)
PEAK_WGMMA(peak_wgmma_bf16, float, wgmma_bf16)
PEAK_WGMMA(peak_wgmma_tf32, float, wgmma_tf32)
PEAK_WGMMA(peak_wgmma_int8, int, wgmma_int8)
