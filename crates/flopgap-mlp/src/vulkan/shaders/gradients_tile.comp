#version 460
// Gradients by the weights and biases of a layer, scalar: a workgroup of 256 sums 64 x 64 of them
// over a part of the rows, each thread 4 x 4.
#include "network.glsl"
#include "activation.glsl"

layout(binding = 3, std430) readonly buffer Inputs { Number4 inputs[]; };
layout(binding = 5, std430) readonly buffer Tape { Number4 tape[]; };
layout(binding = 8, std430) readonly buffer Deltas { Number4 deltas[]; };
layout(binding = 9, std430) writeonly buffer Partials { float partials[]; };

const uint STEP = 16;
shared vec4 of_deltas[STEP][BLOCK / 4];
shared vec4 of_inputs[STEP][BLOCK / 4];

void main() {
    const Layer here = layers[layer];
    const uint across = (here.inputs + BLOCK - 1) / BLOCK;
    const uint n0 = gl_WorkGroupID.x / across * BLOCK;
    const uint k0 = gl_WorkGroupID.x % across * BLOCK;
    const uint part = gl_WorkGroupID.y;
    const uint rows_of_part = (rows / STEP + parts - 1) / parts * STEP;
    const uint begin = part * rows_of_part;
    const uint end = min(begin + rows_of_part, rows);
    const uint thread = gl_LocalInvocationID.x;
    const uint row_loaded = thread / (BLOCK / 4);
    const uint column_loaded = thread % (BLOCK / 4);
    const uint n_ = thread / 16;
    const uint k_ = thread % 16;
    mat4 sums = mat4(0.0);
    vec4 bias_sums = vec4(0.0);
    for (uint row = begin; row < end; row += STEP) {
        const uint n = n0 / 4 + column_loaded;
        const uint k = k0 / 4 + column_loaded;
        vec4 delta = vec4(0.0), a = vec4(0.0);
        if (n < here.outputs / 4) {
            delta = vec4(deltas[here.before / 4 * rows + (row + row_loaded) * (here.outputs / 4) + n]);
        }
        if (k < here.inputs / 4) {
            const uint at = (row + row_loaded) * (here.inputs / 4) + k;
            if (layer == 0) {
                a = vec4(inputs[at]);
            } else {
                a = vec4(tape[layers[layer - 1].before / 4 * rows + at]);
                // What the forward pass multiplied.
                if (keeps_sum(HIDDEN_ACTIVATION)) a = vec4(Number4(activate(HIDDEN_ACTIVATION, a)));
            }
        }
        barrier();
        of_deltas[row_loaded][column_loaded] = delta;
        of_inputs[row_loaded][column_loaded] = a;
        barrier();
        for (uint s = 0; s < STEP; ++s) {
            const vec4 d = of_deltas[s][n_];
            sums += outerProduct(of_inputs[s][k_], d);
            bias_sums += d;
        }
    }
    const uint first = part * parameters + here.gradients;
    const uint k = k0 + 4 * k_;
    for (uint i = 0; i < 4; ++i) {
        const uint n = n0 + 4 * n_ + i;
        for (uint j = 0; j < 4; ++j) partials[first + n * across * BLOCK + k + j] = sums[i][j];
        if (k == 0) partials[first + in_blocks(here.outputs) * across * BLOCK + n] = bias_sums[i];
    }
}
