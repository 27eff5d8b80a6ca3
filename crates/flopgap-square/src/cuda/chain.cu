// All layers of a pass in one launch. Every block computes a tile of each layer's panel, the whole
// inner sum of it, which its groups of threads share out. Columns are independent of each other: a
// block waits only for the blocks of its columns, not for the grid.

__device__ __forceinline__ void copy16(unsigned to, const float *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// At an address in shared memory, and a distance that is known when this is compiled.
template <typename Distance> __device__ __forceinline__ float4 fetch(unsigned from, Distance distance) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(from + distance) : "memory");
    return v;
}
template <int N> __device__ __forceinline__ void pending() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

template <bool FORWARD, int BM, int BN, int BK, int GROUPS, int STAGES>
struct Chain {
    static constexpr int GROUP = BM / 8 * (BN / 8), THREADS = GROUP * GROUPS;
    static constexpr bool HALVES = GROUP == 16;  // two groups in a warp
    static constexpr int LX = BN >= 64 && BM < 64 ? 8 : 4, LY = (HALVES ? 16 : 32) / LX;
    static constexpr int WARPS_N = BN / (LX * 8);
    static constexpr int A = BM * BK, STAGE = (BM + BN) * BK, PITCH = BN == 32 ? BN + 4 : BN + 16;
    static constexpr int CHUNKS = BK / 4, PER = CHUNKS / GROUPS;
    static constexpr int SHARED = (STAGES * STAGE + GROUPS * BM * PITCH) * 4;
    static constexpr int EACH = BM * BN / 4 / THREADS;
    static_assert(CHUNKS >= 8 && PER >= 1 && (PER % 2 == 0 || !FORWARD) && (!HALVES || GROUPS % 2 == 0), "");

    static __device__ __forceinline__ void run(const float *__restrict__ weights, const float *from, const float *y, float *to, int layers,
                                               int width, int samples, unsigned *arrived) {
        extern __shared__ __align__(128) float shared[];
        float *const parts = shared + STAGES * STAGE;
        const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
        const int half = HALVES ? lane / 16 : 0, group = HALVES ? warp * 2 + half : thread / GROUP;
        const int lx = lane % LX, ly = lane / LX % LY;
        const int in_group = HALVES ? 0 : thread % GROUP / 32;
        const int warp_row = in_group / WARPS_N * (LY * 8), warp_column = in_group % WARPS_N * (LX * 8);
        // The two groups of a warp read different banks.
        const int first_chunk = HALVES ? warp % 4 + 4 * half + 8 * (warp / 4) : group * PER;
        constexpr int CHUNK_STEP = HALVES ? GROUPS : 1;
        const int row_tiles = width / BM, tiles = row_tiles * ((samples + BN - 1) / BN), stages = width / BK;
        const u64 matrix = (u64)width * width, panel = (u64)width * samples;
        const unsigned base = (unsigned)__cvta_generic_to_shared(shared);

        // What this thread copies of every stage: of the terms of its group, where a group has its
        // own barrier, or of all terms.
        const int copier = HALVES ? thread : thread % GROUP, first_term = HALVES ? 0 : group * PER * 4;
        constexpr int COPIERS = HALVES ? THREADS : GROUP, TERMS = HALVES ? BK : PER * 4;
        const int a_row = FORWARD ? copier / (TERMS / 4) : first_term + copier / (BM / 4);
        const int a_column = FORWARD ? first_term + copier % (TERMS / 4) * 4 : copier % (BM / 4) * 4;
        constexpr int A_ROWS = FORWARD ? COPIERS / (TERMS / 4) : COPIERS / (BM / 4), A_COPIES = BM * TERMS / 4 / COPIERS;
        static_assert(!FORWARD || A_ROWS % 8 == 0, "");
        const unsigned a_to = base + (FORWARD ? a_row * BK + (a_column ^ (a_row & 7) * 4) : a_row * BM + a_column) * 4;
        constexpr unsigned A_STEP = A_ROWS * (FORWARD ? BK : BM) * 4;
        const int b_row = first_term + copier / (BN / 4), b_column = copier % (BN / 4) * 4;
        constexpr int B_ROWS = COPIERS / (BN / 4), B_COPIES = BN * TERMS / 4 / COPIERS;
        const unsigned b_to = base + (A + b_row * BN + b_column) * 4;
        auto meet = [&]() {
            if (HALVES || GROUPS == 1) __syncthreads();
            else asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(GROUP) : "memory");
        };

        // Where this thread reads in every stage: in the second group of a warp, the two halves of
        // its rows and columns change places.
        const unsigned b_first = (A + first_chunk * 4 * BN + warp_column + lx * 4 + half * LX * 4) * 4;
        const unsigned a_first = (FORWARD ? (warp_row + ly) * BK : first_chunk * 4 * BM + warp_row + ly * 4 + half * LY * 4) * 4;
        unsigned turned[FORWARD ? PER : 1][2];
#pragma unroll
        for (int c = 0; c < (FORWARD ? PER : 1); ++c)
#pragma unroll
            for (int odd = 0; odd < 2; ++odd) turned[c][odd] = ((first_chunk + c * CHUNK_STEP) ^ (LY == 8 ? ly : ly + odd * 4)) * 16;

