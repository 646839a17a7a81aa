/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gloo/abi.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

using milliseconds = std::chrono::milliseconds;

/* gloo's exception classes, declared again. Handlers compare class names, so a handler for gloo's
 * own class also catches these. */
namespace gloo
{
struct Exception : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct IoException : Exception {
    using Exception::Exception;
};
} // namespace gloo

/* Layout of gloo::transport::UnboundBuffer, with its first virtual functions in their order. It has
 * external linkage because gloo defines the subclasses: the compiler must not assume that it sees
 * all of them. */
struct cshim_gloo_buffer {
    virtual ~cshim_gloo_buffer() = 0;
    void *memory;
    size_t size;
    virtual bool wait_received(int *rank, milliseconds timeout) = 0;
    virtual bool wait_sent(int *rank, milliseconds timeout) = 0;
    virtual void abort_wait_received() = 0;
    virtual void abort_wait_sent() = 0;
    virtual void send(int to, uint64_t slot, size_t offset, size_t bytes) = 0;
    virtual void receive(int from, uint64_t slot, size_t offset, size_t bytes) = 0;
};

namespace
{

using Buffer = cshim_gloo_buffer;
using OwnedBuffer = std::unique_ptr<Buffer>;
using Reduction = std::function<void(void *, const void *, const void *, size_t)>;

/* Parts of the mangled names of a buffer's virtual functions, which all transports have in common,
 * in the order of the table of virtual functions. Its first two entries are destructors. */
const char *const function_names[] = {
    "13UnboundBufferD", "13UnboundBufferD", "8waitRecvEPi", "8waitSendEPi",
    "13abortWaitRecv",  "13abortWaitSend",  "4sendEimm",    "4recvEimm",
};
constexpr size_t function_count = sizeof function_names / sizeof *function_names;

/* Layout of gloo::AllreduceOptions. */
struct Options {
    std::shared_ptr<void> context;
    milliseconds timeout;
    int algorithm;
    std::vector<Buffer *> inputs; /* each element is a unique_ptr in gloo */
    std::vector<Buffer *> outputs;
    size_t elements;
    size_t element_bytes;
    Reduction reduction;
    uint32_t tag;
    size_t segment_bytes;
};
/* Layout of the first members of the options of gloo.def's collectives except allreduce. */
struct OtherOptions {
    std::shared_ptr<void> context;
    Buffer *input; /* a unique_ptr in gloo, as is `output` */
    Buffer *output;
};
/* Layout of gloo::AllgatherOptions and gloo::AlltoallOptions. */
struct BlocksOptions : OtherOptions {
    size_t element_bytes;
    uint32_t tag;
    milliseconds timeout;
};
struct AllgathervOptions : OtherOptions {
    std::vector<size_t> lengths; /* in elements */
    size_t element_bytes;
    uint32_t tag;
    milliseconds timeout;
};
struct AlltoallvOptions : OtherOptions {
    std::vector<size_t> sent_begins, sent, received_begins, received; /* in bytes */
    size_t element_bytes;
    uint32_t tag;
    milliseconds timeout;
};
struct BroadcastOptions : OtherOptions {
    size_t elements;
    size_t element_bytes;
    int root;
    uint32_t tag;
    milliseconds timeout;
};
static_assert(sizeof(BlocksOptions) == 56 && sizeof(AllgathervOptions) == 80 &&
                  sizeof(AlltoallvOptions) == 152 && sizeof(BroadcastOptions) == 64,
              "no gaps besides those of gloo's classes");
static_assert(sizeof(std::shared_ptr<void>) == 16 && sizeof(std::vector<Buffer *>) == 24 &&
                  sizeof(Reduction) == 32 && sizeof(Options) == 144,
              "the standard library lays its classes out as libstdc++ does");
static_assert(sizeof(std::weak_ptr<void>) == sizeof(cshim_gloo_reference), "room for a weak_ptr");

constexpr int algorithms = 3;
constexpr size_t segment_min = 1 << 10, segment_max = size_t{1} << 40;
constexpr int ranks_max = 1 << 20;
constexpr size_t element_max = 1 << 10;
constexpr int64_t timeout_max = int64_t{1} << 50; /* milliseconds */

using MakeBuffer = OwnedBuffer (*)(const void *context, void *memory, size_t bytes);
cshim_gloo_function allreduce;
MakeBuffer make_buffer;

const Options &options_of(const void *options)
{
    return *static_cast<const Options *>(options);
}

/* Returns true if memory is aligned like a pointer and can be read: write() to a pipe fails for an
 * unreadable address. Returns false also if there is no descriptor for a pipe. */
bool can_read(const void *memory, size_t bytes)
{
    int ends[2];
    if (reinterpret_cast<uintptr_t>(memory) % alignof(void *) != 0 ||
        pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    const bool is_readable = write(ends[1], memory, bytes) == static_cast<ssize_t>(bytes);
    close(ends[0]);
    close(ends[1]);
    return is_readable;
}

/* Returns true if the pointer is to a buffer of gloo, judged by the names of its virtual functions.
 */
bool is_buffer(const Buffer *buffer)
{
    const void *const *table;
    Dl_info info;
    if (!can_read(buffer, sizeof *buffer))
        return false;
    std::memcpy(&table, static_cast<const void *>(buffer), sizeof table);
    if (!can_read(table, function_count * sizeof *table))
        return false;
    for (size_t i = 0; i < function_count; i++)
        if (dladdr(table[i], &info) == 0 || info.dli_sname == nullptr ||
            std::strstr(info.dli_sname, function_names[i]) == nullptr)
            return false;
    return true;
}

/* Offset of rank and size in this gloo's contexts: 0, or after the pointer to virtual functions in
 * versions that have one. Set by is_context(), not in each call, because dladdr() searches all
 * symbols of an object, which takes 0.2 ms for PyTorch's library. */
std::atomic<size_t> place_of_rank;

bool read_context(const void *context, int *rank, int *ranks)
{
    int numbers[2];
    std::memcpy(numbers, static_cast<const char *>(context) + place_of_rank, sizeof numbers);
    *rank = numbers[0];
    *ranks = numbers[1];
    return *rank >= 0 && *rank < *ranks && *ranks <= ranks_max;
}

bool is_context(const void *context)
{
    Dl_info info;
    const void *first;
    int rank, ranks;
    if (!can_read(context, 16))
        return false;
    std::memcpy(&first, context, sizeof first);
    place_of_rank = dladdr(first, &info) != 0 ? sizeof first : 0;
    return read_context(context, &rank, &ranks);
}

/* Returns true if the pointers in a vector are plausible. Does not read its elements. */
template <typename T> bool is_vector(const std::vector<T> &vector)
{
    uintptr_t ends[3]; /* begin and end of the elements, end of the allocated memory */
    std::memcpy(ends, static_cast<const void *>(&vector), sizeof ends);
    return ends[0] <= ends[1] && ends[1] <= ends[2] && ends[0] % sizeof(void *) == 0 &&
           (ends[1] - ends[0]) % sizeof(void *) == 0;
}

/* Returns true if the options' own fields are plausible. */
bool fit(const Options &options)
{
    size_t bytes;
    return options.context != nullptr && options.algorithm >= 0 && options.algorithm < algorithms &&
           is_vector(options.inputs) && is_vector(options.outputs) && !options.outputs.empty() &&
           options.element_bytes > 0 && options.segment_bytes >= segment_min &&
           options.segment_bytes <= segment_max &&
           !__builtin_mul_overflow(options.elements, options.element_bytes, &bytes);
}

/* Returns true if all buffers have the call's size. */
bool have_size(const Options &options, const std::vector<Buffer *> &buffers)
{
    for (const Buffer *buffer : buffers)
        if (buffer == nullptr || buffer->size != options.elements * options.element_bytes)
            return false;
    return true;
}

bool are_buffers(const std::vector<Buffer *> &buffers)
{
    for (const Buffer *const &buffer : buffers)
        if (!can_read(&buffer, sizeof(void *)) || !is_buffer(buffer))
            return false;
    return true;
}

/* Returns true if a std::function can be called: its code is in a loaded object. */
bool is_function(const Reduction &function)
{
    Dl_info info;
    const void *words[4]; /* two of the stored callable, then the addresses of its manager and of
                             its code */
    std::memcpy(words, static_cast<const void *>(&function), sizeof words);
    return dladdr(words[2], &info) != 0 && dladdr(words[3], &info) != 0;
}

/* Data movement -------------------------------------------------------------------------------- */

/* Calls `use` with the options of a data-movement collective as an object of their class. */
template <typename Use> auto with_options(cshim_gloo_index function, const void *address, Use use)
{
    switch (function) {
    case CSHIM_INDEX_gloo_allgatherv:
        return use(*static_cast<const AllgathervOptions *>(address));
    case CSHIM_INDEX_gloo_alltoallv:
        return use(*static_cast<const AlltoallvOptions *>(address));
    case CSHIM_INDEX_gloo_broadcast:
        return use(*static_cast<const BroadcastOptions *>(address));
    default:
        return use(*static_cast<const BlocksOptions *>(address));
    }
}

/* Returns true if a vector has a length for each rank, and they add up to the size of a buffer. */
bool add_up(const std::vector<size_t> &lengths, size_t unit, int ranks, const Buffer *buffer)
{
    size_t sum = 0;
    if (!is_vector(lengths) || lengths.size() != static_cast<size_t>(ranks))
        return false;
    for (size_t length : lengths)
        if (__builtin_mul_overflow(length, unit, &length) ||
            __builtin_add_overflow(sum, length, &sum))
            return false;
    return sum == buffer->size;
}

/* Returns true if the blocks are contiguous in rank order, except empty ones, which may begin
 * anywhere, and consist of whole elements. */
bool have_no_gaps(const std::vector<size_t> &begins, const std::vector<size_t> &lengths,
                  size_t element)
{
    size_t end = 0;
    if (!is_vector(begins) || begins.size() != lengths.size())
        return false;
    for (size_t i = 0; i < lengths.size(); i++) {
        if (lengths[i] % element != 0 || (lengths[i] > 0 && begins[i] != end))
            return false;
        end += lengths[i];
    }
    return true;
}

/* The following functions read what differs between the classes of options. They return false if
 * the options are inconsistent or not supported. An all-gather without an input is in place. */
bool read_blocks(const BlocksOptions &options, cshim_gloo_arguments *arguments)
{
    const auto ranks = static_cast<size_t>(arguments->ranks);
    const bool gathers = arguments->collective == CSHIM_ALLGATHER;
    if (options.output == nullptr || (options.input == nullptr && !gathers) ||
        options.output->size % (ranks * options.element_bytes) != 0 ||
        (options.input != nullptr &&
         options.input->size * (gathers ? ranks : 1) != options.output->size))
        return false;
    arguments->elements = options.output->size / options.element_bytes;
    arguments->waits = true;
    return true;
}

bool read_blocks(const AllgathervOptions &options, cshim_gloo_arguments *arguments)
{
    const auto rank = static_cast<size_t>(arguments->rank);
    if (options.output == nullptr ||
        !add_up(options.lengths, options.element_bytes, arguments->ranks, options.output) ||
        (options.input != nullptr &&
         options.input->size != options.lengths[rank] * options.element_bytes))
        return false;
    arguments->received = options.lengths.data();
    arguments->length_bytes = options.element_bytes;
    arguments->elements = options.output->size / options.element_bytes;
    arguments->waits = true;
    for (const size_t length : options.lengths)
        arguments->waits &= length > 0;
    return true;
}

bool read_blocks(const AlltoallvOptions &options, cshim_gloo_arguments *arguments)
{
    if (options.input == nullptr || options.output == nullptr ||
        !add_up(options.sent, 1, arguments->ranks, options.input) ||
        !add_up(options.received, 1, arguments->ranks, options.output) ||
        !have_no_gaps(options.sent_begins, options.sent, options.element_bytes) ||
        !have_no_gaps(options.received_begins, options.received, options.element_bytes))
        return false;
    arguments->sent = options.sent.data();
    arguments->received = options.received.data();
    arguments->length_bytes = 1;
    return true;
}

bool read_blocks(const BroadcastOptions &options, cshim_gloo_arguments *arguments)
{
    size_t bytes;
    if (options.root < 0 || options.root >= arguments->ranks ||
        __builtin_mul_overflow(options.elements, options.element_bytes, &bytes) ||
        options.output == nullptr || options.output->size != bytes ||
        (options.input != nullptr && options.input->size != bytes))
        return false;
    arguments->elements = options.elements;
    arguments->root = options.root;
    return true;
}

/* Reads the options of a data-movement collective. Returns false if they are inconsistent or not
 * supported. */
template <typename T> bool read_move(const T &options, cshim_gloo_arguments *arguments)
{
    if (options.element_bytes == 0 || options.element_bytes > element_max ||
        options.timeout.count() < -1 || options.timeout.count() > timeout_max ||
        !read_blocks(options, arguments))
        return false;
    arguments->element_bytes = options.element_bytes;
    arguments->tag = options.tag;
    arguments->timeout = options.timeout.count();
    if (options.input != nullptr)
        arguments->input = options.input->memory;
    arguments->output = options.output->memory;
    arguments->is_empty = arguments->elements == 0 && arguments->sent == nullptr;
    return true;
}

/* Returns true if the members with which all data-movement options begin are as expected. */
bool is_move(const OtherOptions &options)
{
    return (options.input == nullptr || is_buffer(options.input)) &&
           (options.output == nullptr || is_buffer(options.output)) &&
           (options.input != nullptr || options.output != nullptr) && options.context != nullptr &&
           is_context(options.context.get());
}

cshim_collective collective_of(cshim_gloo_index function)
{
    switch (function) {
    case CSHIM_INDEX_gloo_allgather:
    case CSHIM_INDEX_gloo_allgatherv:
        return CSHIM_ALLGATHER;
    case CSHIM_INDEX_gloo_alltoall:
    case CSHIM_INDEX_gloo_alltoallv:
        return CSHIM_ALLTOALL;
    case CSHIM_INDEX_gloo_broadcast:
        return CSHIM_BROADCAST;
    default:
        return CSHIM_ALLREDUCE;
    }
}

bool is_recognised[CSHIM_GLOO_FUNCTIONS]; /* atomic */

/* Calls a function. Returns 0, or 1 if it throws; stores the exception in *exception unless that
 * already has one. */
template <typename Function> int guard(void **exception, Function function)
try {
    function();
    return 0;
} catch (...) {
    if (*exception == nullptr)
        *exception = new std::exception_ptr(std::current_exception());
    return 1;
}

/* Copies the bytes of an object to memory whose destructor never runs, so the original keeps what
 * it owns. */
template <typename T> void lend(T *place, const T &object)
{
    std::memcpy(static_cast<void *>(place), static_cast<const void *>(&object), sizeof object);
}

} // namespace

bool cshim_gloo_open(cshim_gloo_function function, char *library, size_t size)
{
    Dl_info info;
    allreduce = function;
    if (dladdr(reinterpret_cast<const void *>(function), &info) == 0)
        return false;
    const char *slash = std::strrchr(info.dli_fname, '/');
    snprintf(library, size, "gloo of %.100s", slash != nullptr ? slash + 1 : info.dli_fname);
    void *handle = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    if (handle == nullptr) /* gloo is linked into the program */
        handle = dlopen(nullptr, RTLD_LAZY);
    make_buffer =
        reinterpret_cast<MakeBuffer>(dlsym(handle, "_ZN4gloo7Context19createUnboundBufferEPvm"));
    dlclose(handle);
    return make_buffer != nullptr;
}

static bool recognise_sum(const void *address)
{
    const Options &options = options_of(address);
    return can_read(address, sizeof options) && fit(options) && is_context(options.context.get()) &&
           is_function(options.reduction) && are_buffers(options.inputs) &&
           are_buffers(options.outputs) && have_size(options, options.inputs) &&
           have_size(options, options.outputs);
}

bool cshim_gloo_recognise(cshim_gloo_index function, const void *address)
{
    cshim_gloo_arguments arguments;
    const bool is_known = collective_of(function) == CSHIM_ALLREDUCE
                              ? recognise_sum(address)
                              : with_options(function, address, [&](const auto &options) {
                                    return can_read(address, sizeof options) && is_move(options) &&
                                           cshim_gloo_read(function, address, &arguments);
                                });
    if (is_known)
        __atomic_store_n(&is_recognised[function], true, __ATOMIC_RELEASE);
    return is_known;
}

bool cshim_gloo_is_recognised(cshim_gloo_index function)
{
    return __atomic_load_n(&is_recognised[function], __ATOMIC_ACQUIRE);
}

const void *cshim_gloo_context_of(const void *address)
{
    return options_of(address).context.get();
}

static bool read_sum(const void *address, cshim_gloo_arguments *arguments)
{
    const Options &options = options_of(address);
    if (!fit(options) || !have_size(options, options.inputs) ||
        !have_size(options, options.outputs))
        return false;
    arguments->timeout = options.timeout.count();
    arguments->tag = options.tag;
    arguments->elements = options.elements;
    arguments->element_bytes = options.element_bytes;
    arguments->output = options.outputs[0]->memory;
    arguments->is_empty = options.elements == 0;
    arguments->waits = true;
    return true;
}

bool cshim_gloo_read(cshim_gloo_index function, const void *address,
                     cshim_gloo_arguments *arguments)
{
    const void *context = cshim_gloo_context_of(address);
    *arguments = cshim_gloo_arguments{};
    arguments->function = function;
    arguments->collective = collective_of(function);
    arguments->options = address;
    arguments->context = context;
    if (context == nullptr || !read_context(context, &arguments->rank, &arguments->ranks))
        return false;
    return arguments->collective == CSHIM_ALLREDUCE
               ? read_sum(address, arguments)
               : with_options(function, address,
                              [=](const auto &options) { return read_move(options, arguments); });
}

int cshim_gloo_add_inputs(const cshim_gloo_arguments *arguments, const void **sum, void **exception)
{
    const Options &options = options_of(arguments->options);
    const auto &inputs = options.inputs.empty() ? options.outputs : options.inputs;
    return guard(exception, [&] {
        *sum = inputs[0]->memory;
        for (size_t i = 1; i < inputs.size(); i++) {
            options.reduction(arguments->output, *sum, inputs[i]->memory, options.elements);
            *sum = arguments->output;
        }
    });
}

void cshim_gloo_copy_output(const cshim_gloo_arguments *arguments)
{
    for (const Buffer *output : options_of(arguments->options).outputs)
        if (output->memory != arguments->output)
            std::memcpy(output->memory, arguments->output, output->size);
}

int cshim_gloo_reduce(const cshim_gloo_arguments *arguments, void *output, const void *a,
                      const void *b, size_t elements, void **exception)
{
    return guard(
        exception, [=] { options_of(arguments->options).reduction(output, a, b, elements); });
}

int cshim_gloo_native(const cshim_gloo_arguments *arguments, const void *input, void *output,
                      uint64_t elements, cshim_dtype dtype, cshim_gloo_reduction reduction,
                      void **exception)
{
    const size_t bytes = cshim_dtype_bytes(dtype);
    const Reduction function = [=](void *sum, const void *a, const void *b, size_t count) {
        reduction(dtype, sum, a, b, count);
    };
    return guard(exception, [&] {
        const OwnedBuffer owned[2] = {
            make_buffer(arguments->context, const_cast<void *>(input), elements * bytes),
            make_buffer(arguments->context, output, elements * bytes)};
        const std::vector<Buffer *> inputs{owned[0].get()}, outputs{owned[1].get()};
        alignas(Options) unsigned char memory[sizeof(Options)]; /* bytewise copy: never destroyed */
        Options *options = reinterpret_cast<Options *>(memory);
        lend(options, options_of(arguments->options));
        lend(&options->inputs, inputs);
        lend(&options->outputs, outputs);
        options->elements = elements;
        options->element_bytes = bytes;
        if (reduction != nullptr)
            lend(&options->reduction, function);
        allreduce(memory);
    });
}

void cshim_gloo_pass(const cshim_gloo_arguments *arguments, cshim_gloo_function real,
                     int64_t timeout)
{
    const auto pass = [=](const auto &options) {
        using Class = std::remove_cv_t<std::remove_reference_t<decltype(options)>>;
        alignas(Class) unsigned char memory[sizeof options]; /* bytewise copy: never destroyed */
        lend(reinterpret_cast<Class *>(memory), options);
        reinterpret_cast<Class *>(memory)->timeout = milliseconds(timeout);
        real(memory);
    };
    if (arguments->collective == CSHIM_ALLREDUCE)
        pass(options_of(arguments->options));
    else
        with_options(arguments->function, arguments->options, pass);
}

bool cshim_gloo_measure(const void *address, int *rank, int *ranks, uint64_t *bytes)
{
    static bool is_known; /* atomic: options of this layout have been checked */
    const OtherOptions &options = *static_cast<const OtherOptions *>(address);
    if (!__atomic_load_n(&is_known, __ATOMIC_ACQUIRE) && !can_read(address, sizeof options))
        return false;
    const Buffer *const buffers[] = {options.input, options.output};
    const void *context = options.context.get();
    *bytes = 0;
    for (const Buffer *buffer : buffers) {
        if (buffer == nullptr)
            continue;
        if (!__atomic_load_n(&is_known, __ATOMIC_ACQUIRE)) {
            if (!is_buffer(buffer) || !is_context(context))
                return false;
            __atomic_store_n(&is_known, true, __ATOMIC_RELEASE);
        }
        if (buffer->size > *bytes)
            *bytes = buffer->size;
    }
    return __atomic_load_n(&is_known, __ATOMIC_ACQUIRE) && context != nullptr &&
           read_context(context, rank, ranks);
}

void cshim_gloo_refer(cshim_gloo_reference *reference, const void *options)
{
    new (reference) std::weak_ptr<void>(options_of(options).context);
}

bool cshim_gloo_is_gone(const cshim_gloo_reference *reference)
{
    return reinterpret_cast<const std::weak_ptr<void> *>(reference)->expired();
}

void cshim_gloo_forget(cshim_gloo_reference *reference)
{
    reinterpret_cast<std::weak_ptr<void> *>(reference)->~weak_ptr();
}

cshim_gloo_buffer *cshim_gloo_buffer_make(const void *context, void *memory, size_t bytes,
                                          void **exception)
{
    cshim_gloo_buffer *buffer = nullptr;
    guard(exception, [&] { buffer = make_buffer(context, memory, bytes).release(); });
    return buffer;
}

void cshim_gloo_buffer_free(cshim_gloo_buffer *buffer)
{
    delete buffer;
}

int cshim_gloo_send(cshim_gloo_buffer *buffer, int to, uint64_t slot, size_t offset, size_t bytes,
                    void **exception)
{
    return guard(
        exception, [=] { buffer->send(to, slot, offset, bytes); });
}

int cshim_gloo_receive(cshim_gloo_buffer *buffer, int from, uint64_t slot, size_t offset,
                       size_t bytes, void **exception)
{
    return guard(
        exception, [=] { buffer->receive(from, slot, offset, bytes); });
}

int cshim_gloo_wait_sent(cshim_gloo_buffer *buffer, int64_t timeout, void **exception)
{
    bool is_complete = false;
    const int status =
        guard(exception, [&] { is_complete = buffer->wait_sent(nullptr, milliseconds(timeout)); });
    return status == 0 && !is_complete ? CSHIM_GLOO_WOKEN : status;
}

int cshim_gloo_wait_received(cshim_gloo_buffer *buffer, int64_t timeout, void **exception)
{
    bool is_complete = false;
    const int status = guard(
        exception, [&] { is_complete = buffer->wait_received(nullptr, milliseconds(timeout)); });
    return status == 0 && !is_complete ? CSHIM_GLOO_WOKEN : status;
}

void cshim_gloo_wake(cshim_gloo_buffer *buffer, bool receives)
{
    if (receives)
        buffer->abort_wait_received();
    else
        buffer->abort_wait_sent();
}

int cshim_gloo_look(cshim_gloo_buffer *buffer, void **exception)
{
    return guard(
        exception,
        [=] {
            buffer->abort_wait_received();
            buffer->wait_received(nullptr, std::chrono::hours(1)); /* aborted: returns at once */
        });
}

void cshim_gloo_break(const void *context)
{
    char byte;
    void *exception = nullptr;
    guard(&exception,
          [&] { /* times out, because the buffer receives no message */
                make_buffer(context, &byte, sizeof byte)->wait_received(nullptr, milliseconds(1));
          });
    cshim_gloo_drop(exception);
}

void *cshim_gloo_exception(const char *why)
{
    return new std::exception_ptr(
        std::make_exception_ptr(gloo::IoException(std::string("compshim: ") + why)));
}

void cshim_gloo_throw(void *exception)
{
    const std::exception_ptr kept = *static_cast<std::exception_ptr *>(exception);
    cshim_gloo_drop(exception);
    std::rethrow_exception(kept);
}

void cshim_gloo_drop(void *exception)
{
    delete static_cast<std::exception_ptr *>(exception);
}
