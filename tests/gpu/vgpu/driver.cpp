// The CUDA driver (libcuda.so.1) and runtime, as far as CuPy 14 calls them, on host memory.
// CuPy's own copy of the runtime is patched so that cuda… jumps to vgpu_cuda… here.
#include "core.h"
#include "runtime.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <immintrin.h>

// Error codes, the same in driver and runtime where both have them.
enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 101, BAD_IMAGE = 200, NOT_FOUND = 500,
       NOT_SUPPORTED = 801 };
static const int VERSION = 12090;
static const unsigned STATIC_LIMIT = 48 << 10, SHARED_LIMIT = 227 << 10;   // of an H100, in bytes

// ---------------------------------------------------------------- driver: context

static int context;
API int cuGetErrorName(int, const char** s) { *s = "CUDA_ERROR"; return 0; }
API int cuGetErrorString(int, const char** s) { *s = "refused by the emulated device"; return 0; }
API int cuInit(unsigned) { return 0; }
API int cuDriverGetVersion(int* v) { *v = VERSION; return 0; }
API int cuCtxGetCurrent(void** c) { *c = &context; return 0; }
API int cuCtxSetCurrent(void*) { return 0; }
API int cuCtxCreate_v2(void** c, unsigned, int) { *c = &context; return 0; }
API int cuCtxDestroy_v2(void*) { return 0; }
API int cuCtxGetDevice(int* device) { *device = 0; return 0; }
API int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
API int cuStreamGetCtx(void*, void** c) { *c = &context; return 0; }

// ---------------------------------------------------------------- driver: modules and launches

typedef void (*Launcher)(void** parameters, vgpu_uint3 grid, vgpu_uint3 block);
struct Function {
    Launcher launch;
    char name[200];
    unsigned most_threads;             // what __launch_bounds__ promises
    unsigned static_shared;
    unsigned dynamic_limit;
};

API int cuModuleLoad(void** module, const char* path) {
    *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!*module) fprintf(stderr, "vgpu: %s\n", dlerror());
    return *module ? 0 : BAD_IMAGE;
}

// What vgpu.py hands to CuPy as a compiled module is the path of a shared object.
API int cuModuleLoadData(void** module, const void* image) {
    const char* path = (const char*)image;
    return strncmp(path, "VGPU:", 5) ? BAD_IMAGE : cuModuleLoad(module, path + 5);
}

API int cuModuleUnload(void*) { return 0; }

API int cuModuleGetFunction(void** function, void* module, const char* name) {
    char symbol[300];
    snprintf(symbol, sizeof symbol, "vgpu_launch__%s", name);
    auto launch = (Launcher)dlsym(module, symbol);
    if (!launch) {
        fprintf(stderr, "vgpu: no kernel %s; wanted is extern \"C\" __global__ void %s(…)\n",
                name, name);
        return NOT_FOUND;
    }
    snprintf(symbol, sizeof symbol, "vgpu_bound__%s", name);
    unsigned bound = *(unsigned*)dlsym(module, symbol);
    unsigned shared = ((unsigned (*)())dlsym(module, "vgpu_static_shared"))();
    auto* made = new Function{launch, {}, bound, shared, STATIC_LIMIT - shared};
    snprintf(made->name, sizeof made->name, "kernel %s", name);
    *function = made;
    return shared > STATIC_LIMIT ? BAD_IMAGE : 0;
}

API int cuModuleGetGlobal_v2(void** p, size_t* size, void* module, const char* name) {
    *p = dlsym(module, name);
    if (size) *size = 0;
    return *p ? 0 : NOT_FOUND;
}

static const unsigned FLUSH = 0x8040;      // denormals are zeros, as results and as what is read

API int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz,
                       unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, void*, void** parameters, void**) {
    auto* function = (Function*)f;
    if (!gx || !gy || !gz || gx > 2147483647u || gy > 65535 || gz > 65535
        || !(bx * by * bz) || bx * by * bz > function->most_threads || bz > 64
        || shared > function->dynamic_limit) {
        fprintf(stderr, "vgpu: %s: a GPU refuses a grid of (%u, %u, %u), a block of (%u, %u, %u) "
                "of at most %u threads, %u bytes of dynamic shared memory of at most %u\n",
                function->name, gx, gy, gz, bx, by, bz, function->most_threads,
                shared, function->dynamic_limit);
        return INVALID_VALUE;
    }
    vgpu_count(function->name, 1);
    vgpu_count("launches", 1);
    vgpu_begin_launch(function->name, shared);
    unsigned rounding = _mm_getcsr();
    if (vgpu_noise) _mm_setcsr(rounding | FLUSH);
    function->launch(parameters, {gx, gy, gz}, {bx, by, bz});
    _mm_setcsr(rounding);
    vgpu_end_launch();
    return 0;
}

