// One code for all layers, whose widths are read at run time: for networks of so many that the compiler would take minutes for the code of each.
//
#include "forloop/call.cuh"

// A slab of COUNT numbers of each of ROWS rows, `stride` apart. Rows from `rows` on and numbers from `count` on are left out.
template <int ROWS, int COUNT>
__device__ __forceinline__ void copy_slab(float *to, const Storage *from, int stride, int rows, int count) {
#pragma unroll 4
    for (int piece = threadIdx.x; piece < ROWS * (COUNT / 4); piece += THREADS) {
        const int row = piece / (COUNT / 4), number = piece % (COUNT / 4) * 4;
        if (row < rows && number < count) copy4(to + row * COUNT + number, from + (u64)row * stride + number);
    }
}

template <int OWN, bool LAST>
__device__ __forceinline__ void forward_layer(const Call &call, int layer, Storage *y, Storage *tape) {
    constexpr int WIDTH = GROUPS * OWN, ACTIVATION = LAST ? OUTPUT_ACTIVATION : HIDDEN_ACTIVATION;
    constexpr bool FROM_SUMS = !slope_from_output<ACTIVATION>();
    static_assert(STAGES * WIDTH * SLAB <= VALUES_AT, "the host's bound");
    const int K = width(layer), N = width(layer + 1);
    const u64 before = (u64)tape_at(layer) * call.batch;
    const Storage *const weights_of = call.parameters + weights_at(layer), *const biases = weights_of + (u64)N * K;
    const float *const below = numbers_of(call.shared, layer) + call.column;
    float *const values = numbers_of(call.shared, layer + 1) + call.column;
    float sums[OWN];
    auto copy = [&](float *to, int pass, int slab) {
        const Storage *from = weights_of + (u64)pass * WIDTH * K + slab * SLAB;
        copy_slab<WIDTH, SLAB>(to, from, K, N - pass * WIDTH, K - slab * SLAB);
    };
    auto begin = [&](int pass) {
        const int n = pass * WIDTH + call.group * OWN;
#pragma unroll
        for (int o = 0; o < OWN; ++o) sums[o] = n + o < N ? widen(biases[n + o]) : 0.0f;
    };
    auto use = [&](int slab, const float *weights) {
#pragma unroll 1
        for (int k = 0; k < SLAB && slab * SLAB + k < K; k += 4) {
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
    auto end = [&](int pass) {
#pragma unroll
        for (int o = 0; o < OWN; o += 4) {
            const int n = pass * WIDTH + call.group * OWN + o;
            if (n >= N) continue;
            float a[4];
#pragma unroll
            for (int c = 0; c < 4; ++c) a[c] = stored(activate<ACTIVATION>(sums[o + c]));
            const float4 v = make_float4(a[0], a[1], a[2], a[3]);
            if (call.inside()) {
                if (LAST) store4(y + call.sample * N + n, v);
                if ((!LAST || FROM_SUMS) && tape)
                    store4(tape + before + call.sample * N + n, FROM_SUMS ? make_float4(sums[o], sums[o + 1], sums[o + 2], sums[o + 3]) : v);
            }
            if (!LAST) {
#pragma unroll
                for (int c = 0; c < 4; ++c) values[(n + c) * SAMPLES] = a[c];
            }
        }
    };
    for_each_slab<WIDTH * SLAB>(call.shared, (N + WIDTH - 1) / WIDTH, (K + SLAB - 1) / SLAB, copy, begin, use, end);
}

template <bool LAST>
__device__ __forceinline__ void forward_layer(const Call &call, int layer, Storage *y, Storage *tape) {
    const int own = outputs_of(width(layer + 1));
    if (own == 16) forward_layer<16, LAST>(call, layer, y, tape);
    else if (own == 8) forward_layer<8, LAST>(call, layer, y, tape);
    else forward_layer<4, LAST>(call, layer, y, tape);
}

// The deltas of what `layer` took, or, FIRST, the gradients by the inputs.
template <int OWN, bool FIRST>
__device__ __forceinline__ void backward_layer(const Call &call, int layer, const Storage *tape, Storage *dx, Storage *deltas) {
    constexpr int WIDTH = GROUPS * OWN;
    static_assert(STAGES * WIDTH * SLAB <= VALUES_AT, "the host's bound");
    const int K = width(layer + 1), N = width(layer);
    const u64 before = FIRST ? 0 : (u64)tape_at(layer - 1) * call.batch;
    const Storage *const weights_of = call.parameters + weights_at(layer);
    const float *const above = numbers_of(call.shared, layer + 1) + call.column;
    float *const values = numbers_of(call.shared, layer) + call.column;
    float sums[OWN];
    auto copy = [&](float *to, int pass, int slab) {
        const Storage *from = weights_of + (u64)slab * SLAB * N + pass * WIDTH;
        copy_slab<SLAB, WIDTH>(to, from, N, K - slab * SLAB, N - pass * WIDTH);
    };
    auto begin = [&](int) {
#pragma unroll
        for (int o = 0; o < OWN; ++o) sums[o] = 0.0f;
    };
    auto use = [&](int slab, const float *weights) {
#pragma unroll 4
        for (int k = 0; k < SLAB; ++k) {
            if (slab * SLAB + k >= K) break;
            const float a = above[(slab * SLAB + k) * SAMPLES];
#pragma unroll
            for (int o = 0; o < OWN; o += 4) {
                const float4 w = *reinterpret_cast<const float4 *>(weights + k * WIDTH + call.group * OWN + o);
                sums[o] = fmaf(w.x, a, sums[o]), sums[o + 1] = fmaf(w.y, a, sums[o + 1]);
                sums[o + 2] = fmaf(w.z, a, sums[o + 2]), sums[o + 3] = fmaf(w.w, a, sums[o + 3]);
            }
        }
    };
    auto end = [&](int pass) {
#pragma unroll
        for (int o = 0; o < OWN; o += 4) {
            const int n = pass * WIDTH + call.group * OWN + o;
            if (n >= N || !call.inside()) continue;
            float4 v = make_float4(sums[o], sums[o + 1], sums[o + 2], sums[o + 3]);
            if constexpr (FIRST) store4(dx + call.sample * N + n, v);
            else {
                const u64 place = before + call.sample * N + n;
                v = times(v, slopes<HIDDEN_ACTIVATION>(tape + place));
                store4(deltas + place, v);
                values[n * SAMPLES] = v.x, values[(n + 1) * SAMPLES] = v.y, values[(n + 2) * SAMPLES] = v.z, values[(n + 3) * SAMPLES] = v.w;
            }
        }
    };
    for_each_slab<WIDTH * SLAB>(call.shared, (N + WIDTH - 1) / WIDTH, (K + SLAB - 1) / SLAB, copy, begin, use, end);
}

template <bool FIRST>
__device__ __forceinline__ void backward_layer(const Call &call, int layer, const Storage *tape, Storage *dx, Storage *deltas) {
    const int own = outputs_of(width(layer));
    if (own == 16) backward_layer<16, FIRST>(call, layer, tape, dx, deltas);
    else if (own == 8) backward_layer<8, FIRST>(call, layer, tape, dx, deltas);
    else backward_layer<4, FIRST>(call, layer, tape, dx, deltas);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    forloop_mlp_forward(const Storage *parameters, const Storage *x, Storage *y, Storage *tape, u32 batch) {
    extern __shared__ __align__(16) float shared[];
    for (u64 tile = blockIdx.x; tile * SAMPLES < batch; tile += gridDim.x) {
        const Call call = call_of(parameters, batch, tile, shared);
        take<INPUTS>(call, numbers_of(shared, 0) + call.column, x + call.sample * INPUTS);
#pragma unroll 1
        for (int layer = 0; layer + 1 < LAYERS; ++layer) forward_layer<false>(call, layer, y, tape);
        forward_layer<true>(call, LAYERS - 1, y, tape);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    forloop_mlp_backward(const Storage *parameters, const Storage *y, const Storage *dy, const Storage *tape, Storage *dx, Storage *deltas,
                         u32 batch) {
    extern __shared__ __align__(16) float shared[];
    for (u64 tile = blockIdx.x; tile * SAMPLES < batch; tile += gridDim.x) {
        const Call call = call_of(parameters, batch, tile, shared);
        take_output_deltas(call, tape_at(LAYERS - 1), y, dy, tape, deltas);
#pragma unroll 1
        for (int layer = LAYERS - 1; layer > 0; --layer) backward_layer<false>(call, layer, tape, dx, deltas);
        if (dx) backward_layer<true>(call, 0, tape, dx, deltas);
        // Without `dx`, or the next tile begins where this one is read.
        __syncthreads();
    }
}
