// Communicator: what an ncclComm_t stands for. It exists before tutti's communicator does, since NCCL gives the handle
// out while that is still being made; and it stays as long as anybody is in a call on it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "nccl/family.h"
#include "nccl/gpu.h"
#include "nccl/settings.h"

namespace tutti::nccl {

class Communicator {
 public:
  // Where a rank is: a device, and the context that is current while its communicator is made. Without a driver: none.
  struct Place {
    const Gpu* gpu = nullptr;
    Context context = nullptr;
    int device = 0;
  };

  Communicator(Settings settings, Place place, std::shared_ptr<Family> family);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();  // closes it if nobody has

  const Settings& settings() const { return settings_; }
  const Place& place() const { return place_; }
  Family& family() { return *family_; }
  const std::shared_ptr<Family>& shared_family() const { return family_; }

  // ---- Steps: what changes the communicator itself, perhaps in the background

  void begin_step();
  void end_step(ncclResult_t result);
  // What ncclCommGetAsyncError() says: in progress, the first error, or success.
  ncclResult_t state();
  void wait_for_steps();
  // tutti's communicator has been made: this owns it. Asks where its ranks would meet again, which takes all of them.
  ncclResult_t adopt(const char* function, tutti_comm_t* comm);

  // ---- What calls need

  // Errors: a step is under way, or nothing can be called any more.
  ncclResult_t check_usable(const char* function);
  // While one lives, the communicator is not closed.
  class Use {
   public:
    Use() = default;
    explicit Use(std::shared_ptr<Communicator> communicator);
    Use(Use&&) = default;
    Use& operator=(Use&& other) noexcept;
    ~Use();
    Communicator* operator->() const { return communicator_.get(); }
    Communicator& operator*() const { return *communicator_; }

   private:
    std::shared_ptr<Communicator> communicator_;
  };
  tutti_comm_t* get() const { return comm_.load(std::memory_order_acquire); }
  int rank() const { return rank_; }
  int nranks() const { return nranks_; }
  // How often it was split so far: all ranks count alike.
  int next_split() { return splits_.fetch_add(1); }

  // ---- Its end

  ncclResult_t begin_to_finalize(const char* function);
  bool has_finalized() const { return is_finalized_.load(); }
  // Ends what is under way here; the other ranks go on until they need this one. Returns when calls of other threads
  // have, or soon.
  void abort();
  // Waits for all steps and uses, then destroys tutti's communicator, which may wait for the other ranks.
  void close();
  // The same, for a communicator from which others can still be made.
  static void revoke(const std::shared_ptr<Communicator>& communicator);
  bool is_revoked() const { return is_revoked_.load(); }

  // A communicator of some of the ranks, `members` in ascending order, this one among them, all of which call it.
  // While this one works, any number of times:
  ncclResult_t regroup(const char* function, std::span<const int> members, tutti_comm_t** comm);
  // Also when it has failed, since where ranks meet was agreed on before; once for each first member.
  ncclResult_t meet_again(const char* function, std::span<const int> members, tutti_comm_t** comm);

  // ---- Operations whose scalar is on the device: calls read it, when their stream gets to them

  struct DeviceScalar {
    const void* address = nullptr;
    ncclDataType_t datatype = ncclInt8;
  };
  ncclRedOp_t add_scalar(const DeviceScalar& scalar);
  // False: that is no such operation.
  bool remove_scalar(ncclRedOp_t op);
  std::optional<DeviceScalar> find_scalar(ncclRedOp_t op);

  // ---- Registered memory

  ncclResult_t register_memory(const char* function, void* buffer, size_t size, void** handle);
  ncclResult_t deregister_memory(const char* function, void* handle);

 private:
  const Settings settings_;
  const Place place_;
  const std::shared_ptr<Family> family_;
  std::atomic<tutti_comm_t*> comm_{nullptr};
  int rank_ = 0;
  int nranks_ = 0;
  std::atomic<int> splits_{0};
  std::atomic<bool> is_finalized_{false};
  std::atomic<bool> is_revoked_{false};

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  int steps_ = 0;
  int uses_ = 0;
  ncclResult_t error_ = ncclSuccess;
  bool is_aborted_ = false;
  std::vector<tutti_unique_id_t> meetings_;  // of each rank
  std::set<int> used_meetings_;
  std::map<int, DeviceScalar> scalars_;
  uintptr_t last_registration_ = 0;
  std::map<uintptr_t, void*> registrations_;  // tutti's handles; null of memory that only devices use
};

}  // namespace tutti::nccl
