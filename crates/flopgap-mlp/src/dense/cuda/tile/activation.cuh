// Activations and their slopes, in 32 bits, by the numbers that the host gives them. It also says of which
// the slope follows from the output alone (`slope_from_output`), so that the sum before it need not be kept.
#include "tile/number.cuh"

__device__ __forceinline__ float logistic(float z) { return 1.0f / (1.0f + expf(-z)); }

template <int ACTIVATION>
__device__ __forceinline__ float activate(float z) {
    if constexpr (ACTIVATION == RELU) return fmaxf(z, 0.0f);
    else if constexpr (ACTIVATION == LEAKY_RELU) return fmaxf(z, LEAKY_SLOPE * z);
    else if constexpr (ACTIVATION == SIGMOID) return logistic(z);
    else if constexpr (ACTIVATION == TANH) return tanhf(z);
    else if constexpr (ACTIVATION == GELU) return z * normcdff(z);
    else if constexpr (ACTIVATION == GELU_TANH)
        return 0.5f * z * (1.0f + tanhf(0.7978845608f * fmaf(0.044715f * z * z, z, z)));
    else if constexpr (ACTIVATION == SILU) return z * logistic(z);
    else {
        static_assert(ACTIVATION == IDENTITY, "no code for this activation");
        return z;
    }
}

// The derivative at z, where the sum before the activation is at hand.
template <int ACTIVATION>
__device__ __forceinline__ float slope(float z) {
    if constexpr (ACTIVATION == RELU) return z > 0.0f ? 1.0f : 0.0f;
    else if constexpr (ACTIVATION == LEAKY_RELU) return z > 0.0f ? 1.0f : LEAKY_SLOPE;
    else if constexpr (ACTIVATION == SIGMOID) {
        const float a = logistic(z);
        return a * (1.0f - a);
    } else if constexpr (ACTIVATION == TANH) {
        const float a = tanhf(z);
        return fmaf(-a, a, 1.0f);
    } else if constexpr (ACTIVATION == GELU) return fmaf(z * 0.3989422804f, expf(-0.5f * z * z), normcdff(z));
    else if constexpr (ACTIVATION == GELU_TANH) {
        const float t = tanhf(0.7978845608f * fmaf(0.044715f * z * z, z, z));
        return 0.5f * (1.0f + t) + 0.5f * z * fmaf(-t, t, 1.0f) * 0.7978845608f * fmaf(0.134145f * z, z, 1.0f);
    } else if constexpr (ACTIVATION == SILU) {
        const float a = logistic(z);
        return a * fmaf(z, 1.0f - a, 1.0f);
    } else {
        static_assert(ACTIVATION == IDENTITY, "no code for the slope of this activation");
        return 1.0f;
    }
}

// The derivative where the output is a.
template <int ACTIVATION>
__device__ __forceinline__ float slope_at_output(float a) {
    static_assert(slope_from_output<ACTIVATION>(), "the sum before the activation is needed");
    if constexpr (ACTIVATION == RELU) return a > 0.0f ? 1.0f : 0.0f;
    else if constexpr (ACTIVATION == LEAKY_RELU) return a > 0.0f ? 1.0f : LEAKY_SLOPE;
    else if constexpr (ACTIVATION == SIGMOID) return a * (1.0f - a);
    else if constexpr (ACTIVATION == TANH) return fmaf(-a, a, 1.0f);
    else {
        static_assert(ACTIVATION == IDENTITY, "no code for the slope of this activation from its output");
        return 1.0f;
    }
}

// The derivative where the tape keeps `kept`: the output, or the sum before the activation.
template <int ACTIVATION>
__device__ __forceinline__ float slope_at_kept(float kept) {
    if constexpr (slope_from_output<ACTIVATION>()) return slope_at_output<ACTIVATION>(kept);
    else return slope<ACTIVATION>(kept);
}

#if STORAGE != STORAGE_F32
// The same for two numbers in one register: gradients by an activation become those by the sums before it.
template <int ACTIVATION>
__device__ __forceinline__ u32 times_slope(float low, float high, u32 kept) {
    return narrow2(low * slope_at_kept<ACTIVATION>(widen_low(kept)), high * slope_at_kept<ACTIVATION>(widen_high(kept)));
}
#endif

// The same for four neighbours, of which `kept` are on the tape.
template <int ACTIVATION>
__device__ __forceinline__ float4 slopes_of(float4 kept) {
    return make_float4(slope_at_kept<ACTIVATION>(kept.x), slope_at_kept<ACTIVATION>(kept.y), slope_at_kept<ACTIVATION>(kept.z),
                       slope_at_kept<ACTIVATION>(kept.w));
}

template <int ACTIVATION>
__device__ __forceinline__ float4 slopes(const Storage *from) {
    float4 kept;
    load4(from, kept);
    return slopes_of<ACTIVATION>(kept);
}

// Products, as they are stored.
__device__ __forceinline__ float4 times(float4 a, float4 b) {
    return make_float4(stored(a.x * b.x), stored(a.y * b.y), stored(a.z * b.z), stored(a.w * b.w));
}
