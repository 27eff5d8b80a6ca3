// Kernels of the steps that no library computes. Correct first: memory-bound ones move four numbers
// at a time. NUMBERS says how numbers are stored: 0 fp32, 1 fp16, 2 bf16, 3 int8 (a 1 stands for a
// sixteenth).

typedef unsigned long long u64;

__device__ float saturate_i8(float x) { return fminf(fmaxf(rintf(x), -128.0f), 127.0f); }

#if NUMBERS == 0
typedef float number;
__device__ float load(number x) { return x; }
__device__ number store(float x) { return x; }
__device__ number store_raw(float x) { return x; }
__device__ float load_raw(number x) { return x; }
#elif NUMBERS == 1
typedef unsigned short number;
__device__ float load(number x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}
__device__ number store(float x) {
    number y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
__device__ number store_raw(float x) { return store(x); }
__device__ float load_raw(number x) { return load(x); }
#elif NUMBERS == 2
typedef unsigned short number;
__device__ float load(number x) { return __uint_as_float(static_cast<unsigned>(x) << 16); }
__device__ number store(float x) {
    const unsigned bits = __float_as_uint(x);
    // Nearest, ties to even; what is not a number stays so.
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<number>((bits >> 16) | 0x40u);
    return static_cast<number>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
__device__ number store_raw(float x) { return store(x); }
__device__ float load_raw(number x) { return load(x); }
#else
typedef signed char number;
__device__ float load(number x) { return static_cast<float>(x) * 0.0625f; }
__device__ number store(float x) { return static_cast<number>(saturate_i8(x * 16.0f)); }
__device__ number store_raw(float x) { return static_cast<number>(saturate_i8(x)); }
__device__ float load_raw(number x) { return static_cast<float>(x); }
#endif

struct alignas(4 * sizeof(number)) four {
    number of[4];
};

// What a thread loads at once at most.
struct alignas(16) vector {
    number of[16 / sizeof(number)];
};

// The thread of all, and how many there are.
#define FIRST (static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x)
#define THREADS (static_cast<u64>(gridDim.x) * blockDim.x)

// Uniform in -1 to 1, from a seed and a place.
__device__ float uniform(u64 seed, u64 index) {
    u64 x = seed + index * 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    return static_cast<float>(static_cast<unsigned>(x >> 40)) * 0x1p-23f - 1.0f;
}

extern "C" __global__ void fill_numbers(number *out, u64 elements, u64 seed, float center, float width) {
    for (u64 i = FIRST; i < elements; i += THREADS) out[i] = store_raw(center + width * uniform(seed, i));
}

extern "C" __global__ void fill_floats(float *out, u64 elements, u64 seed, float center, float width) {
    for (u64 i = FIRST; i < elements; i += THREADS) out[i] = center + width * uniform(seed, i);
}

// Whole numbers from 0 on, below `limit`.
extern "C" __global__ void fill_indexes(int *out, u64 elements, u64 seed, unsigned limit) {
    for (u64 i = FIRST; i < elements; i += THREADS) {
        const float place = (uniform(seed, i) + 1.0f) * 0.5f * static_cast<float>(limit);
        const unsigned index = static_cast<unsigned>(place);
        out[i] = static_cast<int>(index < limit ? index : limit - 1);
    }
}

// The numbers of flopgap_flops::Activation.
__device__ float activate(int activation, float x) {
    switch (activation) {
        case 1: return fmaxf(x, 0.0f);
        case 2: return x > 0.0f ? x : 0.01f * x;
        case 3: return 1.0f / (1.0f + expf(-x));
        case 4: return tanhf(x);
        case 5: return 0.5f * x * (1.0f + erff(x * 0.70710678f));
        case 6: return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
        case 7: return x / (1.0f + expf(-x));
        default: return x;
    }
}

__device__ float hard_sigmoid(float x) { return fminf(fmaxf(x * (1.0f / 6.0f) + 0.5f, 0.0f), 1.0f); }

// Functions of one number: an activation, then those of `Function` in pointwise.rs.
__device__ float unary_of(int function, float x) {
    switch (function) {
        case 16: return sqrtf(fabsf(x));
        case 17: return expf(-fabsf(x));
        case 18: return saturate_i8(x * 16.0f) * 0.0625f;
        case 19: return hard_sigmoid(x);
        case 20: return x * hard_sigmoid(x);
        default: return activate(function, x);
    }
}

// Products and quotients are kept within what every type holds.
__device__ float bounded(float x) { return fminf(fmaxf(x, -1024.0f), 1024.0f); }

__device__ float binary_of(int function, float a, float b) {
    switch (function) {
        case 33: return bounded(a * b);
        case 34: return bounded(a / b);
        case 35: return fmaxf(a, b);
        default: return a + b;
    }
}

// out[i] = f(in[i % read]); by fours where both are divisible.
extern "C" __global__ void unary(int function, const number *in, number *out, u64 elements, u64 read) {
    if (elements % 4 == 0 && read == elements) {
        const four *from = reinterpret_cast<const four *>(in);
        four *to = reinterpret_cast<four *>(out);
        for (u64 i = FIRST; i < elements / 4; i += THREADS) {
            const four x = from[i];
            four y;
            for (int j = 0; j < 4; ++j) y.of[j] = store(unary_of(function, load(x.of[j])));
            to[i] = y;
        }
        return;
    }
    for (u64 i = FIRST; i < elements; i += THREADS) out[i] = store(unary_of(function, load(in[i % read])));
}

// out[i] = f(a[i % read_a], b[i % read_b]); by fours where these are divisible, or b is one number.
extern "C" __global__ void binary(int function, const number *a, const number *b, number *out, u64 elements,
                                  u64 read_a, u64 read_b) {
    const bool small = elements < 0xffffffffull;
    if (elements % 4 == 0 && read_a == elements && (read_b == 1 || read_b % 4 == 0)) {
        const four *left = reinterpret_cast<const four *>(a), *right = reinterpret_cast<const four *>(b);
        four *to = reinterpret_cast<four *>(out);
        const u64 period = read_b / 4;
        four y;
        for (int j = 0; j < 4; ++j) y.of[j] = b[0];
        for (u64 i = FIRST; i < elements / 4; i += THREADS) {
            const four x = left[i];
            if (read_b == elements) {
                y = right[i];
            } else if (read_b > 1) {
                y = right[small ? static_cast<unsigned>(i) % static_cast<unsigned>(period) : i % period];
            }
            four z;
            for (int j = 0; j < 4; ++j) z.of[j] = store(binary_of(function, load(x.of[j]), load(y.of[j])));
            to[i] = z;
        }
        return;
    }
    for (u64 i = FIRST; i < elements; i += THREADS) {
        out[i] = store(binary_of(function, load(a[i % read_a]), load(b[i % read_b])));
    }
}

// Softmax, norms and means take a block for each row, so that a row is read by one multiprocessor
// alone, however wide it is: fewer rows than the device has multiprocessors leave some of them
// idle. Dividing a row would take a second kernel, and memory for what the parts found.

// A sum or a maximum over a block of up to 1024 threads, given to all of them.
template <bool MAXIMUM>
__device__ float over_block(float x) {
    __shared__ float parts[33];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, x, step);
        x = MAXIMUM ? fmaxf(x, other) : x + other;
    }
    // Nobody may still read the parts of an earlier call.
    __syncthreads();
    if (lane == 0) parts[warp] = x;
    __syncthreads();
    if (warp == 0) {
        float y = lane < warps ? parts[lane] : (MAXIMUM ? -3.402823e38f : 0.0f);
        for (int step = 16; step > 0; step /= 2) {
            const float other = __shfl_xor_sync(0xffffffffu, y, step);
            y = MAXIMUM ? fmaxf(y, other) : y + other;
        }
        if (lane == 0) parts[32] = y;
    }
    __syncthreads();
    return parts[32];
}

