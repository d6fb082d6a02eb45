// The C entry points of tutti.h: arguments are checked, exceptions of the standard library become a Status, and
// sentences are kept for tutti_last_error(). Nothing else happens here.
#include <algorithm>
#include <cstring>

#include "bootstrap/rendezvous.h"
#include "core/guard.h"
#include "core/handles.h"
#include "core/process_context.h"

namespace tutti {
namespace {

Result<Config> config_or_environment(const tutti_config_t* config) {
  if (config != nullptr) return config->options;
  return Config::from_environment();
}

Status null_argument(std::string_view function, std::string_view argument) {
  return error(Code::kInvalidArgument, "{}: {} is NULL", function, argument);
}

Status create_communicator(tutti_comm_t** comm, const JoinInfo& info, const Config& config, Deadline deadline) {
  auto context = TUTTI_TRY(ProcessContext::shared());
  auto handle = std::make_unique<tutti_comm>();
  handle->communicator = TUTTI_TRY(Communicator::create(std::move(context), info, config, deadline));
  *comm = handle.release();
  return {};
}

Status init_rank(tutti_comm_t** comm, int nranks, const tutti_unique_id_t* id, int rank, const tutti_config_t* config) {
  if (comm == nullptr) return null_argument("tutti_comm_init_rank", "comm");
  *comm = nullptr;
  if (id == nullptr && nranks != 1) return null_argument("tutti_comm_init_rank", "id");
  if (nranks < 1 || rank < 0 || rank >= nranks) {
    return error(Code::kInvalidArgument,
                 "tutti_comm_init_rank: rank {} of {} ranks does not exist; ranks are 0 to nranks - 1", rank, nranks);
  }
  Config options = TUTTI_TRY(config_or_environment(config));
  JoinInfo info;
  info.rank = rank;
  info.nranks = nranks;
  if (id != nullptr) info.id = *id;
  info.launcher = "unique id";
  return create_communicator(comm, info, options, Deadline::after_ms(options.bootstrap_timeout_ms));
}

Status init_from_environment(tutti_comm_t** comm, const tutti_config_t* config) {
  if (comm == nullptr) return null_argument("tutti_comm_init_from_environment", "comm");
  *comm = nullptr;
  Config options = TUTTI_TRY(config_or_environment(config));
  Deadline deadline = Deadline::after_ms(options.bootstrap_timeout_ms);
  JoinInfo info = TUTTI_TRY(detect_launcher(options, deadline));
  return create_communicator(comm, info, options, deadline);
}

Status stream_refused(std::string_view function) {
  return error(Code::kInvalidArgument, "{}: host buffers take no stream; pass NULL (device buffers are not supported)",
               function);
}

Result<CallArguments> arguments_of(const tutti_call_t* call) {
  if (call == nullptr) return null_argument("tutti_start", "call");
  tutti_call_t full{};
  if (call->struct_size < offsetof(tutti_call_t, count) + sizeof(call->count)) {
    return error(Code::kInvalidArgument, "tutti_start: set call.struct_size to sizeof(tutti_call_t); it is {}",
                 call->struct_size);
  }
  std::memcpy(&full, call, std::min(call->struct_size, sizeof full));
  auto* bytes = reinterpret_cast<const char*>(call);
  if (call->struct_size > sizeof full &&
      std::any_of(bytes + sizeof full, bytes + call->struct_size, [](char b) { return b != 0; })) {
    return error(Code::kInvalidArgument,
                 "tutti_start: the call sets fields that this version of tutti ({}) does not know", TUTTI_VERSION);
  }
  if (full.flags != 0) {
    return error(Code::kInvalidArgument, "tutti_start: flags {:#x} are not known; set 0", full.flags);
  }
  if (full.stream != nullptr) {
    return stream_refused("tutti_start");
  }
  if (full.timeout_ms < 0) {
    return error(Code::kInvalidArgument, "tutti_start: timeout_ms {} is negative", full.timeout_ms);
  }
  return CallArguments{.collective = full.collective,
                       .datatype = full.datatype,
                       .op = full.op,
                       .root = -1,
                       .count = full.count,
                       .input = static_cast<const std::byte*>(full.send_buffer),
                       .output = static_cast<std::byte*>(full.recv_buffer),
                       .timeout_ms = full.timeout_ms};
}

tutti_call_t all_reduce_call(const void* send_buffer, void* recv_buffer, uint64_t count, tutti_datatype_t datatype,
                             tutti_op_t op, tutti_stream_t stream) {
  tutti_call_t call{};
  call.struct_size = sizeof call;
  call.collective = TUTTI_ALL_REDUCE;
  call.datatype = datatype;
  call.op = op;
  call.send_buffer = send_buffer;
  call.recv_buffer = recv_buffer;
  call.count = count;
  call.stream = stream;
  return call;
}

// Frees a finished request and gives its result.
tutti_status_t take_result(tutti_request_t** request) {
  std::unique_ptr<tutti_request> owned(std::exchange(*request, nullptr));
  if (owned->handle == nullptr) return report(std::move(owned->result));  // its communicator is destroyed
  owned->handle->remove(*owned);
  return owned->handle->keep(owned->result);
}

}  // namespace
}  // namespace tutti

