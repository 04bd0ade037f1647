// CuPy's complex.cuh asks for this header of CCCL, whose other headers want a CUDA compiler.
#pragma once
#define THRUST_NAMESPACE_BEGIN namespace thrust {
#define THRUST_NAMESPACE_END }