// softmax(scale * x) of each row: a block for each, its threads a multiple of 32. If `queries` is
// not 0, the last of so many rows sees all columns, each before it one less, and what it does not
// see is 0.
extern "C" __global__ void softmax(const number *in, number *out, u64 rows, u64 columns, float scale, u64 queries) {
    for (u64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const number *x = in + row * columns;
        number *y = out + row * columns;
        const u64 hidden = queries ? queries - 1 - row % queries : 0;
        const u64 seen = hidden < columns ? columns - hidden : 1;
        float top = -3.402823e38f;
        for (u64 i = threadIdx.x; i < seen; i += blockDim.x) top = fmaxf(top, scale * load(x[i]));
        top = over_block<true>(top);
        float sum = 0.0f;
        for (u64 i = threadIdx.x; i < seen; i += blockDim.x) sum += expf(scale * load(x[i]) - top);
        sum = over_block<false>(sum);
        const float factor = 1.0f / sum;
        for (u64 i = threadIdx.x; i < columns; i += blockDim.x) {
            y[i] = store(i < seen ? expf(scale * load(x[i]) - top) * factor : 0.0f);
        }
    }
}

// (x - mean) / sqrt(variance + 1e-5) of each row, times a scale and plus a shift: by column
// (`by_row` 0) or by row. `centered` 0: without the mean (root of the mean square).
extern "C" __global__ void normalize(const number *in, const number *scale, const number *shift, number *out, u64 rows,
                                u64 columns, int by_row, int centered) {
    for (u64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const number *x = in + row * columns;
        number *y = out + row * columns;
        float mean = 0.0f;
        if (centered) {
            for (u64 i = threadIdx.x; i < columns; i += blockDim.x) mean += load(x[i]);
            mean = over_block<false>(mean) / static_cast<float>(columns);
        }
        float square = 0.0f;
        for (u64 i = threadIdx.x; i < columns; i += blockDim.x) {
            const float difference = load(x[i]) - mean;
            square += difference * difference;
        }
        square = over_block<false>(square) / static_cast<float>(columns);
        const float factor = 1.0f / sqrtf(square + 1e-5f);
        for (u64 i = threadIdx.x; i < columns; i += blockDim.x) {
            const u64 place = by_row ? row : i;
            y[i] = store((load(x[i]) - mean) * factor * load(scale[place]) + load(shift[place]));
        }
    }
}

