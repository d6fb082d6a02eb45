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

std::string wrong_text(const Placement& placement) {
  return placement.wrong ? fmt::format("{}", *placement.wrong) : "N/A";
}

// `has_copy`: there is a column for the share of what copies allow.
std::string placement_text(const std::optional<Placement>& placement, bool has_copy) {
  if (!placement) return fmt::format(" {:>8} {:>7} {:>7}{} {:>6}", "-", "-", "-", has_copy ? "     -" : "", "-");
  std::string of_copy = has_copy ? fmt::format(" {:>4.0f}%", placement->of_copy.value_or(0) * 100) : "";
  return fmt::format(" {:>8} {:>7.2f} {:>7.2f}{} {:>6}", time_text(placement->timing.mean_us), placement->algbw_gbps,
                     placement->busbw_gbps, of_copy, wrong_text(*placement));
}

// The columns which say what a row is about: those that the collective has.
std::string call_columns(const CollectiveInfo& collective, std::string_view size, std::string_view count,
                         std::string_view type, std::string_view op, std::string_view root) {
  std::string text = fmt::format("{:>12} {:>12} {:>9}", size, count, type);
  if (collective.reduces) text += fmt::format(" {:>6}", op);
  if (collective.has_root()) text += fmt::format(" {:>6}", root);
  return text;
}

std::string columns_text(const CollectiveInfo& collective, bool has_copy) {
  if (!collective.has_data()) {
    return fmt::format("#\n#{:>9} {:>6}  algorithm/transport\n#{:>9}\n", "time", "#wrong", "(us)");
  }
  std::string columns = fmt::format(" {:>8} {:>7} {:>7}{} {:>6}", "time", "algbw", "busbw", has_copy ? " %copy" : "",
                                    "#wrong");
  std::string units = fmt::format(" {:>8} {:>7} {:>7}", "(us)", "(GB/s)", "(GB/s)");
  return fmt::format("#\n#{}  {:^{}}   {:>19}\n", call_columns(collective, "", "", "", "", ""), "out-of-place",
                     has_copy ? 37 : 31, "in-place") +
         fmt::format("#{} {} {}  algorithm/transport\n",
                     call_columns(collective, "size", "count", "type", "redop", "root"), columns, columns) +
         fmt::format("#{} {:<{}} {}\n", call_columns(collective, "(B)", "(elements)", "", "", ""), units,
                     has_copy ? 39 : 33, units);
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

std::string sizes_text(const Options& options) {
  std::string step = options.step_factor > 1 ? fmt::format("{:g}(factor)", options.step_factor)
                                             : fmt::format("{}(bytes)", options.step_bytes);
  return fmt::format(" minBytes {} maxBytes {} step: {}", options.min_bytes, options.max_bytes, step);
}

// The benchmark's name, and how often it runs what.
std::string settings_text(std::string_view name, size_t ranks, std::string_view sizes, const Options& options) {
  return fmt::format("# tutti {}.{}.{} {}, {} ranks,{} warmup iters: {} iters: {} validation: {}\n",
                     TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH, name, ranks, sizes, options.warmup,
                     iterations_text(options), options.checks);
}

std::string ranks_text(const std::vector<RankInfo>& ranks) {
  std::string text;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::string device = ranks[rank].gpu.empty() ? "" : fmt::format(" device {}", ranks[rank].device);
    text += fmt::format("#  Rank {:>3} Pid {:>7} on {}{}\n", rank, ranks[rank].pid, ranks[rank].host, device);
  }
  return text;
}

std::string out_of_bounds_text(int checks, uint64_t out_of_bounds) {
  return fmt::format("# Out of bounds values : {}\n", checks == 0         ? "N/A"
                                                      : out_of_bounds > 0 ? fmt::format("{} FAILED", out_of_bounds)
                                                                          : "0 OK");
}

std::string memory_text(const Options& options) {
  if (options.has_gpus()) return "";  // the ranks' lines say where it is
  switch (options.memory) {
    case MemoryKind::kMalloc: return "memory: malloc, ";
    case MemoryKind::kTutti: return "memory: tutti_mem_alloc, ";
    case MemoryKind::kRegistered: break;
  }
  return "memory: registered, ";
}

}  // namespace

