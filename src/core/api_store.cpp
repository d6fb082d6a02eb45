// tutti_comm_init_store(): joining through a key-value store of the program's.
#include "core/api_join.h"
#include "core/handles.h"
#include "core/process_context.h"
#include "core/store_meeting.h"

namespace tutti {
namespace {

constexpr std::string_view kFunction = "tutti_comm_init_store";

Status check_store(const tutti_store_t* store, const char* key) {
  if (store == nullptr) return null_argument(kFunction, "store");
  if (store->struct_size < sizeof *store) {
    return error(Code::kInvalidArgument, "{}: set store.struct_size to sizeof(tutti_store_t)", kFunction);
  }
  if (store->set == nullptr) return null_argument(kFunction, "store.set");
  if (store->get == nullptr) return null_argument(kFunction, "store.get");
  if (key == nullptr) return null_argument(kFunction, "key");
  if (*key == '\0') return error(Code::kInvalidArgument, "{}: the key is empty", kFunction);
  return {};
}

Result<tutti_unique_id_t> make_id(const Config& config) {
  tutti_unique_id_t id;
  auto context = TUTTI_TRY(ProcessContext::shared());
  TUTTI_TRY(context->open_meeting(config, &id));
  return id;
}

Status lead(tutti_comm_t** comm, int nranks, StoreMeeting& meeting, const Config& config, Deadline deadline) {
  auto id = make_id(config);
  Status told = meeting.tell(id);
  if (!id.ok()) return std::move(id).status();
  if (!told.ok()) {
    auto context = TUTTI_TRY(ProcessContext::shared());
    context->close_meeting(*id);
    return told;
  }
  Status joined = join_by_id(comm, *id, 0, nranks, config, deadline);
  meeting.take_away();
  return joined;
}

Status follow(tutti_comm_t** comm, int nranks, int rank, StoreMeeting& meeting, const Config& config,
              Deadline deadline) {
  for (;;) {
    tutti_unique_id_t id = TUTTI_TRY(meeting.learn(deadline));
    Status joined = join_by_id(comm, id, rank, nranks, config, deadline);
    if (joined.ok() || deadline.passed() || !meeting.has_newer(deadline)) return joined;
  }
}

Status init_store(tutti_comm_t** comm, int nranks, int rank, const tutti_store_t* store, const char* key,
                  const tutti_config_t* config) {
  if (comm == nullptr) return null_argument(kFunction, "comm");
  *comm = nullptr;
  TUTTI_TRY(check_rank(kFunction, rank, nranks));
  TUTTI_TRY(check_store(store, key));
  Config options = TUTTI_TRY(config_or_environment(config));
  Deadline deadline = Deadline::after_ms(options.bootstrap_timeout_ms);
  if (nranks == 1) return join_by_id(comm, {}, rank, nranks, options, deadline);
  StoreMeeting meeting(*store, key);
  return rank == 0 ? lead(comm, nranks, meeting, options, deadline)
                   : follow(comm, nranks, rank, meeting, options, deadline);
}

}  // namespace
}  // namespace tutti

tutti_status_t tutti_comm_init_store(tutti_comm_t** comm, int nranks, int rank, const tutti_store_t* store,
                                     const char* key, const tutti_config_t* config) {
  using namespace tutti;
  return report(guarded([&] { return init_store(comm, nranks, rank, store, key, config); }));
}
