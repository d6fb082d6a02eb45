// How some ranks of a communicator make another one, without those that are left out.
#include <algorithm>

#include "nccl/communicator.h"
#include "nccl/report.h"

namespace tutti::nccl {
namespace {

// Messages of NCCL's programs have tag 0.
constexpr int kMeetingTag = 1;

ncclResult_t join(const char* function, const tutti_unique_id_t* id, std::span<const int> members, int rank,
                  tutti_comm_t** comm) {
  auto place = std::find(members.begin(), members.end(), rank) - members.begin();
  int count = static_cast<int>(members.size());
  return result_of(tutti_comm_init_rank(comm, count, id, static_cast<int>(place)), function, nullptr);
}

}  // namespace

ncclResult_t Communicator::regroup(const char* function, std::span<const int> members, tutti_comm_t** comm) {
  if (members.size() == 1) return join(function, nullptr, members, rank_, comm);
  tutti_unique_id_t id;
  int first = members.front();
  if (rank_ != first) {
    tutti_status_t told = tutti_recv(&id, sizeof id, TUTTI_UINT8, first, kMeetingTag, get(), nullptr, nullptr);
    TUTTI_NCCL_TRY(result_of(told, function, get()));
    return join(function, &id, members, rank_, comm);
  }
  TUTTI_NCCL_TRY(result_of(tutti_get_unique_id(&id), function, nullptr));
  for (int member : members.subspan(1)) {
    tutti_status_t told = tutti_send(&id, sizeof id, TUTTI_UINT8, member, kMeetingTag, get(), nullptr);
    TUTTI_NCCL_TRY(result_of(told, function, get()));
  }
  return join(function, &id, members, rank_, comm);
}

ncclResult_t Communicator::meet_again(const char* function, std::span<const int> members, tutti_comm_t** comm) {
  if (members.size() == 1) return join(function, nullptr, members, rank_, comm);
  int first = members.front();
  tutti_unique_id_t id;
  {
    std::lock_guard lock(mutex_);
    if (!used_meetings_.insert(first).second) {
      return refuse(ncclInvalidUsage,
                    "{}: rank {} has met the others again already: go on from the communicator that came of it",
                    function, first);
    }
    id = meetings_.at(first);
  }
  return join(function, &id, members, rank_, comm);
}

}  // namespace tutti::nccl
