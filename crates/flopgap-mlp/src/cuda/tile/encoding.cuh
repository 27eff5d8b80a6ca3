// What the first layer of a network takes of a position, for a thread with a position of its own:
//
// encode(table, position, x)    x[ENCODING_WIDTH] from position[ENCODING_DIMENSIONS]
//
// The table is that of `Encoder::table`; a frequency encoding has none, and reads nothing there.
// `Frequency` and `HashGrid` of the crate define the numbers.
#include "tile/number.cuh"

#if ENCODING == ENCODING_FREQUENCY

// The phase of an octave in half turns: exact, and so is its reduction by whole turns.
__device__ __forceinline__ float half_turns(float place, int octave) { return place * (float)(1 << octave); }

__device__ __forceinline__ void encode(const Storage *, const float (&position)[ENCODING_DIMENSIONS], float (&x)[ENCODING_WIDTH]) {
#pragma unroll
    for (int i = 0; i < ENCODING_WIDTH / 2; ++i) sincospif(half_turns(position[i / OCTAVES], i % OCTAVES), &x[2 * i], &x[2 * i + 1]);
}

#else

// A grid: cells along each axis, its first entry, and for a level whose entries vertices share by a
// hash their number less one; 0 where each vertex has its own.
struct GridLevel {
    u32 resolution, first, mask;
};

__constant__ const GridLevel grid_levels[LEVELS] = {GRID_LEVELS};

// The cell of a position, and where in it the position lies, from 0 to 1.
struct GridCell {
    u32 corner[ENCODING_DIMENSIONS];
    float rest[ENCODING_DIMENSIONS];

    __device__ __forceinline__ GridCell(const GridLevel &level, const float (&position)[ENCODING_DIMENSIONS]) {
        const float cells = (float)level.resolution;
#pragma unroll
        for (int d = 0; d < ENCODING_DIMENSIONS; ++d) {
            // NaN is 0: an entry of the table in any case.
            const float within = fminf(fmaxf(position[d], 0.0f), 1.0f);
            float number = fminf(floorf(within * cells), cells - 1.0f);
            // Rounded once, where the product alone would lose what lies in a fine cell.
            float part = fmaf(within, cells, -number);
            // The product was rounded up to the next cell.
            if (part < 0.0f) number -= 1.0f, part += 1.0f;
            corner[d] = (u32)number;
            rest[d] = part;
        }
    }

    // A vertex, numbered by the bits of `vertex`, one for each dimension: its entry in the table.
    __device__ __forceinline__ u32 entry(const GridLevel &level, int vertex) const {
        const u32 primes[3] = {1u, 2654435761u, 805459861u};
        u32 place = 0;
#pragma unroll
        for (int d = ENCODING_DIMENSIONS - 1; d >= 0; --d) {
            const u32 at = corner[d] + (vertex >> d & 1);
            if (level.mask) place ^= at * primes[d];
            else place = place * (level.resolution + 1) + at;
        }
        return level.first + (level.mask ? place & level.mask : place);
    }

    // The product over all dimensions but `left_out` of how near the position is to the vertex.
    __device__ __forceinline__ float weight(int vertex, int left_out = -1) const {
        float product = 1.0f;
#pragma unroll
        for (int d = 0; d < ENCODING_DIMENSIONS; ++d)
            if (d != left_out) product *= vertex >> d & 1 ? rest[d] : 1.0f - rest[d];
        return product;
    }
};

constexpr int VERTICES = 1 << ENCODING_DIMENSIONS;

// An entry, in as few loads as its bytes take.
__device__ __forceinline__ void load_entry(const Storage *table, u32 entry, float (&to)[FEATURES]) {
    const Storage *const from = table + (u64)entry * FEATURES;
    if constexpr (FEATURES % UNIT == 0) {
#pragma unroll
        for (int i = 0; i < FEATURES; i += UNIT) {
            const Numbers numbers(__ldg(reinterpret_cast<const uint4 *>(from + i)));
#pragma unroll
            for (int j = 0; j < UNIT; ++j) to[i + j] = numbers.value[j];
        }
    } else if constexpr (FEATURES == 4) {
        float4 v;
        load4(from, v);
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    } else if constexpr (FEATURES == 2) {
        load2(from, to[0], to[1]);
    } else {
        to[0] = widen(*from);
    }
}

// The features of a level.
__device__ __forceinline__ void encode_level(const Storage *table, const GridLevel &level, const float (&position)[ENCODING_DIMENSIONS],
                                             float (&features)[FEATURES]) {
    const GridCell cell(level, position);
    // All loads before the first sum: they take as long as one.
    float entries[VERTICES][FEATURES];
#pragma unroll
    for (int vertex = 0; vertex < VERTICES; ++vertex) load_entry(table, cell.entry(level, vertex), entries[vertex]);
#pragma unroll
    for (int f = 0; f < FEATURES; ++f) features[f] = 0.0f;
#pragma unroll
    for (int vertex = 0; vertex < VERTICES; ++vertex) {
        const float weight = cell.weight(vertex);
#pragma unroll
        for (int f = 0; f < FEATURES; ++f) features[f] = fmaf(weight, entries[vertex][f], features[f]);
    }
}

__device__ __forceinline__ void encode(const Storage *table, const float (&position)[ENCODING_DIMENSIONS], float (&x)[ENCODING_WIDTH]) {
#pragma unroll
    for (int level = 0; level < LEVELS; ++level) {
        float features[FEATURES];
        encode_level(table, grid_levels[level], position, features);
#pragma unroll
        for (int f = 0; f < FEATURES; ++f) x[level * FEATURES + f] = features[f];
    }
}

#endif
