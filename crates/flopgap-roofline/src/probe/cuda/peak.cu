// Peaks of arithmetic: loops of nothing but multiply-adds, on operands that never leave registers
// or shared memory.
//
// Operands are `hash & keep | set`: random numbers of a magnitude, or the same number everywhere,
// with which every sum is known.

typedef unsigned u32;
typedef unsigned long long u64;

__device__ __forceinline__ u64 nanoseconds() {
    u64 time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}

// Cycles and nanoseconds of the first thread, for the clock.
struct Clock {
    u64 cycles, time;
    __device__ __forceinline__ void begin() { time = nanoseconds(), cycles = clock64(); }
    __device__ __forceinline__ void end(u64 *clock) {
        if (blockIdx.x == 0 && threadIdx.x == 0) clock[0] = clock64() - cycles, clock[1] = nanoseconds() - time;
    }
};

// A mixing function of 32 bits (lowbias32 by Chris Wellons).
__device__ __forceinline__ u32 mix(u32 x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

__device__ __forceinline__ u32 thread_number() { return blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void empty() {}

// 16 sums; a step is 8 multiply-adds to each. With ones every sum ends at the number of
// multiply-adds.
extern "C" __global__ void __launch_bounds__(256) peak_fma(u32 steps, u32 keep, u32 set, float *sums, u64 *clock) {
    float x[16], a[4], b[4];
#pragma unroll
    for (int i = 0; i < 16; ++i) x[i] = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        a[i] = __uint_as_float(mix(thread_number() + i) & keep | set);
        b[i] = __uint_as_float(mix(~thread_number() - i) & keep | set);
    }
    Clock watch;
    watch.begin();
#pragma unroll 1
    for (u32 step = 0; step < steps; ++step) {
#pragma unroll
        for (int j = 0; j < 8; ++j)
#pragma unroll
            for (int i = 0; i < 16; ++i) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x[i]) : "f"(a[j % 4]), "f"(b[j % 4]));
    }
    watch.end(clock);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) sum += x[i];
    sums[thread_number()] = sum;
}

// ---- mma.sync: eight tiles of sums, of two operands on the left and four on the right; a step is
// four products to each.

template <typename Sum>
struct Tile {
    Sum d[4];
};

#if __CUDA_ARCH__ >= 800
#define MMA(NAME, INSTRUCTION, SUM, C)                                                                                              \
    struct NAME {                                                                                                                   \
        typedef SUM Sum;                                                                                                            \
        __device__ __forceinline__ static void multiply(Tile<SUM> &t, const u32 (&a)[4], const u32 (&b)[2]) {                       \
            asm volatile("mma.sync.aligned." INSTRUCTION " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"         \
                         : "+" C(t.d[0]), "+" C(t.d[1]), "+" C(t.d[2]), "+" C(t.d[3])                                               \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                       \
        }                                                                                                                           \
    };
MMA(Fp16, "m16n8k16.row.col.f32.f16.f16.f32", float, "f")
MMA(Bf16, "m16n8k16.row.col.f32.bf16.bf16.f32", float, "f")
MMA(Tf32, "m16n8k8.row.col.f32.tf32.tf32.f32", float, "f")
MMA(Int8, "m16n8k32.row.col.s32.s8.s8.s32", int, "r")
#else
// Turing: half as long or smaller, and neither bf16 nor tf32.
struct Fp16 {
    typedef float Sum;
    __device__ __forceinline__ static void multiply(Tile<float> &t, const u32 (&a)[4], const u32 (&b)[2]) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : "+f"(t.d[0]), "+f"(t.d[1]), "+f"(t.d[2]), "+f"(t.d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    }
};
struct Int8 {
    typedef int Sum;
    __device__ __forceinline__ static void multiply(Tile<int> &t, const u32 (&a)[4], const u32 (&b)[2]) {
        asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+r"(t.d[0]), "+r"(t.d[1])
                     : "r"(a[0]), "r"(b[0]));
    }
};
#endif

template <typename Kind>
__device__ __forceinline__ void peak_mma(u32 steps, u32 keep, u32 set, float *sums, u64 *clock) {
    typedef typename Kind::Sum Sum;
    u32 a[2][4], b[4][2];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        a[i / 4][i % 4] = mix(thread_number() * 16 + i) & keep | set;
        b[i / 2][i % 2] = mix(thread_number() * 16 + 8 + i) & keep | set;
    }
    Tile<Sum> tiles[8] = {};
    Clock watch;
    watch.begin();
#pragma unroll 1
    for (u32 step = 0; step < steps; ++step) {
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int i = 0; i < 8; ++i) Kind::multiply(tiles[i], a[i / 4], b[(i + j) % 4]);
    }
    watch.end(clock);
    Sum sum = 0;
#pragma unroll
    for (int i = 0; i < 32; ++i) sum += tiles[i / 4].d[i % 4];
    sums[thread_number()] = (float)sum;
}

#define PEAK_MMA(NAME, KIND)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) NAME(u32 steps, u32 keep, u32 set, float *sums, u64 *clock) {           \
        peak_mma<KIND>(steps, keep, set, sums, clock);                                                                        \
    }
PEAK_MMA(peak_mma_fp16, Fp16)
PEAK_MMA(peak_mma_int8, Int8)
#if __CUDA_ARCH__ >= 800
PEAK_MMA(peak_mma_bf16, Bf16)
PEAK_MMA(peak_mma_tf32, Tf32)
#endif
