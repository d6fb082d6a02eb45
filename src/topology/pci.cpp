#include "topology/pci.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "topology/wires.h"

namespace tutti {

bool is_pci_address(std::string_view text) {
  constexpr std::string_view kPattern = "xxxx:xx:xx.x";
  constexpr size_t kMostDomainDigits = 8;
  size_t domain = std::min(text.find(':'), text.size());
  if (domain < 4 || domain > kMostDomainDigits) return false;
  auto is_digit = [](unsigned char c) { return std::isxdigit(c) != 0; };
  if (!std::all_of(text.begin(), text.begin() + static_cast<ptrdiff_t>(domain - 4), is_digit)) return false;
  text.remove_prefix(domain - 4);
  return text.size() == kPattern.size() && std::equal(text.begin(), text.end(), kPattern.begin(),
                                                      [&](unsigned char c, char pattern) {
                                                        return pattern == 'x' ? is_digit(c) : c == pattern;
                                                      });
}

int parse_pcie_generation(std::string_view link_speed) {
  constexpr std::string_view kUnit = " GT/s";
  size_t unit = link_speed.find(kUnit);
  if (unit == std::string_view::npos) return 0;
  // Whole numbers and tenths are all that there is.
  int tenths = 0, decimals = -1;
  for (char c : link_speed.substr(0, unit)) {
    if (c == '.' && decimals < 0) {
      decimals = 0;
    } else if (c >= '0' && c <= '9' && tenths < 10'000 && decimals < 1) {
      tenths = tenths * 10 + (c - '0');
      if (decimals == 0) ++decimals;
    } else {
      return 0;
    }
  }
  return pcie_generation(decimals == 1 ? tenths * 100 : tenths * 1000);
}

}  // namespace tutti
