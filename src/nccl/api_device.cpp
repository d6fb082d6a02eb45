// The host's entry points of NCCL's device API, by which kernels of the program would communicate themselves. tutti has
// no such thing: what can be said without is said, and all else is refused.
#include "nccl/handles.h"
#include "nccl/report.h"

namespace tutti::nccl {
namespace {

ncclResult_t refuse_device_api(const char* function) {
  return refuse(ncclInvalidUsage,
                "{}: tutti has no device API: kernels of the program cannot communicate; make the call from the host",
                function);
}

// Ranks, rank and distance are 0 where there is no communicator: these functions have no other way to say so.
ncclTeam_t team_of(const char* function, ncclComm_t comm, bool is_alone) {
  ncclTeam_t team{};
  (void)guarded(function, [&] {
    std::shared_ptr<Communicator> communicator;
    TUTTI_NCCL_TRY(find_usable(function, comm, &communicator));
    team = is_alone ? ncclTeam_t{1, 0, 1} : ncclTeam_t{communicator->nranks(), communicator->rank(), 1};
    return ncclSuccess;
  });
  return team;
}

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;

extern "C" {

ncclResult_t ncclDevCommCreate(ncclComm_t, const void*, void*) { return refuse_device_api("ncclDevCommCreate"); }
ncclResult_t ncclDevCommDestroy(ncclComm_t, const void*) { return refuse_device_api("ncclDevCommDestroy"); }

ncclResult_t ncclLLA2ACreateRequirement(int, int, void*, void*) {
  return refuse_device_api("ncclLLA2ACreateRequirement");
}

ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t, int, void*, void*) {
  return refuse_device_api("ncclLsaBarrierCreateRequirement");
}

ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t, ncclTeam_t, int, void*, void*) {
  return refuse_device_api("ncclGinBarrierCreateRequirement");
}

/* No slots. */
int ncclLLA2ACalcSlots(int, int) {
  (void)refuse_device_api("ncclLLA2ACalcSlots");
  return 0;
}

/* A kernel reaches the memory of no other rank, so each is alone in its team of those that it reaches, and the rail,
 * the ranks with the same place in their teams, is all of them. */
ncclTeam_t ncclTeamWorld(ncclComm_t comm) { return team_of("ncclTeamWorld", comm, false); }
ncclTeam_t ncclTeamRail(ncclComm_t comm) { return team_of("ncclTeamRail", comm, false); }
ncclTeam_t ncclTeamLsa(ncclComm_t comm) { return team_of("ncclTeamLsa", comm, true); }

int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank) {
  return team_of("ncclTeamRankToWorld", comm, false).rank + (rank - team.rank) * team.stride;
}

int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank) {
  return team_of("ncclTeamRankToLsa", comm, true).rank + (rank - team.rank) * team.stride;
}

}  // extern "C"

TUTTI_NCCL_TWIN(DevCommCreate);
TUTTI_NCCL_TWIN(DevCommDestroy);
TUTTI_NCCL_TWIN(LLA2ACalcSlots);
TUTTI_NCCL_TWIN(LLA2ACreateRequirement);
TUTTI_NCCL_TWIN(LsaBarrierCreateRequirement);
TUTTI_NCCL_TWIN(GinBarrierCreateRequirement);
TUTTI_NCCL_TWIN(TeamWorld);
TUTTI_NCCL_TWIN(TeamLsa);
TUTTI_NCCL_TWIN(TeamRail);
TUTTI_NCCL_TWIN(TeamRankToWorld);
TUTTI_NCCL_TWIN(TeamRankToLsa);
