#include "compare_transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <cstring>
#include <deque>
#include <map>

namespace differential {
namespace {

// Messages that are told apart by their order alone.
struct Stream {
  size_t communicator;
  int source;
  int tag;
  auto operator<=>(const Stream&) const = default;
};

bool same(const tutti_message_t& a, const tutti_message_t& b) {
  return a.source == b.source && a.tag == b.tag && a.count == b.count;
}

std::string text_of(const tutti_message_t& message) {
  return fmt::format("{} elements of rank {} with tag {}", message.count, message.source, message.tag);
}

std::string difference_of_bytes(const Transfer& each, const std::vector<std::byte>& wanted, const char* who) {
  auto [found, unused] = std::mismatch(each.after.begin(), each.after.end(), wanted.begin());
  if (found == each.after.end()) return {};
  auto at = static_cast<size_t>(found - each.after.begin());
  return fmt::format("byte {} is {:#04x}, {} {:#04x}",
                     static_cast<ptrdiff_t>(at) - static_cast<ptrdiff_t>(each.memory->data_at()),
                     static_cast<int>(each.after[at]), who, static_cast<int>(wanted[at]));
}

class Comparison {
 public:
  Comparison(const std::vector<Transfer>& transfers, const Exchange& exchange, const Jobs& jobs) {
    for (const Transfer& each : transfers) {
      if (each.receives) of_mpi_[stream_of(each, each.mpi_message)].push_back(&each);
    }
    for (const Message& each : exchange.messages) {
      if (each.dest == jobs[each.communicator].rank) sent_[{each.communicator, each.source, each.tag}].push_back(&each);
    }
  }

  // Of the receives in the order of the calls.
  std::string difference(const Transfer& each) {
    const tutti_message_t& got = each.asks ? each.message : each.mpi_message;
    bool is_determined = each.peer != TUTTI_ANY_SOURCE;
    bool is_asked_for = is_determined ? same(got, each.mpi_message) : each.tag == TUTTI_ANY_TAG || each.tag == got.tag;
    std::deque<const Transfer*>& left = of_mpi_[stream_of(each, got)];
    if (!is_asked_for || left.empty()) {
      return fmt::format("it got {}, MPI's {}", text_of(got), text_of(each.mpi_message));
    }
    const Transfer& mpi = *left.front();
    left.pop_front();
    if (got.count != mpi.mpi_message.count) {
      return fmt::format("it got {}, MPI {}", text_of(got), text_of(mpi.mpi_message));
    }
    std::string text = overtaken(each, got);
    return text.empty() ? difference_of_data(each, mpi.mpi_data) : text;
  }

 private:
  struct Got {
    const Transfer* receive;
    const Message* message;
  };

  static Stream stream_of(const Transfer& receive, const tutti_message_t& message) {
    return {receive.communicator, message.source, message.tag};
  }

  static std::string difference_of_data(const Transfer& each, const std::vector<std::byte>& data) {
    std::vector<std::byte> wanted = each.before;
    if (!data.empty()) std::memcpy(wanted.data() + each.memory->data_at(), data.data(), data.size());
    return difference_of_bytes(each, wanted, "MPI says");
  }

  // An earlier receive that would have taken this message too must not have got a later one of its sender.
  std::string overtaken(const Transfer& receive, const tutti_message_t& message) {
    std::deque<const Message*>& sent = sent_[stream_of(receive, message)];
    Got now{&receive, sent.front()};
    sent.pop_front();
    for (const Got& before : got_) {
      bool is_rival = before.receive->communicator == receive.communicator &&
                      before.message->source == message.source &&
                      (before.receive->tag == TUTTI_ANY_TAG || before.receive->tag == message.tag);
      if (is_rival && before.message > now.message) {
        return fmt::format("it got {}, which was sent before what an earlier receive of any tag got", text_of(message));
      }
    }
    got_.push_back(now);
    return {};
  }

  // Of what is left, the first is next.
  std::map<Stream, std::deque<const Transfer*>> of_mpi_;
  std::map<Stream, std::deque<const Message*>> sent_;
  std::vector<Got> got_;
};

}  // namespace

std::vector<std::string> differences(const std::vector<Transfer>& transfers, const Exchange& exchange,
                                     const Jobs& jobs) {
  Comparison comparison(transfers, exchange, jobs);
  std::vector<std::string> texts;
  for (const Transfer& each : transfers) {
    texts.push_back(each.receives ? comparison.difference(each)
                                  : difference_of_bytes(each, each.before, "but the call may not change"));
  }
  return texts;
}

}  // namespace differential
