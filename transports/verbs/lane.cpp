#include "transports/verbs/lane.h"

#include "transports/verbs/causes.h"

namespace tutti {
namespace {

constexpr int64_t kDrainMs = 1000;  // in which a device that works sweeps its queues out

}  // namespace

Result<std::unique_ptr<VerbsLane>> VerbsLane::create(const VerbsDevice& device, size_t rail) {
  LinkMemory memory = TUTTI_TRY(LinkMemory::create(device));
  auto queue = TUTTI_TRY(
      QueuePair::create(device, {.sends = kSends, .receives = kReceives, .inline_bytes = kMessageBytes}));
  std::unique_ptr<VerbsLane> lane(new VerbsLane(device, rail, std::move(memory), std::move(queue)));
  for (uint64_t slot = 0; slot < kReceives; ++slot) TUTTI_TRY(lane->post_receive(slot));
  return lane;
}

Status VerbsLane::post_receive(uint64_t slot) {
  ibv_sge memory{.addr = reinterpret_cast<uint64_t>(memory_.receive_slot(slot)),
                 .length = kMessageBytes,
                 .lkey = memory_.key()};
  ibv_recv_wr receive{};
  receive.wr_id = slot | kReceiveBit;
  receive.sg_list = &memory;
  receive.num_sge = 1;
  TUTTI_TRY(queue_->post(receive));
  ++posted_receives_;
  return {};
}

Result<SideHello> VerbsLane::hello() const {
  return SideHello{.queue = queue_->address(),
                   .port = TUTTI_TRY(device_.address()),
                   .receives = kReceives,
                   .probe = memory_.probe_range(),
                   .name = device_.port().name()};
}

Status VerbsLane::join(const SideHello& hello, size_t tries_by_others) {
  peer_name_ = fmt::format("{}, queue pair {}", hello.name, hello.queue.number);
  route_ = TUTTI_TRY(choose_route(TUTTI_TRY(device_.address()), hello.port, tries_by_others));
  TUTTI_TRY(queue_->connect(hello.queue, route_));
  sender_.begin(hello.receives, hello.probe);
  return {};
}

std::string VerbsLane::ends() const {
  auto gid = [](const Gid& each) { return fmt::format(" ({} {})", name_of(each.type), to_text(each)); };
  std::string from = fmt::format("from {}, queue pair {}", device_.port().name(), queue_->address().number);
  std::string to = fmt::format("to {}", peer_name_);
  if (route_.by_gid) return fmt::format("{}{} {}{}", from, gid(route_.from), to, gid(route_.to));
  return fmt::format("{} {} (LID {})", from, to, route_.lid);
}

void VerbsLane::note_broken(const ibv_wc& completion) {
  bool consequence = is_consequence(completion.status);
  if (broken_ && (!broken_->is_consequence || consequence)) return;
  broken_ = {.what = fmt::format("{} (completion status {}, vendor code {}); {}", cause_of(completion.status),
                                 static_cast<int>(completion.status), completion.vendor_err, ends()),
             .is_consequence = consequence,
             .is_silence = completion.status == IBV_WC_RETRY_EXC_ERR};
}

void VerbsLane::note_broken(const Status& why) {
  if (!broken_) broken_ = {.what = fmt::format("{}; {}", why.message(), ends())};
}

void VerbsLane::note_lost_by_peer() {
  if (broken_) return;
  broken_ = {.what = fmt::format("the peer's end of the queue pair has failed; {}", ends()), .is_consequence = true};
}

void VerbsLane::shut() {
  queue_->shut();
  state_ = State::kShut;
  drained_at_most_ = Deadline::after_ms(kDrainMs);
}

}  // namespace tutti