std::string header_text(const Run& run) {
  const Options& options = run.options;
  const CollectiveInfo& collective = info(options.collective);
  std::string text =
      settings_text(collective.name, run.ranks.size(), collective.has_data() ? sizes_text(options) : "", options);
  text += fmt::format("# {}time: {}{}{}\n#\n", collective.has_data() ? memory_text(options) : "",
                      average_name(options.average), options.blocking ? ", ranks meet before every call" : "",
                      options.deterministic ? ", deterministic" : "");
  return text + ranks_text(run.ranks) + columns_text(collective, run.has_one_gpu());
}

std::string row_text(const Row& row, const Run& run) {
  const CollectiveInfo& collective = info(run.options.collective);
  std::string ran = fmt::format("{}/{}", row.algorithm, row.transport);
  if (!collective.has_data()) {
    return fmt::format(" {:>9} {:>6}  {}\n", time_text(row.out_of_place->timing.mean_us),
                       wrong_text(*row.out_of_place), ran);
  }
  const Subject& subject = row.subject;
  std::string columns = call_columns(collective, fmt::format("{}", row.size_bytes), fmt::format("{}", row.count),
                                     info(*subject.datatype).name, subject.op ? info(*subject.op).name : "",
                                     subject.root ? fmt::format("{}", *subject.root) : "");
  bool has_copy = run.has_one_gpu();
  return fmt::format(" {} {} {}  {}\n", columns, placement_text(row.out_of_place, has_copy),
                     placement_text(row.in_place, has_copy), ran);
}

std::string footer_text(const Run& run) {
  const Summary& summary = run.summary;
  std::string text = out_of_bounds_text(run.options.checks, summary.out_of_bounds);
  if (info(run.options.collective).has_data()) {
    text += fmt::format("# Avg bus bandwidth    : {:.4g} GB/s\n", summary.average_busbw_gbps);
  }
  if (run.ranks.size() == 1) text += "# One rank only: nothing travels. --ranks 4 starts four on this host.\n";
  if (summary.gpu_copy_gbps > 0) {
    text += fmt::format("# Copy within the GPU  : {:.4g} GB/s, of {} MiB; %copy: the time of one that reads and writes "
                        "as much as the call must, as a share of the call's\n",
                        summary.gpu_copy_gbps, summary.gpu_copy_bytes >> 20);
  }
  if (summary.memcpy_bytes == 0) return text;
  return text + fmt::format("# Memory copy          : {:.4g} GB/s per rank when all {} copy {} bytes at once: "
                            "a measure for algbw in memory\n",
                            summary.memcpy_gbps, run.ranks.size(), summary.memcpy_bytes);
}

std::string_view name_of(PairMeasure measure) {
  return measure == PairMeasure::kLatency ? "latency" : "bandwidth";
}

std::string header_text(const PairRun& run) {
  const Options& options = run.options.common;
  bool has_window = run.options.measure == PairMeasure::kBandwidth;
  std::string time = has_window ? fmt::format("per message, of {} at once and a short answer", run.options.window)
                                : "half of what a message there and one back take";
  return settings_text(name_of(run.options.measure), run.ranks.size(), sizes_text(options), options) +
         fmt::format("# {}time: {}\n#\n", memory_text(options), time) + ranks_text(run.ranks) +
         fmt::format("#\n#{:>12} {:>12} {:>9} {:>8} {:>7} {:>7} {:>10} {:>6}  transport\n", "size", "count", "type",
                     "time", "algbw", "busbw", "messages", "#wrong") +
         fmt::format("#{:>12} {:>12} {:>9} {:>8} {:>7} {:>7} {:>10}\n", "(B)", "(elements)", "", "(us)", "(GB/s)",
                     "(GB/s)", "(1/s)");
}

std::string row_text(const PairRow& row, const PairRun& run) {
  const Placement& placement = row.placement;
  return fmt::format(" {:>12} {:>12} {:>9} {:>8} {:>7.2f} {:>7.2f} {:>10.0f} {:>6}  {}\n", row.size_bytes, row.count,
                     info(row.datatype).name, time_text(placement.timing.mean_us), placement.algbw_gbps,
                     placement.busbw_gbps, row.messages_per_s, wrong_text(placement), run.transport);
}

std::string footer_text(const PairRun& run) {
  return out_of_bounds_text(run.options.common.checks, run.out_of_bounds);
}

}  // namespace tutti::bench
