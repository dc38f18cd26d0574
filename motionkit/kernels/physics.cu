// Foot skate and jerk of joint trajectories, forward and backward. The definition is motionkit/kernels/definitions.py.
//
// No includes: NVRTC, nvcc and (with tests/kernels/host/cuda_host.h in front) g++ compile this very text.
// Defined by whoever compiles (motionkit/kernels/_compile.py): MK_JOINTS, MK_FEET (how many), MK_FOOT_LIST (their
// joints, distinct); MK_WALK (frames that a thread walks, a multiple of 4); for each of FWD and BWD MK_*_TILE (frames
// per step, a multiple of that), MK_*_THREADS (those of the joints and those of the feet, each rounded up to whole
// warps) and MK_*_BOUNDS (for __launch_bounds__: keeps registers low without spills).
//
// Results are per frame (fps = 1). Every sum has one order that depends on nothing but a sample's own length: two runs,
// and two batches that hold the same sample, agree to the last bit. Frames past a length are never read.

#define MK_SPAN (3 * MK_JOINTS)  // floats of one frame
// A thread walks consecutive frames of one joint, or of one foot. Feet have warps of their own: a warp with both would
// run both branches.
#define MK_FWD_GROUPS (MK_FWD_TILE / MK_WALK)
#define MK_BWD_GROUPS (MK_BWD_TILE / MK_WALK)
#define MK_FWD_FEET ((MK_FWD_GROUPS * MK_JOINTS + 31) / 32 * 32)
#define MK_BWD_FEET ((MK_BWD_GROUPS * MK_JOINTS + 31) / 32 * 32)
#define MK_SOFTNESS 0.02f
#define MK_CONTACT_EPS 1e-6f
#define MK_NORM_EPS 1e-14f

struct MkHeights {
    float of[MK_FEET];
};

struct MkGate {
    float open;   // 1 / (1 + e^z), z = (y - h) / softness
    float slope;  // -d open / dz
};

// lengths is int64 or int32; anything outside [0, frames] is clamped, so no value of it can reach foreign memory.
static __device__ __forceinline__ int mk_length(const void* lengths, int wide, size_t sample, int frames) {
    long long length = wide ? ((const long long*)lengths)[sample] : (long long)((const int*)lengths)[sample];
    length = length < 0 ? 0 : length;
    return (int)(length > frames ? frames : length);
}

static __device__ __forceinline__ int mk_foot(int index) {
    const int joints[MK_FEET] = {MK_FOOT_LIST};
    int joint = joints[0];
#pragma unroll
    for (int foot = 1; foot < MK_FEET; ++foot) joint = index == foot ? joints[foot] : joint;
    return joint;
}

// How far an address is past a multiple of 16 bytes, in floats.
static __device__ __forceinline__ int mk_shift(const float* address) { return (int)(((size_t)address >> 2) & 3); }

// Copy `count` <= most floats with the whole block; both addresses must have the same mk_shift, so 16-byte moves always
// fit. Every load is on its way before the first store: a thread waits for memory once, not once per load.
template <int threads, int most>
static __device__ __forceinline__ void mk_copy(float* to, const float* from, int count) {
    constexpr int each = (most / 4 + threads - 1) / threads;
    int head = (4 - mk_shift(from)) & 3;
    head = head < count ? head : count;
    const int quads = (count - head) >> 2;
    const int done = head + 4 * quads;
    const int thread = (int)threadIdx.x;
    const bool first = thread < head, last = thread < count - done;
    float4 value[each];
    float before = 0.0f, after = 0.0f;
#pragma unroll
    for (int k = 0; k < each; ++k) {
        if (thread + k * threads < quads) value[k] = ((const float4*)(from + head))[thread + k * threads];
    }
    if (first) before = from[thread];
    if (last) after = from[done + thread];
#pragma unroll
    for (int k = 0; k < each; ++k) {
        if (thread + k * threads < quads) ((float4*)(to + head))[thread + k * threads] = value[k];
    }
    if (first) to[thread] = before;
    if (last) to[done + thread] = after;
}

template <int threads>
static __device__ __forceinline__ void mk_zero(float* to, int count) {
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < count; i += threads) to[i] = 0.0f;
}

