// One hidden layer and few samples: every warp computes a slice of the hidden layer for 16 samples,
// straight from global memory, and its part of the outputs; the parts are then summed over the
// warps of a block and the blocks of a cluster. What a warp loads is what it alone needs.
//
// ROWS == 2, WARPS, CLUSTER (blocks of a cluster), SLICE (hidden features a warp computes at a
// time).
#include "coopvec/weights.cuh"
#include "tile/ptx/cluster.cuh"

#if STORAGE != STORAGE_F32

constexpr int HIDDEN = width(1);
// Floats of a sample's row of partial outputs: padded, so that eight rows lie in different banks.
constexpr int PARTIAL = OUTPUTS + 8;

// sums += W vectors, the weights row-major in global memory with rows LEADING elements apart.
template <int K, int N, int LEADING>
__device__ __forceinline__ void multiply_global(Sums<N> &sums, const Vectors<K> &vectors, const Storage *weights) {
#pragma unroll
    for (int tile = 0; tile < N / 8; ++tile) {
        const Storage *row = weights + (u64)output_of<N>(tile, group()) * LEADING;
        pieces<K>([&](auto cut, int k) {
            constexpr int P = decltype(cut)::SIZE;
            u32 words[P / 8];
            read<P, false>(words, own<P>(row + k));
            multiply_tile<P>(sums, tile, vectors, k, words);
        });
    }
}

__device__ __forceinline__ void cluster_barrier() {
#if ARCHITECTURE >= 900
    if constexpr (CLUSTER > 1) return cluster_sync_warps();
#endif
    __syncthreads();
}

// A float of another block's shared memory, at the same place as `here`.
__device__ __forceinline__ float of_block(const float *here, u32 rank) {
#if ARCHITECTURE >= 900
    if constexpr (CLUSTER > 1) return load_from_block(in_block(shared_address(here), rank));
#endif
    return *here;
}

template <bool KEEP>
__device__ __forceinline__ void sliced(const Storage *parameters, const Storage *x, Storage *y, Storage *tape, u32 batch) {
    extern __shared__ float partials[];  // [WARPS][SAMPLES][PARTIAL]
    wait_and_let_next_begin();
    const u32 warp = threadIdx.x / 32, rank = blockIdx.x % CLUSTER, first = blockIdx.x / CLUSTER * SAMPLES;
    Vectors<INPUTS> inputs;
    read_rows<INPUTS>(inputs, x, first, batch);
    Sums<OUTPUTS> outputs = zeros<OUTPUTS>();
#pragma unroll 1
    for (int f = (rank * WARPS + warp) * SLICE; f < HIDDEN; f += CLUSTER * WARPS * SLICE) {
        Sums<SLICE> sums;
        pieces<SLICE>([&](auto cut, int at) {
            constexpr int P = decltype(cut)::SIZE;
            Pair pairs[P / 8];
            read<P, false>(pairs, own<P>(parameters + biases_at(0) + f + at));
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
#pragma unroll
                for (int j = 0; j < P / 8; ++j) sums.sum[r][at / 8 + j] = sum_of(low(pairs[j]), high(pairs[j]));
        });
        multiply_global<INPUTS, SLICE, INPUTS>(sums, inputs, parameters + weights_at(0) + f * INPUTS);
        const Vectors<SLICE> hidden = activated<SLICE, HIDDEN_ACTIVATION>(sums, 0);
        if constexpr (KEEP) {
            if constexpr (slope_from_output<HIDDEN_ACTIVATION>())
                write_piece<SLICE>(tape, HIDDEN, f, first, batch, hidden);
            else
                write_piece<SLICE>(tape, HIDDEN, f, first, batch, activated<SLICE, IDENTITY>(sums, 0));
        }
        multiply_global<SLICE, OUTPUTS, HIDDEN>(outputs, hidden, parameters + weights_at(1) + f);
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
        pieces<OUTPUTS>([&](auto cut, int f) {
            constexpr int P = decltype(cut)::SIZE;
            float *to = own<P>(partials + (warp * SAMPLES + 8 * r + group()) * PARTIAL + f);
#pragma unroll
            for (int j = 0; j < P / 8; ++j) {
                const Sum sum = outputs.sum[r][f / 8 + j];
                ((float2 *)to)[j] = make_float2(low(sum), high(sum));
            }
        });
    cluster_barrier();
    // Every block of the cluster finishes some of the outputs.
    for (u32 index = rank * THREADS + threadIdx.x; index < SAMPLES * OUTPUTS; index += CLUSTER * THREADS) {
        const u32 sample = index / OUTPUTS, o = index % OUTPUTS;
        float sum = widen(parameters[biases_at(1) + o]);
#pragma unroll
        for (u32 block = 0; block < CLUSTER; ++block)
#pragma unroll
            for (u32 w = 0; w < WARPS; ++w) sum += of_block(partials + (w * SAMPLES + sample) * PARTIAL + o, block);
        if (first + sample < batch) {
            y[(u64)(first + sample) * OUTPUTS + o] = narrow(activate<OUTPUT_ACTIVATION>(sum));
            if constexpr (KEEP && !slope_from_output<OUTPUT_ACTIVATION>())
                tape[(u64)HIDDEN * batch + (u64)(first + sample) * OUTPUTS + o] = narrow(sum);
        }
    }
    // No block may leave while others read its sums.
    if constexpr (CLUSTER > 1) cluster_barrier();
}

extern "C" __global__ __launch_bounds__(THREADS) void coopvec_mlp_forward_sliced(const Storage *parameters, const Storage *x, Storage *y, u32 batch) {
    sliced<false>(parameters, x, y, nullptr, batch);
}

extern "C" __global__ __launch_bounds__(THREADS) void coopvec_mlp_forward_sliced_train(const Storage *parameters, const Storage *x, Storage *y,
                                                                                       Storage *tape, u32 batch) {
    sliced<true>(parameters, x, y, tape, batch);
}

#endif
