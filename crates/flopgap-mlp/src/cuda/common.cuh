// What every kernel begins with, after the constants of the network.
#include "tile/number.cuh"
#include "tile/activation.cuh"
#include "tile/layout.cuh"
#include "tile/ptx/grid.cuh"
