// A tile of samples through all layers, forward or backward: activations in two buffers of shared
// memory that take turns, weights in shared memory, all of them or in slabs that come in a ring.
#include "tile/padded.cuh"

// The inner dimension of a layer's product, and the columns of its result. Forward, weights lie by
// columns of the right operand; backward by rows.
__device__ constexpr int inner(int layer) { return BACKWARD ? width(layer + 1) : width(layer); }
__device__ constexpr int outer(int layer) { return BACKWARD ? width(layer) : width(layer + 1); }
__device__ constexpr int layer_at(int step) { return BACKWARD ? LAYERS - 1 - step : step; }

// So many columns are summed at a time.
__device__ constexpr int chunks_of(int columns) { return (columns + CHUNK - 1) / CHUNK; }
__device__ constexpr int chunk_of(int columns) { return round_up((columns + chunks_of(columns) - 1) / chunks_of(columns), 16); }
__device__ constexpr int slabs_of(int inner) { return (inner + SLAB - 1) / SLAB; }
__device__ constexpr int widest_chunk() {
    int widest = 0;
    for (int layer = 0; layer < LAYERS; ++layer) widest = chunk_of(outer(layer)) > widest ? chunk_of(outer(layer)) : widest;
    return widest;
}

// ---- Shared memory, in elements: weights, then the inputs of even steps, then those of odd ones.

constexpr int SLAB_PITCH = BACKWARD ? pitch(widest_chunk()) : SLAB + 8;
constexpr int SLAB_ELEMENTS = (BACKWARD ? SLAB : widest_chunk()) * SLAB_PITCH;

// Where the weights of a layer lie if all of them are there: rows in multiples of 16.
__device__ constexpr int resident_at(int layer) {
    int at = 0;
    for (int before = 0; before < layer; ++before) at += round_up(width(before + 1), 16) * pitch(width(before));
    return at;
}
constexpr int WEIGHTS_ELEMENTS = RESIDENT ? resident_at(LAYERS) : STAGES * SLAB_ELEMENTS;

__device__ constexpr int buffer_elements(int parity) {
    int most = 0;
    for (int step = parity; step < LAYERS; step += 2)
        most = pitch(inner(layer_at(step))) > most ? pitch(inner(layer_at(step))) : most;
    return TILE * most;
}
constexpr int BUFFERS_END = WEIGHTS_ELEMENTS + buffer_elements(0) + buffer_elements(1);

// What a warp computes of a product with so many columns.
template <int COLUMNS>
using Share = WarpShare<TILE, COLUMNS, chunk_of(COLUMNS)>;

__device__ constexpr bool first_of_its_widths(int layer) {
    for (int before = 0; before < layer; ++before)
        if (width(before) == width(layer) && width(before + 1) == width(layer + 1)) return false;
    return true;
}

// In networks of more layers than this, widths are read at run time to copy weights. Every layer
// has the code that copies those of any, so that code for each would grow with the square of the
// layers, and the compiler's time with it.
constexpr int LAYERS_WITH_OWN_COPIES = 6;

// Copies what of a layer begins at `k` along the inner dimension and at column `n`.
__device__ __forceinline__ void copy_slab_of_any(const Storage *parameters, int layer, int k, int n, u32 to) {
    const int stride = width(layer), left_inner = inner(layer) - k, left_outer = outer(layer) - n, columns = chunk_of(outer(layer));
    const int rows = BACKWARD ? SLAB : columns, pieces = (BACKWARD ? columns : SLAB) / 8;
    const int there = BACKWARD ? left_inner : left_outer, wide = BACKWARD ? left_outer : left_inner;
    const Storage *const from = parameters + weights_at(layer) + (BACKWARD ? k * stride + n : n * stride + k);
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * pieces; i += THREADS) {
        const int row = i / pieces, column = i % pieces * 8;
        const bool valid = row < there && column < wide;
        copy_async_or_zero(to + (row * SLAB_PITCH + column) * 2, valid ? from + (u64)row * stride + column : from, valid);
    }
}

// The weights, as the products read them.
struct Weights {
    const Storage *parameters;
    u32 shared;
    // Which slab is copied next.
    int steps, step, chunk, slab;
    CopyRing<STAGES> ring;

    __device__ __forceinline__ Weights(const Storage *parameters, u32 shared, int steps)
        : parameters(parameters), shared(shared), steps(steps), step(0), chunk(0), slab(0) {
        if constexpr (RESIDENT) {
#pragma unroll 1
            for (int layer = 0; layer < LAYERS; ++layer) {
                const int columns = width(layer), rows = round_up(width(layer + 1), 16), padded = round_up(columns, 16);
                const u32 to = shared + resident_at(layer) * 2;
                for (int i = threadIdx.x; i < rows * (padded / 8); i += THREADS) {
                    const int row = i / (padded / 8), column = i % (padded / 8) * 8;
                    const bool there = row < width(layer + 1) && column < columns;
                    copy_async_or_zero(to + (row * pitch(columns) + column) * 2,
                           parameters + weights_at(layer) + (there ? row * columns + column : 0), there);
                }
            }
            commit_copies();
        } else {
            for (int stage = 0; stage < STAGES - 1; ++stage) copy_next();
        }
    }

