#version 460
// All layers of a sample in the registers of its thread.
#include "network.glsl"
#include "activation.glsl"
#include "vector.glsl"

layout(binding = 1, std430) readonly buffer Weights { float16_t weights[]; };
layout(binding = 2, std430) readonly buffer Biases { float16_t biases[]; };
layout(binding = 3, std430) readonly buffer Inputs { float16_t inputs[]; };
layout(binding = 4, std430) writeonly buffer Outputs { float16_t outputs[]; };
layout(binding = 5, std430) writeonly buffer Tape { float16_t tape[]; };

void main() {
    const uint row = gl_GlobalInvocationID.x;
    if (row >= rows) return;
    Vector(INPUTS) x;
    coopVecLoadNV(x, inputs, row * INPUTS * 2);
    Vector(HIDDEN) a;
    coopVecMatMulAddNV(a, x, gl_ComponentTypeFloat16NV, weights, layers[0].weights, gl_ComponentTypeFloat16NV, biases,
        layers[0].biases, gl_ComponentTypeFloat16NV, HIDDEN, INPUTS, LAYOUT, false, INPUTS * 2);
    for (uint l = 0;; ++l) {
        const uint kept = (layers[l].before * rows + row * HIDDEN) * 2;
        if (KEEP && keeps_sum(HIDDEN_ACTIVATION)) coopVecStoreNV(a, tape, kept);
        ACTIVATE(HIDDEN_ACTIVATION, a, HIDDEN)
        if (KEEP && !keeps_sum(HIDDEN_ACTIVATION)) coopVecStoreNV(a, tape, kept);
        if (l + 2 == count) break;
        Vector(HIDDEN) z;
        coopVecMatMulAddNV(z, a, gl_ComponentTypeFloat16NV, weights, layers[l + 1].weights, gl_ComponentTypeFloat16NV, biases,
            layers[l + 1].biases, gl_ComponentTypeFloat16NV, HIDDEN, HIDDEN, LAYOUT, false, HIDDEN * 2);
        a = z;
    }
    const Layer last = layers[count - 1];
    Vector(OUTPUTS) y;
    coopVecMatMulAddNV(y, a, gl_ComponentTypeFloat16NV, weights, last.weights, gl_ComponentTypeFloat16NV, biases, last.biases,
        gl_ComponentTypeFloat16NV, OUTPUTS, HIDDEN, LAYOUT, false, HIDDEN * 2);
    if (KEEP && keeps_sum(OUTPUT_ACTIVATION)) coopVecStoreNV(y, tape, (last.before * rows + row * OUTPUTS) * 2);
    ACTIVATE(OUTPUT_ACTIVATION, y, OUTPUTS)
    coopVecStoreNV(y, outputs, row * OUTPUTS * 2);
}
