// The network on tiles of samples: persistent blocks, all layers.
#include "coopmat/mma/layers.cuh"

struct Pass {
    Weights &weights;
    Storage *y, *tape;
    u32 buffers[2];
    u64 first;
    u32 batch;

    // Everything from this step on.
    template <int STEP, class Prefetch>
    __device__ __forceinline__ void from(Prefetch prefetch) {
        constexpr int INNER = width(STEP), OUTER = width(STEP + 1), END = run_end(STEP);
        constexpr bool LAST = STEP + 1 == LAYERS;
        constexpr int ACTIVATION = LAST ? OUTPUT_ACTIVATION : HIDDEN_ACTIVATION;
        const int t = threadIdx.x & 3;
#pragma unroll 1
        for (int layer = STEP; layer < END; ++layer) {
            const Storage *biases = weights.parameters + biases_at(layer);
            const u32 output = buffers[(layer + 1) & 1];
            Storage *kept = tape ? layer_of(tape, layer, batch) : nullptr;
            product<INNER, OUTER>(
                weights, layer, buffers[layer & 1],
                [&](typename Share<OUTER>::Array &sums, int first_column) {
                    Share<OUTER>::begin_with(sums, biases, first_column);
                },
                [&] {
                    if (LAST) prefetch();
                },
                [&](typename Share<OUTER>::Array &sums, int first_column, int end) {
                    Share<OUTER>::for_every_row(sums, first_column, end, [&](int row, int column, const Sums &one, const Sums &two, int half) {
                        u32 a0 = activate2<ACTIVATION>(one.low(half), one.high(half));
                        u32 a1 = activate2<ACTIVATION>(two.low(half), two.high(half));
                        if (OUTER % 16 != 0 && column + 8 >= OUTER) a1 = 0;
                        const bool valid = first + row < batch;
                        const u64 at = (first + row) * OUTER + column;
                        if constexpr (LAST) {
                            store_row(y + at, a0, a1, OUTER - column, valid);
                        } else {
                            const u32 to = output + (row * pitch(OUTER) + column + 2 * t) * 2;
                            store_shared(to, a0), store_shared(to + 16, a1);
                        }
                        if constexpr (slope_from_output<ACTIVATION>()) {
                            if (!LAST && kept) store_row(kept + at, a0, a1, OUTER - column, valid);
                        } else if (kept) {
                            store_row(kept + at, narrow2(one.low(half), one.high(half)), narrow2(two.low(half), two.high(half)),
                                      OUTER - column, valid);
                        }
                    });
                });
        }
        if constexpr (END < LAYERS) from<END>(prefetch);
    }
};

// `tape` may be null.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    coopmat_mlp_forward_mma(const Storage *parameters, const Storage *x, Storage *y, Storage *tape, u32 batch) {
    const u32 base = shared_address(shared);
    Weights weights(parameters, base, LAYERS);
    const u32 tiles = (batch + TILE - 1) / TILE;
    const u32 even = base + WEIGHTS_ELEMENTS * 2, odd = even + buffer_elements(0) * 2;
    const auto copy_inputs = [&](u32 tile) {
        const u64 first = (u64)tile * TILE;
        copy_tile<TILE, round_up(INPUTS, 16), pitch(INPUTS), INPUTS>(even, x + first * INPUTS, (int)(batch - first), INPUTS);
        commit_copies();
    };
    // With one hidden layer, the first buffer is free once the hidden layer is computed.
    constexpr bool EARLY = LAYERS == 2;
    if (EARLY && blockIdx.x < tiles) copy_inputs(blockIdx.x);
#pragma unroll 1
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        if (!EARLY) {
            // The layers of the tile before may still read it.
            __syncthreads();
            copy_inputs(tile);
        }
        wait_copies<0>();
        Pass pass{weights, y, tape, {even, odd}, (u64)tile * TILE, batch};
        pass.from<0>([&] {
            if (EARLY && tile + gridDim.x < tiles) copy_inputs(tile + gridDim.x);
        });
    }
    wait_copies<0>();
}
