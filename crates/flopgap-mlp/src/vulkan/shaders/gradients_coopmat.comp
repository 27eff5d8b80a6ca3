#version 460
// Gradients by the weights and biases of a layer: a workgroup of four subgroups sums a block of
// 64 x 64 of them over a part of the rows, each a quarter.
#include "network.glsl"
#include "activation.glsl"
#include "matrix.glsl"

layout(binding = 3, std430) readonly buffer Inputs { Eight inputs[]; };
layout(binding = 5, std430) readonly buffer Tape { Eight tape[]; };
layout(binding = 8, std430) readonly buffer Deltas { Eight deltas[]; };
layout(binding = 9, std430) writeonly buffer Partials { float partials[]; };

const uint QUARTER = BLOCK / 2 / SIDE;
// Rows at a time.
const uint STEP = 32;
const uint EIGHTS = BLOCK / 8;
const uint STRIDE = EIGHTS + 1;
// Threads: a constant, as the size of a workgroup is none for the compiler of the shader.
layout(constant_id = 6) const uint THREADS = 128;
const uint LOADS = STEP * EIGHTS / THREADS;
shared Eight of_deltas[STEP * STRIDE];
shared Eight of_inputs[STEP * STRIDE];
// Threads that read the same eight columns, and their sums of gradients by biases.
const uint STRANDS = THREADS / EIGHTS;
shared float of_biases[STRANDS][BLOCK];

uint activate_two(uint sums) {
    const vec2 z = unpackHalf2x16(sums);
    return packHalf2x16(vec2(activate(HIDDEN_ACTIVATION, z.x), activate(HIDDEN_ACTIVATION, z.y)));
}

void main() {
    const Layer here = layers[layer];
    const uint across = (here.inputs + BLOCK - 1) / BLOCK;
    const uint n0 = gl_WorkGroupID.x / across * BLOCK;
    const uint k0 = gl_WorkGroupID.x % across * BLOCK;
    const uint part = gl_WorkGroupID.y;
    const uint rows_of_part = (rows / STEP + parts - 1) / parts * STEP;
    const uint begin = min(part * rows_of_part, rows);
    const uint end = min(begin + rows_of_part, rows);
    const uint of_layer = here.before / 8 * rows;
    const uint below = layer == 0 ? 0 : layers[layer - 1].before / 8 * rows;
    const uint n_ = gl_SubgroupID / 2 * (BLOCK / 2);
    const uint k_ = gl_SubgroupID % 2 * (BLOCK / 2);
    Sums sums[QUARTER * QUARTER];
    [[unroll]] for (uint i = 0; i < QUARTER * QUARTER; ++i) sums[i] = Sums(0.0);
    vec4 low = vec4(0.0), high = vec4(0.0);
    Eight delta[LOADS], a[LOADS];
    for (uint row = begin; row < end; row += STEP) {
        [[unroll]] for (uint i = 0; i < LOADS; ++i) {
            const uint place = gl_LocalInvocationID.x + i * THREADS;
            const uint from = row + place / EIGHTS;
            const uint n = n0 / 8 + place % EIGHTS;
            const uint k = k0 / 8 + place % EIGHTS;
            delta[i] = n < here.outputs / 8 ? deltas[of_layer + from * (here.outputs / 8) + n] : Eight(0);
            low += vec4(unpackHalf2x16(delta[i].x), unpackHalf2x16(delta[i].y));
            high += vec4(unpackHalf2x16(delta[i].z), unpackHalf2x16(delta[i].w));
            a[i] = Eight(0);
            if (k < here.inputs / 8) {
                const uint at = from * (here.inputs / 8) + k;
                a[i] = layer == 0 ? inputs[at] : tape[below + at];
                if (layer != 0 && keeps_sum(HIDDEN_ACTIVATION)) {
                    // What the forward pass multiplied.
                    a[i] = Eight(activate_two(a[i].x), activate_two(a[i].y), activate_two(a[i].z), activate_two(a[i].w));
                }
            }
        }
        // All have read the rows before.
        barrier();
        [[unroll]] for (uint i = 0; i < LOADS; ++i) {
            const uint place = gl_LocalInvocationID.x + i * THREADS;
            of_deltas[place / EIGHTS * STRIDE + place % EIGHTS] = delta[i];
            of_inputs[place / EIGHTS * STRIDE + place % EIGHTS] = a[i];
        }
        barrier();
        [[unroll]] for (uint s = 0; s < STEP; s += SIDE) {
            MatrixB b[QUARTER];
            [[unroll]] for (uint j = 0; j < QUARTER; ++j) {
                coopMatLoad(b[j], of_inputs, s * STRIDE + (k_ + j * SIDE) / 8, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint i = 0; i < QUARTER; ++i) {
                MatrixA transposed;
                coopMatLoad(transposed, of_deltas, s * STRIDE + (n_ + i * SIDE) / 8, STRIDE,
                    gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint j = 0; j < QUARTER; ++j) {
                    sums[i * QUARTER + j] = coopMatMulAdd(transposed, b[j], sums[i * QUARTER + j]);
                }
            }
        }
    }
    const uint first = part * parameters + here.gradients;
    const uint width = across * BLOCK;
    [[unroll]] for (uint i = 0; i < QUARTER; ++i) {
        [[unroll]] for (uint j = 0; j < QUARTER; ++j) {
            coopMatStore(sums[i * QUARTER + j], partials, first + (n0 + n_ + i * SIDE) * width + k0 + k_ + j * SIDE, width,
                gl_CooperativeMatrixLayoutRowMajor);
        }
    }
    if (k0 != 0) return;
    const uint strand = gl_LocalInvocationID.x / EIGHTS;
    const uint column = gl_LocalInvocationID.x % EIGHTS * 8;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        of_biases[strand][column + i] = low[i];
        of_biases[strand][column + 4 + i] = high[i];
    }
    barrier();
    for (uint n = gl_LocalInvocationID.x; n < BLOCK; n += THREADS) {
        float sum = 0.0;
        for (uint other = 0; other < STRANDS; ++other) sum += of_biases[other][n];
        partials[first + in_blocks(here.outputs) * width + n0 + n] = sum;
    }
}
