// A libcuda.so.1 without a GPU: loads real cubins by name only, and hands launches to kernels compiled for the CPU
// (MK_HOST_LIBRARIES, colon separated). It lets the very calls of CudaDriver run, through cuda-bindings.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <set>
#include <string>

namespace {

constexpr int kInvalidValue = 1, kInvalidImage = 200, kInvalidContext = 201, kNoBinary = 209, kNotFound = 500;
constexpr int kDevices = 2;

struct Function {
    std::string name;
    int device;
    bool loaded;
};

std::set<std::string> names;               // what a kernel handle points to
std::map<std::string, Function> functions;  // and a function handle, which belongs to one device
std::string image;
int contexts[kDevices];
thread_local int* entered = nullptr;  // a new thread has no context
uintptr_t stream_of_torch = 0x51;

bool asked(const char* variable, const char* value) {
    const char* given = getenv(variable);
    return given && strcmp(given, value) == 0;
}

int with_size(const char* text, size_t& size) {
    if (memcmp(text, "\x7f" "ELF", 4) != 0) return kInvalidImage;
    uint64_t sections;
    uint16_t each, count;
    memcpy(&sections, text + 40, 8);
    memcpy(&each, text + 58, 2);
    memcpy(&count, text + 60, 2);
    size = sections + (size_t)each * count;
    return 0;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return 0; }

int cuLibraryLoadData(void** library, const void* code, void*, void*, unsigned, void*, void*, unsigned) {
    size_t size = 0;
    if (int bad = with_size(static_cast<const char*>(code), size)) return bad;
    image.assign(static_cast<const char*>(code), size);
    *library = &image;
    return 0;
}

int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
    if (library != &image || image.find(name) == std::string::npos) return kNotFound;
    *kernel = const_cast<char*>(names.insert(name).first->c_str());
    return 0;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
    if (device < 0 || device >= kDevices) return kInvalidValue;
    *context = &contexts[device];
    return 0;
}

int cuCtxSetCurrent(void* context) {
    entered = static_cast<int*>(context);
    return 0;
}

int cuKernelGetFunction(void** function, void* kernel) {
    if (!entered) return kInvalidContext;
    if (asked("MK_NO_BINARY", "function")) return kNoBinary;
    const std::string name = static_cast<const char*>(kernel);
    const int device = (int)(entered - contexts);
    const bool loaded = asked("MK_OLD_DRIVER", "1");  // such a one has no call of its own for it
    *function = &functions.insert({name + std::to_string(device), {name, device, loaded}}).first->second;
    return 0;
}

int cuFuncLoad(void* function) {
    if (asked("MK_NO_BINARY", "load")) return kNoBinary;
    static_cast<Function*>(function)->loaded = true;
    return 0;
}

// For the tests: how many functions a device has, and the stream that launches must name.
int mk_loaded(int device) {
    int count = 0;
    for (const auto& each : functions) count += each.second.device == device && each.second.loaded;
    return count;
}

void mk_expect_stream(uintptr_t stream) { stream_of_torch = stream; }

int cuLaunchKernel(void* handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void* stream, void** arguments, void** extra) {
    if (!entered || asked("MK_NO_CONTEXT", "launch")) return kInvalidContext;
    bool known = false;
    for (const auto& each : functions) known = known || handle == &each.second;
    const Function* function = static_cast<const Function*>(handle);
    if (!known || !function->loaded || &contexts[function->device] != entered) return kInvalidValue;
    if (gy != 1 || gz != 1 || by != 1 || bz != 1 || shared != 0 || extra != nullptr) return kInvalidValue;
    if ((uintptr_t)stream != stream_of_torch) return kInvalidValue;
    std::string list = getenv("MK_HOST_LIBRARIES");
    for (size_t start = 0; start < list.size();) {
        size_t end = list.find(':', start);
        end = end == std::string::npos ? list.size() : end;
        void* library = dlopen(list.substr(start, end - start).c_str(), RTLD_NOW);
        auto launch = (int (*)(const char*, unsigned, unsigned, void**))dlsym(library, "mk_launch");
        const int answer = launch(function->name.c_str(), gx, bx, arguments);
        if (answer != 1) return answer == 0 ? 0 : kInvalidValue;
        start = end + 1;
    }
    return kNotFound;
}

int cuGetErrorName(int, const char** text) {
    *text = "CUDA_ERROR";
    return 0;
}

int cuGetErrorString(int, const char** text) {
    *text = "an error";
    return 0;
}

int cuGetProcAddress_v2(const char* symbol, void** function, int, uint64_t, int* status) {
    const bool hidden = strcmp(symbol, "cuFuncLoad") == 0 && asked("MK_OLD_DRIVER", "1");
    *function = hidden ? nullptr : dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), symbol);
    if (status) *status = *function ? 0 : 1;
    return *function ? 0 : kNotFound;
}

int cuGetProcAddress(const char* symbol, void** function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}
}
