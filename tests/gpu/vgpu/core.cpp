// libvgpu: device memory, counters, and the threads of a block as fibers of one host thread.
#include "core.h"
#include "runtime.h"
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

static std::recursive_mutex lock;      // host threads may call CuPy at the same time
using Hold = std::lock_guard<std::recursive_mutex>;

API void vgpu_fatal(const char* what) {
    fprintf(stderr, "vgpu: %s\n", what);
    abort();
}

__attribute__((visibility("default"))) const bool vgpu_noise = getenv("VGPU_NOISE") != nullptr;

// ---------------------------------------------------------------- counters

static std::map<std::string, long> counts;

API void vgpu_count(const char* name, long by) {
    Hold hold(lock);
    counts[name] += by;
}

API const char* vgpu_counts() {        // a line for each counter: name, tab, number
    Hold hold(lock);
    static std::string text;
    text.clear();
    for (auto& [name, number] : counts) text += name + "\t" + std::to_string(number) + "\n";
    return text.c_str();
}

API void vgpu_reset() {
    Hold hold(lock);
    counts.clear();
}

// ---------------------------------------------------------------- memory

static const size_t PAGE = 4096;
static const bool strict = getenv("VGPU_STRICT") != nullptr;
static std::map<uintptr_t, size_t> blocks;         // address → bytes asked for
static size_t used = 0;
static char kernel_name[200] = "no kernel";
static struct sigaction handler_before;

extern "C" {
__attribute__((visibility("default"))) vgpu_uint3 vgpu_threadIdx, vgpu_blockIdx;
__attribute__((visibility("default"))) vgpu_uint3 vgpu_blockDim{1, 1, 1}, vgpu_gridDim{1, 1, 1};
__attribute__((visibility("default"))) char* vgpu_dynamic_shared = nullptr;
}

static size_t up_to(size_t multiple, size_t size) {
    return (size + multiple - 1) / multiple * multiple;
}

static void fault(int, siginfo_t* info, void*) {
    char text[400];
    auto &t = vgpu_threadIdx, &b = vgpu_blockIdx;
    int n = snprintf(text, sizeof text,
                     "vgpu: %s reads or writes %p, outside its arrays; "
                     "thread (%u, %u, %u) of block (%u, %u, %u)\n",
                     kernel_name, info->si_addr, t.x, t.y, t.z, b.x, b.y, b.z);
    (void)!write(2, text, n);
    // The access is tried again under the handler before: Python's prints where it was.
    sigaction(SIGSEGV, &handler_before, nullptr);
}

static void watch_for_faults() {
    stack_t stack = {malloc(1 << 16), 0, 1 << 16};      // a fiber's own stack may be full
    sigaltstack(&stack, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &handler_before);
}

// Memory with a page on either side that nobody may touch.
static char* map_guarded(size_t size) {
    size_t whole = up_to(PAGE, size) + 2 * PAGE;
    void* p = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    mprotect(p, PAGE, PROT_NONE);
    mprotect((char*)p + whole - PAGE, PAGE, PROT_NONE);
    return (char*)p + PAGE;
}

// Strict: an array ends, to 16 bytes, where the guard page begins.
static void* take(size_t size) {
    if (!strict) return aligned_alloc(512, up_to(512, size));
    char* begin = map_guarded(size);
    return begin ? begin + up_to(PAGE, size) - up_to(16, size) : nullptr;
}

static void give(char* p, size_t size) {
    if (!strict) return free(p);
    for (char* end = p + size; end < p + up_to(16, size); ++end)
        if (*end != (char)0xff) vgpu_fatal("a freed array was written past its end");
    size_t whole = up_to(PAGE, size) + 2 * PAGE;
    char* begin = p + up_to(16, size) + PAGE - whole;
    // Freed arrays stay mapped for a while, untouchable, so that a later use of them is seen.
    madvise(begin, whole, MADV_DONTNEED);
    mprotect(begin, whole, PROT_NONE);
    static std::vector<std::pair<char*, size_t>> kept(2000);
    static size_t next = 0;
    auto& oldest = kept[next++ % kept.size()];
    if (oldest.first) munmap(oldest.first, oldest.second);
    oldest = {begin, whole};
}

API size_t vgpu_memory() {
    const char* wish = getenv("VGPU_MEMORY");
    return wish ? strtoull(wish, nullptr, 10) : (size_t)16 << 30;
}

API size_t vgpu_used() { return used; }

API void* vgpu_malloc(size_t size) {
    Hold hold(lock);
    static const size_t memory = vgpu_memory();
    static const bool watching = (watch_for_faults(), true);
    (void)watching;
    size = std::max<size_t>(size, 1);
    if (used + size > memory) return nullptr;
    void* p = take(size);
    if (!p) return nullptr;
    memset(p, 0xff, up_to(16, size));      // nan: unwritten memory must not pass for zeros
    blocks[(uintptr_t)p] = size;
    used += size;
    return p;
}

API int vgpu_free(void* p) {
    Hold hold(lock);
    auto found = blocks.find((uintptr_t)p);
    if (found == blocks.end()) return 0;
    used -= found->second;
    give((char*)p, found->second);
    blocks.erase(found);
    return 1;
}

API int vgpu_is_device(const void* p, size_t size) {
    Hold hold(lock);
    auto found = blocks.upper_bound((uintptr_t)p);
    if (found == blocks.begin()) return 0;
    --found;
    return (uintptr_t)p + size <= found->first + found->second;
}

// ---------------------------------------------------------------- launches

static const size_t MOST_SHARED = 232448;          // 227 KiB, as on an H100
static size_t dynamic_bytes = 0;
static const char* const order = getenv("VGPU_ORDER");
static const bool reversed = order && !strcmp(order, "reverse");

