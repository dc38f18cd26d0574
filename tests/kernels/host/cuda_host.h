// CUDA for a CPU: just enough of the language for motionkit's kernels to be compiled by g++ and run, one block after
// another. Every CUDA thread is a fiber (default), or a real thread (-DMK_HOST_THREADS) for ThreadSanitizer.
#pragma once

#undef _FORTIFY_SOURCE  // its longjmp refuses to leave for another stack

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static  // one block runs at a time
#define __align__(bytes) __attribute__((aligned(bytes)))

struct alignas(16) float4 {
    float x, y, z, w;
};
struct uint3 {
    unsigned x, y, z;
};

namespace mk_host {

struct Warp {
    uint64_t slot[32];
    int arrived = 0, turn = 0;
};

struct Block {
    uint3 index{}, size{};
    Warp warps[32];
    int arrived = 0, turn = 0;
};

inline Block block;
inline bool reversed = false;  // run the threads of a block in the other order: results must not change

}  // namespace mk_host

#ifdef MK_HOST_THREADS

#include <pthread.h>

#include <memory>
#include <thread>
#include <vector>

namespace mk_host {

inline thread_local unsigned me;

// Two barriers in turn. With one, a thread that wakes up late would seem to have waited for what the others did after
// the barrier, and races between them would go unseen.
class Meeting {
  public:
    explicit Meeting(unsigned count) {
        for (auto& barrier : barriers_) pthread_barrier_init(&barrier, nullptr, count);
    }
    ~Meeting() {
        for (auto& barrier : barriers_) pthread_barrier_destroy(&barrier);
    }
    void wait(unsigned turn) { pthread_barrier_wait(&barriers_[turn & 1]); }

  private:
    pthread_barrier_t barriers_[2];
};

inline thread_local unsigned block_turn, warp_turn;
inline Meeting* block_meeting;
inline std::vector<std::unique_ptr<Meeting>> warp_meetings;

inline void block_sync() { block_meeting->wait(block_turn++); }
inline void warp_sync() { warp_meetings[me / 32]->wait(warp_turn++); }

template <class Body>
void run_block(const Body& body) {
    const unsigned count = block.size.x;
    Meeting meeting(count), start(count);
    block_meeting = &meeting;
    warp_meetings.clear();
    for (unsigned i = 0; i < count / 32; ++i) warp_meetings.push_back(std::make_unique<Meeting>(32));
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < count; ++i) {
        threads.emplace_back([&, i] {
            me = i;
            start.wait(0);
            body();
        });
    }
    for (auto& thread : threads) thread.join();
}

}  // namespace mk_host

#else

#include <setjmp.h>
#include <ucontext.h>

namespace mk_host {

// A fiber starts by setcontext, on its own stack; from then on it is left and resumed by _longjmp, as swapcontext asks
// the operating system for the signal mask every time, which took most of the time of a launch.
struct Fiber {
    ucontext_t context;
    jmp_buf place;
    bool started, done;
};

inline unsigned me;
inline jmp_buf scheduler;
inline Fiber fibers[1024];
inline char* stacks;
inline void (*entry)(const void*);
inline const void* entry_body;

inline void give_way() {
    if (_setjmp(fibers[me].place) == 0) _longjmp(scheduler, 1);
}

inline void resume(Fiber& fiber) {
    if (_setjmp(scheduler) != 0) return;
    if (fiber.started) _longjmp(fiber.place, 1);
    fiber.started = true;
    setcontext(&fiber.context);
}

// Every kernel here lets all threads of a block, and all lanes of a warp, meet at the same barriers.
inline void meet(int& arrived, int& turn, int count) {
    const int now = turn;
    if (++arrived == count) {
        arrived = 0;
        ++turn;
    } else {
        while (turn == now) give_way();
    }
}

inline void block_sync() { meet(block.arrived, block.turn, (int)block.size.x); }
inline void warp_sync() { meet(block.warps[me / 32].arrived, block.warps[me / 32].turn, 32); }

inline void fiber_main() {
    entry(entry_body);
    fibers[me].done = true;
    give_way();
}

template <class Body>
void run_block(const Body& body) {
    constexpr size_t stack = 64 * 1024;
    const unsigned count = block.size.x;
    if (!stacks) stacks = static_cast<char*>(malloc(1024 * stack));
    entry = [](const void* given) { (*static_cast<const Body*>(given))(); };
    entry_body = &body;
    for (unsigned i = 0; i < count; ++i) {
        getcontext(&fibers[i].context);
        fibers[i].context.uc_stack.ss_sp = stacks + i * stack;
        fibers[i].context.uc_stack.ss_size = stack;
        fibers[i].context.uc_link = nullptr;
        makecontext(&fibers[i].context, fiber_main, 0);
        fibers[i].started = fibers[i].done = false;
    }
    unsigned left = count;
    for (long pass = 0; left > 0; ++pass) {
        if (pass > 1000000) {
            fprintf(stderr, "a barrier is not reached by all threads\n");
            abort();
        }
        for (unsigned k = 0; k < count; ++k) {
            me = reversed ? count - 1 - k : k;
            if (fibers[me].done) continue;
            resume(fibers[me]);
            if (fibers[me].done) --left;
        }
    }
}

}  // namespace mk_host

#endif

namespace mk_host {

inline uint3 thread_index() { return {me, 0, 0}; }

template <class T>
T shuffle(T value, int source) {
    static_assert(sizeof(T) <= 8, "one slot per lane");
    Warp& warp = block.warps[me / 32];
    const int lane = (int)(me % 32);
    memcpy(&warp.slot[lane], &value, sizeof(T));
    warp_sync();
    T other;
    memcpy(&other, &warp.slot[source >= 0 && source < 32 ? source : lane], sizeof(T));
    warp_sync();
    return other;
}

}  // namespace mk_host

#define threadIdx (mk_host::thread_index())
#define blockIdx (mk_host::block.index)
#define blockDim (mk_host::block.size)

inline void __syncthreads() { mk_host::block_sync(); }

template <class T>
T __shfl_sync(unsigned, T value, int lane) {
    return mk_host::shuffle(value, lane);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
    return mk_host::shuffle(value, (int)(mk_host::me % 32) ^ mask);
}
template <class T>
T __shfl_up_sync(unsigned, T value, int step) {
    return mk_host::shuffle(value, (int)(mk_host::me % 32) - step);
}
template <class T>
T __shfl_down_sync(unsigned, T value, int step) {
    return mk_host::shuffle(value, (int)(mk_host::me % 32) + step);
}

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
// A GPU's approximations may be 2 units in the last place off; with -DMK_SLOPPY these are, up or down by their bits.
inline float mk_rounded(float x) {
#ifdef MK_SLOPPY
    int bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != 0 && x - x == 0) bits += (bits * 2654435761u >> 31) ? 2 : -2;
    memcpy(&x, &bits, sizeof bits);
#endif
    return x;
}
inline float rsqrtf(float x) { return mk_rounded(1.0f / sqrtf(x)); }
inline float __fdividef(float a, float b) { return mk_rounded(a / b); }
inline void sincospif(float x, float* s, float* c) {
    *s = mk_rounded((float)sin(x * M_PI));
    *c = mk_rounded((float)cos(x * M_PI));
}
#define expf(x) mk_rounded(expf(x))
inline float __int_as_float(int bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
inline int atomicMin(int* address, int value) {
    int old = __atomic_load_n(address, __ATOMIC_RELAXED);
    while (value < old &&
           !__atomic_compare_exchange_n(address, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}
