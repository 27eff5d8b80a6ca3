// A whole pass of a narrow network in one kernel. Columns of the panel are independent of each
// other, so a cluster of blocks takes 16 of them through all layers: each block computes its rows
// of every layer, and writes them into the shared memory of all others.
//
// A warp computes 8 rows by 4 columns: its lanes share out the inner sum, then add their parts so
// that one number is left to each lane, always in the same order.

#if __CUDA_ARCH__ >= 900

constexpr int COLUMNS = 16;        // of the panel, that a cluster takes
constexpr int TILE_ROWS = 4, TILE_COLUMNS = 8;  // of the result that a warp computes: one for each lane
constexpr int COLUMN_TILES = COLUMNS / TILE_COLUMNS;
constexpr int CHUNK = 128;         // terms of the inner sum that a warp takes at a time: four a lane
constexpr int PANEL_PITCH = COLUMNS + 4;

__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

__device__ __forceinline__ unsigned shared_address(const void *at) { return (unsigned)__cvta_generic_to_shared(at); }

// The same place in the shared memory of block `rank` of the cluster.
__device__ __forceinline__ unsigned at_rank(unsigned address, unsigned rank) {
    unsigned theirs;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs) : "r"(address), "r"(rank));
    return theirs;
}

__device__ __forceinline__ void store_remote(unsigned address, float value) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

// Writes four numbers and counts their bytes at a barrier of the block that receives them.
__device__ __forceinline__ void store4_remote(unsigned address, float4 v, unsigned barrier) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
                 "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier)
                 : "memory");
}

// Counts the bytes that arrive in half a pair of buffers. Each phase of it is one filling.
struct Mailbox {
    u64 barrier;

    __device__ __forceinline__ void init() {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
    }

    // By one thread, once for each filling.
    __device__ __forceinline__ void expect(unsigned bytes) {
        asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
                     : "memory");
    }

    // Until the filling of this parity is complete: the first one has parity 0.
    __device__ __forceinline__ void wait(unsigned parity) {
        unsigned done;
        do {
            asm volatile(
                "{\n.reg .pred done;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], %2;\n"
                "selp.u32 %0, 1, 0, done;\n}"
                : "=r"(done)
                : "r"(shared_address(&barrier)), "r"(parity)
                : "memory");
        } while (!done);
    }
};

// Copies four numbers in the background, zeros for those that are not inside; `inside` of them are,
// from the first on.
template <bool ALIGNED>
__device__ __forceinline__ void copy4(float *to, const float *from, const float *valid, int inside) {
    const unsigned address = shared_address(to);
    if (ALIGNED) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(inside > 0 ? from : valid),
                     "r"(inside > 0 ? 16 : 0)
                     : "memory");
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address + 4 * i), "l"(inside > i ? from + i : valid),
                         "r"(inside > i ? 4 : 0)
                         : "memory");
    }
}

__device__ __forceinline__ void copies_done() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Adds numbers over the lanes: lane i returns the sum of all v[i], of 2 * HALF numbers.
template <int HALF>
__device__ __forceinline__ float sum_to_lanes(float (&v)[32], int lane) {
    const bool upper = lane & HALF;
#pragma unroll
    for (int i = 0; i < HALF; ++i) {
        const float give = upper ? v[i] : v[i + HALF], keep = upper ? v[i + HALF] : v[i];
        v[i] = keep + __shfl_xor_sync(0xffffffffu, give, HALF);
    }
    if constexpr (HALF == 1) return v[0];
    else return sum_to_lanes<HALF / 2>(v, lane);
}

// Where a warp and a lane work.
struct Place {
    int lane, warp;
    unsigned rank, ranks;
    int block_row;    // first row of the block
    int tile_row;     // of the warp, in the block
    int tile_column;  // of the warp, in the cluster's columns
    int row, column;  // that this lane finishes, in the panel
    int first_column; // of the cluster
};

