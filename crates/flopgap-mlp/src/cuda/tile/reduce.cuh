// The one reduction over what blocks found, always in the same order: of every number, PARTS
// threads each add a part of the addends, then the parts are added in their order.
#include "tile/ptx/convert.cuh"

__device__ __forceinline__ void add(float &sum, float more) { sum += more; }
__device__ __forceinline__ void add(float4 &sum, float4 more) {
    sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
}

// What a block found: to a place of its own, or added to what all blocks find.
template <bool ATOMIC>
__device__ __forceinline__ void give(float *to, float value) {
    if constexpr (ATOMIC) atomicAdd(to, value);
    else *to = value;
}
template <bool ATOMIC>
__device__ __forceinline__ void give(float *to, float2 value) {
    if constexpr (ATOMIC) atomicAdd(to, value.x), atomicAdd(to + 1, value.y);
    else *reinterpret_cast<float2 *>(to) = value;
}
template <bool ATOMIC>
__device__ __forceinline__ void give(float *to, float4 value) {
    if constexpr (ATOMIC) atomicAdd(to, value.x), atomicAdd(to + 1, value.y), atomicAdd(to + 2, value.z), atomicAdd(to + 3, value.w);
    else *reinterpret_cast<float4 *>(to) = value;
}

// Addends `from`, `from + step`, ... below `end`.
struct Addends {
    u32 from, end, step;
};
// Every so-manieth addend, or a run of them.
template <int PARTS>
__device__ __forceinline__ Addends in_turns(u32 part, u32 count) {
    return {part, count, PARTS};
}
template <int PARTS>
__device__ __forceinline__ Addends in_runs(u32 part, u32 count) {
    const u32 each = (count + PARTS - 1) / PARTS;
    return {part * each, min((part + 1) * each, count), 1};
}

// A block of PARTS * LANES threads sums LANES numbers of type T (a float or four), of one of which
// this thread has a part. The result goes to `to`, if there is such a number.
template <int LANES, int PARTS, class T>
__device__ __forceinline__ void add_parts(T *to, bool there, T sum) {
    __shared__ T parts[PARTS][LANES];
    const int lane = threadIdx.x % LANES, part = threadIdx.x / LANES;
    parts[part][lane] = sum;
    __syncthreads();
    if (part == 0 && there) {
#pragma unroll
        for (int other = 1; other < PARTS; ++other) add(sum, parts[other][lane]);
        *to = sum;
    }
}

// The same from the start: `addend(i)` gives the i-th addend.
template <int LANES, int PARTS, int UNROLL, class T, class Addend>
__device__ __forceinline__ void reduce(T *to, bool there, Addends mine, Addend addend) {
    T sum = {};
    if (there)
#pragma unroll UNROLL
        for (u32 i = mine.from; i < mine.end; i += mine.step) add(sum, addend(i));
    add_parts<LANES, PARTS>(to, there, sum);
}

// The same for the gradients of all parameters, four to a thread, of which `found` has one array
// for each of `count` blocks.
template <int LANES, int PARTS, int UNROLL>
__device__ __forceinline__ void reduce_gradients(const float *found, float *gradients, u32 count) {
    const u32 at = (blockIdx.x * LANES + threadIdx.x % LANES) * 4;
    reduce<LANES, PARTS, UNROLL>((float4 *)(gradients + at), at < PARAMETERS, in_turns<PARTS>(threadIdx.x / LANES, count),
                                 [&](u32 i) { return *(const float4 *)(found + (u64)i * PARAMETERS + at); });
}