// A scale and a shift by channel; channels are innermost (NHWC).
extern "C" __global__ void affine(const number *in, const number *scale, const number *shift, number *out, u64 elements,
                                  u64 channels) {
    const bool small = elements < 0xffffffffull;
    if (channels % 4 == 0) {
        const four *from = reinterpret_cast<const four *>(in);
        const four *factors = reinterpret_cast<const four *>(scale), *shifts = reinterpret_cast<const four *>(shift);
        four *to = reinterpret_cast<four *>(out);
        const u64 period = channels / 4;
        for (u64 i = FIRST; i < elements / 4; i += THREADS) {
            const u64 place = small ? static_cast<unsigned>(i) % static_cast<unsigned>(period) : i % period;
            const four x = from[i], a = factors[place], b = shifts[place];
            four y;
            for (int j = 0; j < 4; ++j) y.of[j] = store(load(x.of[j]) * load(a.of[j]) + load(b.of[j]));
            to[i] = y;
        }
        return;
    }
    for (u64 i = FIRST; i < elements; i += THREADS) {
        const u64 channel = i % channels;
        out[i] = store(load(in[i]) * load(scale[channel]) + load(shift[channel]));
    }
}

// The mean of each run of `length` numbers: a block for each.
extern "C" __global__ void reduce(const number *in, number *out, u64 outputs, u64 length) {
    for (u64 row = blockIdx.x; row < outputs; row += gridDim.x) {
        float sum = 0.0f;
        for (u64 i = threadIdx.x; i < length; i += blockDim.x) sum += load(in[row * length + i]);
        sum = over_block<false>(sum);
        if (threadIdx.x == 0) out[row] = store(sum / static_cast<float>(length));
    }
}