static __device__ __forceinline__ MkGate mk_gate(float y, float height) {
    float z = (y - height) * (1.0f / MK_SOFTNESS);
    z = z > 80.0f ? 80.0f : z;  // keeps e^z finite; a NaN stays one
    const float e = expf(z);
    MkGate gate;
    gate.open = __fdividef(1.0f, 1.0f + e);
    gate.slope = e * gate.open * gate.open;
    return gate;
}

// x[t+3] - 3 x[t+2] + 3 x[t+1] - x[t]; the two differences of near values are exact, the rest is rounded once.
static __device__ __forceinline__ float mk_third(float x0, float x1, float x2, float x3) {
    return fmaf(-3.0f, x2 - x1, x3 - x0);
}

static __device__ __forceinline__ float mk_warp_sum(float value) {
#pragma unroll
    for (int lane = 16; lane > 0; lane >>= 1) value += __shfl_xor_sync(0xffffffffu, value, lane);
    return value;
}

// One block per sample. stats [4, batch]: skate, jerk, contact sum, valid length.
extern "C" __global__ void __launch_bounds__(MK_FWD_BOUNDS)
    mk_physics_fwd(const float* joints, const void* lengths, int wide, long long batch, int frames, MkHeights heights,
                   float* stats) {
    __shared__ __align__(16) float buffer[(MK_FWD_TILE + 3) * MK_SPAN + 4];
    __shared__ float partial[3][MK_FWD_THREADS / 32];
    const size_t sample = blockIdx.x;
    const int length = mk_length(lengths, wide, sample, frames);
    const float* const source = joints + sample * (size_t)frames * MK_SPAN;
    float* const tile = buffer + mk_shift(source);  // a tile is a multiple of 16 bytes: one shift for all of them
    const int item = (int)threadIdx.x;
    float jerk = 0.0f, slide = 0.0f, touch = 0.0f;

    for (int start = 0; start < length; start += MK_FWD_TILE) {
        const int rows = min(MK_FWD_TILE + 3, length - start);
        if (start > 0) __syncthreads();
        mk_copy<MK_FWD_THREADS, (MK_FWD_TILE + 3) * MK_SPAN>(tile, source + (size_t)start * MK_SPAN, rows * MK_SPAN);
        __syncthreads();
        if (item < MK_FWD_GROUPS * MK_JOINTS) {
            const int first = MK_WALK * (item / MK_JOINTS);
            const float* x = tile + first * MK_SPAN + 3 * (item % MK_JOINTS);
            if (length < 4 && first == 0) {  // no jerk, but a value that is not finite must show
                for (int k = 0; k < length; ++k) {
                    for (int c = 0; c < 3; ++c) jerk += 0.0f * x[k * MK_SPAN + c];
                }
            }
            if (start + first + 3 < length) {
                float p[3][3];
#pragma unroll
                for (int k = 0; k < 3; ++k) {
#pragma unroll
                    for (int c = 0; c < 3; ++c) p[k][c] = x[k * MK_SPAN + c];
                }
#pragma unroll
                for (int k = 0; k < MK_WALK; ++k) {
                    const int t = start + first + k;
                    if (t + 3 < length) {
                        float q = MK_NORM_EPS;
#pragma unroll
                        for (int c = 0; c < 3; ++c) {
                            const float last = x[(k + 3) * MK_SPAN + c];
                            const float d = mk_third(p[0][c], p[1][c], p[2][c], last);
                            q = fmaf(d, d, q);
                            p[0][c] = p[1][c];
                            p[1][c] = p[2][c];
                            p[2][c] = last;
                        }
                        jerk += q * rsqrtf(q);
                    }
                }
            }
        } else if (item >= MK_FWD_FEET && item < MK_FWD_FEET + MK_FWD_GROUPS * MK_FEET) {
            const int place = item - MK_FWD_FEET;
            const int first = MK_WALK * (place / MK_FEET);
            const int foot = place % MK_FEET;
            const float height = heights.of[foot];
            const float* x = tile + first * MK_SPAN + 3 * mk_foot(foot);
            if (start + first + 1 < length) {
                float x0 = x[0], z0 = x[2], open0 = mk_gate(x[1], height).open;
#pragma unroll
                for (int k = 1; k <= MK_WALK; ++k) {
                    if (start + first + k < length) {
                        const float x1 = x[k * MK_SPAN], z1 = x[k * MK_SPAN + 2];
                        const float open1 = mk_gate(x[k * MK_SPAN + 1], height).open;
                        const float dx = x1 - x0, dz = z1 - z0;
                        const float q = fmaf(dx, dx, fmaf(dz, dz, MK_NORM_EPS));
                        const float contact = open0 * open1;
                        slide += contact * (q * rsqrtf(q));
                        touch += contact;
                        x0 = x1;
                        z0 = z1;
                        open0 = open1;
                    }
                }
            }
        }
    }

    jerk = mk_warp_sum(jerk);
    slide = mk_warp_sum(slide);
    touch = mk_warp_sum(touch);
    if ((item & 31) == 0) {
        partial[0][item >> 5] = jerk;
        partial[1][item >> 5] = slide;
        partial[2][item >> 5] = touch;
    }
    __syncthreads();
    if (item >= 32) return;
    jerk = mk_warp_sum(item < MK_FWD_THREADS / 32 ? partial[0][item] : 0.0f);
    slide = mk_warp_sum(item < MK_FWD_THREADS / 32 ? partial[1][item] : 0.0f);
    touch = mk_warp_sum(item < MK_FWD_THREADS / 32 ? partial[2][item] : 0.0f);
    if (item > 0) return;
    const float spoil = jerk - jerk + (slide - slide);  // 0, or NaN when either is not finite
    stats[sample] = slide / (touch + MK_CONTACT_EPS) + spoil;
    stats[batch + sample] = jerk / (float)(MK_JOINTS * max(length - 3, 1)) + spoil;
    stats[2 * batch + sample] = touch + spoil;
    stats[3 * batch + sample] = (float)length;
}