enum { MAX_THREADS = 0, SHARED_SIZE = 1, MAX_DYNAMIC_SHARED = 8 };     // CUfunction_attribute
API int cuFuncGetAttribute(int* value, int attribute, void* f) {
    auto* function = (Function*)f;
    *value = attribute == MAX_THREADS ? function->most_threads
           : attribute == SHARED_SIZE ? function->static_shared
           : attribute == MAX_DYNAMIC_SHARED ? function->dynamic_limit : 0;
    return 0;
}

// A kernel has 48 KiB of shared memory unless its caller asks for more.
API int cuFuncSetAttribute(void* f, int attribute, int value) {
    auto* function = (Function*)f;
    if (attribute != MAX_DYNAMIC_SHARED) return 0;
    if (value < 0 || value + function->static_shared > SHARED_LIMIT) return INVALID_VALUE;
    function->dynamic_limit = value;
    return 0;
}

API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, void*, int, size_t) {
    *n = 2;
    return 0;
}
API int cuOccupancyMaxPotentialBlockSize(int* grid, int* block, void*, void*, size_t, int) {
    *grid = 264;
    *block = 256;
    return 0;
}

// ---------------------------------------------------------------- runtime: the device

#define RT(name) API int vgpu_cuda##name

API const char* vgpu_cudaGetErrorName(int error) {
    return error == OUT_OF_MEMORY ? "cudaErrorMemoryAllocation"
         : error == NOT_SUPPORTED ? "cudaErrorNotSupported"
         : error == INVALID_VALUE ? "cudaErrorInvalidValue" : "cudaError";
}
API const char* vgpu_cudaGetErrorString(int error) {
    return error == OUT_OF_MEMORY ? "out of memory" : "refused by the emulated device";
}
RT(GetLastError)() { return 0; }
RT(PeekAtLastError)() { return 0; }
RT(DriverGetVersion)(int* v) { *v = VERSION; return 0; }
RT(RuntimeGetVersion)(int* v) { *v = VERSION; return 0; }
RT(GetDevice)(int* device) { *device = 0; return 0; }
RT(SetDevice)(int device) { return device ? NO_DEVICE : 0; }
RT(GetDeviceCount)(int* n) { *n = 1; return 0; }
RT(DeviceCanAccessPeer)(int* can, int, int) { *can = 0; return 0; }
RT(DeviceGetLimit)(size_t* v, int) { *v = 1024; return 0; }
RT(DeviceSetLimit)(int, size_t) { return 0; }
RT(DeviceGetPCIBusId)(char* s, int n, int) { snprintf(s, n, "0000:00:00.0"); return 0; }
RT(ProfilerStart)() { return 0; }
RT(ProfilerStop)() { return 0; }

RT(DeviceGetAttribute)(int* value, int attribute, int) {
    switch (attribute) {
        case 1: case 2: case 3: *value = 1024; break;      // threads in a block, its x, its y
        case 4: *value = 64; break;                        // its z
        case 5: *value = 2147483647; break;                // blocks in a grid, x
        case 6: case 7: *value = 65535; break;             // y, z
        case 8: *value = STATIC_LIMIT; break;              // shared memory in a block
        case 10: *value = 32; break;                       // threads in a warp
        case 16: *value = 132; break;                      // multiprocessors
        case 39: *value = 2048; break;                     // threads on one of them
        case 75: *value = 9; break;                        // compute capability 9.0
        case 97: *value = SHARED_LIMIT; break;             // shared memory for who asks
        default: *value = 0;
    }
    return 0;
}

// The beginning of CUDA 12's cudaDeviceProp.
struct Properties {
    char name[256], uuid[16], luid[8];
    unsigned device_node_mask;
    size_t total_memory, shared_per_block;
    int registers_per_block, warp_size;
    size_t memory_pitch;
    int max_threads_per_block, max_threads[3], max_grid[3], clock_rate;
    size_t total_constant_memory;
    int major, minor;
    size_t texture_alignment, texture_pitch_alignment;
    int device_overlap, multiprocessors;
};
static const size_t PROPERTIES_SIZE = 1032;

RT(GetDeviceProperties_v2)(Properties* p, int) {
    memset((void*)p, 0, PROPERTIES_SIZE);
    strcpy(p->name, "vgpu: an H100 emulated on the CPU");
    p->total_memory = vgpu_memory();
    p->shared_per_block = STATIC_LIMIT;
    p->registers_per_block = 65536;
    p->warp_size = 32;
    p->max_threads_per_block = p->max_threads[0] = p->max_threads[1] = 1024;
    p->max_threads[2] = 64;
    p->max_grid[0] = 2147483647;
    p->max_grid[1] = p->max_grid[2] = 65535;
    p->major = 9;
    p->multiprocessors = 132;
    return 0;
}

// ---------------------------------------------------------------- runtime: memory