// Rows of a table, by index, in pieces that rows have whole numbers of. Threads take pieces, not
// rows: a single row may be as wide as a whole tensor, which is what `select` and `split` ask for.
template <typename piece>
__device__ void gather_pieces(const piece *table, const int *indexes, piece *out, u64 rows, u64 width) {
    const u64 pieces = rows * width;
    const bool small = pieces < 0xffffffffull;
    for (u64 i = FIRST; i < pieces; i += THREADS) {
        const u64 row = small ? static_cast<unsigned>(i) / static_cast<unsigned>(width) : i / width;
        out[i] = table[static_cast<u64>(indexes[row]) * width + (i - row * width)];
    }
}

extern "C" __global__ void gather(const number *table, const int *indexes, number *out, u64 rows, u64 width) {
    const u64 numbers = sizeof(vector) / sizeof(number);
    if (width % numbers == 0) {
        gather_pieces(reinterpret_cast<const vector *>(table), indexes, reinterpret_cast<vector *>(out), rows,
                      width / numbers);
    } else {
        gather_pieces(table, indexes, out, rows, width);
    }
}

// y = activation(y + bias + residual), in place; a null pointer for an absent term. A channel
// of the bias has `inner` numbers in a row. Adds numbers as they are stored.
extern "C" __global__ void epilogue(number *y, const number *bias, const number *residual, u64 elements, u64 channels,
                                    u64 inner, int activation) {
    // Divisions of 32-bit numbers are several times faster.
    const bool small = elements < 0xffffffffull;
    const bool rows = inner == 1 && channels % 4 == 0, planes = inner % 4 == 0;
    if (rows || planes) {
        four *to = reinterpret_cast<four *>(y);
        const four *other = reinterpret_cast<const four *>(residual);
        for (u64 i = FIRST; i < elements / 4; i += THREADS) {
            four x = to[i], r;
            float b[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            if (bias && rows) {
                const u64 place = small ? static_cast<unsigned>(i) % static_cast<unsigned>(channels / 4)
                                        : i % (channels / 4);
                const four add = reinterpret_cast<const four *>(bias)[place];
                for (int j = 0; j < 4; ++j) b[j] = load(add.of[j]);
            } else if (bias) {
                const u64 place =
                    small ? static_cast<unsigned>(i) / static_cast<unsigned>(inner / 4) % static_cast<unsigned>(channels)
                          : i / (inner / 4) % channels;
                const float add = load(bias[place]);
                for (int j = 0; j < 4; ++j) b[j] = add;
            }
            if (residual) r = other[i];
            for (int j = 0; j < 4; ++j) {
                float sum = load(x.of[j]) + b[j];
                if (residual) sum += load(r.of[j]);
                x.of[j] = store(activate(activation, sum));
            }
            to[i] = x;
        }
        return;
    }
    for (u64 i = FIRST; i < elements; i += THREADS) {
        float sum = load(y[i]);
        if (bias) sum += load(bias[i / inner % channels]);
        if (residual) sum += load(residual[i]);
        y[i] = store(activate(activation, sum));
    }
}

// y = activation(alpha * sum + bias + residual), from 32-bit sums with `pitch` of them in a row.
extern "C" __global__ void requantize(const int *sums, const float *bias, const number *residual, number *y, u64 rows,
                                      u64 columns, u64 pitch, float alpha, int activation) {
    for (u64 i = FIRST; i < rows * columns; i += THREADS) {
        const u64 row = i / columns, column = i % columns;
        float x = alpha * static_cast<float>(sums[row * pitch + column]);
        if (bias) x += bias[column];
        if (residual) x += load_raw(residual[i]);
        // Activations are functions of real numbers: a sixteenth is 1.
        y[i] = store_raw(activation ? activate(activation, x * 0.0625f) * 16.0f : x);
    }
}

// Rows padded with zeros.
extern "C" __global__ void pad(const number *in, number *out, u64 rows, u64 columns, u64 pitch) {
    for (u64 i = FIRST; i < rows * pitch; i += THREADS) {
        const u64 row = i / pitch, column = i % pitch;
        out[i] = column < columns ? in[row * columns + column] : static_cast<number>(0);
    }
}

extern "C" __global__ void nothing() {}
