#version 460
// The sums of all parts: a workgroup of 256 takes 16 parameters, whose parts 16 threads add up in
// a fixed order.
#include "network.glsl"

layout(binding = 9, std430) readonly buffer Partials { float partials[]; };
layout(binding = 10, std430) writeonly buffer Gradients { float gradients[]; };

const uint ACROSS = 16;
shared float sums[ACROSS][ACROSS];

void main() {
    const uint column = gl_LocalInvocationID.x % ACROSS;
    const uint strand = gl_LocalInvocationID.x / ACROSS;
    const uint parameter = gl_WorkGroupID.x * ACROSS + column;
    float sum = 0.0;
    if (parameter < parameters) {
        for (uint part = strand; part < parts; part += ACROSS) sum += partials[part * parameters + parameter];
    }
    sums[strand][column] = sum;
    barrier();
    if (strand == 0 && parameter < parameters) {
        for (uint other = 1; other < ACROSS; ++other) sum += sums[other][column];
        gradients[parameter] = sum;
    }
}
