// The gradients before every activation, from the outputs down to the inputs, on tiles of samples:
// persistent blocks, all layers. They are kept for the gradients of the parameters.
#include "coopmat/mma/layers.cuh"

struct Pass {
    Weights &weights;
    const Storage *tape;
    Storage *dx, *deltas, *activations;
    u32 buffers[2];
    u64 first;
    u32 batch;

    // Everything from this step on. `prefetch` is called when the first buffer is free.
    template <int STEP, class Prefetch>
    __device__ __forceinline__ void from(Prefetch prefetch) {
        constexpr int INNER = inner(layer_at(STEP)), OUTER = outer(layer_at(STEP)), END = run_end(STEP);
        constexpr bool LAST = STEP + 1 == LAYERS;
        const int t = threadIdx.x & 3;
#pragma unroll 1
        for (int step = STEP; step < END; ++step) {
            const int layer = layer_at(step);
            const u32 output = buffers[(step + 1) & 1];
            // Of the layer below.
            const u64 below = LAST ? 0 : (u64)tape_at(layer - 1) * batch;
            product<INNER, OUTER>(
                weights, layer, buffers[step & 1],
                [&](typename Share<OUTER>::Array &sums, int) {
                    clear(sums);
                },
                [&] {
                    // The slopes come where the result goes.
                    if constexpr (!LAST) {
                        copy_tile<TILE, round_up(OUTER, 16), pitch(OUTER), OUTER>(output, tape + below + first * OUTER, (int)(batch - first), OUTER);
                        commit_copies();
                    } else {
                        prefetch();
                    }
                },
                [&](typename Share<OUTER>::Array &sums, int first_column, int end) {
                    // Slabs that came after have been waited for otherwise.
                    if (!LAST && (RESIDENT || slabs_of(INNER) < STAGES)) {
                        wait_copies<0>();
                        __syncthreads();
                    }
                    Share<OUTER>::for_every_row(sums, first_column, end, [&](int row, int column, const Sums &one, const Sums &two, int half) {
                        const bool valid = first + row < batch;
                        const u64 at = (first + row) * OUTER + column;
                        if constexpr (LAST) {
                            store_row(dx + at, narrow2(one.low(half), one.high(half)), narrow2(two.low(half), two.high(half)), OUTER - column, valid);
                        } else {
                            const u32 to = output + (row * pitch(OUTER) + column + 2 * t) * 2;
                            const u32 a0 = load_shared(to), a1 = load_shared(to + 16);
                            const u32 d0 = times_slope<HIDDEN_ACTIVATION>(one.low(half), one.high(half), a0);
                            u32 d1 = times_slope<HIDDEN_ACTIVATION>(two.low(half), two.high(half), a1);
                            if (OUTER % 16 != 0 && column + 8 >= OUTER) d1 = 0;
                            store_shared(to, d0), store_shared(to + 16, d1);
                            store_row(deltas + below + at, d0, d1, OUTER - column, valid);
                            // Where the tape has sums, the outputs are wanted later.
                            if constexpr (!slope_from_output<HIDDEN_ACTIVATION>())
                                store_row(activations + below + at, activate2<HIDDEN_ACTIVATION>(a0), activate2<HIDDEN_ACTIVATION>(a1), OUTER - column, valid);
                        }
                    });
                });
        }
        if constexpr (END < LAYERS) {
            // Without a gradient by the inputs, the last product is not needed.
            if (END + 1 < LAYERS || dx) from<END>(prefetch);
        }
    }
};

// `dx` may be null. `deltas`: for each layer, `batch x outputs` of it. `activations`: the same of
// the hidden layers, written where the tape has sums.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    coopmat_mlp_backward_mma_chain(const Storage *parameters, const Storage *y, const Storage *dy, const Storage *tape, Storage *dx, Storage *deltas,
                                   Storage *activations, u32 batch) {
    const u32 base = shared_address(shared);
    Weights weights(parameters, base, dx ? LAYERS : LAYERS - 1);
    const u32 tiles = (batch + TILE - 1) / TILE;
    const u32 even = base + WEIGHTS_ELEMENTS * 2, odd = even + buffer_elements(0) * 2, outputs = base + BUFFERS_END * 2;
    const Storage *at_output = kept_of_outputs(y, tape, batch);
    constexpr int PADDED = round_up(OUTPUTS, 16), PITCH = pitch(OUTPUTS);
    const auto copy_outputs = [&](u32 tile) {
        const u64 first = (u64)tile * TILE;
        copy_tile<TILE, PADDED, PITCH, OUTPUTS>(even, dy + first * OUTPUTS, (int)(batch - first), OUTPUTS);
        if constexpr (OUTPUT_ACTIVATION != IDENTITY)
            copy_tile<TILE, PADDED, PITCH, OUTPUTS>(outputs, at_output + first * OUTPUTS, (int)(batch - first), OUTPUTS);
        commit_copies();
    };
    // With one hidden layer, the first buffer is free once the gradient of that is computed.
    const bool early = LAYERS == 2 && dx;
    if (early && blockIdx.x < tiles) copy_outputs(blockIdx.x);
#pragma unroll 1
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const u64 first = (u64)tile * TILE;
        if (!early) {
            // The layers of the tile before may still read it.
            __syncthreads();
            copy_outputs(tile);
        }
        wait_copies<0>();
        __syncthreads();
        Storage *delta = layer_of<LAYERS - 1>(deltas, batch) + first * OUTPUTS;
        for (int i = threadIdx.x; i < TILE * (OUTPUTS / 8); i += THREADS) {
            const int row = i / (OUTPUTS / 8), column = i % (OUTPUTS / 8) * 8;
            uint4 *mine = (uint4 *)(shared + (even - base) + (row * PITCH + column) * 2);
            uint4 d = *mine;
            if constexpr (OUTPUT_ACTIVATION != IDENTITY) {
                const uint4 a = *(const uint4 *)(shared + (outputs - base) + (row * PITCH + column) * 2);
                d.x = times_slope<OUTPUT_ACTIVATION>(widen_low(d.x), widen_high(d.x), a.x);
                d.y = times_slope<OUTPUT_ACTIVATION>(widen_low(d.y), widen_high(d.y), a.y);
                d.z = times_slope<OUTPUT_ACTIVATION>(widen_low(d.z), widen_high(d.z), a.z);
                d.w = times_slope<OUTPUT_ACTIVATION>(widen_low(d.w), widen_high(d.w), a.w);
                *mine = d;
            }
            if (first + row < batch) *(uint4 *)(delta + row * OUTPUTS + column) = d;
        }
        Pass pass{weights, tape, dx, deltas, activations, {even, odd}, first, batch};
        pass.from<0>([&] {
            if (early && tile + gridDim.x < tiles) copy_outputs(tile + gridDim.x);
        });
    }
    wait_copies<0>();
}
