// cuBLAS (libcublas.so.12), as far as CuPy's dot and matmul call it, through the host's BLAS.
#include "core.h"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

template <class T>
using Gemm = void (*)(int order, int ta, int tb, int64_t m, int64_t n, int64_t k, T alpha,
                      const T* a, int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc);
static Gemm<float> sgemm;
static Gemm<double> dgemm;
API void vgpu_set_blas(void* s, void* d) {
    sgemm = (Gemm<float>)s;
    dgemm = (Gemm<double>)d;
}

enum { NOT_SUPPORTED = 15 };                               // cublasStatus_t
enum { FLOAT = 0, DOUBLE = 1 };                            // cudaDataType_t
static int size_of(int type) { return type == DOUBLE ? 8 : 4; }

static void note(const char* name) {
    vgpu_count(name, 1);
    vgpu_count("launches", 1);
}

// ---------------------------------------------------------------- handles

static int pointer_mode = 0;       // host and device memory are one, so it changes nothing
API int cublasCreate_v2(void** handle) { *handle = malloc(8); return 0; }
API int cublasDestroy_v2(void* handle) { free(handle); return 0; }
API int cublasGetVersion_v2(void*, int* v) { *v = 120900; return 0; }
API int cublasGetPointerMode_v2(void*, int* mode) { *mode = pointer_mode; return 0; }
API int cublasSetPointerMode_v2(void*, int mode) { pointer_mode = mode; return 0; }
API int cublasSetStream_v2(void*, void*) { return 0; }
API int cublasGetStream_v2(void*, void** stream) { *stream = nullptr; return 0; }
API int cublasSetMathMode(void*, int) { return 0; }
API int cublasGetMathMode(void*, int* mode) { *mode = 0; return 0; }

// ---------------------------------------------------------------- products, column-major

struct Matrix {
    int rows, columns, leading;
    size_t bytes(int type) const {
        if (!rows || !columns) return 0;
        return size_of(type) * ((size_t)leading * (columns - 1) + rows);
    }
};

static void need(const void* p, size_t bytes) {
    if (!vgpu_is_device(p, bytes)) vgpu_fatal("cuBLAS was handed what is no device memory");
}

template <class T>
static void product(Gemm<T> gemm, int ta, int tb, int m, int n, int k, const void* alpha,
                    const void* a, int lda, const void* b, int ldb, const void* beta,
                    void* c, int ldc) {
    T* result = (T*)c;
    if (*(T*)beta == 0)            // what was there, nan as it may be, does not count
        for (int j = 0; j < n; ++j) memset(result + (size_t)j * ldc, 0, sizeof(T) * m);
    const int COLUMN_MAJOR = 102, PLAIN = 111, TRANSPOSED = 112;
    auto multiply = [&](int first, int last, T onto) {
        gemm(COLUMN_MAJOR, ta ? TRANSPOSED : PLAIN, tb ? TRANSPOSED : PLAIN, m, n, last - first,
             *(T*)alpha, (const T*)a + (size_t)first * (ta ? 1 : lda), lda,
             (const T*)b + (size_t)first * (tb ? ldb : 1), ldb, onto, result, ldc);
    };
    int half = vgpu_noise ? k / 2 : 0;     // noise: the second half of each sum comes first
    multiply(half, k, *(T*)beta);
    if (half) multiply(0, half, 1);
}

static int any(int ta, int tb, int m, int n, int k, const void* alpha,
               const void* a, int a_type, int lda, const void* b, int b_type, int ldb,
               const void* beta, void* c, int c_type, int ldc) {
    Matrix of_a{ta ? k : m, ta ? m : k, lda}, of_b{tb ? n : k, tb ? k : n, ldb}, of_c{m, n, ldc};
    if (a_type != b_type || a_type != c_type || a_type > DOUBLE) {
        fprintf(stderr, "vgpu: a product of types %d × %d → %d is not emulated\n",
                a_type, b_type, c_type);
        return NOT_SUPPORTED;
    }
    need(a, of_a.bytes(a_type));
    need(b, of_b.bytes(b_type));
    need(c, of_c.bytes(c_type));
    if (a_type == FLOAT) product(sgemm, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    else product(dgemm, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    return 0;
}

// cublasComputeType_t that cuBLAS takes for C's type.
static bool computes(int compute, int c_type) {
    if (c_type == DOUBLE) return compute == 70 || compute == 71;
    return compute == 68 || compute == 69 || compute == 74 || compute == 75 || compute == 77;
}

static bool refused(const char* name, int compute, int c_type) {
    char text[80];
    snprintf(text, sizeof text, "%s compute=%d", name, compute);
    note(text);
    if (computes(compute, c_type)) return false;
    fprintf(stderr, "vgpu: %s into type %d is not emulated\n", text, c_type);
    return true;
}

API int cublasGemmEx(void*, int ta, int tb, int m, int n, int k, const void* alpha,
                     const void* a, int a_type, int lda, const void* b, int b_type, int ldb,
                     const void* beta, void* c, int c_type, int ldc, int compute, int) {
    if (refused("cublasGemmEx", compute, c_type)) return NOT_SUPPORTED;
    return any(ta, tb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc);
}

API int cublasGemmStridedBatchedEx(
        void*, int ta, int tb, int m, int n, int k, const void* alpha,
        const void* a, int a_type, int lda, long long a_stride,
        const void* b, int b_type, int ldb, long long b_stride, const void* beta,
        void* c, int c_type, int ldc, long long c_stride, int batch, int compute, int) {
    if (refused("cublasGemmStridedBatchedEx", compute, c_type)) return NOT_SUPPORTED;
    int error = 0;
    for (int i = 0; i < batch && !error; ++i)
        error = any(ta, tb, m, n, k, alpha,
                    (const char*)a + i * a_stride * size_of(a_type), a_type, lda,
                    (const char*)b + i * b_stride * size_of(b_type), b_type, ldb, beta,
                    (char*)c + i * c_stride * size_of(c_type), c_type, ldc);
    return error;
}
