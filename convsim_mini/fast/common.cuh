// This text is put before every .cu file. `real` is float or double, the type of the arrays.
typedef long long i64;
typedef unsigned long long u64;
#define MINUS_INFINITY __int_as_float(0xff800000)

__device__ real warp_sum(real x) {                            // every lane gets the sum of all 32
    for (int by = 16; by; by /= 2) x += __shfl_xor_sync(0xffffffffu, x, by);
    return x;
}

__device__ real warp_max(real x) {
    for (int by = 16; by; by /= 2) x = max(x, __shfl_xor_sync(0xffffffffu, x, by));
    return x;
}
