// What the scalar kernels of matrix tiles share: copies into shared memory that turn rows into columns, and the product of two tiles.

// Whether copies run in the background (compute capability 8.0, 32 bits). Elsewhere they are done when the function returns.
#define BACKGROUND (__CUDA_ARCH__ >= 800 && STORAGE == STORAGE_F32)

__device__ __forceinline__ void copy_one(float *to, const Storage *from) {
#if BACKGROUND
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
#else
    *to = widen(*from);
#endif
}

__device__ __forceinline__ void end_of_group() {
#if BACKGROUND
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until all but the last PENDING groups of this thread's copies are there.
template <int PENDING>
__device__ __forceinline__ void wait_for_groups() {
#if BACKGROUND
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

// Copies COUNT numbers of each of ROWS rows (row-major, STRIDE apart) into `to[number][row]`. A warp takes 4 rows x 8 numbers at a time: whole
// sectors of 32 bytes on one side, and no bank twice on the other, because PITCH is 4 more than a multiple of 8.
// Rows from `rows` on and numbers from `count` on are left out where CHECKED.
template <int ROWS, int COUNT, int STRIDE, int PITCH, int THREADS_, bool CHECKED>
__device__ __forceinline__ void copy_transposed(float *to, const Storage *from, int rows, int count) {
    static_assert(ROWS % 4 == 0 && COUNT % 8 == 0 && PITCH % 8 == 4, "whole pieces, no bank conflicts");
    constexpr int WARPS = THREADS_ / 32, ACROSS = ROWS / 4, PIECES = ACROSS * (COUNT / 8);
    const int warp = threadIdx.x / 32, row = threadIdx.x % 4, number = threadIdx.x % 32 / 4;
    if constexpr (ACROSS % WARPS == 0) {
        // All addresses are constants away from the first.
        float *const first = to + number * PITCH + warp * 4 + row;
        const Storage *const source = from + (warp * 4 + row) * STRIDE + number;
#pragma unroll
        for (int i = 0; i < PIECES / WARPS; ++i) {
            const int across = i % (ACROSS / WARPS) * WARPS * 4, along = i / (ACROSS / WARPS) * 8;
            if (!CHECKED || (warp * 4 + row + across < rows && along < count))
                copy_one(first + along * PITCH + across, source + across * STRIDE + along);
        }
    } else {
#pragma unroll
        for (int i = 0; i < (PIECES + WARPS - 1) / WARPS; ++i) {
            const int piece = warp + i * WARPS, across = piece % ACROSS * 4, along = piece / ACROSS * 8;
            if ((PIECES % WARPS == 0 || piece < PIECES) && (!CHECKED || (row + across < rows && along < count)))
                copy_one(to + (along + number) * PITCH + across + row, from + (row + across) * STRIDE + along + number);
        }
    }
}

// acc += a^T b over 8 terms: `a` is [term][A_PITCH] with the thread's rows at 0..3, A_STEP..A_STEP+3, ...; `b` likewise. The numbers of the next
// term are on their way while those of this one are used.
template <int ROWS, int COLUMNS, int A_PITCH, int A_STEP, int B_PITCH, int B_STEP>
__device__ __forceinline__ void multiply(const float *a, const float *b, float (&acc)[ROWS][COLUMNS]) {
    float rows[2][ROWS], columns[2][COLUMNS];
    auto fetch = [&](int term, int half) {
#pragma unroll
        for (int i = 0; i < ROWS; i += 4) {
            const float4 v = *reinterpret_cast<const float4 *>(a + term * A_PITCH + i / 4 * A_STEP);
            rows[half][i] = v.x, rows[half][i + 1] = v.y, rows[half][i + 2] = v.z, rows[half][i + 3] = v.w;
        }
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 4) {
            const float4 v = *reinterpret_cast<const float4 *>(b + term * B_PITCH + j / 4 * B_STEP);
            columns[half][j] = v.x, columns[half][j + 1] = v.y, columns[half][j + 2] = v.z, columns[half][j + 3] = v.w;
        }
    };
    fetch(0, 0);
#pragma unroll
    for (int term = 0; term < 8; ++term) {
        if (term < 7) fetch(term + 1, (term + 1) % 2);
#pragma unroll
        for (int i = 0; i < ROWS; ++i)
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) acc[i][j] = fmaf(rows[term % 2][i], columns[term % 2][j], acc[i][j]);
    }
}
