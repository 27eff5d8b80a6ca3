// Cooperative matrices of 16-bit numbers with sums in 32 bits.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require

// The side of a matrix that the device multiplies.
layout(constant_id = 5) const uint SIDE = 16;

// A number of 16 bytes: memory is read and written by these.
#define Eight uvec4

#define MatrixA coopmat<float16_t, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseA>
#define MatrixB coopmat<float16_t, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseAccumulator>
#define Rounded coopmat<float16_t, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseAccumulator>
