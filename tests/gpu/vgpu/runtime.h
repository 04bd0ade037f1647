// What compiled kernels ask of the emulated device: indices, shared memory, barriers, warps.
#pragma once
#include <cstddef>
#include <cstdint>

struct vgpu_uint3 { unsigned x, y, z; };

extern "C" {
extern vgpu_uint3 vgpu_threadIdx, vgpu_blockIdx, vgpu_blockDim, vgpu_gridDim;

// Null outside a block: an `extern __shared__` array must be declared inside the kernel.
extern char* vgpu_dynamic_shared;

void vgpu_syncthreads();
void vgpu_syncwarp(unsigned mask);

// Each lane of mask puts a value of at most 8 bytes. Returns the warp's values, 16 bytes a lane.
// They may be read until vgpu_exchange_done, which every lane of mask has to call.
void* vgpu_exchange(unsigned mask, const void* value, size_t size);
void vgpu_exchange_done(unsigned mask);
unsigned vgpu_lane();
unsigned vgpu_alive_mask();

// The block that runs as number i of n.
uint64_t vgpu_block_in_turn(uint64_t i, uint64_t n);

// Shared memory begins as garbage: fills the dynamic part and the bytes from begin to end.
void vgpu_begin_block(char* begin, char* end);
void vgpu_run_threads(unsigned threads, void (*body)(void*), void* context);
}
