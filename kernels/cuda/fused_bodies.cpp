#include "kernels/cuda/fused_bodies.h"

#include <algorithm>
#include <iterator>

#include "kernels/cuda/fused.h"

namespace tutti::cuda {
namespace {

struct Named {
  std::string_view name;
  FusedBody body;
};

constexpr Named kBodies[] = {
#define TUTTI_FUSED(name, element, operation, sources) {"tutti_fused_" #name, fused<element, operation, sources>},
#include "kernels/cuda/fused_kernels.inc"
#undef TUTTI_FUSED
};

}  // namespace

FusedBody fused_body(std::string_view name) {
  auto found =
      std::find_if(std::begin(kBodies), std::end(kBodies), [&](const Named& each) { return each.name == name; });
  return found == std::end(kBodies) ? nullptr : found->body;
}

}  // namespace tutti::cuda
