// What becomes of sums is up to the `Rules` of a kernel: `first` is what those of a layer begin
// with, `after` makes outputs of them, `before` takes gradients through an activation, `outputs`
// through the last one. They write what is kept to memory.
//
// Every layer has its own code, for its widths; or ALIKE: one code for all layers, whose widths are
// read at run time, for networks of so many layers that the compiler would take minutes for the
// code of each.
#include "forloop/call.cuh"

// A layer whose widths are known when it is compiled.
template <int LAYER>
struct Own {
    static constexpr int index = LAYER, inputs = width(LAYER), outputs = width(LAYER + 1);
    static constexpr int weights = weights_at(LAYER), biases = biases_at(LAYER);
    static constexpr int tape = tape_at(LAYER), below = tape_at(LAYER - 1);

    // Whether pieces of a width are whole.
    static __device__ constexpr bool divides(int piece, int width) { return width % piece == 0; }
    // COUNT numbers of each of ROWS rows of its weights. Rows from `rows` on and numbers from
    // `count` on are left out.
    template <int ROWS, int COUNT>
    static __device__ __forceinline__ void copy(float *to, const Storage *from, int rows, int count) {
        copy_rows<ROWS, COUNT, inputs, COUNT, THREADS, outputs % ROWS != 0 || inputs % COUNT != 0>(to, from, rows, count);
    }
};

// The same for any layer.
struct Any {
    int index, inputs, outputs, weights, biases, tape, below;

    __device__ __forceinline__ explicit Any(int layer)
        : index(layer), inputs(width(layer)), outputs(width(layer + 1)), weights(weights_at(layer)),
          biases(weights + outputs * inputs), tape(tape_at(layer)), below(tape_at(layer - 1)) {}
    static __device__ constexpr bool divides(int, int) { return false; }
    template <int ROWS, int COUNT>
    __device__ __forceinline__ void copy(float *to, const Storage *from, int rows, int count) const {
#pragma unroll 4
        for (int piece = threadIdx.x; piece < ROWS * (COUNT / 4); piece += THREADS) {
            const int row = piece / (COUNT / 4), number = piece % (COUNT / 4) * 4;
            if (row < rows && number < count) copy4(to + row * COUNT + number, from + (u64)row * inputs + number);
        }
    }
};

// OWN outputs of a thread at a time.
template <int OWN, bool LAST, class Layer, class Rules>
__device__ __forceinline__ void forward_layer(const Call &call, const Layer &layer, const Rules &rules) {
    constexpr int WIDTH = GROUPS * OWN;
    static_assert(STAGES * WIDTH * SLAB <= VALUES_AT, "the host's bound");
    const int K = layer.inputs, N = layer.outputs;
    const Storage *const weights_of = call.parameters + layer.weights, *const biases = call.parameters + layer.biases;
    const float *const below = numbers_of(call.shared, layer.index) + call.column;
    float *const values = numbers_of(call.shared, layer.index + 1) + call.column;
    float sums[OWN];
    const auto copy = [&](float *to, int pass, int slab) {
        const Storage *from = weights_of + (u64)pass * WIDTH * K + slab * SLAB;
        layer.template copy<WIDTH, SLAB>(to, from, N - pass * WIDTH, K - slab * SLAB);
    };
    const auto begin = [&](int pass) {
        const int n = pass * WIDTH + call.group * OWN;
#pragma unroll
        for (int o = 0; o < OWN; ++o) sums[o] = n + o < N ? rules.first(call, biases[n + o]) : 0.0f;
    };
    const auto use = [&](int slab, const float *weights) {
#pragma unroll 1
        for (int k = 0; k < SLAB && (layer.divides(SLAB, K) || slab * SLAB + k < K); k += 4) {
            float a[4];
#pragma unroll
            for (int c = 0; c < 4; ++c) a[c] = below[(slab * SLAB + k + c) * SAMPLES];
#pragma unroll
            for (int o = 0; o < OWN; ++o) {
                const float4 w = *reinterpret_cast<const float4 *>(weights + (call.group * OWN + o) * SLAB + k);
                sums[o] = fmaf(w.x, a[0], sums[o]), sums[o] = fmaf(w.y, a[1], sums[o]);
                sums[o] = fmaf(w.z, a[2], sums[o]), sums[o] = fmaf(w.w, a[3], sums[o]);
            }
        }
    };
    const auto end = [&](int pass) {
#pragma unroll
        for (int o = 0; o < OWN; o += 4) {
            const int n = pass * WIDTH + call.group * OWN + o;
            if (!layer.divides(WIDTH, N) && n >= N) continue;
            const float4 v = rules.template after<LAST>(call, layer, n, make_float4(sums[o], sums[o + 1], sums[o + 2], sums[o + 3]));
            if (!LAST) put(values + n * SAMPLES, v);
        }
    };
    for_each_slab<WIDTH * SLAB>(call.shared, (N + WIDTH - 1) / WIDTH, (K + SLAB - 1) / SLAB, copy, begin, use, end);
}

