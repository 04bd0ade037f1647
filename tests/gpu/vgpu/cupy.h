// What the kernels that CuPy writes itself include. vgpu.py compiles it once, ahead of them.
#pragma once
#include "kernel.h"
#include <cupy/complex.cuh>
#include <cupy/carray.cuh>
#include <cupy/atomics.cuh>
#include <cupy/math_constants.h>
