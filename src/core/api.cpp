// The C entry points of tutti.h for options, communicators and memory: arguments are checked, exceptions of the
// standard library become a Status, and sentences are kept for tutti_last_error(). Nothing else happens here.
#include <algorithm>
#include <cstring>

#include "bootstrap/rendezvous.h"
#include "core/api_join.h"
#include "core/group.h"
#include "core/handles.h"
#include "core/process_context.h"
#include "tutti/tutti_nccl.h"

namespace tutti {
namespace {

Status init_rank(tutti_comm_t** comm, int nranks, const tutti_unique_id_t* id, int rank, const tutti_config_t* config) {
  if (comm == nullptr) return null_argument("tutti_comm_init_rank", "comm");
  *comm = nullptr;
  if (id == nullptr && nranks != 1) return null_argument("tutti_comm_init_rank", "id");
  TUTTI_TRY(check_rank("tutti_comm_init_rank", rank, nranks));
  Config options = TUTTI_TRY(config_or_environment(config));
  return join_by_id(comm, id == nullptr ? tutti_unique_id_t{} : *id, rank, nranks, options,
                    Deadline::after_ms(options.bootstrap_timeout_ms));
}

Status split(tutti_comm_t& comm, int color, int key, tutti_comm_t** new_comm, const tutti_config_t* config) {
  if (new_comm == nullptr) return null_argument("tutti_comm_split", "new_comm");
  *new_comm = nullptr;
  if (Group::of_thread().is_open()) {
    return error(Code::kInvalidUsage, "tutti_comm_split: a group is open; end it first");
  }
  auto handle = std::make_unique<tutti_comm>();
  handle->communicator =
      TUTTI_TRY(comm.communicator->split(color, key, config == nullptr ? nullptr : &config->options));
  if (handle->communicator) *new_comm = handle.release();
  return {};
}

Status init_from_environment(tutti_comm_t** comm, const tutti_config_t* config) {
  if (comm == nullptr) return null_argument("tutti_comm_init_from_environment", "comm");
  *comm = nullptr;
  Config options = TUTTI_TRY(config_or_environment(config));
  Deadline deadline = Deadline::after_ms(options.bootstrap_timeout_ms);
  JoinInfo info = TUTTI_TRY(detect_launcher(options, deadline));
  return create_communicator(comm, info, options, deadline);
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
    *config = new tutti_config{std::move(options), {}};
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

tutti_status_t tutti_config_get(tutti_config_t* config, const char* name, const char** value) {
  return report(guarded([&]() -> Status {
    if (config == nullptr) return null_argument("tutti_config_get", "config");
    if (name == nullptr) return null_argument("tutti_config_get", "name");
    if (value == nullptr) return null_argument("tutti_config_get", "value");
    *value = nullptr;
    config->text = TUTTI_TRY(config->options.get(name));
    *value = config->text.c_str();
    return {};
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

tutti_status_t tutti_comm_split(tutti_comm_t* comm, int color, int key, tutti_comm_t** new_comm,
                                const tutti_config_t* config) {
  return with_communicator(comm, "tutti_comm_split", [&] { return split(*comm, color, key, new_comm, config); });
}

tutti_status_t tutti_comm_dup(tutti_comm_t* comm, tutti_comm_t** new_comm, const tutti_config_t* config) {
  return with_communicator(comm, "tutti_comm_dup",
                           [&] { return split(*comm, 0, comm->communicator->rank(), new_comm, config); });
}

tutti_status_t tutti_comm_memory(tutti_comm_t* comm, tutti_comm_memory_t* memory) {
  if (comm == nullptr || memory == nullptr) {
    return report(null_argument("tutti_comm_memory", comm == nullptr ? "comm" : "memory"));
  }
  return with_communicator(comm, "tutti_comm_memory", [&]() -> Status {
    if (memory->struct_size < sizeof(size_t)) {
      return error(Code::kInvalidArgument, "tutti_comm_memory: set struct_size to sizeof(tutti_comm_memory_t)");
    }
    tutti_comm_memory_t filled = comm->communicator->memory();
    filled.struct_size = memory->struct_size;
    std::memcpy(memory, &filled, std::min(memory->struct_size, sizeof filled));
    return {};
  });
}

tutti_status_t tutti_comm_rank(const tutti_comm_t* comm, int* rank) {
  if (comm == nullptr || rank == nullptr) {
    return report(null_argument("tutti_comm_rank", comm == nullptr ? "comm" : "rank"));
  }
  if (comm->is_parents()) return report(refuse_after_fork("tutti_comm_rank"));
  *rank = comm->communicator->rank();
  return TUTTI_SUCCESS;
}

tutti_status_t tutti_comm_size(const tutti_comm_t* comm, int* size) {
  if (comm == nullptr || size == nullptr) {
    return report(null_argument("tutti_comm_size", comm == nullptr ? "comm" : "size"));
  }
  if (comm->is_parents()) return report(refuse_after_fork("tutti_comm_size"));
  *size = comm->communicator->nranks();
  return TUTTI_SUCCESS;
}

tutti_status_t tutti_comm_id(const tutti_comm_t* comm, uint64_t* id) {
  if (comm == nullptr || id == nullptr) return report(null_argument("tutti_comm_id", comm == nullptr ? "comm" : "id"));
  if (comm->is_parents()) return report(refuse_after_fork("tutti_comm_id"));
  *id = comm->communicator->id();
  return TUTTI_SUCCESS;
}

tutti_status_t tutti_comm_set_profiler(tutti_comm_t* comm, const tutti_profiler_t* profiler) {
  return with_communicator(comm, "tutti_comm_set_profiler", [&]() -> Status {
    if (profiler == nullptr) return comm->communicator->set_profiler(nullptr);
    if (profiler->struct_size < sizeof *profiler) {
      return error(Code::kInvalidArgument, "tutti_comm_set_profiler: set struct_size to sizeof(tutti_profiler_t)");
    }
    if (profiler->begin == nullptr) return null_argument("tutti_comm_set_profiler", "profiler.begin");
    if (profiler->end == nullptr) return null_argument("tutti_comm_set_profiler", "profiler.end");
    return comm->communicator->set_profiler(profiler);
  });
}

tutti_status_t tutti_comm_status(const tutti_comm_t* comm) {
  if (comm == nullptr) return report(null_argument("tutti_comm_status", "comm"));
  if (comm->is_parents()) return report(refuse_after_fork("tutti_comm_status"));
  return static_cast<tutti_status_t>(comm->communicator->code());
}

tutti_status_t tutti_comm_finalize(tutti_comm_t* comm) {
  return with_communicator(comm, "tutti_comm_finalize", [&]() -> Status {
    if (Group::of_thread().holds(*comm)) {
      return error(Code::kInvalidUsage, "tutti_comm_finalize: the open group has calls of it; end the group first");
    }
    return comm->communicator->finalize();
  });
}

tutti_status_t tutti_comm_destroy(tutti_comm_t* comm) {
  if (comm == nullptr) return TUTTI_SUCCESS;
  std::unique_ptr<tutti_comm> owned;
  return report(guarded([&]() -> Status {
    if (comm->is_parents()) return refuse_after_fork("tutti_comm_destroy");
    if (Group::of_thread().holds(*comm)) {
      return error(Code::kInvalidUsage, "tutti_comm_destroy: the open group has calls of it; end the group first");
    }
    owned.reset(comm);
    return comm->communicator->finalize();
  }));
}

tutti_status_t tutti_comm_abort(tutti_comm_t* comm) {
  if (comm == nullptr) return report(null_argument("tutti_comm_abort", "comm"));
  if (comm->is_parents()) return report(refuse_after_fork("tutti_comm_abort"));
  return report(guarded([&]() -> Status {
    comm->communicator->abort();
    return {};
  }));
}

tutti_status_t tutti_comm_leave(tutti_comm_t* comm) {
  if (comm == nullptr) return report(null_argument("tutti_comm_leave", "comm"));
  if (comm->is_parents()) return report(refuse_after_fork("tutti_comm_leave"));
  return report(guarded([&]() -> Status {
    comm->communicator->leave();
    return {};
  }));
}

const char* tutti_last_error(const tutti_comm_t* comm) {
  if (comm == nullptr || comm->is_parents()) return reported();
  // Not guarded(): the Status of what is thrown would take memory, too, and without any end the process.
  try {
    return give_sentence(comm->last_error());
  } catch (const std::exception&) {
    return "there is no memory for the sentence";
  }
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

// Whether streams reach the memory as it is. Of a device's, the handle by which other ranks open it is made now.
static Result<bool> is_for_streams(ProcessContext& context, const void* buffer) {
  DeviceModule* module = context.stream_calls.devices().if_used();
  if (module == nullptr) return false;
  BufferPlace place = TUTTI_TRY(module->place_of(buffer));
  if (place.kind != MemoryKind::kDevice) return place.kind == MemoryKind::kManaged;
  DeviceStream stream = TUTTI_TRY(module->stream_of(nullptr, place.device));
  TUTTI_TRY(module->share_buffer(buffer, {.device = place.device, .context = stream.context}));
  return true;
}

tutti_status_t tutti_comm_register(tutti_comm_t* comm, void* buffer, size_t size_bytes, void** handle) {
  return with_communicator(comm, "tutti_comm_register", [&]() -> Status {
    if (handle == nullptr) return null_argument("tutti_comm_register", "handle");
    *handle = nullptr;
    if (buffer == nullptr) return null_argument("tutti_comm_register", "buffer");
    if (size_bytes == 0) return error(Code::kInvalidArgument, "tutti_comm_register: the size is 0");
    auto context = TUTTI_TRY(ProcessContext::shared());
    comm->registrations.reserve(comm->registrations.size() + 1);
    if (TUTTI_TRY(is_for_streams(*context, buffer))) {
      comm->registrations.push_back(tutti_comm::kOfDevices | ++comm->device_registrations);
      *handle = reinterpret_cast<void*>(comm->registrations.back());
      return {};
    }
    auto key = context->memory.add({static_cast<std::byte*>(buffer), size_bytes});
    if (!key.ok()) return std::move(key).status().within("tutti_comm_register");
    comm->registrations.push_back(*key);
    *handle = reinterpret_cast<void*>(*key);
    return {};
  });
}

tutti_status_t tutti_comm_deregister(tutti_comm_t* comm, void* handle) {
  if (handle == nullptr) return TUTTI_SUCCESS;
  return with_communicator(comm, "tutti_comm_deregister", [&]() -> Status {
    auto found = std::find(comm->registrations.begin(), comm->registrations.end(), reinterpret_cast<uint64_t>(handle));
    if (found == comm->registrations.end()) {
      return error(Code::kInvalidArgument,
                   "tutti_comm_deregister: {} did not come from tutti_comm_register on this communicator, or was "
                   "deregistered already",
                   handle);
    }
    if ((*found & tutti_comm::kOfDevices) != 0) {
      comm->registrations.erase(found);
      return {};
    }
    auto context = TUTTI_TRY(ProcessContext::shared());
    Status removed = context->memory.remove(*found);
    if (removed.code() != Code::kSystem) comm->registrations.erase(found);
    return std::move(removed).within("tutti_comm_deregister");
  });
}

}  // extern "C"
