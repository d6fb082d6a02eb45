// CallWindows: where the buffers of a rank's current collective lie in memory that peers can map. Looked for once for a
// call that is made again and again.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "core/arguments.h"
#include "core/links.h"
#include "core/memory_registry.h"
#include "executor/call.h"

namespace tutti {

class CallWindows {
 public:
  // Both outlive this.
  CallWindows(MemoryRegistry& memory, Links& links) : memory_(memory), links_(links) {}

  // Looks for the two buffers of `call`, tells the peers of what it finds and has `call` use them there; then
  // copy_edges_in() is due. `rank`: of this rank among `nranks`.
  Status find(Call& call, const CallArguments& arguments, const Geometry& geometry, int rank, int nranks);
  // The call uses none.
  void forgo(Call& call);
  // Whether find() would come to the same again.
  bool stay() const;
  bool has_looked() const { return looked_; }
  bool found_all() const {
    return looked_ && has_input_ == bool(input_.buffer) && has_output_ == bool(output_.buffer);
  }
  bool found_any() const { return input_.buffer || output_.buffer; }

  // Before and after each call of which find() has found something: what could not be moved, from the caller's memory
  // and back.
  void copy_edges_in() const;
  void copy_edges_out() const;
  // From find() until here nothing takes the memory's place where peers' puts reach it, whatever else is shared.
  void let_go();

 private:
  // The links own the memory: nothing is kept alive that the program has freed.
  struct Found {
    std::optional<SharedBuffer> buffer;
    std::byte* data = nullptr;  // the caller's address
    Touched touched;
  };

  static bool is_there(const Found& found);
  Result<Window> share(SharedBuffer& buffer);

  MemoryRegistry& memory_;
  Links& links_;
  bool looked_ = false;        // forgo() has not been called since find()
  uint64_t changes_ = 0;       // of the registry, when find() looked
  bool has_input_ = false;     // the call has such a buffer
  bool has_output_ = false;
  Found input_;
  Found output_;
  std::vector<uint64_t> held_;  // regions
};

}  // namespace tutti
