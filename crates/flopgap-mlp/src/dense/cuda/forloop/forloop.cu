// Every layer has its own code, for its widths.
#include "forloop/call.cuh"

template <int LAYER>
__device__ __forceinline__ void forward_layer(const Call &call, Storage *y, Storage *tape) {
    constexpr int K = width(LAYER), N = width(LAYER + 1), OWN = outputs_of(N), WIDTH = GROUPS * OWN;
    constexpr int PASSES = (N + WIDTH - 1) / WIDTH, SLABS = (K + SLAB - 1) / SLAB;
    constexpr bool LAST = LAYER + 1 == LAYERS, FROM_SUMS = !slope_from_output<activation_of(LAYER)>();
    static_assert(STAGES * WIDTH * SLAB <= VALUES_AT, "the host's bound");
    const float *const below = numbers_of(call.shared, LAYER) + call.column;
    float *const values = numbers_of(call.shared, LAYER + 1) + call.column;
    float sums[OWN];
    auto copy = [&](float *to, int pass, int slab) {
        const Storage *from = call.parameters + weights_at(LAYER) + (u64)pass * WIDTH * K + slab * SLAB;
        copy_rows<WIDTH, SLAB, K, SLAB, THREADS, N % WIDTH != 0 || K % SLAB != 0>(to, from, N - pass * WIDTH, K - slab * SLAB);
    };
    auto begin = [&](int pass) {
        const int n = pass * WIDTH + call.group * OWN;
#pragma unroll
        for (int o = 0; o < OWN; ++o) sums[o] = n + o < N ? widen(call.parameters[biases_at(LAYER) + n + o]) : 0.0f;
    };
    auto use = [&](int slab, const float *weights) {
#pragma unroll 1
        for (int k = 0; k < SLAB && (K % SLAB == 0 || slab * SLAB + k < K); k += 4) {
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
            if (N % WIDTH != 0 && n >= N) continue;
            float a[4];
#pragma unroll
            for (int c = 0; c < 4; ++c) a[c] = stored(activate<activation_of(LAYER)>(sums[o + c]));
            const float4 v = make_float4(a[0], a[1], a[2], a[3]);
            if (call.inside()) {
                if (LAST) store4(y + call.sample * N + n, v);
                if ((!LAST || FROM_SUMS) && tape)
                    store4(tape + (u64)tape_at(LAYER) * call.batch + call.sample * N + n,
                           FROM_SUMS ? make_float4(sums[o], sums[o + 1], sums[o + 2], sums[o + 3]) : v);
            }
            if (!LAST) {
#pragma unroll
                for (int c = 0; c < 4; ++c) values[(n + c) * SAMPLES] = a[c];
            }
        }
    };
    for_each_slab<WIDTH * SLAB>(call.shared, Known<PASSES>(), Known<SLABS>(), copy, begin, use, end);
    if constexpr (!LAST) forward_layer<LAYER + 1>(call, y, tape);
}

// The deltas of what `LAYER` took, or the gradients by the inputs.
template <int LAYER>
__device__ __forceinline__ void backward_layer(const Call &call, const Storage *tape, Storage *dx, Storage *deltas) {
    constexpr int K = width(LAYER + 1), N = width(LAYER), OWN = outputs_of(N), WIDTH = GROUPS * OWN;
    constexpr int PASSES = (N + WIDTH - 1) / WIDTH, SLABS = (K + SLAB - 1) / SLAB;
    static_assert(STAGES * WIDTH * SLAB <= VALUES_AT, "the host's bound");
    const float *const above = numbers_of(call.shared, LAYER + 1) + call.column;
    float *const values = numbers_of(call.shared, LAYER) + call.column;
    float sums[OWN];
    if (LAYER == 0 && !dx) return;
    auto copy = [&](float *to, int pass, int slab) {
        const Storage *from = call.parameters + weights_at(LAYER) + (u64)slab * SLAB * N + pass * WIDTH;
        copy_rows<SLAB, WIDTH, N, WIDTH, THREADS, N % WIDTH != 0 || K % SLAB != 0>(to, from, K - slab * SLAB, N - pass * WIDTH);
    };
    auto begin = [&](int) {
#pragma unroll
        for (int o = 0; o < OWN; ++o) sums[o] = 0.0f;
    };
    auto use = [&](int slab, const float *weights) {
#pragma unroll 4
        for (int k = 0; k < SLAB; ++k) {
            if (K % SLAB != 0 && slab * SLAB + k >= K) break;
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
            if ((N % WIDTH != 0 && n >= N) || !call.inside()) continue;
            float4 v = make_float4(sums[o], sums[o + 1], sums[o + 2], sums[o + 3]);
            if constexpr (LAYER == 0) store4(dx + call.sample * N + n, v);
            else {
                const u64 place = (u64)tape_at(LAYER - 1) * call.batch + call.sample * N + n;
                v = times(v, slopes<activation_of(LAYER - 1)>(tape + place));
                store4(deltas + place, v);
                values[n * SAMPLES] = v.x, values[(n + 1) * SAMPLES] = v.y, values[(n + 2) * SAMPLES] = v.z, values[(n + 3) * SAMPLES] = v.w;
            }
        }
    };
    for_each_slab<WIDTH * SLAB>(call.shared, Known<PASSES>(), Known<SLABS>(), copy, begin, use, end);
    if constexpr (LAYER > 0) backward_layer<LAYER - 1>(call, tape, dx, deltas);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    forloop_mlp_forward(const Storage *parameters, const Storage *x, Storage *y, Storage *tape, u32 batch) {
    extern __shared__ __align__(16) float shared[];
    for (u64 tile = blockIdx.x; tile * SAMPLES < batch; tile += gridDim.x) {
        const Call call = call_of(parameters, batch, tile, shared);
        take<INPUTS>(call, numbers_of(shared, 0) + call.column, x + call.sample * INPUTS);
        forward_layer<0>(call, y, tape);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    forloop_mlp_backward(const Storage *parameters, const Storage *y, const Storage *dy, const Storage *tape, Storage *dx, Storage *deltas,
                         u32 batch) {
    extern __shared__ __align__(16) float shared[];
    for (u64 tile = blockIdx.x; tile * SAMPLES < batch; tile += gridDim.x) {
        const Call call = call_of(parameters, batch, tile, shared);
        take_output_deltas(call, tape_at(LAYERS - 1), y, dy, tape, deltas);
        backward_layer<LAYERS - 1>(call, tape, dx, deltas);
        // Without `dx`, or the next tile begins where this one is read.
        __syncthreads();
    }
}
