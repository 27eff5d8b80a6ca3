// Cooperative vectors: each thread has a sample of its own, and the threads of a subgroup multiply
// theirs by the same matrix together. All hidden layers have one width.
#extension GL_NV_cooperative_vector : require

layout(constant_id = 5) const uint INPUTS = 64;
layout(constant_id = 6) const uint HIDDEN = 64;
layout(constant_id = 7) const uint OUTPUTS = 16;
// Of the matrices: the one that the driver chose for them.
layout(constant_id = 8) const int LAYOUT = 2;

#define Vector(length) coopvecNV<float16_t, length>

// Functions of vectors of any length: GLSL has no templates.
#define ACTIVATE(activation, vector, length)                                                                        \
    if ((activation) == RELU) vector = max(vector, Vector(length)(float16_t(0.0)));                                   \
    else if ((activation) == LEAKY_RELU) vector = max(vector, vector * float16_t(LEAKY_SLOPE));                       \
    else if ((activation) != IDENTITY) {                                                                              \
        [[unroll]] for (uint e = 0; e < length; ++e) vector[e] = float16_t(activate(activation, float(vector[e])));   \
    }

#define TIMES_SLOPE(activation, gradient, kept, length)                                                             \
    if ((activation) == RELU || (activation) == LEAKY_RELU) {                                                         \
        /* 1 where the slope is that below 0. */                                                                      \
        const Vector(length) below = step(kept, Vector(length)(float16_t(0.0)));                                      \
        const Vector(length) lower = gradient * below;                                                                \
        gradient = gradient - lower;                                                                                  \
        if ((activation) == LEAKY_RELU) gradient = gradient + lower * float16_t(LEAKY_SLOPE);                         \
    } else if ((activation) != IDENTITY) {                                                                            \
        [[unroll]] for (uint e = 0; e < length; ++e) {                                                                \
            gradient[e] = float16_t(float(gradient[e]) * slope(activation, float(kept[e])));                          \
        }                                                                                                             \
    }
