// Joint positions out of HumanML3D-style features, forward and backward. The definition is
// motionkit/kernels/definitions.py (HumanML3D's recover_from_ric).
//
// No includes; compiled like physics.cu, with MK_JOINTS and MK_RECOVER_THREADS (a multiple of 32 that divides 1024)
// defined. A step is 32 frames, one lane of the first warp per frame in the scans. Heading and path are summed in
// float64 in a fixed order, so results repeat to the last bit and depend on nothing but the sample. Frames past a
// length are never read. A frame whose root or positions are not finite makes itself and all later frames NaN.

#define MK_TILE 32
#define MK_SPAN (3 * MK_JOINTS)           // floats of one frame of joints
#define MK_COLUMNS (4 + 3 * (MK_JOINTS - 1))  // feature columns in use: yaw rate, velocity x z, height, positions
#define MK_FULL 0xffffffffu

struct MkTurn {
    float cos, sin;
};

static __device__ __forceinline__ int mk_length(const void* lengths, int wide, size_t sample, int frames) {
    if (!lengths) return frames;
    long long length = wide ? ((const long long*)lengths)[sample] : (long long)((const int*)lengths)[sample];
    length = length < 0 ? 0 : length;
    return (int)(length > frames ? frames : length);
}

static __device__ __forceinline__ float mk_value(const float* row, const float* mean, const float* std, int column) {
    return mean ? fmaf(row[column], std[column], mean[column]) : row[column];
}

// Load rows [start, start + 32) of one sample, denormalised; rows from `length` on become zero. Returns the first row,
// as a frame, in which this thread met a value that is not finite, or `frames`.
static __device__ __forceinline__ int mk_load(float (*rows)[MK_COLUMNS], const float* source, int start, int length,
                                              int frames, int width, const float* mean, const float* std) {
    int bad = frames;
    for (int row = (int)threadIdx.x / 32; row < MK_TILE; row += MK_RECOVER_THREADS / 32) {
        const bool inside = start + row < length;
        const float* const from = source + (size_t)(start + row) * width;
        for (int column = (int)threadIdx.x % 32; column < MK_COLUMNS; column += 32) {
            const float value = inside ? mk_value(from, mean, std, column) : 0.0f;
            if (!(value - value == 0.0f)) bad = min(bad, start + row);
            rows[row][column] = value;
        }
    }
    return bad;
}

// Sum over lanes 0..lane.
static __device__ __forceinline__ double mk_prefix(double value, int lane) {
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        const double other = __shfl_up_sync(MK_FULL, value, step);
        if (lane >= step) value += other;
    }
    return value;
}

// Sum over lanes lane..31.
static __device__ __forceinline__ double mk_suffix(double value, int lane) {
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        const double other = __shfl_down_sync(MK_FULL, value, step);
        if (lane + step < 32) value += other;
    }
    return value;
}

static __device__ __forceinline__ float mk_warp_sum(float value) {
#pragma unroll
    for (int lane = 16; lane > 0; lane >>= 1) value += __shfl_xor_sync(MK_FULL, value, lane);
    return value;
}