        auto load_a = [&](const float *source, int stage, int slot) {
            const float *at = source + (FORWARD ? (u64)(stage * BK) : (u64)(stage * BK) * width);
#pragma unroll
            for (int i = 0; i < A_COPIES; ++i) copy16(a_to + slot * (STAGE * 4) + i * A_STEP, at + (u64)(i * A_ROWS) * width);
        };
        auto load_b = [&](const float *source, int stage, int slot) {
            const float *at = source + (u64)(stage * BK) * samples;
#pragma unroll
            for (int i = 0; i < B_COPIES; ++i) copy16(b_to + slot * (STAGE * 4) + i * (B_ROWS * BN * 4), at + (u64)(i * B_ROWS) * samples);
        };
        auto a_source = [&](int layer, int tile) {
            const float *w = weights + (FORWARD ? layer : layers - 1 - layer) * matrix;
            const int first = tile % row_tiles * BM;
            return FORWARD ? w + (u64)(first + a_row) * width + a_column : w + (u64)a_row * width + first + a_column;
        };

        int tile = blockIdx.x, layer = 0;
        const float *a_at = a_source(0, tile);
#pragma unroll
        for (int s = 0; s < STAGES; ++s)
            if (s < stages) load_a(a_at, s, s);

        while (layer < layers) {
            const int first_row = tile % row_tiles * BM, block = tile / row_tiles, first_column = block * BN;
            const u64 in = FORWARD ? layer * panel : (layers - layer) * panel, outside = FORWARD ? (layer + 1) * panel : (layers - layer - 1) * panel;
            if (layer > 0) {
                if (thread == 0) {
                    const unsigned needed = (unsigned)layer * row_tiles;
                    unsigned found;
                    do {
                        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(arrived + block) : "memory");
                    } while (found < needed);
                }
                __syncthreads();
            }
            const float *b_at = from + in + (u64)b_row * samples + min(first_column + b_column, samples - 4);
#pragma unroll
            for (int s = 0; s < STAGES; ++s) {
                if (s < stages) load_b(b_at, s, s);
                commit();
            }

            float sums[8][8] = {};
            // Operands of the next term are fetched while this one is multiplied, across stages,
            // too.
            float4 left[2][FORWARD ? 8 : 2], right[2][2];
            int slot = 0, freed = 0;
            unsigned a_part = 0, b_part = 0;
            auto enter = [&](int s) {
                a_part = base + s * (STAGE * 4) + a_first;
                b_part = base + s * (STAGE * 4) + b_first;
            };
            // All distances but those of swizzled chunks are known when this is compiled.
            auto fetch_right = [&](float4 (&to)[2], int c, int k) {
#pragma unroll
                for (int j = 0; j < 2; ++j) to[j] = fetch(HALVES && j ? b_part ^ LX * 16 : b_part, ((c * CHUNK_STEP * 4 + k) * BN + (HALVES ? 0 : j * LX * 4)) * 4);
            };
            auto fetch_row = [&](float4 &to, int c, int i) {
                to = fetch(a_part + turned[c][LY == 8 ? 0 : i % 2], i * LY * BK * 4);
            };
            auto fetch_left = [&](float4 *to, int c, int k) {
#pragma unroll
                for (int i = 0; i < 2; ++i) to[i] = fetch(HALVES && i ? a_part ^ LY * 16 : a_part, ((c * CHUNK_STEP * 4 + k) * BM + (HALVES ? 0 : i * LY * 4)) * 4);
            };
            enter(0);
            pending<STAGES - 1>();
            meet();
            fetch_right(right[0], 0, 0);
            if (FORWARD) {
#pragma unroll
                for (int i = 0; i < 8; ++i) fetch_row(left[0][i], 0, i);
            } else {
                fetch_left(left[0], 0, 0);
            }
            for (int stage = 0; stage < stages; ++stage) {
#pragma unroll
                for (int s = 0; s < PER * 4; ++s) {
                    const int c = s / 4, k = s % 4;
                    const bool last = s + 1 == PER * 4;
                    // After the first operands of the stage are on the way.
                    if (s == 3 && stage > 0) {
                        if (stage - 1 + STAGES < stages) {
                            load_a(a_at, stage - 1 + STAGES, freed);
                            load_b(b_at, stage - 1 + STAGES, freed);
                        }
                        commit();
                    }
                    if (FORWARD && PER > 1 && c + 1 < PER) {
                        fetch_row(left[(c + 1) % 2][k * 2], c + 1, k * 2);
                        fetch_row(left[(c + 1) % 2][k * 2 + 1], c + 1, k * 2 + 1);
                    }
                    if (last) {
                        pending<STAGES - 2>();
                        meet();
                        freed = slot;
                        slot = slot + 1 == STAGES ? 0 : slot + 1;
                        enter(slot);
                        fetch_right(right[0], 0, 0);
                        if (FORWARD) {
#pragma unroll
                            for (int i = 0; i < 8; ++i) fetch_row(left[PER % 2][i], 0, i);
                        } else {
                            fetch_left(left[0], 0, 0);
                        }
                    } else {
                        fetch_right(right[(s + 1) % 2], (s + 1) / 4, (s + 1) % 4);
                        if (!FORWARD) fetch_left(left[(s + 1) % 2], (s + 1) / 4, (s + 1) % 4);
                    }
                    const float4 r0 = right[s % 2][0], r1 = right[s % 2][1];
                    const float columns[8] = {r0.x, r0.y, r0.z, r0.w, r1.x, r1.y, r1.z, r1.w};
#pragma unroll
                    for (int i = 0; i < 8; ++i) {
                        float row;
                        if (FORWARD) {
                            const float4 v = left[c % 2][i];
                            row = k == 0 ? v.x : k == 1 ? v.y : k == 2 ? v.z : v.w;
                        } else {
                            const float4 v = left[s % 2][i / 4];
                            row = i % 4 == 0 ? v.x : i % 4 == 1 ? v.y : i % 4 == 2 ? v.z : v.w;
                        }
#pragma unroll
                        for (int jj = 0; jj < 8; ++jj) {
                            const int j = i % 2 ? 7 - jj : jj;
                            sums[i][j] = fmaf(row, columns[j], sums[i][j]);

                        }
                    }
                }
            }
            __syncthreads();

