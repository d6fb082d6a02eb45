#include "core/api_join.h"

#include "core/handles.h"
#include "core/process_context.h"

namespace tutti {

Result<Config> config_or_environment(const tutti_config_t* config) {
  if (config != nullptr) return config->options;
  return Config::from_environment();
}

Status check_rank(std::string_view function, int rank, int nranks) {
  if (nranks >= 1 && rank >= 0 && rank < nranks) return {};
  return error(Code::kInvalidArgument, "{}: rank {} of {} ranks does not exist; ranks are 0 to nranks - 1", function,
               rank, nranks);
}

Status create_communicator(tutti_comm_t** comm, const JoinInfo& info, const Config& config, Deadline deadline) {
  auto context = TUTTI_TRY(ProcessContext::shared());
  auto handle = std::make_unique<tutti_comm>();
  handle->communicator = TUTTI_TRY(Communicator::create(std::move(context), info, config, deadline));
  *comm = handle.release();
  return {};
}

Status join_by_id(tutti_comm_t** comm, const tutti_unique_id_t& id, int rank, int nranks, const Config& config,
                  Deadline deadline) {
  JoinInfo info;
  info.rank = rank;
  info.nranks = nranks;
  info.id = id;
  info.launcher = "unique id";
  Status created = create_communicator(comm, info, config, deadline);
  auto context = TUTTI_TRY(ProcessContext::shared());
  context->close_meeting(id);
  return created;
}

}  // namespace tutti
