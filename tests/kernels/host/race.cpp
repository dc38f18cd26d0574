// Run the kernels on real threads, leaving out the barrier whose number is the first argument.
#include "cuda_host.h"

static int left_out = -1;
#define MK_BARRIER(number) \
    if (number != left_out) __syncthreads()

#include "launch.cpp"

#include <stdio.h>

#include <vector>

int main(int, char** arguments) {
    left_out = atoi(arguments[1]);
    long long batch = 1;
    int frames = 41, wide = 1;
    long long lengths[1] = {39};
    void* length = lengths;
#ifdef MK_RACE_PHYSICS
    std::vector<float> joints(frames * MK_SPAN), stats(4), grad(joints.size()), one(1, 1.0f);
    for (size_t i = 0; i < joints.size(); ++i) joints[i] = 0.01f * (float)((i * 7919) % 31);
    MkHeights heights = {};
    float *x = joints.data(), *s = stats.data(), *g = one.data(), *out = grad.data();
    long long step = 0;
    void* forward[] = {&x, &length, &wide, &batch, &frames, &heights, &s};
    void* backward[] = {&x, &length, &wide, &batch, &frames, &heights, &s, &g, &step, &g, &step, &g, &step, &out};
    const unsigned tiles = (frames + MK_BWD_TILE - 1) / MK_BWD_TILE;
    int bad = mk_launch("mk_physics_fwd", 1, MK_FWD_THREADS, forward);
    bad |= mk_launch("mk_physics_bwd", tiles, MK_BWD_THREADS, backward);
#else
    int width = MK_COLUMNS + 3;
    std::vector<float> rows(frames * width), joints(frames * MK_SPAN), turns(2 * frames), grad(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = 0.01f * (float)((i * 7919) % 31);
    std::vector<int> ends(1);
    float *x = rows.data(), *y = joints.data(), *t = turns.data(), *none = nullptr, *out = grad.data();
    int* e = ends.data();
    float unit = 1.0f;
    void* forward[] = {&x, &length, &wide, &frames, &width, &none, &none, &unit, &y, &t, &e};
    void* backward[] = {&y, &x, &length, &wide, &frames, &width, &none, &none, &unit, &t, &e, &out};
    int bad = mk_launch("mk_recover_fwd", 1, MK_RECOVER_THREADS, forward);
    bad |= mk_launch("mk_recover_bwd", 1, MK_RECOVER_THREADS, backward);
#endif
    printf(bad ? "refused\n" : "ran\n");
    return bad;
}
