// A layer in one kernel: the product of the weights (or their transpose) with a panel of D x M, and
// the sigmoid (or its gradient) on the result while it is on the chip. For panels that are too
// small to fill a GPU with tiles alone: the inner sum is split, first over the four groups of a
// block, then over the blocks of a cluster, which add their parts through each other's shared
// memory, always in the same order.

constexpr int TILE = 64;                // rows and columns of the result that a block computes
constexpr int GROUPS = 4;               // groups of 64 threads; each computes the whole tile from its share of the inner sum
constexpr int STEP = 8;                 // terms of the inner sum that a group takes at a time
constexpr int STAGE = GROUPS * STEP;    // terms that are in shared memory at a time, twice: one half is filled while the other is used
constexpr int THREADS = GROUPS * 64;
constexpr int PITCH = TILE + 4;         // keeps rows 16-byte aligned and the transposing stores free of bank conflicts

struct Tiles {
    float a[2][STAGE][PITCH];
    float b[2][STAGE][PITCH];
};

union Shared {
    Tiles tiles;
    float sums[2][TILE][PITCH];
};

// Four numbers of a row of `columns`, zero beyond the edges. ALIGNED: `columns` is a multiple of 4
// and the base is aligned, so that all four are inside or outside together.
template <bool ALIGNED>
__device__ __forceinline__ float4 load4(const float *x, int row, int column, int rows, int columns) {
    const float *at = x + (u64)row * columns + column;
    if (ALIGNED) return load4_now(at, row < rows && column < columns);
    return make_float4(load_now(at, row < rows && column < columns), load_now(at + 1, row < rows && column + 1 < columns),
                       load_now(at + 2, row < rows && column + 2 < columns), load_now(at + 3, row < rows && column + 3 < columns));
}

template <bool ALIGNED>
__device__ __forceinline__ void store4(float *x, int row, int column, int rows, int columns, float4 v) {
    if (row >= rows || column >= columns) return;
    float *at = x + (u64)row * columns + column;
    if (ALIGNED) {
        *reinterpret_cast<float4 *>(at) = v;
        return;
    }
    at[0] = v.x;
    if (column + 1 < columns) at[1] = v.y;
    if (column + 2 < columns) at[2] = v.z;
    if (column + 3 < columns) at[3] = v.w;
}

#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Four numbers at the same place in the shared memory of block `rank` of the cluster.
__device__ __forceinline__ float4 of_rank(const float *mine, unsigned rank) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(mine);
    unsigned theirs;
    float4 v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs) : "r"(address), "r"(rank));
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(theirs)
                 : "memory");
    return v;
}
#endif

// FORWARD: out = sigmoid(W * panel). Otherwise: out = (W^T * panel) * sigmoid'(z), where y =
// sigmoid(z). W is D x D, the panels are D x M, all row-major. The grid is (tiles over M, tiles
// over D, SPLIT), a cluster spans z.
template <bool FORWARD, bool ALIGNED, int SPLIT>
__device__ __forceinline__ void layer(const float *__restrict__ weights, const float *__restrict__ panel, const float *__restrict__ y,
                                      float *__restrict__ out, int width, int samples) {
    __shared__ __align__(16) Shared shared;
    const int thread = threadIdx.x, group = thread / 64, tx = thread % 8, ty = thread % 64 / 8;
    const int first_row = blockIdx.y * TILE, first_column = blockIdx.x * TILE;

    const int stages = (width + STAGE - 1) / STAGE, share = (stages + SPLIT - 1) / SPLIT;
    const int begin = min(stages, (int)blockIdx.z * share), end = min(stages, begin + share);

    float4 next_a[2], next_b[2];
    auto load_a = [&](int stage) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int index = thread + i * THREADS, k = stage * STAGE;
            if (FORWARD) {
                // Along the inner sum: two lanes read the 32 bytes of a sector, a warp reads 16
                // rows.
                const int row = first_row + index / 2 % TILE, column = k + 4 * (index % 2 + 2 * (index / (2 * TILE)));
                next_a[i] = load4<ALIGNED>(weights, row, column, width, width);
            } else {
                next_a[i] = load4<ALIGNED>(weights, k + index / 16, first_row + index % 16 * 4, width, width);
            }
        }
    };
    auto load_b = [&](int stage) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int index = thread + i * THREADS, k = stage * STAGE;
            next_b[i] = load4<ALIGNED>(panel, k + index / 16, first_column + index % 16 * 4, width, samples);
        }
    };
    auto store = [&](int half) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int index = thread + i * THREADS;
            if (FORWARD) {
                const int row = index / 2 % TILE, k = 4 * (index % 2 + 2 * (index / (2 * TILE)));
                shared.tiles.a[half][k][row] = next_a[i].x;
                shared.tiles.a[half][k + 1][row] = next_a[i].y;
                shared.tiles.a[half][k + 2][row] = next_a[i].z;
                shared.tiles.a[half][k + 3][row] = next_a[i].w;
            } else {
                *reinterpret_cast<float4 *>(&shared.tiles.a[half][index / 16][index % 16 * 4]) = next_a[i];
            }
            *reinterpret_cast<float4 *>(&shared.tiles.b[half][index / 16][index % 16 * 4]) = next_b[i];
        }
    };

    float sums[8][8] = {};
    // The layer before may still run. Weights do not come from it, so the first of them are on the
    // way while this waits for it.
    allow_next();
    load_a(begin);
    wait_for_previous();
    load_b(begin);
    store(0);
    __syncthreads();
    for (int stage = begin; stage < end; ++stage) {
        const int half = (stage - begin) % 2;
        // Beyond the last stage, what is loaded is zero or of another block, and is not used.
        load_a(stage + 1);
        load_b(stage + 1);
        __syncwarp();  // No arithmetic before the loads are on the way.
#pragma unroll
        for (int step = 0; step < STEP; ++step) {
            const float *a = shared.tiles.a[half][group * STEP + step], *b = shared.tiles.b[half][group * STEP + step];
            const float4 a0 = *reinterpret_cast<const float4 *>(a + ty * 4), a1 = *reinterpret_cast<const float4 *>(a + 32 + ty * 4);
            const float4 b0 = *reinterpret_cast<const float4 *>(b + tx * 4), b1 = *reinterpret_cast<const float4 *>(b + 32 + tx * 4);
            const float rows[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
            const float columns[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) sums[i][j] = fmaf(rows[i], columns[j], sums[i][j]);
        }
        store(1 - half);
        __syncthreads();
    }

    // Four groups become two, then both lie in shared memory.
    auto part = [&](int slot, int i, int half) {
        return reinterpret_cast<float4 *>(&shared.sums[slot][(i / 4) * 32 + ty * 4 + i % 4][half * 32 + tx * 4]);
    };
    if (group >= 2) {
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                *part(group - 2, i, half) =
                    make_float4(sums[i][half * 4], sums[i][half * 4 + 1], sums[i][half * 4 + 2], sums[i][half * 4 + 3]);
    }
    __syncthreads();
    if (group < 2) {
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float4 *at = part(group, i, half);
                *at = add(make_float4(sums[i][half * 4], sums[i][half * 4 + 1], sums[i][half * 4 + 2], sums[i][half * 4 + 3]), *at);
            }
    }
    __syncthreads();

    // Each block of the cluster finishes its stripe of the rows.
    constexpr int STRIPE = TILE / SPLIT;
    unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
    if (SPLIT > 1) {
        rank = cluster_rank();
        for (int index = thread; index < TILE * (TILE / 4); index += THREADS) {
            float4 *at = reinterpret_cast<float4 *>(&shared.sums[0][index / 16][index % 16 * 4]);
            *at = add(*at, *reinterpret_cast<float4 *>(&shared.sums[1][index / 16][index % 16 * 4]));
        }
        cluster_sync();
    }