using namespace tutti;

extern "C" {

int tutti_version(void) { return TUTTI_VERSION; }

const char* tutti_status_text(tutti_status_t status) {
  switch (status) {
    case TUTTI_SUCCESS: return "success";
    case TUTTI_CUDA_ERROR: return "CUDA error";
    case TUTTI_SYSTEM_ERROR: return "system error";
    case TUTTI_INTERNAL_ERROR: return "internal error";
    case TUTTI_INVALID_ARGUMENT: return "invalid argument";
    case TUTTI_INVALID_USAGE: return "invalid usage";
    case TUTTI_REMOTE_ERROR: return "remote error";
    case TUTTI_IN_PROGRESS: return "in progress";
    case TUTTI_TIMEOUT: return "timeout";
    case TUTTI_ABORTED: return "aborted";
  }
  return "unknown status";
}

size_t tutti_datatype_size(tutti_datatype_t datatype) { return size_of(datatype); }

tutti_status_t tutti_config_create(tutti_config_t** config) {
  return report(guarded([&]() -> Status {
    if (config == nullptr) return null_argument("tutti_config_create", "config");
    *config = nullptr;
    Config options = TUTTI_TRY(Config::from_environment());
    *config = new tutti_config{std::move(options)};
    return {};
  }));
}

tutti_status_t tutti_config_set(tutti_config_t* config, const char* name, const char* value) {
  return report(guarded([&]() -> Status {
    if (config == nullptr) return null_argument("tutti_config_set", "config");
    if (name == nullptr) return null_argument("tutti_config_set", "name");
    if (value == nullptr) return null_argument("tutti_config_set", "value");
    return config->options.set(name, value);
  }));
}

void tutti_config_destroy(tutti_config_t* config) { delete config; }

tutti_status_t tutti_get_unique_id(tutti_unique_id_t* id) {
  return report(guarded([&]() -> Status {
    if (id == nullptr) return null_argument("tutti_get_unique_id", "id");
    auto context = TUTTI_TRY(ProcessContext::shared());
    return context->open_meeting(TUTTI_TRY(Config::from_environment()), id);
  }));
}

tutti_status_t tutti_comm_init_rank(tutti_comm_t** comm, int nranks, const tutti_unique_id_t* id, int rank) {
  return report(guarded([&] { return init_rank(comm, nranks, id, rank, nullptr); }));
}

tutti_status_t tutti_comm_init_rank_config(tutti_comm_t** comm, int nranks, const tutti_unique_id_t* id, int rank,
                                           const tutti_config_t* config) {
  return report(guarded([&] { return init_rank(comm, nranks, id, rank, config); }));
}

tutti_status_t tutti_comm_init_from_environment(tutti_comm_t** comm, const tutti_config_t* config) {
  return report(guarded([&] { return init_from_environment(comm, config); }));
}

tutti_status_t tutti_comm_rank(const tutti_comm_t* comm, int* rank) {
  if (comm == nullptr || rank == nullptr) {
    return report(null_argument("tutti_comm_rank", comm == nullptr ? "comm" : "rank"));
  }
  *rank = comm->communicator->rank();
  return TUTTI_SUCCESS;
}

tutti_status_t tutti_comm_size(const tutti_comm_t* comm, int* size) {
  if (comm == nullptr || size == nullptr) {
    return report(null_argument("tutti_comm_size", comm == nullptr ? "comm" : "size"));
  }
  *size = comm->communicator->nranks();
  return TUTTI_SUCCESS;
}

tutti_status_t tutti_comm_status(const tutti_comm_t* comm) {
  if (comm == nullptr) return report(null_argument("tutti_comm_status", "comm"));
  return static_cast<tutti_status_t>(comm->communicator->status().code());
}

tutti_status_t tutti_comm_finalize(tutti_comm_t* comm) {
  if (comm == nullptr) return report(null_argument("tutti_comm_finalize", "comm"));
  return comm->keep(guarded([&] { return comm->communicator->finalize(); }));
}

tutti_status_t tutti_comm_destroy(tutti_comm_t* comm) {
  if (comm == nullptr) return TUTTI_SUCCESS;
  std::unique_ptr<tutti_comm> owned(comm);
  return report(guarded([&] { return comm->communicator->finalize(); }));
}

tutti_status_t tutti_comm_abort(tutti_comm_t* comm) {
  if (comm == nullptr) return report(null_argument("tutti_comm_abort", "comm"));
  return report(guarded([&]() -> Status {
    comm->communicator->abort();
    return {};
  }));
}

const char* tutti_last_error(const tutti_comm_t* comm) {
  if (comm == nullptr) return reported();
  Status failed = comm->communicator->status();
  if (!failed.ok()) comm->keep(failed);
  return comm->last_error.c_str();
}

tutti_status_t tutti_mem_alloc(void** pointer, size_t size_bytes) {
  return report(guarded([&]() -> Status {
    if (pointer == nullptr) return null_argument("tutti_mem_alloc", "pointer");
    *pointer = nullptr;
    if (size_bytes == 0) return error(Code::kInvalidArgument, "tutti_mem_alloc: the size is 0");
    auto context = TUTTI_TRY(ProcessContext::shared());
    *pointer = TUTTI_TRY(context->memory.allocate(size_bytes));
    return {};
  }));
}

tutti_status_t tutti_mem_free(void* pointer) {
  if (pointer == nullptr) return TUTTI_SUCCESS;
  return report(guarded([&]() -> Status {
    auto context = TUTTI_TRY(ProcessContext::shared());
    return context->memory.free(pointer);
  }));
}

tutti_status_t tutti_start(tutti_comm_t* comm, const tutti_call_t* call, tutti_request_t** request) {
  if (comm == nullptr) return report(null_argument("tutti_start", "comm"));
  return comm->keep(guarded([&]() -> Status {
    if (request == nullptr) return null_argument("tutti_start", "request");
    *request = nullptr;
    auto owned = std::make_unique<tutti_request>();
    owned->arguments = TUTTI_TRY(arguments_of(call));
    TUTTI_TRY(comm->communicator->start(*owned));
    comm->add(*owned);
    *request = owned.release();
    comm->communicator->progress_alone();
    return {};
  }));
}

tutti_status_t tutti_wait(tutti_request_t** request) {
  if (request == nullptr || *request == nullptr) return report(null_argument("tutti_wait", "request"));
  if ((*request)->communicator != nullptr) (*request)->communicator->wait(**request);
  return take_result(request);
}

tutti_status_t tutti_test(tutti_request_t** request, int* done) {
  if (request == nullptr || *request == nullptr) return report(null_argument("tutti_test", "request"));
  if (done == nullptr) return report(null_argument("tutti_test", "done"));
  *done = (*request)->communicator == nullptr || (*request)->communicator->test(**request) ? 1 : 0;
  return *done != 0 ? take_result(request) : TUTTI_SUCCESS;
}

tutti_status_t tutti_all_reduce(const void* send_buffer, void* recv_buffer, uint64_t count, tutti_datatype_t datatype,
                                tutti_op_t op, tutti_comm_t* comm, tutti_stream_t stream) {
  if (comm == nullptr) return report(null_argument("tutti_all_reduce", "comm"));
  return comm->keep(guarded([&]() -> Status {
    if (stream != nullptr) return stream_refused("tutti_all_reduce");
    return comm->communicator->run({.collective = TUTTI_ALL_REDUCE,
                                    .datatype = datatype,
                                    .op = op,
                                    .count = count,
                                    .input = static_cast<const std::byte*>(send_buffer),
                                    .output = static_cast<std::byte*>(recv_buffer)});
  }));
}

tutti_status_t tutti_all_reduce_start(const void* send_buffer, void* recv_buffer, uint64_t count,
                                      tutti_datatype_t datatype, tutti_op_t op, tutti_comm_t* comm,
                                      tutti_stream_t stream, tutti_request_t** request) {
  tutti_call_t call = all_reduce_call(send_buffer, recv_buffer, count, datatype, op, stream);
  return tutti_start(comm, &call, request);
}

}  // extern "C"
