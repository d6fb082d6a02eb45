#include <fmt/format.h>

#include "element.h"
#include "report.h"

namespace tutti::bench {
namespace {

// Seven characters or less for everything below a minute.
std::string time_text(double time_us) {
  if (time_us >= 10000) return fmt::format("{:.0f}", time_us);
  if (time_us >= 100) return fmt::format("{:.1f}", time_us);
  return fmt::format("{:.2f}", time_us);
}

std::string placement_text(const std::optional<Placement>& placement) {
  if (!placement) return fmt::format(" {:>8} {:>7} {:>7} {:>6}", "-", "-", "-", "-");
  std::string wrong = placement->wrong ? fmt::format("{}", *placement->wrong) : "N/A";
  return fmt::format(" {:>8} {:>7.2f} {:>7.2f} {:>6}", time_text(placement->timing.mean_us), placement->algbw_gbps,
                     placement->busbw_gbps, wrong);
}

std::string_view average_name(Average average) {
  switch (average) {
    case Average::kRank0: return "rank 0";
    case Average::kMean: return "mean over ranks";
    case Average::kMin: return "fastest rank";
    case Average::kMax: break;
  }
  return "slowest rank";
}

std::string iterations_text(const Options& options) {
  return options.iterations ? fmt::format("{}", options.iterations) : "auto";
}

}  // namespace

std::string header_text(const Run& run) {
  const Options& options = run.options;
  std::string step = options.step_factor > 1 ? fmt::format("{:g}(factor)", options.step_factor)
                                             : fmt::format("{}(bytes)", options.step_bytes);
  std::string text = fmt::format(
      "# tutti {}.{}.{} all_reduce, {} ranks, minBytes {} maxBytes {} step: {} warmup iters: {} iters: {} "
      "validation: {}\n"
      "# memory: {}, time: {}{}\n#\n",
      TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH, run.ranks.size(), options.min_bytes,
      options.max_bytes, step, options.warmup, iterations_text(options), options.checks,
      options.memory == MemoryKind::kMalloc ? "malloc" : "tutti_mem_alloc", average_name(options.average),
      options.blocking ? ", ranks meet before every call" : "");
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    text += fmt::format("#  Rank {:>3} Pid {:>7} on {}\n", rank, run.ranks[rank].pid, run.ranks[rank].host);
  }
  text += fmt::format("#\n#{:>12} {:>12} {:>9} {:>6}  {:^31}   {:>19}\n", "", "", "", "", "out-of-place", "in-place");
  std::string columns = fmt::format(" {:>8} {:>7} {:>7} {:>6}", "time", "algbw", "busbw", "#wrong");
  std::string units = fmt::format(" {:>8} {:>7} {:>7} {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  text += fmt::format("#{:>12} {:>12} {:>9} {:>6} {} {}  algorithm/transport\n", "size", "count", "type", "redop",
                      columns, columns);
  text += fmt::format("#{:>12} {:>12} {:>9} {:>6} {} {}\n", "(B)", "(elements)", "", "", units,
                      units.substr(0, units.size() - 7));
  return text;
}

std::string row_text(const Row& row) {
  return fmt::format(" {:>12} {:>12} {:>9} {:>6} {} {}  {}/{}\n", row.size_bytes, row.count, info(row.datatype).name,
                     name_of(row.op), placement_text(row.out_of_place), placement_text(row.in_place), row.algorithm,
                     row.transport);
}

std::string footer_text(const Run& run) {
  const Summary& summary = run.summary;
  std::string text = fmt::format(
      "# Out of bounds values : {}\n"
      "# Avg bus bandwidth    : {:.4g} GB/s\n",
      run.options.checks == 0     ? "N/A"
      : summary.out_of_bounds > 0 ? fmt::format("{} FAILED", summary.out_of_bounds)
                                  : "0 OK",
      summary.average_busbw_gbps);
  if (run.ranks.size() == 1) text += "# One rank only: nothing travels. --ranks 4 starts four on this host.\n";
  if (summary.memcpy_bytes == 0) return text;
  return text + fmt::format("# Memory copy          : {:.4g} GB/s per rank when all {} copy {} bytes at once: "
                            "a measure for algbw in memory\n",
                            summary.memcpy_gbps, run.ranks.size(), summary.memcpy_bytes);
}

}  // namespace tutti::bench
