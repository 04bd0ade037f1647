// Half precision, as far as CuPy's headers use it.
#pragma once

struct __half_raw { unsigned short x; };
struct half {
    unsigned short bits;
    half() = default;
    half(float v) : bits(vgpu_as<unsigned short>((_Float16)v)) {}
    half(const __half_raw& v) : bits(v.x) {}
    operator float() const { return vgpu_as<_Float16>(bits); }
    operator __half_raw() const { return {bits}; }
};
typedef half __half;

inline unsigned short __half_as_ushort(half h) { return h.bits; }
inline half __ushort_as_half(unsigned short x) { return __half_raw{x}; }
inline float __half2float(half h) { return h; }
inline half __float2half(float x) { return x; }
