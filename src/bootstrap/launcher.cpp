#include "bootstrap/launcher.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <mutex>

#include "base/fd.h"
#include "bootstrap/pmi1.h"
#include "bootstrap/pmix_client.h"
#include "bootstrap/rendezvous.h"

namespace tutti {
namespace bootstrap {
namespace {

constexpr size_t kMaxSecretFile = 64 * 1024;
constexpr size_t kMinSecretFile = 32;

Result<Bytes> read_all(int fd, size_t limit, const std::string& what) {
  Bytes bytes;
  while (bytes.size() < limit) {
    std::array<std::byte, 4096> part;
    ssize_t got = ::read(fd, part.data(), std::min(part.size(), limit - bytes.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, fmt::format("cannot read {}", what));
    if (got == 0) break;
    bytes.insert(bytes.end(), part.begin(), part.begin() + got);
  }
  return bytes;
}

// The descriptor may be read again by the next communicator: a file's content stays, a pipe's does not.
Result<UniqueId> id_from_fd(int64_t fd) {
  tutti_unique_id_t id;
  ssize_t got = ::pread(static_cast<int>(fd), id.bytes, sizeof(id.bytes), 0);
  if (got != static_cast<ssize_t>(sizeof(id.bytes))) {
    return error(
        Code::kInvalidUsage,
        "TUTTI_ID_FD is {}, but that descriptor does not hold a unique id ({}): it must be an inherited file or "
        "memfd with its 128 bytes",
        fd, got < 0 ? std::string(system_error(errno, "pread").message()) : fmt::format("{} bytes", got));
  }
  return decode_unique_id(id);
}

std::string to_hex(const tutti_unique_id_t& id) { return fmt::format("{:02x}", fmt::join(id.bytes, "")); }

Result<UniqueId> from_hex(std::string_view text) {
  tutti_unique_id_t id;
  auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  bool sound = text.size() == 2 * sizeof(id.bytes);
  for (size_t i = 0; sound && i < sizeof(id.bytes); ++i) {
    int high = digit(text[2 * i]);
    int low = digit(text[2 * i + 1]);
    sound = high >= 0 && low >= 0;
    id.bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  if (!sound)
    return error(Code::kRemote,
                 "the launcher handed over a unique id that is none: run the same version of tutti on all ranks");
  return decode_unique_id(id);
}

// What this process got from its launcher. Launchers hand values over once per process, and their connection is the
// process's own, so this is per process too. It is never destroyed: the meeting point's thread must not be joined while
// the process exits.
struct Session {
  std::mutex mutex;
  std::unique_ptr<Rendezvous> meeting_point;  // on rank 0
  std::optional<JoinInfo> info;
};
Session& session() {
  static auto* const the_session = new Session;
  return *the_session;
}

Result<std::string> exchange_by_pmi1(int fd, int rank, const std::function<Result<std::string>()>& make,
                                     Deadline deadline) {
  Pmi1 pmi = TUTTI_TRY(Pmi1::open(fd, deadline));
  if (rank == 0) TUTTI_TRY(pmi.put("tutti-id", TUTTI_TRY(make()), deadline));
  TUTTI_TRY(pmi.barrier(deadline));
  std::string value = TUTTI_TRY(pmi.get("tutti-id", deadline));
  TUTTI_TRY(pmi.finalize(deadline));
  return value;
}

// The name of the job, the same on all its ranks.
Result<std::string> job_by_pmi1(int fd, Deadline deadline) {
  Pmi1 pmi = TUTTI_TRY(Pmi1::open(fd, deadline));
  TUTTI_TRY(pmi.finalize(deadline));
  return pmi.space();
}

}  // namespace

Result<Secret> read_secret_file(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return system_error(errno, fmt::format("cannot open TUTTI_SECRET_FILE {}", path));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(errno, fmt::format("cannot read TUTTI_SECRET_FILE {}", path));
  if ((info.st_mode & 077) != 0 || info.st_uid != geteuid()) {
    return error(Code::kInvalidUsage,
                 "TUTTI_SECRET_FILE {} can be read by others than this user: chmod 600 it, and make a new secret",
                 path);
  }
  Bytes bytes = TUTTI_TRY(read_all(fd.get(), kMaxSecretFile, path));
  if (bytes.size() < kMinSecretFile) {
    return error(Code::kInvalidUsage,
                 "TUTTI_SECRET_FILE {} has {} bytes, at least {} are needed: head -c 32 /dev/urandom > {}", path,
                 bytes.size(), kMinSecretFile, path);
  }
  return derive(bytes, "tutti secret file");
}

Result<UniqueId> id_of(const Launch& launch, const Config& config) {
  if (launch.channel == IdChannel::kFd) return id_from_fd(config.id_fd);
  UniqueId id;
  if (launch.channel == IdChannel::kOneHost) {
    id.kind = UniqueId::Kind::kLocal;
    id.host = HostIdentity::here().hash();
    id.job = hash64(fmt::format("{}: {}", launch.launcher, launch.job_identity));
    return id;
  }
  TUTTI_CHECK(launch.channel == IdChannel::kSecretFile);
  id.kind = UniqueId::Kind::kRankZero;
  id.secret = TUTTI_TRY(read_secret_file(config.secret_file));
  id.addresses = TUTTI_TRY(resolve(launch.address));
  Secret name = derive(id.secret, "tutti job " + launch.address);
  id.job = hash64(name);
  return id;
}

Result<JoinInfo> exchange_id(const Launch& launch, const Config& config, Deadline deadline) {
  std::lock_guard lock(session().mutex);
  if (session().info) return *session().info;
  if (launch.channel == IdChannel::kPmi1 && launch.one_host) {
    Launch local = launch;
    local.channel = IdChannel::kOneHost;
    local.job_identity = TUTTI_TRY(job_by_pmi1(launch.pmi_fd, deadline));
    session().info = JoinInfo{launch.rank, launch.nranks, encode(TUTTI_TRY(id_of(local, config))), launch.launcher};
    return *session().info;
  }
  auto make = [&]() -> Result<std::string> {
    session().meeting_point = TUTTI_TRY(Rendezvous::create({.interface = config.interface}));
    return to_hex(encode(session().meeting_point->id()));
  };
  PmixJob job{launch.rank, launch.nranks};
  Result<std::string> text = launch.channel == IdChannel::kPmix
                                 ? exchange_by_pmix([&](const PmixJob&) { return make(); }, job, deadline)
                                 : exchange_by_pmi1(launch.pmi_fd, launch.rank, make, deadline);
  if (!text.ok()) return std::move(text).status();
  JoinInfo info{job.rank, job.nranks, {}, launch.launcher};
  if (job.nranks > 1) info.id = encode(TUTTI_TRY(from_hex(*text)));
  session().info = info;
  return info;
}

}  // namespace bootstrap

Result<JoinInfo> detect_launcher(const Config& config, Deadline deadline) {
  using namespace bootstrap;
  Launch launch = TUTTI_TRY(read_launch(config, environment, pmix_available()));
  switch (launch.channel) {
    case IdChannel::kNone: return JoinInfo{launch.rank, launch.nranks, {}, launch.launcher};
    case IdChannel::kPmix:
    case IdChannel::kPmi1: return exchange_id(launch, config, deadline);
    default: return JoinInfo{launch.rank, launch.nranks, encode(TUTTI_TRY(id_of(launch, config))), launch.launcher};
  }
}

}  // namespace tutti
