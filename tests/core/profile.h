// What a profiler of a test's was told. For tests.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::test {

struct Told {
  tutti_profiled_call_t call;
  std::string algorithm;
  bool has_ended = false;
  tutti_status_t status = TUTTI_SUCCESS;
};

// Of one rank.
struct Profile {
  std::atomic<int> tellers{0};
  mutable std::mutex mutex;  // guards what follows
  bool was_told_by_two_at_once = false;
  std::vector<Told> told;

  static void* begin(void* context, const tutti_profiled_call_t* call) {
    auto& profile = *static_cast<Profile*>(context);
    Teller teller(profile);
    std::lock_guard lock(profile.mutex);
    profile.told.push_back({*call, call->algorithm});
    return reinterpret_cast<void*>(profile.told.size());
  }
  static void end(void* context, void* begun, tutti_status_t status) {
    auto& profile = *static_cast<Profile*>(context);
    Teller teller(profile);
    std::lock_guard lock(profile.mutex);
    Told& told = profile.told.at(reinterpret_cast<size_t>(begun) - 1);
    if (told.has_ended) told.algorithm = "ended twice";
    told.has_ended = true;
    told.status = status;
  }
  tutti_profiler_t functions() { return {sizeof(tutti_profiler_t), begin, end, this}; }

  std::string text() const {
    std::lock_guard lock(mutex);
    std::string text = was_told_by_two_at_once ? "by two at once\n" : "";
    for (const Told& each : told) {
      const auto& call = each.call;
      text += fmt::format("{} #{} {} {}>{} to {} by {} {}\n", static_cast<int>(call.collective), call.sequence,
                          each.algorithm, call.send_bytes, call.recv_bytes, call.peer, call.rank,
                          each.has_ended ? tutti_status_text(each.status) : "runs");
    }
    return text;
  }
  size_t begun() const {
    std::lock_guard lock(mutex);
    return told.size();
  }
  size_t running() const {
    std::lock_guard lock(mutex);
    size_t running = 0;
    for (const Told& each : told) running += each.has_ended ? 0 : 1;
    return running;
  }

 private:
  struct Teller {
    explicit Teller(Profile& profile) : its(profile) {
      if (its.tellers++ == 0) return;
      std::lock_guard lock(its.mutex);
      its.was_told_by_two_at_once = true;
    }
    ~Teller() { --its.tellers; }
    Profile& its;
  };
};

}  // namespace tutti::test
