// What the kernels that go down the layers share: from sums to the gradients before the activation below, and from the gradients by the outputs to
// those before their activation.
#include "coopmat/wgmma/wgmma.cuh"

struct Arrays {
    const Storage *y, *dy, *tape;
    Storage *dx, *deltas, *activations;
};

// Of a part of the columns below a layer, from `column` on: its sums become the gradients before the activation there, in `words`, or those by the
// inputs.
template <int LAYER, int COLUMNS>
__device__ __forceinline__ void finish_below(const float (&d)[COLUMNS / 2], const Run<COLUMNS> &kept, u32 *words, int column, const Arrays &arrays,
                                             Rows rows) {
#pragma unroll
    for (int first = 0; first < COLUMNS; first += 32) {
        u32 slopes[8], activations[8];
        if constexpr (LAYER > 0) kept.words(first, slopes, rows.quarter);
        u32 *out = words + first / 4;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (4 * i >= COLUMNS - first) continue;
            const float low = d[first / 2 + i * 2], high = d[first / 2 + i * 2 + 1];
            if constexpr (LAYER == 0) out[i] = narrow2(low, high);
            else out[i] = times_slope<HIDDEN_ACTIVATION>(low, high, slopes[i]);
            if constexpr (LAYER > 0 && !slope_from_output<HIDDEN_ACTIVATION>())
                activations[i] = narrow2(activate<HIDDEN_ACTIVATION>(widen_low(slopes[i])), activate<HIDDEN_ACTIVATION>(widen_high(slopes[i])));
        }
        if constexpr (LAYER == 0) {
            store_some<COLUMNS>(out, arrays.dx, width(LAYER), column, first, rows);
        } else {
            const u64 here = (u64)tape_at(LAYER - 1) * rows.batch;
            store_some<COLUMNS>(out, arrays.deltas + here, width(LAYER), column, first, rows);
            if constexpr (!slope_from_output<HIDDEN_ACTIVATION>())
                store_some<COLUMNS>(activations, arrays.activations + here, width(LAYER), column, first, rows);
        }
    }
}

// What the tape keeps of the layer below.
template <int LAYER>
__device__ __forceinline__ const Storage *tape_below(const Arrays &arrays, Rows rows) {
    return arrays.tape + (u64)tape_at(LAYER > 0 ? LAYER - 1 : 0) * rows.batch;
}

// The gradients before the activation of the outputs.
__device__ __forceinline__ void output_deltas(u32 *words, const Arrays &arrays, Rows rows) {
    const u64 last = (u64)tape_at(LAYERS - 1) * rows.batch;
    Run<OUTPUTS> gradients, kept;
    gradients.load(arrays.dy, OUTPUTS, 0, rows);
    if constexpr (OUTPUT_ACTIVATION != IDENTITY)
        kept.load(slope_from_output<OUTPUT_ACTIVATION>() ? arrays.y : arrays.tape + last, OUTPUTS, 0, rows);
#pragma unroll
    for (int first = 0; first < OUTPUTS; first += 32) {
        u32 *out = words + first / 4;
        u32 slopes[8];
        gradients.words(first, out, rows.quarter);
        if constexpr (OUTPUT_ACTIVATION != IDENTITY) {
            kept.words(first, slopes, rows.quarter);
#pragma unroll
            for (int i = 0; i < 8; ++i)
                if (4 * i < OUTPUTS - first) out[i] = times_slope<OUTPUT_ACTIVATION>(widen_low(out[i]), widen_high(out[i]), slopes[i]);
        }
        store_some<OUTPUTS>(out, arrays.deltas + last, OUTPUTS, 0, first, rows);
    }
}
