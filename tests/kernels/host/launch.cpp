// Compile a kernel source (-DMK_SOURCE='"physics.cu"') for the CPU and launch its kernels the way cuLaunchKernel does: by
// name, with a void** that holds the address of each argument, unpacked by the kernel's own signature.
#include "cuda_host.h"
// The header is first: the source itself includes nothing.
#include MK_SOURCE

namespace {

template <size_t... I>
struct Places {};
template <size_t N, size_t... I>
struct PlacesUpTo : PlacesUpTo<N - 1, N - 1, I...> {};
template <size_t... I>
struct PlacesUpTo<0, I...> {
    using Type = Places<I...>;
};

template <class... Args, size_t... I>
void call(void (*kernel)(Args...), void** args, Places<I...>) {
    mk_host::run_block([=] { kernel(*static_cast<Args*>(args[I])...); });
}

template <class... Args>
void launch(void (*kernel)(Args...), void** args, unsigned grid, unsigned threads) {
    mk_host::block.size = {threads, 1, 1};
    for (unsigned i = 0; i < grid; ++i) {
        mk_host::block.index = {i, 0, 0};
        call(kernel, args, typename PlacesUpTo<sizeof...(Args)>::Type{});
    }
}

}  // namespace

extern "C" void mk_reverse(int reversed) { mk_host::reversed = reversed != 0; }

// Returns 0, or 1 for an unknown kernel, or 2 for a grid or block that a GPU would refuse.
extern "C" int mk_launch(const char* name, unsigned grid, unsigned threads, void** args) {
    if (grid == 0 || threads == 0 || threads > 1024 || threads % 32 != 0) return 2;
#define MK_KERNEL(kernel)                    \
    if (strcmp(name, #kernel) == 0) {        \
        launch(kernel, args, grid, threads); \
        return 0;                            \
    }
    MK_KERNELS
    return 1;
}