            // The weights of the next tile are on the way while this one is finished.
            tile += gridDim.x;
            int next_layer = layer;
            if (tile >= tiles) { tile = blockIdx.x; ++next_layer; }
            if (next_layer < layers) {
                a_at = a_source(next_layer, tile);
#pragma unroll
                for (int s = 0; s < STAGES; ++s)
                    if (s < stages) load_a(a_at, s, s);
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int row = warp_row + (FORWARD ? ly + LY * i : (i / 4 ^ half) * LY * 4 + ly * 4 + i % 4);
#pragma unroll
                for (int j = 0; j < 2; ++j)
                    *reinterpret_cast<float4 *>(parts + (group * BM + row) * PITCH + warp_column + lx * 4 + (j ^ half) * LX * 4) =
                        make_float4(sums[i][j * 4], sums[i][j * 4 + 1], sums[i][j * 4 + 2], sums[i][j * 4 + 3]);
            }
            float4 slope[EACH];
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                const int index = thread + e * THREADS, row = first_row + index / (BN / 4), column = first_column + index % (BN / 4) * 4;
                if (!FORWARD && column < samples) slope[e] = *reinterpret_cast<const float4 *>(y + outside + panel + (u64)row * samples + column);
            }
            __syncthreads();
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                const int index = thread + e * THREADS, row = index / (BN / 4), column = index % (BN / 4) * 4;
                const float *at = parts + row * PITCH + column;
                float4 v = *reinterpret_cast<const float4 *>(at);
#pragma unroll
                for (int g = 1; g < GROUPS; ++g) v = add(v, *reinterpret_cast<const float4 *>(at + g * BM * PITCH));
                if (FORWARD) v = make_float4(sigmoid(v.x), sigmoid(v.y), sigmoid(v.z), sigmoid(v.w));
                else v = make_float4(backward(v.x, slope[e].x), backward(v.y, slope[e].y), backward(v.z, slope[e].z), backward(v.w, slope[e].w));
                if (first_column + column < samples) *reinterpret_cast<float4 *>(to + outside + (u64)(first_row + row) * samples + first_column + column) = v;
            }
            __syncthreads();
            if (thread == 0 && layer + 1 < layers) {
                __threadfence();
                atomicAdd(arrived + block, 1u);
            }
            layer = next_layer;
        }
        // The last block leaves the counters as they were: zero.
        if (thread == 0) {
            const int blocks = (samples + BN - 1) / BN;
            __threadfence();
            if (atomicAdd(arrived + blocks, 1u) == gridDim.x - 1)
                for (int i = 0; i <= blocks; ++i) arrived[i] = 0;
        }
    }
};

#define KERNELS(TILE, BK, GROUPS, STAGES)                                                                                          \
    extern "C" __global__ void __launch_bounds__((Chain<true, TILE, TILE, BK, GROUPS, STAGES>::THREADS), 1)                        \
        fused_mlp_forward_chain_##TILE(const float *weights, const float *from, const float *y, float *to, int layers, int width,  \
                                       int samples, unsigned *arrived) {                                                           \
        Chain<true, TILE, TILE, BK, GROUPS, STAGES>::run(weights, from, y, to, layers, width, samples, arrived);                   \
    }                                                                                                                              \
    extern "C" __global__ void __launch_bounds__((Chain<false, TILE, TILE, BK, GROUPS, STAGES>::THREADS), 1)                       \
        fused_mlp_backward_chain_##TILE(const float *weights, const float *from, const float *y, float *to, int layers, int width, \
                                        int samples, unsigned *arrived) {                                                          \
        Chain<false, TILE, TILE, BK, GROUPS, STAGES>::run(weights, from, y, to, layers, width, samples, arrived);                  \
    }

KERNELS(64, 64, 4, 4)
KERNELS(32, 128, 16, 4)
