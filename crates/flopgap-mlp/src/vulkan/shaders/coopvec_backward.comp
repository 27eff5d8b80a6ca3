#version 460
// The way back of `coopvec_forward.comp`, with transposed weights.
#include "network.glsl"
#include "activation.glsl"
#include "vector.glsl"

layout(binding = 4, std430) readonly buffer Outputs { float16_t outputs[]; };
layout(binding = 5, std430) readonly buffer Tape { float16_t tape[]; };
layout(binding = 6, std430) readonly buffer OutputGradients { float16_t output_gradients[]; };
layout(binding = 7, std430) writeonly buffer InputGradients { float16_t input_gradients[]; };
layout(binding = 8, std430) writeonly buffer Deltas { float16_t deltas[]; };
layout(binding = 11, std430) readonly buffer Transposed { float16_t transposed[]; };

void main() {
    const uint row = gl_GlobalInvocationID.x;
    if (row >= rows) return;
    const Layer last = layers[count - 1];
    Vector(OUTPUTS) dy;
    Vector(OUTPUTS) y;
    coopVecLoadNV(dy, output_gradients, row * OUTPUTS * 2);
    const uint of_outputs = (last.before * rows + row * OUTPUTS) * 2;
    if (keeps_sum(OUTPUT_ACTIVATION)) coopVecLoadNV(y, tape, of_outputs);
    else coopVecLoadNV(y, outputs, row * OUTPUTS * 2);
    TIMES_SLOPE(OUTPUT_ACTIVATION, dy, y, OUTPUTS)
    coopVecStoreNV(dy, deltas, of_outputs);
    Vector(HIDDEN) delta;
    coopVecMatMulNV(delta, dy, gl_ComponentTypeFloat16NV, transposed, last.transposed, gl_ComponentTypeFloat16NV, HIDDEN, OUTPUTS,
        LAYOUT, false, OUTPUTS * 2);
    for (uint l = count - 2;; --l) {
        const uint of_layer = (layers[l].before * rows + row * HIDDEN) * 2;
        Vector(HIDDEN) kept;
        coopVecLoadNV(kept, tape, of_layer);
        TIMES_SLOPE(HIDDEN_ACTIVATION, delta, kept, HIDDEN)
        coopVecStoreNV(delta, deltas, of_layer);
        if (l == 0) break;
        Vector(HIDDEN) below;
        coopVecMatMulNV(below, delta, gl_ComponentTypeFloat16NV, transposed, layers[l].transposed, gl_ComponentTypeFloat16NV, HIDDEN,
            HIDDEN, LAYOUT, false, HIDDEN * 2);
        delta = below;
    }
    Vector(INPUTS) dx;
    coopVecMatMulNV(dx, delta, gl_ComponentTypeFloat16NV, transposed, layers[0].transposed, gl_ComponentTypeFloat16NV, INPUTS, HIDDEN,
        LAYOUT, false, HIDDEN * 2);
    coopVecStoreNV(dx, input_gradients, row * INPUTS * 2);
}
