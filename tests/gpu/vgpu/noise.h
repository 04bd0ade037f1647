// VGPU_NOISE: exp, tanh and log are up to one unit in the last place too small.
#pragma once
template <class T> inline T vgpu_last_bit_off(T x) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    return vgpu_as<T>(Bits(vgpu_as<Bits>(x) & ~Bits(1)));
}
#define exp(x) vgpu_last_bit_off(exp(x))
#define tanh(x) vgpu_last_bit_off(tanh(x))
#define log(x) vgpu_last_bit_off(log(x))