#endif
    for (int index = thread; index < STRIPE * (TILE / 4); index += THREADS) {
        const int row = rank * STRIPE + index / 16, column = index % 16 * 4;
        float4 v;
        if (SPLIT == 1) {
            v = add(*reinterpret_cast<float4 *>(&shared.sums[0][row][column]),
                    *reinterpret_cast<float4 *>(&shared.sums[1][row][column]));
        } else {
#if __CUDA_ARCH__ >= 900
            v = of_rank(&shared.sums[0][row][column], 0);
#pragma unroll
            for (int other = 1; other < SPLIT; ++other) v = add(v, of_rank(&shared.sums[0][row][column], other));
#endif
        }
        if (FORWARD) {
            v = make_float4(sigmoid(v.x), sigmoid(v.y), sigmoid(v.z), sigmoid(v.w));
        } else {
            const float4 s = load4<ALIGNED>(y, first_row + row, first_column + column, width, samples);
            v = make_float4(backward(v.x, s.x), backward(v.y, s.y), backward(v.z, s.z), backward(v.w, s.w));
        }
        store4<ALIGNED>(out, first_row + row, first_column + column, width, samples, v);
    }
#if __CUDA_ARCH__ >= 900
    // No block may end while another reads its shared memory.
    if (SPLIT > 1) cluster_sync();
#endif
}

#define KERNELS(SUFFIX, ALIGNED, SPLIT, CLUSTER)                                                                                   \
    extern "C" __global__ void CLUSTER __launch_bounds__(THREADS, 1)                                                               \
        fused_mlp_forward_##SUFFIX(const float *weights, const float *panel, float *out, int width, int samples) {                 \
        layer<true, ALIGNED, SPLIT>(weights, panel, nullptr, out, width, samples);                                                 \
    }                                                                                                                              \
    extern "C" __global__ void CLUSTER __launch_bounds__(THREADS, 1) fused_mlp_backward_##SUFFIX(                                  \
        const float *weights, const float *panel, const float *y, float *out, int width, int samples) {                            \
        layer<false, ALIGNED, SPLIT>(weights, panel, y, out, width, samples);                                                      \
    }

KERNELS(aligned_1, true, 1, )
KERNELS(any_1, false, 1, )
#if __CUDA_ARCH__ >= 900
KERNELS(aligned_2, true, 2, __cluster_dims__(1, 1, 2))
KERNELS(any_2, false, 2, __cluster_dims__(1, 1, 2))
KERNELS(aligned_4, true, 4, __cluster_dims__(1, 1, 4))
KERNELS(any_4, false, 4, __cluster_dims__(1, 1, 4))
KERNELS(aligned_8, true, 8, __cluster_dims__(1, 1, 8))
KERNELS(any_8, false, 8, __cluster_dims__(1, 1, 8))
#endif
