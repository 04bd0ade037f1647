// Put before a CUDA kernel so that g++ compiles it: one host thread runs all threads of a block.
// Of CUDA it has what our kernels and CuPy's own use; g++ names what is missing.
#pragma once
#include <cfloat>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
// Not <cmath>: only math.h gives exp(float) and the like, as CUDA has them, outside std.
#include <math.h>
#include <type_traits>
#include <utility>
#include "runtime.h"

#define __CUDACC_RTC__ 1
#define __CUDACC_VER_MAJOR__ 12
#define __CUDA_ARCH__ 900
#define __global__
#define __device__
#define __host__
#define __constant__
#define __launch_bounds__(...)         // vgpu.py reads it from the source
#undef __noinline__
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))

// Static shared memory is gathered in one section of the shared object: so its size is known, and
// each block finds garbage in it. Dynamic shared memory is rewritten by vgpu.py.
#define __shared__ static __attribute__((section("vgpu_shared")))
extern "C" {
extern char __start_vgpu_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_vgpu_shared[] __attribute__((weak, visibility("hidden")));
}

#define threadIdx vgpu_threadIdx
#define blockIdx vgpu_blockIdx
#define blockDim vgpu_blockDim
#define gridDim vgpu_gridDim

struct dim3 : vgpu_uint3 {
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : vgpu_uint3{x, y, z} {}
};
struct __align__(8) float2 { float x, y; };
struct __align__(16) double2 { double x, y; };

// ---------------------------------------------------------------- barriers and warps

// Other fibers run during a barrier, so the thread's index is put back after it.
struct vgpu_same_thread {
    vgpu_uint3 index = vgpu_threadIdx;
    ~vgpu_same_thread() { vgpu_threadIdx = index; }
};

inline void __syncthreads() { vgpu_same_thread keep; vgpu_syncthreads(); }
inline void __syncwarp(unsigned mask = ~0u) { vgpu_same_thread keep; vgpu_syncwarp(mask); }

// Lane `from`'s value; a lane's own where `from` is negative.
template <class T> inline T vgpu_read(unsigned mask, T value, int from) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    vgpu_same_thread keep;
    char* values = (char*)vgpu_exchange(mask, &value, sizeof(T));
    T found = value;
    if (from >= 0) memcpy(&found, values + 16 * from, sizeof(T));
    vgpu_exchange_done(mask);
    return found;
}
template <class T> inline T __shfl_sync(unsigned mask, T v, int from, int width = 32) {
    int lane = vgpu_lane();
    return vgpu_read(mask, v, lane / width * width + (from & (width - 1)));
}
template <class T> inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
    int lane = vgpu_lane(), from = lane - (int)by;
    return vgpu_read(mask, v, from < lane / width * width ? -1 : from);
}
template <class T> inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
    int lane = vgpu_lane(), from = lane + (int)by;
    return vgpu_read(mask, v, from >= lane / width * width + width ? -1 : from);
}
template <class T> inline T __shfl_xor_sync(unsigned mask, T v, int by, int width = 32) {
    int lane = vgpu_lane(), from = lane ^ by;
    return vgpu_read(mask, v, from / width > lane / width ? -1 : from);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
    vgpu_same_thread keep;
    int mine = predicate != 0;
    char* values = (char*)vgpu_exchange(mask, &mine, sizeof mine);
    unsigned bits = 0, present = mask & vgpu_alive_mask();
    for (int lane = 0; lane < 32; ++lane)
        if (present >> lane & 1) bits |= (unsigned)*(int*)(values + 16 * lane) << lane;
    vgpu_exchange_done(mask);
    return bits;
}
inline void __threadfence_block() {}

// ---------------------------------------------------------------- atomics

// They need nothing more: one thread runs at a time.

template <class T, class F> inline T vgpu_update(T* p, F f) {
    T old = *p;
    *p = f(old);
    return old;
}
#define VGPU_ATOMIC(name, T, expression) \
    inline T name(T* p, T v) { return vgpu_update(p, [=](T old) -> T { return expression; }); }
