// Runs the ranks of a job as threads of this process, each with a control plane of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "bootstrap/join.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/unique_id.h"

namespace tutti::bootstrap {

// Runs `body(rank)` on one thread per rank and returns what each returned, in rank order.
template <typename T>
std::vector<T> on_ranks(int nranks, const std::function<T(int)>& body) {
  std::vector<T> results(static_cast<size_t>(nranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < nranks; ++rank) {
    threads.emplace_back([&, rank] { results[static_cast<size_t>(rank)] = body(rank); });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

// A job of its own for each test: fresh job number and secret.
inline UniqueId fresh_id(UniqueId::Kind kind) {
  UniqueId id;
  id.kind = kind;
  if (kind != UniqueId::Kind::kLocal) TUTTI_CHECK(random_bytes(id.secret).ok());
  TUTTI_CHECK(random_bytes(std::as_writable_bytes(std::span(&id.job, 1))).ok());
  return id;
}

// Distinct hosts as far as the bootstrap can tell: no unix sockets, every link is TLS.
inline JoinOptions on_own_host(int rank) {
  JoinOptions options;
  options.unix_socket = false;
  options.host.boot_id[0] = static_cast<std::byte>(rank + 1);
  return options;
}

inline JoinInfo info_of(int rank, int nranks, const UniqueId& id) { return {rank, nranks, encode(id), "test"}; }

inline Bytes bytes_of(const std::string& text) {
  ByteView view = as_bytes(text);
  return {view.begin(), view.end()};
}

}  // namespace tutti::bootstrap
