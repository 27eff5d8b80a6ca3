// Products of a warpgroup: 64 rows by up to 256 columns of sums in registers, from operands in
// shared memory (`tile/shared.cuh`), of which the first may lie in registers instead.
#include "tile/ptx/tma.cuh"
#include "tile/ptx/wgmma.cuh"
#include "tile/shared.cuh"

// Layers of more columns than PART are computed in parts that are nearly alike: whole chunks of 64
// columns, the last of which may not be full. A last part of a few columns would take the time of
// many.
constexpr int PART = 256;
__device__ constexpr int parts_of(int columns) { return (columns + PART - 1) / PART; }
// The column that a part begins with.
__device__ constexpr int column_of(int columns, int part) {
    const int chunks = (columns + 63) / 64, parts = parts_of(columns), more = chunks % parts;
    return 64 * (part * (chunks / parts) + (part < more ? part : more));
}
__device__ constexpr int columns_of(int columns, int part) {
    return (part + 1 < parts_of(columns) ? column_of(columns, part + 1) : columns) - column_of(columns, part);
}

// The greatest, where blocks share the parts of something.
__device__ constexpr int common_divisor(int a, int b) { return b == 0 ? a : common_divisor(b, a % b); }

// A step is a product over 16 terms: so many for all columns, and of those for a chunk.
__device__ constexpr int steps_of(int columns) { return (columns + 15) / 16; }
__device__ constexpr int steps_in(int columns, int chunk) {
    return steps_of(columns) - 4 * chunk < 4 ? steps_of(columns) - 4 * chunk : 4;
}

// Registers of a first operand of so many columns, four a step: two columns of row `r`, of row `r +
// 8`, and the same 8 columns further on. Sums have the same order, in twice as many.
__device__ constexpr int words_of(int columns) { return 4 * steps_of(columns); }

// ---- Operands in shared memory

__device__ __forceinline__ u64 descriptor(u32 address, int chunk_bytes) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)(chunk_bytes >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

// A matrix whose columns are the terms of the sums, chunks CHUNK_BYTES apart (K-major).
template <int CHUNK_BYTES = 0>
struct Along {
    static constexpr int TRANSPOSED = 0;
    u64 first;
    __device__ __forceinline__ explicit Along(u32 address) : first(descriptor(address, 16)) {}
    __device__ __forceinline__ u64 step(int i) const { return first + (i / 4 * CHUNK_BYTES >> 4) + i % 4 * 2; }
};

// A matrix whose rows are the terms of the sums (MN-major).
template <int CHUNK_BYTES>
struct Across {
    static constexpr int TRANSPOSED = 1;
    u64 first;
    __device__ __forceinline__ explicit Across(u32 address) : first(descriptor(address, CHUNK_BYTES)) {}
    __device__ __forceinline__ u64 step(int i) const { return first + i * (16 * ROW_BYTES >> 4); }
    // The same from a step on.
    __device__ __forceinline__ Across from(int i) const {
        Across rest = *this;
        rest.first = step(i);
        return rest;
    }
};

// Queues STEPS products: the sums, unless they are ADDed to, are new.
template <int STEPS, class A, class B, int N, int = A::TRANSPOSED>
__device__ __forceinline__ void multiply(float (&sums)[N], A a, B b, bool add) {
#pragma unroll
    for (int i = 0; i < STEPS; ++i) wgmma<A::TRANSPOSED, B::TRANSPOSED>(sums, a.step(i), b.step(i), add || i > 0);
}
template <int STEPS, class B, int N>
__device__ __forceinline__ void multiply(float (&sums)[N], const u32 *a, B b, bool add) {
#pragma unroll
    for (int i = 0; i < STEPS; ++i)
        wgmma<B::TRANSPOSED>(sums, a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3], b.step(i), add || i > 0);
}

// Of the terms, chunk `chunk` of COLUMNS, which lies in places of its own: the sums are new in the
// first.
template <int COLUMNS, class A, class B, int N>
__device__ __forceinline__ void multiply_chunk(float (&sums)[N], A a, B b, int chunk) {
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < steps_in(COLUMNS, chunk); ++i)
        wgmma<A::TRANSPOSED, B::TRANSPOSED>(sums, a.step(i), b.step(4 * chunk + i), chunk + i > 0);
}

template <int COLUMNS, bool ADD, class B, int N>
__device__ __forceinline__ void multiply_chunk(float (&sums)[N], const u32 *a, B b, int chunk) {
    wgmma_fence();
#pragma unroll
    for (int i = 4 * chunk; i < 4 * chunk + steps_in(COLUMNS, chunk); ++i)
        wgmma<B::TRANSPOSED>(sums, a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3], b.step(i - 4 * chunk), ADD || i > 0);
}

// COUNT groups of products, one after the other: `queue(i)` waits for operands and multiplies. If
// they are LEFT, `leave(i)` is called when the group after it is under way and it has ended itself;
// `queued` when all are under way.
template <int COUNT, bool LEFT, class Queue, class Leave, class Queued>
__device__ __forceinline__ void queue_all(Queue queue, Leave leave, Queued queued) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        queue(i);
        wgmma_commit();
        if (LEFT && i > 0) {
            wgmma_wait<1>();
            leave(i - 1);
        }
    }
    queued();
    wgmma_wait<0>();
    if (LEFT) leave(COUNT - 1);
}
template <int COUNT, bool LEFT, class Queue, class Leave>
__device__ __forceinline__ void queue_all(Queue queue, Leave leave) {
    queue_all<COUNT, LEFT>(queue, leave, [] {});
}

// Sums that are complete.
template <int N>
__device__ __forceinline__ void wait_for_sums(float (&sums)[N]) {
    wgmma_wait<0>();
    wgmma_complete(sums);
}

// New sums, complete at once.
template <int STEPS, class A, class B, int N>
__device__ __forceinline__ void product(float (&sums)[N], A a, B b) {
    wgmma_fence();
    multiply<STEPS>(sums, a, b, false);
    wgmma_commit();
    wait_for_sums(sums);
}

template <int N>
__device__ __forceinline__ void zero(float (&sums)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] = 0.0f;
}

// What this thread has of the sums: `f(rows, columns, low, high)` for each two neighbors in a row,
// so many rows and columns beyond its first.
template <int N, class F>
__device__ __forceinline__ void each_pair(const float (&sums)[N], F f) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int c = 0; c < 2 * N; c += 8) f(8 * half, c, sums[c / 2 + 2 * half], sums[c / 2 + 2 * half + 1]);
}

// The same number in all threads of a warp, which the compiler then knows.
__device__ __forceinline__ int uniform(int x) { return __shfl_sync(~0u, x, 0); }