    // Copies what of a layer begins at `k` along the inner dimension and at column `n`: the code of
    // the first layer of its widths does.
    template <int LAYER>
    __device__ __forceinline__ void copy_slab(int layer, int k, int n, u32 to) const {
        if constexpr (first_of_its_widths(LAYER)) {
            if (width(layer) == width(LAYER) && width(layer + 1) == width(LAYER + 1)) {
                constexpr int COLUMNS = chunk_of(outer(LAYER)), STRIDE = width(LAYER);
                const Storage *from = parameters + weights_at(layer);
                if constexpr (BACKWARD)
                    copy_tile<SLAB, COLUMNS, SLAB_PITCH, STRIDE>(to, from + k * STRIDE + n, inner(LAYER) - k, outer(LAYER) - n);
                else
                    copy_tile<COLUMNS, SLAB, SLAB_PITCH, STRIDE>(to, from + n * STRIDE + k, outer(LAYER) - n, inner(LAYER) - k);
                return;
            }
        }
        if constexpr (LAYER + 1 < LAYERS) copy_slab<LAYER + 1>(layer, k, n, to);
    }

    // Begins to copy the next slab: after the last layer that of the first again, for the next
    // tile.
    __device__ __forceinline__ void copy_next() {
        const int layer = layer_at(step), columns = outer(layer);
        const u32 to = shared + ring.to_fill * SLAB_ELEMENTS * 2;
        if constexpr (LAYERS > LAYERS_WITH_OWN_COPIES)
            copy_slab_of_any(parameters, layer, slab * SLAB, chunk * chunk_of(columns), to);
        else
            copy_slab<0>(layer, slab * SLAB, chunk * chunk_of(columns), to);
        ring.filled();
        if (++slab == slabs_of(inner(layer))) {
            slab = 0;
            if (++chunk == chunks_of(columns)) chunk = 0, step = step + 1 == steps ? 0 : step + 1;
        }
    }
};

// The product of the tile at `input` and the weights of `layer`, `finish(sums, first column, end of
// the columns)` after each chunk of columns. `begin` sets the sums at first; `started` runs once
// all warps have left what came before.
template <int INNER, int OUTER, class Begin, class Started, class Finish>
__device__ __forceinline__ void product(Weights &weights, int layer, u32 input, Begin begin, Started started, Finish finish) {
    using Mine = Share<OUTER>;
    constexpr int INPUT_PITCH = pitch(INNER), STEPS = round_up(INNER, 16) / 16, CHUNKS = chunks_of(OUTER);
    constexpr int WEIGHTS_PITCH = RESIDENT ? pitch(BACKWARD ? OUTER : INNER) : SLAB_PITCH;
    const u32 left = input + Mine::row() * INPUT_PITCH * 2 + lane_offset<true>(INPUT_PITCH * 2);
    const u32 lane = lane_offset<BACKWARD>(WEIGHTS_PITCH * 2) + (BACKWARD ? Mine::column() * 2 : Mine::column() * WEIGHTS_PITCH * 2);
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
        const int first = chunk * Mine::CHUNK_COLUMNS;
        const int columns = CHUNKS == 1 ? OUTER : min(Mine::CHUNK_COLUMNS, OUTER - first);
        const int pieces = (columns - Mine::column() + 15) / 16;
        Sums sums[Mine::MT][Mine::NT];
        begin(sums, first + Mine::column());
        if constexpr (RESIDENT) {
            if (chunk == 0) {
                __syncthreads();
                started();
            }
            const u32 right = weights.shared + resident_at(layer) * 2 + lane + (BACKWARD ? first * 2 : first * WEIGHTS_PITCH * 2);
            in_steps<Mine::MT, Mine::NT, STEPS, STEPS <= 8 ? STEPS : 4>(
                [&](auto &fragments, int k) {
                    fragments.template load<false, BACKWARD, INPUT_PITCH, WEIGHTS_PITCH, Mine::GUARDED>(
                        left + k * 32, right + (BACKWARD ? k * 16 * WEIGHTS_PITCH * 2 : k * 32), pieces);
                },
                [&](const auto &fragments) { fragments.template add_product<Mine::GUARDED>(sums, pieces); });
        } else {
            // The operands of the next step are loaded while this one's are multiplied, also from
            // slab to slab.
            Fragments<Mine::MT, Mine::NT> fragments[2];
            u32 right = 0;
            const auto next_slab = [&](bool very_first) {
                weights.ring.wait();
                if (very_first) started();
                weights.copy_next();
                right = weights.shared + weights.ring.to_use * SLAB_ELEMENTS * 2 + lane;
                weights.ring.used();
            };
            const auto load = [&](Fragments<Mine::MT, Mine::NT> &to, int slab, int k) {
                to.template load<false, BACKWARD, INPUT_PITCH, WEIGHTS_PITCH, Mine::GUARDED>(
                    left + (slab * (SLAB / 16) + k) * 32, right + (BACKWARD ? k * 16 * WEIGHTS_PITCH * 2 : k * 32), pieces);
            };
            next_slab(chunk == 0);
            load(fragments[0], 0, 0);
#pragma unroll 1
            for (int slab = 0; slab < slabs_of(INNER); ++slab)
#pragma unroll
                for (int k = 0; k < SLAB / 16; ++k) {
                    // The last slab may be half full.
                    const int step = slab * (SLAB / 16) + k;
                    if (STEPS % (SLAB / 16) != 0 && step >= STEPS) continue;
                    if (k + 1 < SLAB / 16) {
                        if (STEPS % (SLAB / 16) == 0 || step + 1 < STEPS) load(fragments[(k + 1) & 1], slab, k + 1);
                    } else if (slab + 1 < slabs_of(INNER)) {
                        next_slab(false);
                        load(fragments[0], slab + 1, 0);
                    }
                    fragments[k & 1].template add_product<Mine::GUARDED>(sums, pieces);
                }
        }
        finish(sums, first + Mine::column(), first + columns);
    }
}

// How many steps from this one on have its widths and are not the last: they share their code.
__device__ constexpr int run_end(int step) {
    int end = step + 1;
    while (end < LAYERS - 1 && inner(layer_at(end)) == inner(layer_at(step)) && outer(layer_at(end)) == outer(layer_at(step))) ++end;
    return end;
}