RT(Malloc)(void** p, size_t size) {
    vgpu_count("malloc", 1);
    *p = vgpu_malloc(size);
    return *p ? 0 : OUT_OF_MEMORY;
}
RT(MallocAsync)(void** p, size_t size, void*) { return vgpu_cudaMalloc(p, size); }
RT(Free)(void* p) {
    vgpu_count("free", 1);
    if (p && !vgpu_free(p)) vgpu_fatal("cudaFree of what is no device memory");
    return 0;
}
RT(FreeAsync)(void* p, void*) { return vgpu_cudaFree(p); }
RT(HostAlloc)(void** p, size_t size, unsigned) {
    vgpu_count("pinned malloc", 1);
    *p = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    return *p ? 0 : OUT_OF_MEMORY;
}
RT(FreeHost)(void* p) { free(p); return 0; }
RT(HostRegister)(void*, size_t, unsigned) { return 0; }
RT(HostUnregister)(void*) { return 0; }
RT(MemGetInfo)(size_t* unused, size_t* all) {
    *all = vgpu_memory();
    *unused = *all - vgpu_used();
    return 0;
}

enum { HOST_TO_HOST, TO_DEVICE, TO_HOST, ON_DEVICE, BY_ADDRESS };      // cudaMemcpyKind
static void copy(void* to, const void* from, size_t size, int kind) {
    bool to_device = vgpu_is_device(to, size), from_device = vgpu_is_device(from, size);
    if (kind == BY_ADDRESS) kind = (from_device ? 2 : 0) + (to_device ? 1 : 0);
    if (((kind == TO_DEVICE || kind == ON_DEVICE) && !to_device)
        || ((kind == TO_HOST || kind == ON_DEVICE) && !from_device))
        vgpu_fatal("a copy leaves its block of device memory");
    static const char* copies[] = {"copy host to host", "copy to device", "copy to host",
                                   "copy on device"};
    static const char* bytes[] = {"bytes host to host", "bytes to device", "bytes to host",
                                  "bytes on device"};
    vgpu_count(copies[kind], 1);
    vgpu_count(bytes[kind], size);
    memmove(to, from, size);
}
RT(Memcpy)(void* to, const void* from, size_t size, int kind) {
    vgpu_count("sync copy", 1);        // unlike Async, it waits
    copy(to, from, size, kind);
    return 0;
}
RT(MemcpyAsync)(void* to, const void* from, size_t size, int kind, void*) {
    copy(to, from, size, kind);
    return 0;
}
RT(Memset)(void* p, int value, size_t size) {
    vgpu_count("memset", 1);
    if (!vgpu_is_device(p, size)) vgpu_fatal("a memset leaves its block of device memory");
    memset(p, value, size);
    return 0;
}
RT(MemsetAsync)(void* p, int value, size_t size, void*) { return vgpu_cudaMemset(p, value, size); }

struct PointerAttributes {
    int type, device;
    void *device_pointer, *host_pointer;
};
RT(PointerGetAttributes)(PointerAttributes* a, const void* p) {
    bool on_device = vgpu_is_device(p, 1);
    *a = {on_device ? 2 : 0, 0, on_device ? (void*)p : nullptr, on_device ? nullptr : (void*)p};
    return 0;
}

// ---------------------------------------------------------------- runtime: streams and events

// All work is done when its call returns, so streams and events are only names for it.
static long streams = 16;
RT(StreamCreate)(void** s) { *s = (void*)(streams += 16); return 0; }
RT(StreamCreateWithFlags)(void** s, unsigned) { return vgpu_cudaStreamCreate(s); }
RT(StreamCreateWithPriority)(void** s, unsigned, int) { return vgpu_cudaStreamCreate(s); }
RT(StreamGetFlags)(void*, unsigned* flags) { *flags = 0; return 0; }
RT(StreamGetPriority)(void*, int* priority) { *priority = 0; return 0; }
RT(StreamDestroy)(void*) { return 0; }
RT(StreamSynchronize)(void*) { vgpu_count("sync stream", 1); return 0; }
RT(StreamQuery)(void*) { return 0; }
RT(StreamWaitEvent)(void*, void*, unsigned) { return 0; }
RT(StreamIsCapturing)(void*, int* status) { *status = 0; return 0; }
RT(EventCreate)(void** e) { *e = malloc(8); return 0; }
RT(EventCreateWithFlags)(void** e, unsigned) { return vgpu_cudaEventCreate(e); }
RT(EventDestroy)(void* e) { free(e); return 0; }
RT(EventElapsedTime)(float* milliseconds, void*, void*) { *milliseconds = 0; return 0; }
RT(EventQuery)(void*) { return 0; }
RT(EventRecord)(void*, void*) { return 0; }
RT(EventSynchronize)(void*) { vgpu_count("sync event", 1); return 0; }
RT(DeviceSynchronize)() { vgpu_count("sync device", 1); return 0; }