template <int ROWS>
__device__ __forceinline__ Place place() {
    Place p;
    p.lane = threadIdx.x % 32;
    p.warp = threadIdx.x / 32;
    p.rank = blockIdx.x;
    p.ranks = gridDim.x;
    p.block_row = p.rank * ROWS;
    p.tile_row = p.warp / COLUMN_TILES * TILE_ROWS;
    p.tile_column = p.warp % COLUMN_TILES * TILE_COLUMNS;
    p.first_column = blockIdx.y * COLUMNS;
    p.row = p.block_row + p.tile_row + p.lane % TILE_ROWS;
    p.column = p.first_column + p.tile_column + p.lane / TILE_ROWS;
    return p;
}

// Bytes that all blocks of a cluster push for a layer.
__device__ __forceinline__ unsigned pushed_bytes(const Place &p, int width, int samples) {
    const int rows = (width + TILE_ROWS - 1) / TILE_ROWS, columns = (samples - p.first_column + TILE_COLUMNS - 1) / TILE_COLUMNS;
    return rows * min(columns, COLUMN_TILES) * TILE_ROWS * TILE_COLUMNS * 4;
}

// Gives what each lane has of the result to all blocks: panel[column][row].
template <int PITCH>
__device__ __forceinline__ void push(const Place &p, float (*panel)[PITCH], Mailbox &mailbox, float value) {
    float4 v;  // four rows of a column
    const int first = p.lane & ~3;
    v.x = __shfl_sync(0xffffffffu, value, first);
    v.y = __shfl_sync(0xffffffffu, value, first + 1);
    v.z = __shfl_sync(0xffffffffu, value, first + 2);
    v.w = __shfl_sync(0xffffffffu, value, first + 3);
    const unsigned address = shared_address(&panel[p.tile_column + p.lane / TILE_ROWS][p.block_row + p.tile_row + first % TILE_ROWS]);
    const unsigned barrier = shared_address(&mailbox.barrier);
    for (unsigned rank = p.lane & 3; rank < p.ranks; rank += 4) store4_remote(at_rank(address, rank), v, at_rank(barrier, rank));
}

// activations[l + 1] = sigmoid(W[l] * activations[l]) for all layers l.
template <int CHUNKS, bool ALIGNED, int ROWS>
__device__ __forceinline__ void forward_pass(const float *__restrict__ weights, float *activations, int layers, int width, int samples) {
    constexpr int PITCH = CHUNKS * CHUNK + 4, THREADS = ROWS * COLUMNS;
    __shared__ __align__(16) float panels[2][COLUMNS][PITCH];
    __shared__ Mailbox mailboxes[2];  // of the panels
    const Place p = place<ROWS>();
    const bool works = p.first_column + p.tile_column < samples && p.block_row + p.tile_row < width;

    float w[CHUNKS][TILE_ROWS][4];
    auto fetch = [&](int layer) {
        const float *matrix = weights + (u64)layer * width * width;
#pragma unroll
        for (int r = 0; r < TILE_ROWS; ++r) {
            const int row = p.block_row + p.tile_row + r;
#pragma unroll
            for (int i = 0; i < CHUNKS; ++i) {
                if (ALIGNED) {
                    const int k = i * CHUNK + p.lane * 4;
                    const float4 v = load4_now(matrix + (u64)row * width + k, row < width && k < width);
                    w[i][r][0] = v.x;
                    w[i][r][1] = v.y;
                    w[i][r][2] = v.z;
                    w[i][r][3] = v.w;
                } else {
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        const int k = i * CHUNK + j * 32 + p.lane;
                        w[i][r][j] = load_now(matrix + (u64)row * width + k, row < width && k < width);
                    }
                }
            }
        }
    };

    allow_next();
    fetch(0);
    for (int k = width + p.warp; k < CHUNKS * CHUNK; k += THREADS / 32)
        if (p.lane < COLUMNS) panels[1][p.lane][k] = 0.0f;
    const unsigned bytes = pushed_bytes(p, width, samples);
    if (threadIdx.x == 0) {
        mailboxes[0].init();
        mailboxes[1].init();
    }
    cluster_arrive();
    wait_for_previous();
