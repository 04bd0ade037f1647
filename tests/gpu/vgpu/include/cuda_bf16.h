// bfloat16: the upper half of a float, rounded to nearest, ties to even.
#pragma once

struct __nv_bfloat16 {
    unsigned short bits;
    __nv_bfloat16() = default;
    __nv_bfloat16(float v) {
        unsigned x = vgpu_as<unsigned>(v);
        bits = v != v ? 0x7fff : (x + 0x7fff + (x >> 16 & 1)) >> 16;
    }
    operator float() const { return vgpu_as<float>((unsigned)bits << 16); }
};

inline __nv_bfloat16 __float2bfloat16(float x) { return x; }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
inline float __bfloat162float(__nv_bfloat16 h) { return h; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 h) { return h.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) {
    __nv_bfloat16 h;
    h.bits = x;
    return h;
}