// One block per sample and tile; everything but `stats` is computed again from the joints. gs, gj, gc: gradients of
// skate, jerk and contact sum, null for none, with the stride of each (an expanded scalar has stride 0).
extern "C" __global__ void __launch_bounds__(MK_BWD_BOUNDS)
    mk_physics_bwd(const float* joints, const void* lengths, int wide, long long batch, int frames, MkHeights heights,
                   const float* stats, const float* gs, long long gs_step, const float* gj, long long gj_step,
                   const float* gc, long long gc_step, float* grad) {
    __shared__ __align__(16) float buffer[(MK_BWD_TILE + 6) * MK_SPAN + 4];
    __shared__ __align__(16) float result[MK_BWD_TILE * MK_SPAN + 4];
    const int tiles = (frames + MK_BWD_TILE - 1) / MK_BWD_TILE;
    const size_t sample = blockIdx.x / (unsigned)tiles;
    const int start = (int)(blockIdx.x % (unsigned)tiles) * MK_BWD_TILE;
    const int length = mk_length(lengths, wide, sample, frames);
    const int item = (int)threadIdx.x;
    const size_t origin = (sample * (size_t)frames + (size_t)start) * MK_SPAN;
    const int written = min(MK_BWD_TILE, frames - start) * MK_SPAN;
    const float skate = stats[sample];
    if (start >= length || skate != skate) {  // a spoilt motion pulls nowhere
        mk_zero<MK_BWD_THREADS>(grad + origin, written);
        return;
    }

    // Row r of the tile is frame start + r - 3; rows outside [0, length) are zero.
    const float* const source = joints + origin;
    float* const tile = buffer + ((mk_shift(source) + MK_SPAN) & 3);
    float* const out = result + mk_shift(grad + origin);
    const int before = min(3, start);
    const int end = min(MK_BWD_TILE + 3, length - start);
    mk_zero<MK_BWD_THREADS>(tile, (3 - before) * MK_SPAN);
    mk_copy<MK_BWD_THREADS, (MK_BWD_TILE + 6) * MK_SPAN>(tile + (3 - before) * MK_SPAN, source - before * MK_SPAN,
                                                         (before + end) * MK_SPAN);
    mk_zero<MK_BWD_THREADS>(tile + (3 + end) * MK_SPAN, (MK_BWD_TILE + 3 - end) * MK_SPAN);
    __syncthreads();

    float foot_grad[MK_WALK][3];
    int foot_at = -1;
    if (item < MK_BWD_GROUPS * MK_JOINTS) {
        const int first = MK_WALK * (item / MK_JOINTS);
        const int place = first * MK_SPAN + 3 * (item % MK_JOINTS);
        const float* x = tile + place;
        const float scale = gj ? gj[sample * (size_t)gj_step] / (float)(MK_JOINTS * max(length - 3, 1)) : 0.0f;
        float p[3][3];  // frames s, s+1, s+2
        float u[3][3];  // directions of the third differences at s-3, s-2, s-1
#pragma unroll
        for (int k = 0; k < 3; ++k) {
#pragma unroll
            for (int c = 0; c < 3; ++c) {
                p[k][c] = x[k * MK_SPAN + c];
                u[k][c] = 0.0f;
            }
        }
#pragma unroll
        for (int k = 0; k < MK_WALK + 3; ++k) {
            const int s = start + first + k - 3;
            const bool inside = s >= 0 && s + 3 < length;
            float d[3], q = MK_NORM_EPS;
#pragma unroll
            for (int c = 0; c < 3; ++c) {
                const float last = x[(k + 3) * MK_SPAN + c];
                d[c] = mk_third(p[0][c], p[1][c], p[2][c], last);
                q = fmaf(d[c], d[c], q);
                p[0][c] = p[1][c];
                p[1][c] = p[2][c];
                p[2][c] = last;
            }
            const float inverse = rsqrtf(q);
#pragma unroll
            for (int c = 0; c < 3; ++c) {
                const float unit = inside ? d[c] * inverse : 0.0f;
                if (k >= 3) out[place + (k - 3) * MK_SPAN + c] = scale * fmaf(3.0f, u[2][c] - u[1][c], u[0][c] - unit);
                u[0][c] = u[1][c];
                u[1][c] = u[2][c];
                u[2][c] = unit;
            }
        }
    } else if (item >= MK_BWD_FEET && item < MK_BWD_FEET + MK_BWD_GROUPS * MK_FEET && (gs || gc)) {
        const int index = item - MK_BWD_FEET;
        const int first = MK_WALK * (index / MK_FEET);
        const int foot = index % MK_FEET;
        const float height = heights.of[foot];
        const float share = gs ? gs[sample * (size_t)gs_step] / (stats[2 * batch + sample] + MK_CONTACT_EPS) : 0.0f;
        const float more = gc ? gc[sample * (size_t)gc_step] : 0.0f;
        foot_at = first * MK_SPAN + 3 * mk_foot(foot);
        const float* x = tile + foot_at + 2 * MK_SPAN;  // the frame before the first
        float x0 = x[0], z0 = x[2];
        MkGate gate0 = mk_gate(x[1], height);
        float push_x = 0.0f, push_z = 0.0f;  // what the pair before sends to this frame
        float lift = 0.0f;
#pragma unroll
        for (int k = 0; k <= MK_WALK; ++k) {
            const int t = start + first + k - 1;
            const float x1 = x[(k + 1) * MK_SPAN], z1 = x[(k + 1) * MK_SPAN + 2];
            const MkGate gate1 = mk_gate(x[(k + 1) * MK_SPAN + 1], height);
            const bool inside = t >= 0 && t + 1 < length;
            const float dx = x1 - x0, dz = z1 - z0;
            const float q = fmaf(dx, dx, fmaf(dz, dz, MK_NORM_EPS));
            const float inverse = rsqrtf(q);
            const float pull = inside ? gate0.open * gate1.open * inverse * share : 0.0f;
            const float worth = inside ? fmaf(share, q * inverse - skate, more) : 0.0f;
            if (k > 0) {
                const float slope = -(1.0f / MK_SOFTNESS) * gate0.slope;
                foot_grad[k - 1][0] = push_x - pull * dx;
                foot_grad[k - 1][1] = (lift + gate1.open * worth) * slope;
                foot_grad[k - 1][2] = push_z - pull * dz;
            }
            push_x = pull * dx;
            push_z = pull * dz;
            lift = gate0.open * worth;
            x0 = x1;
            z0 = z1;
            gate0 = gate1;
        }
    }
    __syncthreads();
    if (foot_at >= 0) {
#pragma unroll
        for (int k = 0; k < MK_WALK; ++k) {
#pragma unroll
            for (int c = 0; c < 3; ++c) out[foot_at + k * MK_SPAN + c] += foot_grad[k][c];
        }
    }
    __syncthreads();
    mk_copy<MK_BWD_THREADS, MK_BWD_TILE * MK_SPAN>(grad + origin, out, written);
}
