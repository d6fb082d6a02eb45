#include "kernels/cuda/program_bodies.h"

#include <algorithm>
#include <iterator>

namespace tutti::cuda {
namespace {

template <class Element>
void run(const ProgramArgs& args, HostEnv& env, ProgramBlock& shared) {
  ProgramRun<HostEnv, Element>(args, env, shared).run();
}

struct Named {
  std::string_view name;
  ProgramBody body;
};

constexpr Named kBodies[] = {
#define TUTTI_PROGRAM(name, element) {"tutti_program_" #name, run<element>},
#include "kernels/cuda/program_kernels.inc"
#undef TUTTI_PROGRAM
};

}  // namespace

ProgramBody program_body(std::string_view name) {
  auto found =
      std::find_if(std::begin(kBodies), std::end(kBodies), [&](const Named& each) { return each.name == name; });
  return found == std::end(kBodies) ? nullptr : found->body;
}

}  // namespace tutti::cuda
