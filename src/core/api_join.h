// What the C entry points that make communicators have in common. `function`: the entry point, for errors.
#pragma once

#include <string_view>

#include "base/config.h"
#include "base/deadline.h"
#include "bootstrap/control.h"

namespace tutti {

Result<Config> config_or_environment(const tutti_config_t* config);
Status check_rank(std::string_view function, int rank, int nranks);
Status create_communicator(tutti_comm_t** comm, const JoinInfo& info, const Config& config, Deadline deadline);
// Ends the id's meeting point, if it is this process's.
Status join_by_id(tutti_comm_t** comm, const tutti_unique_id_t& id, int rank, int nranks, const Config& config,
                  Deadline deadline);

}  // namespace tutti
