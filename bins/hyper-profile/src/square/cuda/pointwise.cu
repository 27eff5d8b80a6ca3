// What is done to every number by itself, and the sum of the loss, in 32-bit floats. Four numbers
// at a time where the address allows.

typedef unsigned long long u64;

__device__ __forceinline__ float sigmoid(float z) { return 1.0f / (1.0f + expf(-z)); }
// Through the sigmoid back, from what it gave. The same where the gradient is 1.
__device__ __forceinline__ float backward(float gradient, float y) { return gradient * (1.0f - y) * y; }
__device__ __forceinline__ float backward_of_sum(float y) { return (1.0f - y) * y; }

// Calls `one(i)` for the first numbers of an array that starts at an address that is not a multiple
// of 16 bytes, or that are left over, and `four(i)` for i = 0, 4, 8, ... else.
template <typename Four, typename One>
__device__ __forceinline__ void each(u64 length, bool aligned, Four four, One one) {
    const u64 threads = (u64)gridDim.x * blockDim.x, thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u64 in_fours = aligned ? length / 4 : 0;
    for (u64 i = thread; i < in_fours; i += threads) four(i * 4);
    for (u64 i = in_fours * 4 + thread; i < length; i += threads) one(i);
}

__device__ __forceinline__ bool aligned(const void *pointer) { return ((u64)pointer & 15) == 0; }

__device__ __forceinline__ float4 load4(const float *x) { return *reinterpret_cast<const float4 *>(x); }
__device__ __forceinline__ void store4(float *x, float4 v) { *reinterpret_cast<float4 *>(x) = v; }

// x = sigmoid(x)
extern "C" __global__ void sigmoid_forward(float *x, u64 length) {
    each(length, aligned(x),
         [=](u64 i) {
             const float4 v = load4(x + i);
             store4(x + i, make_float4(sigmoid(v.x), sigmoid(v.y), sigmoid(v.z), sigmoid(v.w)));
         },
         [=](u64 i) { x[i] = sigmoid(x[i]); });
}

// x = x * sigmoid'(z), where y = sigmoid(z)
extern "C" __global__ void sigmoid_backward(float *x, const float *y, u64 length) {
    each(length, aligned(x) && aligned(y),
         [=](u64 i) {
             const float4 g = load4(x + i), v = load4(y + i);
             store4(x + i, make_float4(backward(g.x, v.x), backward(g.y, v.y), backward(g.z, v.z), backward(g.w, v.w)));
         },
         [=](u64 i) { x[i] = backward(x[i], y[i]); });
}

// x = sigmoid'(z): the same where the gradient is 1, which is not read
extern "C" __global__ void sigmoid_backward_of_sum(float *x, const float *y, u64 length) {
    each(length, aligned(x) && aligned(y),
         [=](u64 i) {
             const float4 v = load4(y + i);
             store4(x + i, make_float4(backward_of_sum(v.x), backward_of_sum(v.y), backward_of_sum(v.z), backward_of_sum(v.w)));
         },
         [=](u64 i) { x[i] = backward_of_sum(y[i]); });
}

// SplitMix64, read at an index: top 24 bits, as a number in [-1, 1). Exact, so that the host's
// numbers have the same bits.
__device__ __forceinline__ float uniform(u64 seed, u64 index) {
    u64 bits = seed + (index + 1) * 0x9e3779b97f4a7c15ull;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ull;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebull;
    bits ^= bits >> 31;
    return (float)(unsigned)(bits >> 40) * (1.0f / 8388608.0f) - 1.0f;
}

extern "C" __global__ void random_uniform_init(float *x, u64 length, u64 seed, u64 first, float bound) {
    each(length, aligned(x),
         [=](u64 i) {
             const u64 n = first + i;
             store4(x + i, make_float4(uniform(seed, n) * bound, uniform(seed, n + 1) * bound, uniform(seed, n + 2) * bound,
                                       uniform(seed, n + 3) * bound));
         },
         [=](u64 i) { x[i] = uniform(seed, first + i) * bound; });
}

// Sum over a block, valid in thread 0. Blocks have 256 threads.
__device__ __forceinline__ float block_sum(float value) {
    __shared__ float warps[8];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x < 8 ? warps[threadIdx.x] : 0.0f;
    for (int offset = 4; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
    __syncthreads();
    return value;
}

// loss = sum of y. Each block leaves its sum in `partial`; the block that comes last adds them,
// always in the same order. `arrived` is 0 before and after.
extern "C" __global__ void loss_sum_reduce(const float *y, u64 length, float *partial, unsigned *arrived, float *loss) {
    __shared__ bool last;
    float sum = 0.0f;
    each(length, aligned(y),
         [&](u64 i) {
             const float4 v = load4(y + i);
             sum += (v.x + v.y) + (v.z + v.w);
         },
         [&](u64 i) { sum += y[i]; });
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(arrived, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    sum = 0.0f;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += __ldcg(partial + i);
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        *loss = sum;
        *arrived = 0;
    }
}
