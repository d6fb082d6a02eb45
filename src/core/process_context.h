// ProcessContext: what the communicators of a process share. Made on first use, kept until the process ends.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "bootstrap/rendezvous.h"
#include "core/completions.h"
#include "core/engine.h"
#include "core/gate_keeper.h"
#include "core/memory_registry.h"
#include "core/staging_pool.h"
#include "core/stream_calls.h"
#include "transports/loopback/hub.h"

namespace tutti {

class ProcessContext {
 public:
  // A context of its own, for tests.
  static Result<std::shared_ptr<ProcessContext>> create();
  // The process's; what the C API uses.
  static Result<std::shared_ptr<ProcessContext>> shared();

  // Opens the meeting point of a new id.
  Status open_meeting(const Config& config, tutti_unique_id_t* id);
  // Ends it if it is this process's: all ranks have joined.
  void close_meeting(const tutti_unique_id_t& id);

  MemoryRegistry memory;
  StagingPool staging{memory};
  StreamCalls stream_calls{memory};
  GateKeeper gate_keeper;
  Completions completions;
  std::unique_ptr<Engine> engine;
  std::shared_ptr<LoopbackHub> loopback;  // shared with the loopback transports

 private:
  std::mutex meetings_mutex_;
  std::vector<std::unique_ptr<bootstrap::Rendezvous>> meetings_;
};

}  // namespace tutti
