// What libvgpu offers to the driver and to cuBLAS.
#pragma once
#include <cstddef>

#define API extern "C" __attribute__((visibility("default")))

extern "C" {
void vgpu_count(const char* name, long by);
void* vgpu_malloc(size_t size);                    // null when the device's memory is full
int vgpu_free(void* p);                            // false for what is no device memory
int vgpu_is_device(const void* p, size_t size);    // do these bytes lie in one block of memory?
size_t vgpu_memory();                              // bytes that the device has
size_t vgpu_used();
extern const bool vgpu_noise;    // VGPU_NOISE
void vgpu_begin_launch(const char* kernel, unsigned shared_bytes);
void vgpu_end_launch();
[[noreturn]] void vgpu_fatal(const char* what);
}