// One block per sample. joints [batch, frames, J, 3]; turns [batch, frames, 2], cos and sin of the heading; ends
// [batch], the first frame that is NaN.
extern "C" __global__ void __launch_bounds__(MK_RECOVER_THREADS, 1024 / MK_RECOVER_THREADS)
    mk_recover_fwd(const float* features, const void* lengths, int wide, int frames, int width, const float* mean,
                   const float* std, float unit, float* joints, float* turns, int* ends) {
    __shared__ float rows[MK_TILE][MK_COLUMNS];
    __shared__ MkTurn turn[MK_TILE];
    __shared__ float path[MK_TILE][2];
    __shared__ int broken;
    const size_t sample = blockIdx.x;
    const int length = mk_length(lengths, wide, sample, frames);
    const float* const source = features + sample * (size_t)frames * width;
    const int thread = (int)threadIdx.x;
    // What the first warp carries from step to step, the same in all of its lanes.
    double half = 0.0, at_x = 0.0, at_z = 0.0;       // sum of yaw rates, position
    float rate = 0.0f, speed_x = 0.0f, speed_z = 0.0f;  // of the frame before the step
    if (thread == 0) broken = frames;

    for (int start = 0; start < frames; start += MK_TILE) {
        __syncthreads();
        const int bad = mk_load(rows, source, start, length, frames, width, mean, std);
        if (bad < frames) atomicMin(&broken, bad);
        __syncthreads();
        if (thread < 32) {
            // A frame moves by what the frame before it says.
            const float mine = thread > 0 ? rows[thread - 1][0] : rate;
            const float vx = thread > 0 ? rows[thread - 1][1] : speed_x;
            const float vz = thread > 0 ? rows[thread - 1][2] : speed_z;
            const double angle = half + mk_prefix((double)mine, thread);
            // The heading is -2 angle; in half turns, brought into [-1, 1].
            double turned = angle * -0.6366197723675814;
            turned -= 2.0 * rint(0.5 * turned);
            MkTurn now;
            sincospif((float)turned, &now.sin, &now.cos);
            const double x = at_x + mk_prefix((double)fmaf(vx, now.cos, vz * now.sin), thread);
            const double z = at_z + mk_prefix((double)fmaf(vz, now.cos, -vx * now.sin), thread);
            turn[thread] = now;
            path[thread][0] = (float)x;
            path[thread][1] = (float)z;
            half = __shfl_sync(MK_FULL, angle, 31);
            at_x = __shfl_sync(MK_FULL, x, 31);
            at_z = __shfl_sync(MK_FULL, z, 31);
            rate = rows[MK_TILE - 1][0];
            speed_x = rows[MK_TILE - 1][1];
            speed_z = rows[MK_TILE - 1][2];
        }
        __syncthreads();
        const int count = min(MK_TILE, frames - start);
        const int alive = broken - start;
        float* const out = joints + (sample * (size_t)frames + (size_t)start) * MK_SPAN;
        for (int i = thread; i < count * MK_SPAN; i += MK_RECOVER_THREADS) {
            const int row = i / MK_SPAN, joint = i % MK_SPAN / 3, axis = i % 3;
            const float* const local = rows[row] + 4 + 3 * (joint - 1);
            float value;
            if (axis == 1) {
                value = joint ? local[1] : rows[row][3];
            } else {
                value = path[row][axis >> 1];
                if (joint) {
                    const float along = local[axis], across = axis ? -local[0] : local[2];
                    value += fmaf(along, turn[row].cos, across * turn[row].sin);
                }
            }
            out[i] = row < alive ? value * unit : __int_as_float(0x7fc00000);
        }
        if (thread < 2 * count) {
            const MkTurn now = turn[thread >> 1];
            turns[2 * (sample * (size_t)frames + (size_t)start) + thread] = (thread & 1) ? now.sin : now.cos;
        }
    }
    if (thread == 0) ends[sample] = broken;  // last changed before a barrier of the last step
}

