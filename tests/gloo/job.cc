// SPDX-License-Identifier: Apache-2.0
#include "tests/gloo/job.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <cxxabi.h>
#include <mutex>
#include <stdexcept>

#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

namespace
{
using milliseconds = std::chrono::milliseconds;
using Reduction = gloo::AllreduceOptions::Func;

struct bfloat16 {
    uint16_t bits;
    bfloat16(float value = 0)
    {
        uint32_t all;
        std::memcpy(&all, &value, sizeof all);
        bits = static_cast<uint16_t>((all + 0x7fff + (all >> 16 & 1)) >> 16);
        if (value != value)
            bits = 0x7fc0;
    }
    operator float() const
    {
        const uint32_t all = static_cast<uint32_t>(bits) << 16;
        float value;
        std::memcpy(&value, &all, sizeof value);
        return value;
    }
};

struct pair {
    float first, second;
    explicit pair(float number) : first(number), second(2 * number)
    {
    }
    pair(float first, float second) : first(first), second(second)
    {
    }
    pair operator+(const pair &other) const
    {
        return {first + other.first, second + other.second};
    }
};

// gloo's templates need a product and an order. No test uses their results.
pair operator*(const pair &a, const pair &b)
{
    return a + b;
}
bool operator<(const pair &a, const pair &b)
{
    return a.first < b.first;
}

// A function object with a state that its copies share.
template <typename T> struct UserSum {
    std::shared_ptr<std::atomic<size_t>> added = std::make_shared<std::atomic<size_t>>(0);
    void operator()(void *result, const void *a, const void *b, size_t count)
    {
        *added += count;
        for (size_t i = 0; i < count; i++)
            static_cast<T *>(result)[i] =
                static_cast<const T *>(a)[i] + static_cast<const T *>(b)[i];
    }
};

template <typename T> Reduction reduction(enum operation operation)
{
    using Function = void (*)(void *, const void *, const void *, size_t);
    switch (operation) {
    case PRODUCT:
        return static_cast<Function>(gloo::product<T>);
    case LARGEST:
        return static_cast<Function>(gloo::max<T>);
    case SMALLEST:
        return static_cast<Function>(gloo::min<T>);
    case USER:
        return UserSum<T>();
    case NO_FUNCTION:
        return nullptr;
    case THROWING:
        return [](void *, const void *, const void *, size_t) { throw std::runtime_error("mine"); };
    default:
        return static_cast<Function>(gloo::sum<T>);
    }
}

// Memory for contexts at fixed addresses. Weak pointers to a context do not keep its memory in use,
// unlike that of make_shared.
alignas(64) unsigned char places[PLACES][sizeof(gloo::rendezvous::Context)];
bool taken[PLACES], used[PLACES];
unsigned same_address;
std::mutex lock;

std::shared_ptr<gloo::rendezvous::Context> make_at(unsigned place, int rank, int ranks)
{
    using Context = gloo::rendezvous::Context;
    const std::lock_guard<std::mutex> guard(lock);
    if (place >= PLACES || taken[place])
        return std::make_shared<Context>(rank, ranks);
    same_address += used[place];
    taken[place] = used[place] = true;
    return {new (places[place]) Context(rank, ranks), [place](Context *context) {
                context->~Context();
                const std::lock_guard<std::mutex> guard(lock);
                taken[place] = false;
            }};
}

// Returns the process's device. It is never destroyed, because a rank may exit while its threads
// are in calls. A forked process lacks its parent's threads, so it creates another device.
std::shared_ptr<gloo::transport::Device> &device()
{
    static std::shared_ptr<gloo::transport::Device> *device;
    static pid_t owner;
    if (owner != getpid())
        device = new std::shared_ptr<gloo::transport::Device>(
            gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1")));
    owner = getpid();
    return *device;
}

template <typename Call> char *text_of_exception(Call call)
{
    try {
        call();
    } catch (const std::exception &exception) {
        char *text,
            *name = abi::__cxa_demangle(typeid(exception).name(), nullptr, nullptr, nullptr);
        if (asprintf(&text, "%s: %s", name, exception.what()) < 0)
            abort();
        free(name);
        return text;
    }
    return nullptr;
}

using Allreduce = void (*)(const gloo::AllreduceOptions &);
Allreduce real_allreduce()
{
    static const auto real =
        reinterpret_cast<Allreduce>(dlsym(dlopen("libgloo.so.0", RTLD_LAZY | RTLD_NOLOAD),
                                          "_ZN4gloo9allreduceERKNS_16AllreduceOptionsE"));
    if (real == nullptr)
        throw std::runtime_error(dlerror());
    return real;
}

template <typename T> void set_buffers(gloo::AllreduceOptions &options, const struct sum_call *call)
{
    std::vector<T *> inputs, outputs;
    for (unsigned i = 0; i < call->inputs; i++)
        inputs.push_back(static_cast<T *>(call->input[i]));
    for (unsigned i = 0; i < call->outputs; i++)
        outputs.push_back(static_cast<T *>(call->output[i]));
    if (!inputs.empty())
        options.setInputs(inputs, call->count);
    options.setOutputs(outputs, call->count);
    options.setReduceFunction(reduction<T>(call->operation));
}

template <typename T> void put(void *buffer, size_t i, int number)
{
    new (static_cast<T *>(buffer) + i) T(static_cast<float>(number));
}

struct Type {
    size_t bytes;
    void (*set_buffers)(gloo::AllreduceOptions &, const struct sum_call *);
    void (*put)(void *buffer, size_t i, int number);
};
template <typename T> constexpr Type type_of()
{
    return {sizeof(T), set_buffers<T>, put<T>};
}
const Type types[ELEMENT_TYPES] = {
    type_of<float>(),  type_of<double>(),  type_of<gloo::float16>(), type_of<bfloat16>(),
    type_of<int8_t>(), type_of<int32_t>(), type_of<int64_t>(),       type_of<pair>(),
};

int number_from(const char *variable)
{
    const char *text = getenv(variable);
    return text != nullptr ? atoi(text) : 0;
}
} // namespace

struct context {
    std::shared_ptr<gloo::rendezvous::Context> gloo;
};

size_t element_bytes(enum element_type type)
{
    return types[type].bytes;
}

void element_put(enum element_type type, void *buffer, size_t i, int number)
{
    types[type].put(buffer, i, number);
}

int job_rank(void)
{
    return number_from("RANK");
}

int job_ranks(void)
{
    return number_from("WORLD_SIZE");
}

struct context *context_make(const char *name, int rank, int ranks, int timeout, unsigned place)
{
    signal(SIGPIPE, SIG_IGN); // gloo expects its caller to ignore it, as Python does
    auto *context = new struct context;
    char *wrong = text_of_exception([&] {
        const char *folder = getenv("ID_FILE");
        if (folder == nullptr)
            throw std::runtime_error("ID_FILE is not set");
        mkdir(folder, 0700);
        gloo::rendezvous::FileStore store(folder);
        gloo::rendezvous::PrefixStore own(name, store);
        context->gloo = make_at(place, rank, ranks);
        context->gloo->setTimeout(milliseconds(timeout));
        context->gloo->connectFullMesh(own, device());
        gloo::BarrierOptions options(context->gloo); // no rank may leave before all have joined
        gloo::barrier(options);
    });
    if (wrong != nullptr) {
        fprintf(stderr, "context %s: %s\n", name, wrong);
        exit(3);
    }
    return context;
}

unsigned contexts_at_same_address(void)
{
    const std::lock_guard<std::mutex> guard(lock);
    return same_address;
}

void context_free(struct context *context)
{
    delete context;
}

char *allreduce(struct context *context, const struct sum_call *call)
{
    return text_of_exception([&] {
        gloo::AllreduceOptions options(context->gloo);
        types[call->type].set_buffers(options, call);
        options.setAlgorithm(static_cast<gloo::AllreduceOptions::Algorithm>(call->ring));
        options.setTag(call->tag);
        if (call->timeout != 0)
            options.setTimeout(milliseconds(call->timeout));
        if (call->segment != 0)
            options.setMaxSegmentSize(call->segment);
        if (call->straight)
            real_allreduce()(options);
        else
            gloo::allreduce(options);
    });
}

namespace
{
// Returns options with the call's context, tag and time limit.
template <typename Options> Options options_of(struct context *context, const other_call *call)
{
    Options options(context->gloo);
    options.setTag(call->tag);
    if (call->timeout != 0)
        options.setTimeout(milliseconds(call->timeout));
    return options;
}

// Returns options with buffers of `in` and `out` elements, if the call has such buffers.
template <typename Options, typename T>
Options with_buffers(struct context *context, const other_call *call, size_t in, size_t out)
{
    auto options = options_of<Options>(context, call);
    if (call->input != nullptr)
        options.setInput(static_cast<T *>(call->input), in);
    if (call->output != nullptr)
        options.setOutput(static_cast<T *>(call->output), out);
    return options;
}

std::vector<size_t> lengths_of(const other_call *call, const size_t *lengths, size_t ranks)
{
    return lengths != nullptr ? std::vector<size_t>(lengths, lengths + ranks)
                              : std::vector<size_t>(ranks, call->count);
}

// T is any type of the same size as the call's element type.
template <typename T> void make_other(struct context *context, const other_call *call)
{
    const size_t ranks = static_cast<size_t>(context->gloo->size), count = call->count;
    const size_t all = ranks * count;
    const auto sent = lengths_of(call, call->sent, ranks);
    const auto received = lengths_of(call, call->received, ranks);
    if (call->other == REDUCE) {
        auto options = with_buffers<gloo::ReduceOptions, float>(context, call, count, count);
        options.setRoot(call->root);
        options.setReduceFunction(reduction<float>(SUM));
        gloo::reduce(options);
    } else if (call->other == ALLGATHER) {
        auto options = with_buffers<gloo::AllgatherOptions, T>(context, call, count, all);
        gloo::allgather(options);
    } else if (call->other == ALLGATHERV) {
        auto options = options_of<gloo::AllgathervOptions>(context, call);
        if (call->input != nullptr)
            options.setInput(static_cast<T *>(call->input),
                             received[static_cast<size_t>(context->gloo->rank)]);
        options.setOutput(static_cast<T *>(call->output), received);
        gloo::allgatherv(options);
    } else if (call->other == ALLTOALL) {
        auto options = with_buffers<gloo::AlltoallOptions, T>(context, call, all, all);
        gloo::alltoall(options);
    } else if (call->other == ALLTOALLV) {
        auto options = options_of<gloo::AlltoallvOptions>(context, call);
        options.setInput(static_cast<T *>(call->input),
                         std::vector<int64_t>(sent.begin(), sent.end()));
        options.setOutput(static_cast<T *>(call->output),
                          std::vector<int64_t>(received.begin(), received.end()));
        gloo::alltoallv(options);
    } else {
        auto options = with_buffers<gloo::BroadcastOptions, T>(context, call, count, count);
        options.setRoot(call->root);
        gloo::broadcast(options);
    }
}
} // namespace

char *other_collective(struct context *context, const other_call *call)
{
    return text_of_exception([&] {
        switch (element_bytes(call->type)) {
        case 1:
            return make_other<uint8_t>(context, call);
        case 2:
            return make_other<uint16_t>(context, call);
        case 8:
            return make_other<uint64_t>(context, call);
        default:
            return make_other<uint32_t>(context, call);
        }
    });
}
