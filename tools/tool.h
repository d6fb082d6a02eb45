// What the subcommands of `tutti` share. Each subcommand is one add_*() that registers itself on the app; its callback
// ends well by returning, and otherwise by fail() or exit_with().
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/tutti.h"
#include "tutti/tutti_topology.h"

namespace tutti::tool {

// Exit statuses beyond the usual 0 and 1.
inline constexpr int kUsageError = 2;
inline constexpr int kTimedOut = 124;
inline constexpr int kCannotExecute = 126;
inline constexpr int kCommandNotFound = 127;

// One sentence for the user and the process's exit status. main() prints "tutti SUBCOMMAND:
// sentence" on standard error.
class Failure : public std::runtime_error {
 public:
  Failure(int status, const std::string& sentence) : std::runtime_error(sentence), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

template <typename... Args>
[[noreturn]] void fail(int status, fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(status, fmt::format(format, std::forward<Args>(args)...));
}

// Ends the tool quietly: what there was to say has been said.
[[noreturn]] inline void exit_with(int status) { throw CLI::RuntimeError(status); }

// Fails with tutti_last_error() when `status`, returned by a call without a communicator, is not success.
inline void require(tutti_status_t status) {
  if (status == TUTTI_SUCCESS) return;
  std::string sentence = tutti_last_error(nullptr);
  throw Failure(1, sentence.empty() ? tutti_status_text(status) : sentence);
}

// Measures this host's costs if none are stored, and says so on standard error. For commands that use them.
void calibrate_if_missing(const char* command);

// What this host is, for the ranks of a job (Job::host_facts); "" when that cannot be said.
std::string host_facts();

// ---- Command lines

// A size in bytes; "64K", "256M" and "1GiB" are powers of 1024. Fails with a sentence about `flag` when `text` is none.
uint64_t parse_size(std::string_view flag, const std::string& text);

// Of `words` the one that `word` is a typing error or the beginning of, "" when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& words);

// Of a table whose rows have a name.
template <typename Rows>
std::vector<std::string> names_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

// "tutti bench all_reduce"
std::string path_of(const CLI::App& command);

// The sentence about `word`, which looks like an option and is none of `command`'s.
std::string no_such_option(const CLI::App& command, std::string_view word);

// --hosts and --device: where the ranks sit that no file describes.
void add_placement(CLI::App& command, int& hosts, std::string& device);
// Of --device; "" is for the library to decide.
tutti_rank_place_t place_of(const std::string& device);

// ---- Subcommands

// `after_dashes`: the arguments from the first "--" on, which the app itself does not see.
void add_run(CLI::App& app, std::vector<std::string> after_dashes);
// `arguments`: all of the tool's, for starting it again as the ranks of --ranks.
void add_bench(CLI::App& app, std::vector<std::string> arguments);
void add_topo(CLI::App& app);
void add_plan(CLI::App& app);
void add_doctor(CLI::App& app);

}  // namespace tutti::tool
