#include "compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace differential {
namespace {

std::string text_of(uint64_t bits, const Datatype& type) {
  std::string text = fmt::format("{:#0{}x}", bits, 2 + 2 * type.size);
  return type.is_float() ? text + fmt::format(" ({:.17g})", decoded(bits, type.format)) : text;
}

uint64_t element(const std::byte* from, size_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, size);
  return bits;
}

// Elements that may differ from MPI's: those that are inside their intervals become the wanted ones.
std::string difference_of_floats(LocalCall& local) {
  const Datatype& type = *local.call.datatype;
  for (size_t i = 0; i < local.recv_allowed.size(); ++i) {
    Interval allowed = local.recv_allowed[i];
    const std::byte* found = local.recv() + i * type.size;
    uint64_t bits = element(found, type.size);
    double value = decoded(bits, type.format);
    if (!(value >= allowed.low && value <= allowed.high)) {
      return fmt::format("element {} of recv is {}, MPI's result allows {:.17g} to {:.17g}", i, text_of(bits, type),
                         allowed.low, allowed.high);
    }
    std::memcpy(local.wanted().data() + local.recv_begin() + i * type.size, found, type.size);
  }
  return {};
}

// The block that holds an element; "" for none.
std::string block_text(const Blocks& blocks, uint64_t element) {
  for (size_t b = 0; b < blocks.counts.size(); ++b) {
    if (element - blocks.displacements[b] < blocks.counts[b]) return fmt::format(" (block {})", b);
  }
  return {};
}

std::string difference_at(size_t at, Buffer& buffer, const std::vector<std::byte>& wanted, LocalCall& local,
                          const char* name) {
  const Datatype& type = *local.call.datatype;
  size_t begin = &buffer == local.recv_holder() ? local.recv_begin() : 0;
  size_t index = (at - begin) / type.size;
  std::string block = &buffer == local.recv_holder() && at >= begin ? block_text(local.layout.recv, index) : "";
  if (!block.empty()) {
    size_t from = begin + index * type.size;
    return fmt::format("element {} of recv{} is {}, MPI says {}", index, block,
                       text_of(element(buffer.all().data() + from, type.size), type),
                       text_of(element(wanted.data() + from, type.size), type));
  }
  auto data_at = static_cast<ptrdiff_t>(at) - static_cast<ptrdiff_t>(buffer.data_at());
  return fmt::format("byte {} of {} was {:#04x} and is {:#04x}, but the call may not touch it", data_at, name,
                     static_cast<int>(wanted[at]), static_cast<int>(buffer.all()[at]));
}

std::string difference_of_bytes(Buffer* buffer, const std::vector<std::byte>& wanted, LocalCall& local,
                                const char* name) {
  if (buffer == nullptr) return {};
  auto found = buffer->all();
  if (std::memcmp(found.data(), wanted.data(), wanted.size()) == 0) return {};
  auto [different, unused] = std::mismatch(found.begin(), found.end(), wanted.begin());
  return difference_at(static_cast<size_t>(different - found.begin()), *buffer, wanted, local, name);
}

}  // namespace

std::string difference(LocalCall& local) {
  std::string text = difference_of_floats(local);
  if (text.empty()) text = difference_of_bytes(local.recv_memory.get(), local.recv_wanted, local, "recv");
  if (text.empty()) text = difference_of_bytes(local.send_memory.get(), local.send_wanted, local, "send");
  return text;
}

}  // namespace differential