// One block per sample, steps from the last to the first: heading and path gather from all later frames.
extern "C" __global__ void __launch_bounds__(MK_RECOVER_THREADS, 1024 / MK_RECOVER_THREADS)
    mk_recover_bwd(const float* grad, const float* features, const void* lengths, int wide, int frames, int width,
                   const float* mean, const float* std, float unit, const float* turns, const int* ends, float* out) {
    __shared__ float rows[MK_TILE][MK_COLUMNS];
    __shared__ float push[MK_TILE][MK_SPAN];  // gradient of the joints, NaN frames zero
    __shared__ MkTurn turn[MK_TILE];
    __shared__ float sums[3][MK_TILE];  // per frame: gradient of the path x and z, and of the heading by the joints
    __shared__ float root[3][MK_TILE];  // per frame: gradient of yaw rate, velocity x, velocity z
    const size_t sample = blockIdx.x;
    const int alive = ends[sample];
    // Features of a broken frame are never used; those before it are finite.
    const int length = min(mk_length(lengths, wide, sample, frames), alive);
    const float* const source = features + sample * (size_t)frames * width;
    const int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32;
    // What the first warp carries, the same in all of its lanes: sums over all later frames, the turn of the next one.
    double on_x = 0.0, on_z = 0.0, on_turn = 0.0;
    MkTurn next = {1.0f, 0.0f};

    for (int start = (frames - 1) / MK_TILE * MK_TILE; start >= 0; start -= MK_TILE) {
        const int count = min(MK_TILE, frames - start);
        const size_t origin = sample * (size_t)frames + (size_t)start;
        __syncthreads();
        mk_load(rows, source, start, length, frames, width, mean, std);
        for (int i = thread; i < MK_TILE * MK_SPAN; i += MK_RECOVER_THREADS) {
            push[i / MK_SPAN][i % MK_SPAN] = start + i / MK_SPAN < alive ? unit * grad[origin * MK_SPAN + i] : 0.0f;
        }
        if (thread < MK_TILE) {
            MkTurn now = {1.0f, 0.0f};
            if (start + thread < alive) {
                now.cos = turns[2 * (origin + thread)];
                now.sin = turns[2 * (origin + thread) + 1];
            }
            turn[thread] = now;
        }
        __syncthreads();
        for (int row = warp; row < MK_TILE; row += MK_RECOVER_THREADS / 32) {
            const MkTurn now = turn[row];
            float gx = 0.0f, gz = 0.0f, twist = 0.0f;
            for (int joint = lane; joint < MK_JOINTS; joint += 32) {
                const float px = push[row][3 * joint], pz = push[row][3 * joint + 2];
                gx += px;
                gz += pz;
                if (joint) {
                    const float x = rows[row][1 + 3 * joint], z = rows[row][3 + 3 * joint];
                    twist += px * fmaf(z, now.cos, -x * now.sin) - pz * fmaf(x, now.cos, z * now.sin);
                }
            }
            gx = mk_warp_sum(gx);
            gz = mk_warp_sum(gz);
            twist = mk_warp_sum(twist);
            if (lane == 0) {
                sums[0][row] = gx;
                sums[1][row] = gz;
                sums[2][row] = twist;
            }
        }
        __syncthreads();
        if (thread < 32) {
            const int frame = start + thread;
            const MkTurn now = turn[thread];
            const double gx = on_x + mk_suffix((double)sums[0][thread], thread);
            const double gz = on_z + mk_suffix((double)sums[1][thread], thread);
            // The step into this frame was made by the velocity of the frame before, turned by this frame's heading.
            float vx = 0.0f, vz = 0.0f;
            if (frame > 0 && frame - 1 < length) {
                const float* const from = source + (size_t)(frame - 1) * width;
                vx = thread > 0 ? rows[thread - 1][1] : mk_value(from, mean, std, 1);
                vz = thread > 0 ? rows[thread - 1][2] : mk_value(from, mean, std, 2);
            }
            const double twist = (double)sums[2][thread] + gx * (double)fmaf(vz, now.cos, -vx * now.sin) -
                                 gz * (double)fmaf(vx, now.cos, vz * now.sin);
            const double all = on_turn + mk_suffix(twist, thread);
            double later = __shfl_down_sync(MK_FULL, all, 1), next_x = __shfl_down_sync(MK_FULL, gx, 1);
            double next_z = __shfl_down_sync(MK_FULL, gz, 1);
            MkTurn then;
            then.cos = __shfl_down_sync(MK_FULL, now.cos, 1);
            then.sin = __shfl_down_sync(MK_FULL, now.sin, 1);
            if (thread == 31) {
                later = on_turn;
                next_x = on_x;
                next_z = on_z;
                then = next;
            }
            root[0][thread] = (float)(-2.0 * later);
            root[1][thread] = (float)(next_x * then.cos - next_z * then.sin);
            root[2][thread] = (float)(next_x * then.sin + next_z * then.cos);
            on_x = __shfl_sync(MK_FULL, gx, 0);
            on_z = __shfl_sync(MK_FULL, gz, 0);
            on_turn = __shfl_sync(MK_FULL, all, 0);
            next = turn[0];
        }
        __syncthreads();
        for (int row = warp; row < count; row += MK_RECOVER_THREADS / 32) {
            const MkTurn now = turn[row];
            float* const to = out + (origin + row) * (size_t)width;
            const bool inside = start + row < length;
            for (int column = lane; column < width; column += 32) {
                float value = 0.0f;
                if (inside && column < MK_COLUMNS) {
                    if (column < 3) {
                        value = root[column][row];
                    } else if (column == 3) {
                        value = push[row][1];
                    } else {
                        const int axis = (column - 4) % 3;
                        const float* const p = push[row] + 3 + (column - 4) / 3 * 3;
                        value = axis == 0 ? fmaf(p[0], now.cos, -p[2] * now.sin)
                                          : (axis == 1 ? p[1] : fmaf(p[0], now.sin, p[2] * now.cos));
                    }
                    if (std) value *= std[column];
                }
                to[column] = value;
            }
        }
    }
}
