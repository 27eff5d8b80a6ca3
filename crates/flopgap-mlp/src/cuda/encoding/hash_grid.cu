// A hash grid for a batch, and the gradients by its table and by the positions. A block takes 32
// samples, a sample for each lane, and its warps take the levels: what a warp loads lies in one
// level, and all its lanes compute the same way. Rows of the batch go through shared memory, so
// that global memory sees whole lines.
#include "tile/encoding.cuh"
#include "tile/ptx/reduction.cuh"

constexpr int SAMPLES = 32, WARPS = THREADS / 32;
// Numbers of 32 bits, and of a row in shared memory: an odd number of words, so that the lanes of a
// warp, each in its row, use different banks.
constexpr int OF_WORD = 4 / (int)sizeof(Storage), PITCH = OF_WORD * ((ENCODING_WIDTH + OF_WORD - 1) / OF_WORD | 1);

// Calls copy(number of the block's part of the batch, number of `rows`) for each `STEP` numbers.
template <int STEP, class Copy>
__device__ __forceinline__ void for_rows(u32 count, const Copy &copy) {
    constexpr u32 OF_ROW = ENCODING_WIDTH / STEP;
    for (u32 i = threadIdx.x; i < count * OF_ROW; i += THREADS) copy(i * STEP, i / OF_ROW * PITCH + i % OF_ROW * STEP);
}

// A word where rows are whole words, otherwise a number.
typedef Known<ENCODING_WIDTH % OF_WORD == 0 ? OF_WORD : 1> Step;

__device__ __forceinline__ void copy_numbers(const Storage *from, Storage *to) {
    if constexpr (Step{} == OF_WORD) *reinterpret_cast<u32 *>(to) = *reinterpret_cast<const u32 *>(from);
    else *to = *from;
}

// Samples beyond the batch are the last one again; nothing of theirs is written.
__device__ __forceinline__ void load_position(const float *positions, u32 sample, u32 batch, float (&position)[ENCODING_DIMENSIONS]) {
    const float *const from = positions + (u64)(sample < batch ? sample : batch - 1) * ENCODING_DIMENSIONS;
#pragma unroll
    for (int d = 0; d < ENCODING_DIMENSIONS; ++d) position[d] = from[d];
}

extern "C" __global__ __launch_bounds__(THREADS) void hash_grid_encoding_gather(const Storage *__restrict__ table,
                                                                                const float *__restrict__ positions,
                                                                                Storage *__restrict__ x, u32 batch) {
    __shared__ __align__(16) Storage rows[SAMPLES * PITCH];
    const u32 first = blockIdx.x * SAMPLES, lane = threadIdx.x % 32;
    float position[ENCODING_DIMENSIONS];
    load_position(positions, first + lane, batch, position);
    for (int level = threadIdx.x / 32; level < LEVELS; level += WARPS) {
        float features[FEATURES];
        encode_level(table, grid_levels[level], position, features);
#pragma unroll
        for (int f = 0; f < FEATURES; ++f) rows[lane * PITCH + level * FEATURES + f] = narrow(features[f]);
    }
    __syncthreads();
    Storage *const to = x + (u64)first * ENCODING_WIDTH;
    for_rows<Step{}>(min(batch - first, (u32)SAMPLES), [&](u32 of_batch, u32 of_rows) { copy_numbers(rows + of_rows, to + of_batch); });
}

// Adds a multiple of `by_features` to the gradient by an entry.
__device__ __forceinline__ void add_entry(float *gradients, u32 entry, float weight, const float (&by_features)[FEATURES]) {
    float *const to = gradients + (u64)entry * FEATURES;
    const auto term = [&](int f) { return weight * by_features[f]; };
    if constexpr (FEATURES % 4 == 0) {
#pragma unroll
        for (int f = 0; f < FEATURES; f += 4) add_atomically(to + f, term(f), term(f + 1), term(f + 2), term(f + 3));
    } else if constexpr (FEATURES == 2) {
        add_atomically(to, term(0), term(1));
    } else {
        add_atomically(to, term(0));
    }
}

// `of_table`, to which is added, and `of_positions`, which is overwritten: null where not wanted.
extern "C" __global__ __launch_bounds__(THREADS) void hash_grid_encoding_scatter(const Storage *__restrict__ table,
                                                                                 const float *__restrict__ positions,
                                                                                 const Storage *__restrict__ dx, float *of_table,
                                                                                 float *of_positions, u32 batch) {
    __shared__ __align__(16) Storage rows[SAMPLES * PITCH];
    // For each warp the sums over its levels.
    __shared__ float sums[WARPS][ENCODING_DIMENSIONS][SAMPLES];
    const u32 first = blockIdx.x * SAMPLES, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 count = min(batch - first, (u32)SAMPLES);
    const Storage *const from = dx + (u64)first * ENCODING_WIDTH;
    for_rows<Step{}>(count, [&](u32 of_batch, u32 of_rows) { copy_numbers(from + of_batch, rows + of_rows); });
    __syncthreads();
    float position[ENCODING_DIMENSIONS], sum[ENCODING_DIMENSIONS] = {};
    load_position(positions, first + lane, batch, position);
    for (int level = warp; level < LEVELS && lane < count; level += WARPS) {
        const GridLevel grid = grid_levels[level];
        const GridCell cell(grid, position);
        float by_features[FEATURES];
#pragma unroll
        for (int f = 0; f < FEATURES; ++f) by_features[f] = widen(rows[lane * PITCH + level * FEATURES + f]);
#pragma unroll
        for (int vertex = 0; vertex < VERTICES; ++vertex) {
            const u32 entry = cell.entry(grid, vertex);
            if (of_table) add_entry(of_table, entry, cell.weight(vertex), by_features);
            if (!of_positions) continue;
            float features[FEATURES], by_weight = 0.0f;
            load_entry(table, entry, features);
#pragma unroll
            for (int f = 0; f < FEATURES; ++f) by_weight = fmaf(by_features[f], features[f], by_weight);
            by_weight *= (float)grid.resolution;
#pragma unroll
            for (int d = 0; d < ENCODING_DIMENSIONS; ++d)
                sum[d] += (vertex >> d & 1 ? by_weight : -by_weight) * cell.weight(vertex, d);
        }
    }
    if (!of_positions) return;
#pragma unroll
    for (int d = 0; d < ENCODING_DIMENSIONS; ++d) sums[warp][d][lane] = sum[d];
    __syncthreads();
    for (u32 i = threadIdx.x; i < count * ENCODING_DIMENSIONS; i += THREADS) {
        const u32 sample = i / ENCODING_DIMENSIONS, d = i % ENCODING_DIMENSIONS;
        const u64 number = (u64)first * ENCODING_DIMENSIONS + i;
        const float place = positions[number];
        float gradient = 0.0f;
#pragma unroll
        for (int of = 0; of < WARPS; ++of) gradient += sums[of][d][sample];
        // Outside, all positions are the nearest inside.
        of_positions[number] = place >= 0.0f && place <= 1.0f ? gradient : 0.0f;
    }
}
