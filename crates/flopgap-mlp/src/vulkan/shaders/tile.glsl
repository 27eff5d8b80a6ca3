// A tile of samples in shared memory, which a workgroup takes through all layers. Its subgroups
// divide the rows and the columns of a layer among them. Weights lie matrix after matrix.
#include "matrix.glsl"

// Matrices of a subgroup below each other, and subgroups below each other and side by side.
layout(constant_id = 6) const uint ROW_MATRICES = 2;
layout(constant_id = 7) const uint ROW_GROUPS = 4;
layout(constant_id = 8) const uint COLUMN_GROUPS = 1;
// Widths: constants, so that the compiler unrolls all loops. Hidden layers have one width.
layout(constant_id = 9) const uint INPUTS = 64;
layout(constant_id = 10) const uint HIDDEN = 64;
layout(constant_id = 11) const uint OUTPUTS = 16;

const uint SAMPLES = SIDE * ROW_MATRICES * ROW_GROUPS;
// Rows begin in different banks.
const uint STRIDE = WIDEST / 8 + 1;
shared Eight tile[SAMPLES * STRIDE];

// The first row of the tile; of this subgroup in it, the first row, and its place side by side.
uint first() { return gl_WorkGroupID.x * SAMPLES; }
uint own_row() { return gl_SubgroupID / COLUMN_GROUPS * ROW_MATRICES * SIDE; }
uint own_column() { return gl_SubgroupID % COLUMN_GROUPS; }

// Columns of matrices that a subgroup has of so many, and the j-th of them. Where not all have as
// many, some compute the last one, too, and write the same: a condition would cost more.
#define SHARE(columns) (((columns) + COLUMN_GROUPS - 1) / COLUMN_GROUPS)
#define COLUMN(j, columns) min(own_column() + (j) * COLUMN_GROUPS, (columns) - 1)