// The deltas of what a layer took, or, FIRST, the gradients by the inputs.
template <int OWN, bool FIRST, class Layer, class Rules>
__device__ __forceinline__ void backward_layer(const Call &call, const Layer &layer, const Rules &rules, Storage *dx) {
    constexpr int WIDTH = GROUPS * OWN;
    static_assert(STAGES * WIDTH * SLAB <= VALUES_AT, "the host's bound");
    const int K = layer.outputs, N = layer.inputs;
    const Storage *const weights_of = call.parameters + layer.weights;
    const float *const above = numbers_of(call.shared, layer.index + 1) + call.column;
    float *const values = numbers_of(call.shared, layer.index) + call.column;
    float sums[OWN];
    const auto copy = [&](float *to, int pass, int slab) {
        const Storage *from = weights_of + (u64)slab * SLAB * N + pass * WIDTH;
        layer.template copy<SLAB, WIDTH>(to, from, K - slab * SLAB, N - pass * WIDTH);
    };
    const auto begin = [&](int) {
#pragma unroll
        for (int o = 0; o < OWN; ++o) sums[o] = 0.0f;
    };
    const auto use = [&](int slab, const float *weights) {
#pragma unroll 4
        for (int k = 0; k < SLAB; ++k) {
            if (!layer.divides(SLAB, K) && slab * SLAB + k >= K) break;
            const float a = above[(slab * SLAB + k) * SAMPLES];
#pragma unroll
            for (int o = 0; o < OWN; o += 4) {
                const float4 w = *reinterpret_cast<const float4 *>(weights + k * WIDTH + call.group * OWN + o);
                sums[o] = fmaf(w.x, a, sums[o]), sums[o + 1] = fmaf(w.y, a, sums[o + 1]);
                sums[o + 2] = fmaf(w.z, a, sums[o + 2]), sums[o + 3] = fmaf(w.w, a, sums[o + 3]);
            }
        }
    };
    const auto end = [&](int pass) {
#pragma unroll
        for (int o = 0; o < OWN; o += 4) {
            const int n = pass * WIDTH + call.group * OWN + o;
            if ((!layer.divides(WIDTH, N) && n >= N) || !call.inside()) continue;
            float4 v = make_float4(sums[o], sums[o + 1], sums[o + 2], sums[o + 3]);
            if constexpr (FIRST) store4(dx + call.sample * N + n, v);
            else {
                v = rules.before(call, layer.below, N, n, v);
                put(values + n * SAMPLES, v);
            }
        }
    };
    for_each_slab<WIDTH * SLAB>(call.shared, (N + WIDTH - 1) / WIDTH, (K + SLAB - 1) / SLAB, copy, begin, use, end);
}

// ---- All layers. `run(layer, known<OWN>)` with as many outputs of a thread as suit so many
// outputs of a block.

template <class Run>
__device__ __forceinline__ void with_own(int outputs, Run run) {
    const int own = outputs_of(outputs);
    if (own == 16) run(Known<16>());
    else if (own == 8) run(Known<8>());
    else run(Known<4>());
}

template <int LAYER = 0, class Rules>
__device__ __forceinline__ void forward_each(const Call &call, const Rules &rules) {
    forward_layer<outputs_of(width(LAYER + 1)), LAYER + 1 == LAYERS>(call, Own<LAYER>(), rules);
    if constexpr (LAYER + 1 < LAYERS) forward_each<LAYER + 1>(call, rules);
}

template <int LAYER = LAYERS - 1, class Rules>
__device__ __forceinline__ void backward_each(const Call &call, const Rules &rules, Storage *dx) {
    if (LAYER == 0 && !dx) return;
    backward_layer<outputs_of(width(LAYER)), LAYER == 0>(call, Own<LAYER>(), rules, dx);
    if constexpr (LAYER > 0) backward_each<LAYER - 1>(call, rules, dx);
}

template <bool LAST, class Rules>
__device__ __forceinline__ void forward_any(const Call &call, int layer, const Rules &rules) {
    with_own(width(layer + 1), [&](auto own) { forward_layer<own, LAST>(call, Any(layer), rules); });
}

template <bool FIRST, class Rules>
__device__ __forceinline__ void backward_any(const Call &call, int layer, const Rules &rules, Storage *dx) {
    with_own(width(layer), [&](auto own) { backward_layer<own, FIRST>(call, Any(layer), rules, dx); });
}

// All tiles of the block.
template <class Rules>
__device__ __forceinline__ void forward(const Storage *parameters, const Storage *x, u32 batch, float *shared, const Rules &rules) {
    for (u64 tile = blockIdx.x; tile * SAMPLES < batch; tile += gridDim.x) {
        const Call call = call_of(parameters, batch, tile, shared);
        take<INPUTS>(call, numbers_of(shared, 0) + call.column, x + call.sample * INPUTS);
        if constexpr (ALIKE) {
#pragma unroll 1
            for (int layer = 0; layer + 1 < LAYERS; ++layer) forward_any<false>(call, layer, rules);
            forward_any<true>(call, LAYERS - 1, rules);
        } else forward_each(call, rules);
    }
}

template <class Rules>
__device__ __forceinline__ void backward(const Storage *parameters, const Storage *dy, Storage *dx, u32 batch, float *shared,
                                         const Rules &rules) {
    for (u64 tile = blockIdx.x; tile * SAMPLES < batch; tile += gridDim.x) {
        const Call call = call_of(parameters, batch, tile, shared);
        take_output_deltas(call, dy, rules);
        if constexpr (ALIKE) {
#pragma unroll 1
            for (int layer = LAYERS - 1; layer > 0; --layer) backward_any<false>(call, layer, rules, dx);
            if (dx) backward_any<true>(call, 0, rules, dx);
        } else backward_each(call, rules, dx);
        // Without `dx`, or the next tile begins where this one is read.
        __syncthreads();
    }
}