#pragma unroll
    for (int i = 0; i < CHUNKS * CHUNK * COLUMNS / THREADS; ++i) {
        const int index = threadIdx.x + i * THREADS, k = index / COLUMNS, c = index % COLUMNS;
        const bool inside = k < width && p.first_column + c < samples;
        panels[0][c][k] = inside ? __ldcg(activations + (u64)k * samples + p.first_column + c) : 0.0f;
    }
    __syncthreads();
    cluster_wait();

    for (int layer = 0; layer < layers; ++layer) {
        const bool last = layer + 1 == layers;
        if (!last && threadIdx.x == 0) mailboxes[1 - layer % 2].expect(bytes);
        // The panel of layer 1 is the first to come through mailbox 1, that of layer 2 the first
        // through mailbox 0. Only those wait without whom the next filling of the same mailbox does
        // not become complete: others could come after it, and take its parity for that before. The
        // warp that expects the fillings waits in any case: the others push into the block's
        // memory, which is gone when all of its warps have ended.
        if (layer > 0 && (works || p.warp == 0)) mailboxes[layer % 2].wait((layer - 1) / 2 % 2);
        if (works) {
            const float(*panel)[PITCH] = panels[layer % 2];
            float sums[32] = {};
#pragma unroll
            for (int i = 0; i < CHUNKS; ++i)
#pragma unroll
                for (int c = 0; c < TILE_COLUMNS; ++c) {
                    const float *at = panel[p.tile_column + c] + i * CHUNK;
                    float x[4];
                    if (ALIGNED) {
                        const float4 v = *reinterpret_cast<const float4 *>(at + p.lane * 4);
                        x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
                    } else {
#pragma unroll
                        for (int j = 0; j < 4; ++j) x[j] = at[j * 32 + p.lane];
                    }
#pragma unroll
                    for (int r = 0; r < TILE_ROWS; ++r)
#pragma unroll
                        for (int j = 0; j < 4; ++j) sums[c * TILE_ROWS + r] = fmaf(w[i][r][j], x[j], sums[c * TILE_ROWS + r]);
                }
            if (!last) fetch(layer + 1);
            const float y = sigmoid(sum_to_lanes<16>(sums, p.lane));
            if (!last) push(p, panels[1 - layer % 2], mailboxes[1 - layer % 2], y);
            if (p.row < width && p.column < samples)
                activations[(u64)(layer + 1) * width * samples + (u64)p.row * samples + p.column] = y;
        }
    }
}

template <int CHUNKS, int ROWS>
struct Shared {
    float weights[2][CHUNKS * CHUNK][ROWS + 4];  // the block's columns of a layer's weights
    float panel[2][CHUNKS * CHUNK][PANEL_PITCH];          // what went into a layer
    float deltas[2][COLUMNS][CHUNKS * CHUNK + 4];         // transposed: the inner sum goes over the rows
    float own[2][ROWS][PANEL_PITCH];             // the block's rows of them
    float losses[16];                                     // of each block of the cluster
    float warps[ROWS / 2];
    Mailbox mailboxes[2];  // of the deltas
    bool last;
};

// What the host asks for.
static_assert(sizeof(Shared<1, 16>) <= 60560 && sizeof(Shared<2, 32>) <= 153264, "see SIZES in small.rs");

