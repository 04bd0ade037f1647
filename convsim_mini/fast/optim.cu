// The kernels of optim.py: all dense parameters in one launch. Row y of the grid has one parameter.
#define MOST 96                                               // arguments may take 4,096 bytes

struct Parameters {
    real* p[MOST];
    const real* grad[MOST];
    real* mean[MOST];
    real* square[MOST];
    i64 size[MOST];
};

extern "C" __global__ void sgd(Parameters all, real rate) {
    int y = blockIdx.y;
    for (i64 k = (i64)blockIdx.x * blockDim.x + threadIdx.x; k < all.size[y];
         k += (i64)gridDim.x * blockDim.x)
        all.p[y][k] -= rate * all.grad[y][k];
}

// rate: the learning rate / (1 − β₁ᵗ); correction: 1 − β₂ᵗ; new1, new2: 1 − β₁ and 1 − β₂.
extern "C" __global__ void adam(Parameters all, real rate, real correction, real new1, real new2,
                                real epsilon) {
    int y = blockIdx.y;
    for (i64 k = (i64)blockIdx.x * blockDim.x + threadIdx.x; k < all.size[y];
         k += (i64)gridDim.x * blockDim.x) {
        real grad = all.grad[y][k], *mean = all.mean[y] + k, *square = all.square[y] + k;
        *mean += new1 * (grad - *mean);
        *square += new2 * (grad * grad - *square);
        all.p[y][k] -= rate * *mean / (sqrt(*square / correction) + epsilon);
    }
}
