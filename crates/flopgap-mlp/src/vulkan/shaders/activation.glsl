// Activations and their slopes in 32 bits. The numbers are those of `Activation::index`.
const uint IDENTITY = 0, RELU = 1, LEAKY_RELU = 2, SIGMOID = 3, TANH = 4, GELU = 5, GELU_TANH = 6, SILU = 7;
const float LEAKY_SLOPE = 0.01;

// Whether a training pass keeps the sum before the activation instead of the output.
bool keeps_sum(uint activation) {
    return activation >= GELU;
}

float sigmoid(float z) {
    return 1.0 / (1.0 + exp(-z));
}

// The library's has no digits near 0, and NaN far out.
float tangent(float z) {
    const float square = z * z;
    const float near = fma(z * square,
        fma(fma(fma(fma(-0.0057049333, square, 0.020639041), square, -0.0537397), square, 0.13331442), square, -0.3333328), z);
    const float far = 1.0 - 2.0 / (1.0 + exp(2.0 * min(abs(z), 44.0)));
    return abs(z) < 0.625 ? near : z < 0.0 ? -far : far;
}

// exp(-z^2 / 2) and the normal distribution function, as in `activation/math.rs`.
vec2 normal(float z) {
    const float half_square = 0.5 * z * z;
    const float bell = exp(-half_square) * (1.0 - fma(0.5 * z, z, -half_square));
    const float t = 1.0 / fma(abs(z), 0.35, 1.0);
    float tail = -0.02914595;
    tail = fma(tail, t, 0.14397174);
    tail = fma(tail, t, -0.25571433);
    tail = fma(tail, t, 0.15917426);
    tail = fma(tail, t, -0.023109902);
    tail = fma(tail, t, 0.10550803);
    tail = fma(tail, t, 0.11983286);
    tail = fma(tail, t, 0.13986187);
    tail = fma(tail, t, 0.1396214);
    const float below = bell * t * tail;
    return vec2(bell, z < 0.0 ? below : 1.0 - below);
}

float gelu_tanh_inner(float z) {
    return 0.7978845608 * fma(0.044715 * z * z, z, z);
}

float activate(uint activation, float z) {
    switch (activation) {
    case RELU: return max(z, 0.0);
    case LEAKY_RELU: return max(z, LEAKY_SLOPE * z);
    case SIGMOID: return sigmoid(z);
    case TANH: return tangent(z);
    case GELU: return z * normal(z).y;
    case GELU_TANH: return z * sigmoid(2.0 * gelu_tanh_inner(z));
    case SILU: return z * sigmoid(z);
    }
    return z;
}

// The derivative, from what is kept: the output, or the sum before the activation.
float slope(uint activation, float kept) {
    switch (activation) {
    case RELU: return kept > 0.0 ? 1.0 : 0.0;
    case LEAKY_RELU: return kept > 0.0 ? 1.0 : LEAKY_SLOPE;
    case SIGMOID: return kept * (1.0 - kept);
    case TANH: return fma(-kept, kept, 1.0);
    case GELU: {
        const vec2 bell_and_normal = normal(kept);
        return fma(kept * 0.3989422804, bell_and_normal.x, bell_and_normal.y);
    }
    case GELU_TANH: {
        const float e = exp(-2.0 * gelu_tanh_inner(kept));
        const float s = 1.0 / (1.0 + e);
        const float rest = isinf(e) ? 1.0 : e * s;
        return fma(kept * s * rest, 2.0 * 0.7978845608 * fma(0.134145 * kept, kept, 1.0), s);
    }
    case SILU: {
        const float s = sigmoid(kept);
        return s * fma(kept, 1.0 - s, 1.0);
    }
    }
    return 1.0;
}

vec4 activate(uint activation, vec4 z) {
    return vec4(activate(activation, z.x), activate(activation, z.y), activate(activation, z.z), activate(activation, z.w));
}

vec4 slope(uint activation, vec4 kept) {
    return vec4(slope(activation, kept.x), slope(activation, kept.y), slope(activation, kept.z), slope(activation, kept.w));
}
