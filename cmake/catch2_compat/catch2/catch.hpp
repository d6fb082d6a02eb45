// Catch2 2's header name, for Catch2 3: the tests use what both have.
#pragma once

#include <catch2/catch_all.hpp>

#include <concepts>
#include <string>

using Catch::Approx;  // NOLINT(google-global-names-in-headers): as Catch2 2 has it

namespace Catch::Matchers {

// Of a text, as Catch2 2 has it; Catch2 3's own is for ranges.
template <typename Text>
  requires std::convertible_to<Text, std::string>
auto Contains(Text&& text) {
  return ContainsSubstring(std::string(std::forward<Text>(text)));
}

}  // namespace Catch::Matchers

namespace Catch {
using Matchers::Contains;
using Matchers::EndsWith;
using Matchers::StartsWith;
}
