#include "store.h"

#include <cstring>
#include <string>

#include <c10/util/Exception.h>

namespace tutti_torch {
namespace {

using Value = std::vector<uint8_t>;

c10d::Store& store_in(void* context) { return *static_cast<c10d::Store*>(context); }

Value value_of(const std::string& text) { return Value(text.begin(), text.end()); }

// A store that cannot be reached says so by an exception.
template <typename Body>
tutti_status_t with_store(Body&& body) {
  try {
    return body();
  } catch (const std::exception& problem) {
    TORCH_WARN("tutti: the process group's store: ", problem.what());
    return TUTTI_SYSTEM_ERROR;
  }
}

tutti_status_t set(void* context, const char* key, const char* value) {
  return with_store([&] {
    store_in(context).set(key, value_of(value));
    return TUTTI_SUCCESS;
  });
}

// Rank 0 may take the key away at any time, and Store::get() would wait for it to come back: compareSet() says at once
// what is there, and what it was given where nothing is.
tutti_status_t get(void* context, const char* key, char* value, size_t size_bytes, int64_t timeout_ms) {
  return with_store([&] {
    c10d::Store& store = store_in(context);
    try {
      if (timeout_ms > 0) store.wait({key}, std::chrono::milliseconds(timeout_ms));
    } catch (const c10::DistStoreError&) {
      return TUTTI_TIMEOUT;
    }
    const Value nothing = value_of("nothing");
    Value found = store.compareSet(key, nothing, nothing);
    if (found == nothing) return TUTTI_TIMEOUT;
    if (found.size() >= size_bytes) return TUTTI_SYSTEM_ERROR;
    std::memcpy(value, found.data(), found.size());
    value[found.size()] = '\0';
    return TUTTI_SUCCESS;
  });
}

tutti_status_t remove(void* context, const char* key) {
  return with_store([&] {
    store_in(context).deleteKey(key);
    return TUTTI_SUCCESS;
  });
}

}  // namespace

tutti_store_t store_of(c10d::Store& store) {
  return {.struct_size = sizeof(tutti_store_t), .set = set, .get = get, .remove = remove, .context = &store};
}

}  // namespace tutti_torch
