// Entry points that make communicators.
#include <algorithm>
#include <cstring>
#include <utility>

#include "nccl/group.h"
#include "nccl/handles.h"
#include "nccl/report.h"

namespace tutti::nccl {
namespace {

using Make = std::function<ncclResult_t(tutti_comm_t**)>;

// Gives the caller a handle, and makes what it stands for: now, or with the calling thread's group.
ncclResult_t submit(Job job) {
  if (job.handle != nullptr) *job.handle = Handles::of_process().add(job.made);
  job.made->begin_step();
  if (job.parent) job.parent->begin_step();
  Group& group = Group::of_thread();
  if (group.is_open()) {
    group.add(std::move(job));
    return ncclSuccess;
  }
  std::vector<Job> alone;
  alone.push_back(std::move(job));
  return run_jobs(std::move(alone));
}

ncclResult_t place_here(const char* function, const Settings& settings, Communicator::Place* place) {
  std::string why;
  place->gpu = Gpu::driver(settings.driver, !settings.takes_host_memory, &why);
  if (place->gpu != nullptr) return place->gpu->current(function, &place->context, &place->device);
  if (settings.takes_host_memory) return ncclSuccess;
  return refuse(ncclUnhandledCudaError, "{}: {}; TUTTI_NCCL_HOST_MEMORY=1 makes do with memory of the host", function,
                why);
}

ncclResult_t init_there(const char* function, ncclComm_t* comm, int nranks, const tutti_unique_id_t& id, int rank,
                        const Settings& settings, const Communicator::Place& place) {
  std::string key(reinterpret_cast<const char*>(id.bytes), sizeof id.bytes);
  Job job{.function = function, .handle = comm};
  job.made = std::make_shared<Communicator>(settings, place, Handles::of_process().family(key));
  job.make = [function, nranks, id, rank](tutti_comm_t** made) {
    return result_of(tutti_comm_init_rank(made, nranks, &id, rank), function, nullptr);
  };
  return submit(std::move(job));
}

ncclResult_t init(const char* function, ncclComm_t* comm, int nranks, const ncclUniqueId& id, int rank,
                  const ncclConfig_t* config) {
  if (comm == nullptr) return null_argument(function, "comm");
  *comm = nullptr;
  if (nranks < 1 || rank < 0 || rank >= nranks) {
    return refuse(ncclInvalidArgument, "{}: there is no rank {} among {}", function, rank, nranks);
  }
  Settings settings;
  TUTTI_NCCL_TRY(Settings::read(function, &settings));
  TUTTI_NCCL_TRY(apply_config(function, config, &settings));
  Communicator::Place place;
  TUTTI_NCCL_TRY(place_here(function, settings, &place));
  tutti_unique_id_t own;
  std::memcpy(own.bytes, id.internal, sizeof own.bytes);
  return init_there(function, comm, nranks, own, rank, settings, place);
}

// ---- All ranks in this process

ncclResult_t place_on(const char* function, const Settings& settings, int device, Communicator::Place* place) {
  TUTTI_NCCL_TRY(place_here(function, settings, place));
  place->device = device;
  if (place->gpu == nullptr) return ncclSuccess;
  int devices = 0;
  TUTTI_NCCL_TRY(place->gpu->count(function, &devices));
  if (device < 0 || device >= devices) {
    return refuse(ncclInvalidArgument, "{}: there is no device {} among {}", function, device, devices);
  }
  return place->gpu->primary(function, device, &place->context);
}

ncclResult_t init_all(ncclComm_t* comms, int ndevices, const int* devices) {
  const char* function = "ncclCommInitAll";
  if (comms == nullptr) return null_argument(function, "comms");
  if (ndevices < 1) return refuse(ncclInvalidArgument, "{}: {} devices", function, ndevices);
  std::fill_n(comms, ndevices, nullptr);
  Settings settings;
  TUTTI_NCCL_TRY(Settings::read(function, &settings));
  std::vector<Communicator::Place> places(ndevices);
  for (int i = 0; i < ndevices; ++i) {
    TUTTI_NCCL_TRY(place_on(function, settings, devices == nullptr ? i : devices[i], &places[i]));
  }
  tutti_unique_id_t id;
  TUTTI_NCCL_TRY(result_of(tutti_get_unique_id(&id), function, nullptr));
  Group& group = Group::of_thread();
  group.begin();
  for (int i = 0; i < ndevices; ++i) (void)init_there(function, &comms[i], ndevices, id, i, settings, places[i]);
  ncclResult_t made = group.end();
  if (made == ncclSuccess) return ncclSuccess;
  for (int i = 0; i < ndevices; ++i) {
    if (comms[i] != nullptr) (void)ncclCommAbort(comms[i]);
    comms[i] = nullptr;
  }
  return made;
}

// ---- From another one

ncclResult_t split_after_revoke(Communicator& parent, int color, int key, tutti_comm_t** made) {
  std::vector<int> all(parent.nranks());
  for (int rank = 0; rank < parent.nranks(); ++rank) all[rank] = rank;
  tutti_comm_t* again = nullptr;
  TUTTI_NCCL_TRY(parent.meet_again("ncclCommSplit", all, &again));
  ncclResult_t result = result_of(tutti_comm_split(again, color, key, made, nullptr), "ncclCommSplit", again);
  (void)tutti_comm_destroy(again);
  return result;
}

ncclResult_t split(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, const ncclConfig_t* config) {
  const char* function = "ncclCommSplit";
  if (newcomm == nullptr) return null_argument(function, "newcomm");
  *newcomm = nullptr;
  std::shared_ptr<Communicator> parent;
  TUTTI_NCCL_TRY(find_communicator(function, comm, &parent));
  if (!parent->is_revoked()) TUTTI_NCCL_TRY(parent->check_usable(function));
  if (color < NCCL_SPLIT_NOCOLOR) {
    return refuse(ncclInvalidArgument, "{}: color {} is negative; NCCL_SPLIT_NOCOLOR is {}", function, color,
                  NCCL_SPLIT_NOCOLOR);
  }
  Settings settings = parent->settings();
  TUTTI_NCCL_TRY(apply_config(function, config, &settings));
  std::string name = fmt::format("split {} {} {}", parent->family().number(), parent->next_split(), color);
  Job job{.function = function, .parent = parent, .handle = color == NCCL_SPLIT_NOCOLOR ? nullptr : newcomm};
  job.made = std::make_shared<Communicator>(settings, parent->place(), Handles::of_process().family(name));
  job.make = [=, use = std::make_shared<Communicator::Use>(parent)](tutti_comm_t** made) {
    if (parent->is_revoked()) return split_after_revoke(*parent, color, key, made);
    return result_of(tutti_comm_split(parent->get(), color, key, made, nullptr), function, parent->get());
  };
  return submit(std::move(job));
}

ncclResult_t find_survivors(const Communicator& parent, const int* excluded, int count, std::vector<int>* survivors) {
  const char* function = "ncclCommShrink";
  if (excluded == nullptr) return null_argument(function, "excludeRanksList");
  if (count < 1) return refuse(ncclInvalidArgument, "{}: {} ranks are to be left out", function, count);
  std::vector<bool> is_out(parent.nranks());
  for (int i = 0; i < count; ++i) {
    if (excluded[i] < 0 || excluded[i] >= parent.nranks()) {
      return refuse(ncclInvalidArgument, "{}: there is no rank {} among {}", function, excluded[i], parent.nranks());
    }
    is_out[excluded[i]] = true;
  }
  if (is_out[parent.rank()]) {
    return refuse(ncclInvalidArgument, "{}: this is rank {}, which is to be left out: only those that stay call it",
                  function, parent.rank());
  }
  for (int rank = 0; rank < parent.nranks(); ++rank) {
    if (!is_out[rank]) survivors->push_back(rank);
  }
  return ncclSuccess;
}

ncclResult_t shrink(ncclComm_t comm, const int* excluded, int count, ncclComm_t* newcomm, const ncclConfig_t* config,
                    int flags) {
  const char* function = "ncclCommShrink";
  if (newcomm == nullptr) return null_argument(function, "newcomm");
  *newcomm = nullptr;
  std::shared_ptr<Communicator> parent;
  TUTTI_NCCL_TRY(find_communicator(function, comm, &parent));
  if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT) {
    return refuse(ncclInvalidArgument, "{}: there are no flags {:#x}", function, flags);
  }
  bool is_over = flags == NCCL_SHRINK_ABORT || parent->is_revoked();
  if (!is_over) TUTTI_NCCL_TRY(parent->check_usable(function));
  std::vector<int> survivors;
  TUTTI_NCCL_TRY(find_survivors(*parent, excluded, count, &survivors));
  Settings settings = parent->settings();
  TUTTI_NCCL_TRY(apply_config(function, config, &settings));
  if (is_over) Communicator::revoke(parent);
  std::string name = fmt::format("shrink {} {}", parent->family().number(), fmt::join(survivors, " "));
  Job job{.function = function, .parent = parent, .handle = newcomm};
  job.made = std::make_shared<Communicator>(settings, parent->place(), Handles::of_process().family(name));
  job.make = [=, use = std::make_shared<Communicator::Use>(parent)](tutti_comm_t** made) {
    return is_over ? parent->meet_again(function, survivors, made) : parent->regroup(function, survivors, made);
  };
  return submit(std::move(job));
}

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return guarded("ncclGetUniqueId", [&] {
    if (id == nullptr) return null_argument("ncclGetUniqueId", "uniqueId");
    tutti_unique_id_t own;
    TUTTI_NCCL_TRY(result_of(tutti_get_unique_id(&own), "ncclGetUniqueId", nullptr));
    static_assert(sizeof own.bytes == sizeof id->internal);
    std::memcpy(id->internal, own.bytes, sizeof own.bytes);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  return guarded("ncclCommInitRank", [&] { return init("ncclCommInitRank", comm, nranks, id, rank, nullptr); });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  const char* function = "ncclCommInitRankConfig";
  return guarded(function, [&] { return init(function, comm, nranks, id, rank, config); });
}

/* Several ids are for many ranks to meet sooner. tutti's ranks need one. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int nranks, int rank, int nids, ncclUniqueId* ids,
                                      ncclConfig_t* config) {
  const char* function = "ncclCommInitRankScalable";
  return guarded(function, [&] {
    if (ids == nullptr) return null_argument(function, "commIds");
    if (nids < 1 || nids > nranks) {
      return refuse(ncclInvalidArgument, "{}: {} ids for {} ranks", function, nids, nranks);
    }
    return init(function, comm, nranks, ids[0], rank, config);
  });
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int ndevices, const int* devices) {
  return guarded("ncclCommInitAll", [&] { return init_all(comms, ndevices, devices); });
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config) {
  return guarded("ncclCommSplit", [&] { return split(comm, color, key, newcomm, config); });
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* newcomm,
                            ncclConfig_t* config, int flags) {
  return guarded("ncclCommShrink", [&] { return shrink(comm, excluded, excluded_count, newcomm, config, flags); });
}

}  // extern "C"

TUTTI_NCCL_TWIN(GetUniqueId);
TUTTI_NCCL_TWIN(CommInitRank);
TUTTI_NCCL_TWIN(CommInitRankConfig);
TUTTI_NCCL_TWIN(CommInitRankScalable);
TUTTI_NCCL_TWIN(CommInitAll);
TUTTI_NCCL_TWIN(CommSplit);
TUTTI_NCCL_TWIN(CommShrink);
