#include "discovery/diagnose.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tutti {

std::string_view name_of(Finding::Level level) { return level == Finding::Level::kProblem ? "problem" : "note"; }

size_t Diagnosis::problems() const {
  return static_cast<size_t>(std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.level == Finding::Level::kProblem;
  }));
}

Result<Diagnosis> diagnose(SystemView& system) {
  ProcessFacts process = TUTTI_TRY(system.process());
  Diagnosis diagnosis{.hostname = process.hostname, .findings = diagnose_rdma(system, process)};
  std::stable_partition(diagnosis.findings.begin(), diagnosis.findings.end(), [](const Finding& finding) {
    return finding.level == Finding::Level::kProblem;
  });
  return diagnosis;
}

std::string to_tree(const Diagnosis& diagnosis) {
  if (diagnosis.findings.empty()) return fmt::format("{}: nothing stands in the way\n", diagnosis.hostname);
  size_t problems = diagnosis.problems(), notes = diagnosis.findings.size() - problems;
  std::string text = fmt::format("{}: {} problem{}, {} note{}\n", diagnosis.hostname, problems,
                                 problems == 1 ? "" : "s", notes, notes == 1 ? "" : "s");
  for (const Finding& finding : diagnosis.findings) {
    text += fmt::format("{:<8} {}: {}; {}\n", name_of(finding.level), finding.topic, finding.fact, finding.remedy);
  }
  return text;
}

std::string to_json(const Diagnosis& diagnosis) {
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  for (const Finding& finding : diagnosis.findings) {
    findings.push_back({{"level", name_of(finding.level)},
                        {"topic", finding.topic},
                        {"fact", finding.fact},
                        {"remedy", finding.remedy}});
  }
  nlohmann::ordered_json document = {
      {"host", diagnosis.hostname}, {"problems", diagnosis.problems()}, {"findings", findings}};
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace tutti