// One kernel runs at a time: the lock is held from begin to end.
API void vgpu_begin_launch(const char* kernel, unsigned shared_bytes) {
    lock.lock();
    snprintf(kernel_name, sizeof kernel_name, "%s", kernel);
    static char* const guard = map_guarded(MOST_SHARED) + up_to(PAGE, MOST_SHARED);
    dynamic_bytes = up_to(16, shared_bytes);
    vgpu_dynamic_shared = guard - dynamic_bytes;   // what lies beyond it is seen at once
}

API void vgpu_end_launch() {
    vgpu_dynamic_shared = nullptr;
    strcpy(kernel_name, "no kernel");
    lock.unlock();
}

API uint64_t vgpu_block_in_turn(uint64_t i, uint64_t n) { return reversed ? n - 1 - i : i; }

API void vgpu_begin_block(char* begin, char* end) {
    memset(vgpu_dynamic_shared, 0xff, dynamic_bytes);
    if (begin) memset(begin, 0xff, end - begin);
}

// ---------------------------------------------------------------- fibers: the threads of one block

// vgpu_switch(&mine, other): saves this stack's registers, goes on where `other` left off.
asm(R"(
.text
.globl vgpu_switch
.hidden vgpu_switch
vgpu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
extern "C" void vgpu_switch(void** save, void* to);

struct Fiber {
    void* stack_pointer;
    bool alive;
    char* stack;
};
static const size_t STACK = 128 << 10;
static const unsigned MOST_THREADS = 1024, WARP = 32, WARPS = MOST_THREADS / WARP;
static std::vector<Fiber> fibers;
static void* scheduler;                // the stack pointer of the loop that switches to the fibers
static unsigned current, total, alive;
static bool progress;                  // has any fiber got further in this round?
static void (*kernel_body)(void*);
static void* kernel_context;

// A barrier opens for the fibers of its generation when as many have arrived as are alive.
struct Barrier { unsigned arrived, generation; };
static Barrier block_barrier;
static Barrier warp_barriers[WARPS][WARP];         // by the lowest lane of the mask
static uint64_t exchanged[MOST_THREADS][2];

static void wait_for_others() { vgpu_switch(&fibers[current].stack_pointer, scheduler); }

static void run_fiber() {
    kernel_body(kernel_context);
    fibers[current].alive = false;
    --alive;
    progress = true;
    wait_for_others();                 // for ever: the scheduler passes over the dead
}

template <class Expected>
static void meet(Barrier& barrier, Expected expected) {
    if (!total) return;
    unsigned mine = barrier.generation;
    ++barrier.arrived;
    progress = true;
    while (barrier.generation == mine) {
        if (barrier.arrived >= expected()) {
            barrier.arrived = 0;
            ++barrier.generation;
            progress = true;
            return;
        }
        wait_for_others();
    }
}

API unsigned vgpu_lane() { return current % WARP; }

API unsigned vgpu_alive_mask() {
    unsigned mask = 0, first = current / WARP * WARP;
    for (unsigned k = 0; k < WARP && first + k < total; ++k)
        if (fibers[first + k].alive) mask |= 1u << k;
    return mask;
}

API void vgpu_syncthreads() {
    meet(block_barrier, [] { return alive; });     // CUDA counts out the threads that have left
}

API void vgpu_syncwarp(unsigned mask) {
    if (!(mask >> vgpu_lane() & 1)) vgpu_fatal("a lane is not in the mask of its own warp call");
    meet(warp_barriers[current / WARP][__builtin_ctz(mask)],
         [=] { return (unsigned)__builtin_popcount(mask & vgpu_alive_mask()); });
}

API void* vgpu_exchange(unsigned mask, const void* value, size_t size) {
    memcpy(exchanged[current], value, size);
    vgpu_syncwarp(mask);
    return exchanged[current / WARP * WARP];
}

API void vgpu_exchange_done(unsigned mask) { vgpu_syncwarp(mask); }

static void prepare_fibers(unsigned threads) {
    while (fibers.size() < threads) fibers.push_back({nullptr, false, map_guarded(STACK)});
    for (unsigned t = 0; t < threads; ++t) {
        void** top = (void**)(fibers[t].stack + STACK - 64);
        *--top = nullptr;              // run_fiber never returns; this keeps its stack aligned
        *--top = (void*)run_fiber;
        for (int registers = 0; registers < 6; ++registers) *--top = nullptr;
        fibers[t].stack_pointer = top;
        fibers[t].alive = true;
    }
}

API void vgpu_run_threads(unsigned threads, void (*body)(void*), void* context) {
    kernel_body = body;
    kernel_context = context;
    total = alive = threads;
    block_barrier.arrived = 0;
    for (auto& warp : warp_barriers) for (auto& barrier : warp) barrier.arrived = 0;
    prepare_fibers(threads);
    while (alive) {
        progress = false;
        for (unsigned turn = 0; turn < threads; ++turn) {
            unsigned t = reversed ? threads - 1 - turn : turn;
            if (!fibers[t].alive) continue;
            current = t;
            vgpu_threadIdx = {t % vgpu_blockDim.x, t / vgpu_blockDim.x % vgpu_blockDim.y,
                              t / (vgpu_blockDim.x * vgpu_blockDim.y)};
            vgpu_switch(&scheduler, fibers[t].stack_pointer);
        }
        if (!progress && alive) {
            fprintf(stderr, "vgpu: deadlock: in %s, %u of a block's %u threads wait at barriers "
                    "that the others never reach\n", kernel_name, alive, threads);
            abort();
        }
    }
    total = 0;
}
