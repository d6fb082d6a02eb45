// Memory of GPUs: devices read and write it by themselves where it can be registered, and through the host elsewhere.
#include "verbs/gpu_memory.h"

#include "verbs/faked.h"

namespace tutti::test {
namespace {

constexpr size_t kWindow = 1 << 20;
constexpr size_t kSizes[] = {0, 1, 152, 153, 4000, 20'000, 65'536, 300'001};

// Ranks 0 and 1, each with memory of a GPU beside its window.
struct GpuJob {
  explicit GpuJob(const Factory& factory) : job(factory, 2, kWindow) {
    check_ok(job.status());
    for (int rank : {0, 1}) exported[rank] = job.node(rank).transport->export_device_memory(gpu[rank]);
    id = exported[1]->id;
    job.node(0).transport->hold(exported[0]);
  }
  // Rank 1's becomes known to rank 0.
  Status share() {
    Status shared = job.link(1, 0).share(*exported[1]);
    settle();
    return shared;
  }
  void settle() {
    uint64_t completed = 0;
    for (int i = 0; i < 10; ++i) {
      check_ok(job.link(1, 0).poll(&completed));
      check_ok(job.link(0, 1).poll(&completed));
    }
  }
  const RemoteMemory* found() { return job.link(0, 1).find(id); }

  // A put from rank 0 to rank 1, from and to memory of either kind, and what arrives.
  void check_put(size_t size, bool from_gpu, bool to_gpu) {
    INFO(size << " bytes, " << from_gpu << to_gpu);
    auto content = pattern(size, ++turn);
    constexpr size_t kAt = 4099;
    std::memcpy(from_gpu ? gpu[0].contents(kAt) : job.window(0).at(kAt), content.data(), size);
    std::byte* to = to_gpu ? gpu[1].contents(kAt) : job.window(1).at(kAt);
    std::memset(to - 1, 0x5A, size + 2);
    std::span<const std::byte> from(from_gpu ? gpu[0].bytes().data() + kAt : job.window(0).at(kAt), size);
    RemoteSlice there = to_gpu ? RemoteSlice{found(), kAt} : job.slice(0, 1, kAt);
    check_ok(put(job.link(0, 1), there, from, job.slice(0, 1, 0), Line{{turn}}));
    check_ok(await_until([&] { return counter_of(job.window(1).line(0)) == turn; },
                         {&job.link(0, 1), &job.link(1, 0)}));
    CHECK(std::memcmp(to, content.data(), size) == 0);
    CHECK(to[-1] == std::byte{0x5A});
    CHECK(to[size] == std::byte{0x5A});
    // It is the caller's again once it has been counted.
    check_ok(await_until([&] {
      uint64_t completed = 0;
      return job.link(0, 1).poll(&completed).ok() && completed == turn;
    }, {&job.link(1, 0)}));
  }
  void check_puts(bool to_gpu_too) {
    for (size_t size : kSizes) {
      check_put(size, true, false);
      if (to_gpu_too) check_put(size, true, true);
      if (to_gpu_too) check_put(size, false, true);
    }
  }

  GpuMemory gpu[2] = {GpuMemory(kWindow), GpuMemory(kWindow, 0)};
  Job job;
  const LocalMemory* exported[2];
  uint32_t id = 0;  // of rank 1's, also when it is released
  uint64_t turn = 0;
};

Factory over_old_library() {
  return [](const TransportContext& context) {
    VerbsOptions options{.library = TUTTI_TEST_OLD_VERBS_LIBRARY};
    return make_verbs_transport(context, options);
  };
}

}  // namespace

TEST_CASE("what is a GPU's leaves from there and arrives there, without the host") {
  Fake fake;
  auto factory = GENERATE(verbs_over_one_lane(), verbs_with({}));
  {
    GpuJob ranks(factory);
    check_ok(ranks.job.node(0).transport->use(ranks.exported[0]));
    check_ok(ranks.share());
    REQUIRE(ranks.found() != nullptr);
    ranks.check_puts(true);
    for (GpuMemory& each : ranks.gpu) CHECK(each.copies() == 0);
    CHECK(fake.counts().dma_bufs > 0);
  }
  CHECK(fake.counts().dma_bufs == 0);
  check_used_well(fake);
}

TEST_CASE("where a GPU's memory is not registered, it goes through the host, and whoever asks hears why") {
  Fake fake;
  bool is_old = GENERATE(false, true);
  if (!is_old) fake.verbs->set_faults({.dma_buf_error = EOPNOTSUPP});
  GpuJob ranks(is_old ? over_old_library() : verbs_with({}));
  Status used = ranks.job.node(0).transport->use(ranks.exported[0]);
  INFO(used.message());
  CHECK(!used.ok());
  CHECK(mentions(used, is_old ? "version 34 of rdma-core" : "Operation not supported"));
  CHECK(!ranks.share().ok());
  CHECK(ranks.found() == nullptr);
  ranks.check_puts(false);
  CHECK(ranks.gpu[0].reads > 0);
  CHECK(fake.counts().dma_bufs == 0);
  check_used_well(fake);
}

TEST_CASE("writes may be reordered in the host's memory, and not in a GPU's") {
  Fake fake;
  GpuJob ranks(verbs_over_one_lane());
  check_ok(ranks.share());
  CHECK(fake.counts().dma_bufs > 0);
  CHECK(fake.counts().relaxed > 0);
  check_used_well(fake);
}

TEST_CASE("memory of a GPU that is released is not registered any more, and its peer knows") {
  Fake fake;
  GpuJob ranks(verbs_over_one_lane());
  check_ok(ranks.share());
  REQUIRE(ranks.found() != nullptr);
  CHECK(fake.counts().dma_bufs == 1);
  ranks.job.node(1).transport->release(ranks.exported[1]);
  CHECK(fake.counts().dma_bufs == 0);
  ranks.settle();
  CHECK(ranks.found() == nullptr);
}

TEST_CASE("what the host has at the address of a GPU's memory that is not held any more is the host's") {
  Fake fake;
  GpuJob ranks(verbs_over_one_lane());
  Transport& transport = *ranks.job.node(0).transport;
  GpuMemory freed(kWindow, 0);
  const LocalMemory* exported = transport.export_device_memory(freed);
  transport.hold(exported);
  check_ok(transport.use(exported));
  auto put_from_there = [&](const std::vector<std::byte>& wanted) {
    auto from = freed.bytes().first(wanted.size());
    ++ranks.turn;
    RemoteSlice to = ranks.job.slice(0, 1, 4096), line = ranks.job.slice(0, 1, 0);
    check_ok(put(ranks.job.link(0, 1), to, from, line, Line{{ranks.turn}}));
    check_ok(await_until([&] { return counter_of(ranks.job.window(1).line(0)) == ranks.turn; },
                         {&ranks.job.link(0, 1), &ranks.job.link(1, 0)}));
    CHECK(std::memcmp(ranks.job.window(1).at(4096), wanted.data(), wanted.size()) == 0);
  };
  for (size_t size : {size_t{1000}, size_t{300'001}}) {
    auto content = pattern(size, 1);
    std::memcpy(freed.contents(), content.data(), size);
    put_from_there(content);
  }
  ranks.settle();
  transport.let_go(exported);
  void* address = ::mmap(freed.bytes().data(), kWindow, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  REQUIRE(address == freed.bytes().data());
  for (size_t size : {size_t{1000}, size_t{300'001}}) {
    auto content = pattern(size, 2);
    std::memcpy(address, content.data(), size);
    put_from_there(content);
  }
  CHECK(freed.copies() == 0);
  transport.release(exported);
  check_used_well(fake);
}

TEST_CASE("memory of GPUs is bounded by the number of regions, and locks none of the host's") {
  Fake fake;
  GpuJob ranks(verbs_over_one_lane({.regions = 2, .region_bytes = 1}));
  Transport& transport = *ranks.job.node(1).transport;
  GpuMemory more[2] = {GpuMemory(kWindow), GpuMemory(kWindow)};
  check_ok(ranks.share());
  transport.hold(ranks.exported[1]);
  for (GpuMemory& each : more) check_ok(transport.use(transport.export_device_memory(each)));
  CHECK(fake.counts().dma_bufs == 2);
  ranks.settle();
  REQUIRE(ranks.found() != nullptr);
  ranks.check_put(20'000, false, true);
  transport.let_go(ranks.exported[1]);
  CHECK(ranks.gpu[1].copies() == 0);
}

TEST_CASE("what is a GPU's arrives over tcp, too, once no lane is left") {
  Fake fake;
  GpuJob ranks(verbs_with({.goes_over_tcp = true}));
  check_ok(ranks.job.node(0).transport->use(ranks.exported[0]));
  check_ok(ranks.share());
  ranks.check_puts(true);
  FakeFaults faults{.cut = true};
  fake.verbs->set_faults(faults);
  ranks.check_puts(true);
  CHECK(ranks.gpu[0].reads > 0);
  CHECK(ranks.gpu[1].writes > 0);
}

TEST_CASE("a GPU that cannot be read ends the link, in its words") {
  Fake fake;
  auto size = GENERATE(100, 60'000, 300'000);
  fake.verbs->set_faults({.dma_buf_error = EOPNOTSUPP});
  GpuJob ranks(verbs_with({}));
  ranks.gpu[0].has_failed = true;
  Status failed;
  for (int i = 0; i < 10 && failed.ok(); ++i) {
    auto from = ranks.gpu[0].bytes().first(size);
    failed = ranks.job.link(0, 1).put(ranks.job.slice(0, 1, 4096), from, ranks.job.slice(0, 1, 0), Line{{1}}).status();
    uint64_t completed = 0;
    if (failed.ok()) failed = ranks.job.link(0, 1).poll(&completed);
  }
  INFO(failed.message());
  CHECK(mentions(failed, "this GPU has failed"));
  CHECK(counter_of(ranks.job.window(1).line(0)) == 0);
}

TEST_CASE("a line in memory of a GPU is refused") {
  Fake fake;
  GpuJob ranks(verbs_over_one_lane());
  check_ok(ranks.share());
  check_ok(signal(ranks.job.link(0, 1), {ranks.found(), 0}, Line{{1}}));
  Status refused;
  for (int i = 0; i < 1000 && refused.ok(); ++i) {
    uint64_t completed = 0;
    refused = ranks.job.link(1, 0).poll(&completed);
    (void)ranks.job.link(0, 1).poll(&completed);
  }
  CHECK(mentions(refused, "where it may not write"));
}

}  // namespace tutti::test