// The loss, and deltas[l] for all layers l; where one cluster takes all columns, the gradients of
// the weights instead of the deltas.
template <int CHUNKS, bool ALIGNED, int ROWS>
__device__ __forceinline__ void backward_pass(const float *__restrict__ weights, const float *activations, float *deltas, float *gradients,
                                              float *partial, unsigned *arrived, float *loss, int layers, int width, int samples) {
    constexpr int DEPTH = CHUNKS * CHUNK, THREADS = ROWS * COLUMNS, WARPS = THREADS / 32;
    extern __shared__ __align__(16) unsigned char memory[];
    Shared<CHUNKS, ROWS> &shared = *reinterpret_cast<Shared<CHUNKS, ROWS> *>(memory);
    const Place p = place<ROWS>();
    const bool whole = gridDim.y == 1;
    const u64 matrix = (u64)width * width, panel = (u64)width * samples;
    const bool works = p.first_column + p.tile_column < samples && p.block_row + p.tile_row < width;
    const bool mine = p.row < width && p.column < samples;

    auto fetch_weights = [&](int layer, int half) {
        const float *from = weights + layer * matrix;
#pragma unroll
        for (int i = 0; i < DEPTH * (ROWS / 4) / THREADS; ++i) {
            const int index = threadIdx.x + i * THREADS, row = index / (ROWS / 4), k = p.block_row + index % (ROWS / 4) * 4;
            copy4<ALIGNED>(&shared.weights[half][row][index % (ROWS / 4) * 4], from + (u64)row * width + k, weights,
                           row < width ? width - k : 0);
        }
    };
    auto fetch_panel = [&](int layer, int half) {
        const float *from = activations + layer * panel;
#pragma unroll
        for (int i = 0; i < DEPTH * (COLUMNS / 4) / THREADS; ++i) {
            const int index = threadIdx.x + i * THREADS, row = index / (COLUMNS / 4), c = index % (COLUMNS / 4) * 4;
            copy4<ALIGNED>(&shared.panel[half][row][c], from + (u64)row * samples + c, activations, row < width ? samples - c : 0);
        }
    };

    allow_next();
    if (layers > 1) fetch_weights(layers - 1, 0);
    for (int k = width + p.warp; k < DEPTH; k += WARPS)
        if (p.lane < COLUMNS) shared.deltas[1][p.lane][k] = 0.0f;
    for (int i = threadIdx.x; i < ROWS * PANEL_PITCH; i += THREADS) shared.own[1][0][i] = 0.0f;
    const unsigned bytes = pushed_bytes(p, width, samples);
    if (threadIdx.x == 0) {
        shared.mailboxes[0].init();
        shared.mailboxes[1].init();
    }
    cluster_arrive();
    wait_for_previous();
    if (whole) fetch_panel(layers - 1, 0);
    float below = mine && layers > 1 ? __ldcg(activations + (layers - 1) * panel + (u64)p.row * samples + p.column) : 0.0f;

    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < DEPTH * COLUMNS / THREADS; ++i) {
        const int index = threadIdx.x + i * THREADS, k = index / COLUMNS, c = index % COLUMNS, row = k - p.block_row;
        const bool inside = k < width && p.first_column + c < samples;
        const u64 at = (u64)k * samples + p.first_column + c;
        const float y = inside ? __ldcg(activations + layers * panel + at) : 0.0f;
        const float delta = backward_of_sum(y);
        shared.deltas[0][c][k] = delta;
        if (row >= 0 && row < ROWS) {
            shared.own[0][row][c] = delta;
            sum += y;
            if (!whole && inside) deltas[(layers - 1) * panel + at] = delta;
        }
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (p.lane == 0) shared.warps[p.warp] = sum;
    copies_done();
    __syncthreads();
    cluster_wait();
    if (threadIdx.x == 0) {
        sum = 0.0f;
        for (int i = 0; i < WARPS; ++i) sum += shared.warps[i];
        store_remote(at_rank(shared_address(&shared.losses[p.rank]), 0), sum);
    }
    cluster_arrive();  // The losses are waited for at the end.

    int half = 0;
    for (int layer = layers - 1; layer >= 0; --layer, half = 1 - half) {
        if (layer > 1) fetch_weights(layer - 1, 1 - half);
        if (layer > 0) {
            if (threadIdx.x == 0) shared.mailboxes[1 - half].expect(bytes);
            if (whole) fetch_panel(layer - 1, 1 - half);
            const float y = below;
            if (layer > 1 && mine) below = __ldcg(activations + (layer - 1) * panel + (u64)p.row * samples + p.column);
            if (works) {
                float sums[32] = {};
#pragma unroll
                for (int i = 0; i < CHUNKS * 4; ++i) {
                    const int row = i * 32 + p.lane;
                    float w[TILE_ROWS];
#pragma unroll
                    for (int r = 0; r < TILE_ROWS; r += 4)
                        *reinterpret_cast<float4 *>(w + r) =
                            *reinterpret_cast<const float4 *>(&shared.weights[half][row][p.tile_row + r]);
#pragma unroll
                    for (int c = 0; c < TILE_COLUMNS; ++c) {
                        const float x = shared.deltas[half][p.tile_column + c][row];
#pragma unroll
                        for (int r = 0; r < TILE_ROWS; ++r) sums[c * TILE_ROWS + r] = fmaf(w[r], x, sums[c * TILE_ROWS + r]);
                    }
                }
                const float delta = backward(sum_to_lanes<16>(sums, p.lane), y);
                push(p, shared.deltas[1 - half], shared.mailboxes[1 - half], delta);
                shared.own[1 - half][p.row - p.block_row][p.column - p.first_column] = delta;
                if (!whole && mine) deltas[(layer - 1) * panel + (u64)p.row * samples + p.column] = delta;
            }
        }
        if (whole) {
            for (int unit = p.warp; unit < ROWS / 4 * CHUNKS * 2; unit += WARPS) {
                const int row = unit % (ROWS / 4) * 4, k = unit / (ROWS / 4) * 64 + p.lane;
                float sums[4][2] = {};
#pragma unroll
                for (int c = 0; c < COLUMNS; c += 4) {
                    float4 x[2];
#pragma unroll
                    for (int j = 0; j < 2; ++j) x[j] = *reinterpret_cast<const float4 *>(&shared.panel[half][k + j * 32][c]);
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const float4 d = *reinterpret_cast<const float4 *>(&shared.own[half][row + i][c]);
#pragma unroll
                        for (int j = 0; j < 2; ++j)
                            sums[i][j] = fmaf(d.w, x[j].w, fmaf(d.z, x[j].z, fmaf(d.y, x[j].y, fmaf(d.x, x[j].x, sums[i][j]))));
                    }
                }
#pragma unroll
                for (int i = 0; i < 4; ++i)
#pragma unroll
                    for (int j = 0; j < 2; ++j)
                        if (p.block_row + row + i < width && k + j * 32 < width)
                            gradients[layer * matrix + (u64)(p.block_row + row + i) * width + k + j * 32] = sums[i][j];
            }
        }
        if (layer > 0) {
            copies_done();
            __syncthreads();
            // The first filling is of mailbox 1, the second of mailbox 0.
            shared.mailboxes[1 - half].wait((layers - 1 - layer) / 2 % 2);
        }
    }

    cluster_wait();
    if (p.rank != 0) return;
    if (threadIdx.x == 0) {
        sum = 0.0f;
        for (unsigned i = 0; i < p.ranks; ++i) sum += shared.losses[i];
        if (whole) {
            *loss = sum;
        } else {
            partial[blockIdx.y] = sum;
            __threadfence();
            shared.last = atomicAdd(arrived, 1u) == gridDim.y - 1;
        }
    }
    if (whole) return;
    __syncthreads();
    if (!shared.last) return;
    __threadfence();
    sum = 0.0f;
    for (unsigned i = threadIdx.x; i < gridDim.y; i += THREADS) sum += __ldcg(partial + i);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (p.lane == 0) shared.warps[p.warp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0.0f;
        for (int i = 0; i < WARPS; ++i) sum += shared.warps[i];
        *loss = sum;
        *arrived = 0;
    }
}

#define KERNELS(SUFFIX, CHUNKS, ALIGNED, ROWS)                                                                                \
    extern "C" __global__ void __launch_bounds__(ROWS *COLUMNS, 1)                                                  \
        fused_mlp_forward_small_##SUFFIX(const float *weights, float *activations, int layers, int width, int samples) {           \
        forward_pass<CHUNKS, ALIGNED, ROWS>(weights, activations, layers, width, samples);                                    \
    }                                                                                                                              \
    extern "C" __global__ void __launch_bounds__(ROWS *COLUMNS, 1) fused_mlp_backward_small_##SUFFIX(               \
        const float *weights, const float *activations, float *deltas, float *gradients, float *partial, unsigned *arrived,        \
        float *loss, int layers, int width, int samples) {                                                                         \
        backward_pass<CHUNKS, ALIGNED, ROWS>(weights, activations, deltas, gradients, partial, arrived, loss, layers, width,  \
                                                  samples);                                                                        \
    }

KERNELS(aligned_128, 1, true, 16)
KERNELS(any_128, 1, false, 16)
KERNELS(aligned_256, 2, true, 32)
KERNELS(any_256, 2, false, 32)
#endif
