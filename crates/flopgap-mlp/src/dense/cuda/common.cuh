// What all kernels share: numbers as they are stored, activations and their slopes. The constants of the network come before it.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

// ---- Storage: f32, or 16 bits that are only ever widened and narrowed.

#if STORAGE == STORAGE_F32
typedef float Storage;
__device__ __forceinline__ float widen(Storage x) { return x; }
__device__ __forceinline__ Storage narrow(float x) { return x; }
#else
struct Storage {
    u16 bits;
};
#if STORAGE == STORAGE_F16
__device__ __forceinline__ float widen(Storage x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
__device__ __forceinline__ Storage narrow(float x) {
    Storage y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}
#else
__device__ __forceinline__ float widen(Storage x) { return __uint_as_float((u32)x.bits << 16); }
__device__ __forceinline__ Storage narrow(float x) {
    Storage y;
#if ARCHITECTURE >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
    // To nearest, ties to even; NaN stays NaN.
    const u32 bits = __float_as_uint(x);
    y.bits = x != x ? 0x7fff : (u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
#endif
    return y;
}
#endif
#endif

// Two numbers in one register, the first in the low half: what the tensor cores take.
#if STORAGE != STORAGE_F32
__device__ __forceinline__ u32 narrow2(float low, float high) {
#if STORAGE == STORAGE_F16 && ARCHITECTURE >= 800
    u32 y;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
#elif STORAGE == STORAGE_BF16 && ARCHITECTURE >= 800
    u32 y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
#else
    return (u32)narrow(low).bits | (u32)narrow(high).bits << 16;
#endif
}
__device__ __forceinline__ float widen_low(u32 pair) { return widen(Storage{(u16)pair}); }
__device__ __forceinline__ float widen_high(u32 pair) { return widen(Storage{(u16)(pair >> 16)}); }
#endif

// ---- Activations, in 32 bits, by the numbers that the host gives them. It also says of which the derivative follows from the output alone
// (`slope_from_output`), so that the sum before it need not be kept.

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

// The activation after a layer.
template <int LAYER>
__device__ constexpr int activation_of() {
    return LAYER + 1 == LAYERS ? OUTPUT_ACTIVATION : HIDDEN_ACTIVATION;
}

// The widths of the layers before one, the inputs not among them: where the numbers of a layer begin on the tape, for each sample.
template <int LAYER>
__device__ constexpr int widths_before() {
    if constexpr (LAYER == 0) return 0;
    else return widths_before<LAYER - 1>() + width(LAYER);
}

// ---- Kernels one after the other, which overlap from Hopper on where they are launched so.

// What was launched before has ended: nothing that others write or read is touched in front of this.
__device__ __forceinline__ void wait_for_kernel_before() {
#if ARCHITECTURE >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next kernel may come to the multiprocessors that this one leaves free, or that its blocks leave.
__device__ __forceinline__ void let_next_kernel_begin() {
#if ARCHITECTURE >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// The one, then the other.
__device__ __forceinline__ void wait_and_let_next_begin() {
    wait_for_kernel_before();
    let_next_kernel_begin();
}