#define VGPU_ATOMIC_INTEGER(T) \
    VGPU_ATOMIC(atomicAdd, T, old + v) \
    VGPU_ATOMIC(atomicMax, T, old > v ? old : v) \
    VGPU_ATOMIC(atomicMin, T, old < v ? old : v) \
    inline T atomicCAS(T* p, T expected, T v) { \
        return vgpu_update(p, [=](T old) { return old == expected ? v : old; }); \
    }
VGPU_ATOMIC_INTEGER(int)
VGPU_ATOMIC_INTEGER(unsigned)
VGPU_ATOMIC_INTEGER(unsigned long long)
VGPU_ATOMIC(atomicAdd, float, old + v)
VGPU_ATOMIC(atomicAdd, double, old + v)

// ---------------------------------------------------------------- arithmetic

template <class To, class From> inline To vgpu_as(From x) {
    static_assert(sizeof(To) == sizeof(From), "the same bits in another type");
    To y;
    memcpy(&y, &x, sizeof x);
    return y;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline float __int_as_float(int x) { return vgpu_as<float>(x); }
inline int __float_as_int(float x) { return vgpu_as<int>(x); }
inline double __longlong_as_double(long long x) { return vgpu_as<double>(x); }
inline long long __double_as_longlong(double x) { return vgpu_as<long long>(x); }

// min and max of any two numbers; of floats, the one that is not nan.
template <class A, class B> using vgpu_common = typename std::enable_if<
    std::is_arithmetic<A>::value && std::is_arithmetic<B>::value,
    std::common_type<A, B>>::type::type;
template <class A, class B> inline vgpu_common<A, B> min(A a, B b) {
    using C = vgpu_common<A, B>;
    if constexpr (std::is_floating_point<C>::value) return std::fmin((C)a, (C)b);
    else return (C)a < (C)b ? (C)a : (C)b;
}
template <class A, class B> inline vgpu_common<A, B> max(A a, B b) {
    using C = vgpu_common<A, B>;
    if constexpr (std::is_floating_point<C>::value) return std::fmax((C)a, (C)b);
    else return (C)a > (C)b ? (C)a : (C)b;
}

// ---------------------------------------------------------------- launches

// __launch_bounds__(threads, …): only the first says what a launch may ask for.
constexpr unsigned vgpu_bound(unsigned threads = 1024, unsigned = 0, unsigned = 0) {
    return threads;
}

extern "C" __attribute__((used)) inline unsigned vgpu_static_shared() {
    return __stop_vgpu_shared - __start_vgpu_shared;
}

template <class... A> struct vgpu_call {
    void (*kernel)(A...);
    void** parameters;                 // one pointer for each, as cuLaunchKernel gets them

    template <size_t... I> void run(std::index_sequence<I...>) const {
        kernel(*(std::remove_cv_t<std::remove_reference_t<A>>*)parameters[I]...);
    }
    static void body(void* call) { ((vgpu_call*)call)->run(std::index_sequence_for<A...>{}); }
};

// Fibers are for kernels with barriers; without any, plain loops do.
template <bool fibers, class... A>
inline void vgpu_launch(void (*kernel)(A...), void** parameters, vgpu_uint3 grid,
                        vgpu_uint3 block) {
    vgpu_gridDim = grid;
    vgpu_blockDim = block;
    vgpu_call<A...> call{kernel, parameters};
    uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    for (uint64_t turn = 0; turn < blocks; ++turn) {
        uint64_t i = vgpu_block_in_turn(turn, blocks);
        vgpu_blockIdx = {unsigned(i % grid.x), unsigned(i / grid.x % grid.y),
                         unsigned(i / grid.x / grid.y)};
        vgpu_begin_block(__start_vgpu_shared, __stop_vgpu_shared);
        if (fibers) {
            vgpu_run_threads(block.x * block.y * block.z, call.body, &call);
            continue;
        }
        for (unsigned z = 0; z < block.z; ++z)
            for (unsigned y = 0; y < block.y; ++y)
                for (unsigned x = 0; x < block.x; ++x) {
                    vgpu_threadIdx = {x, y, z};
                    call.body(&call);
                }
    }
}
