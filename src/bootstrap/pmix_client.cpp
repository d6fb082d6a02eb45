#include "bootstrap/pmix_client.h"

#ifdef TUTTI_HAVE_PMIX
#include <dlfcn.h>
#include <pmix.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>

#include "base/check.h"
#endif

namespace tutti::bootstrap {

#ifdef TUTTI_HAVE_PMIX
namespace {

constexpr char kKey[] = "tutti.id";

struct Library {
  decltype(&PMIx_Init) init;
  decltype(&PMIx_Finalize) finalize;
  decltype(&PMIx_Put) put;
  decltype(&PMIx_Commit) commit;
  decltype(&PMIx_Fence) fence;
  decltype(&PMIx_Get) get;
  decltype(&PMIx_Error_string) error_string;

  Status check(pmix_status_t status, const char* what) const {
    if (status == PMIX_SUCCESS) return {};
    Code code = status == PMIX_ERR_TIMEOUT ? Code::kTimeout : Code::kRemote;
    return error(
        code,
        "PMIx cannot {} ({}): check that the process manager that started this process still runs and has the version "
        "of libpmix.so.2",
        what, error_string(status));
  }
};

// The library stays open: it keeps threads of its own.
Result<Library> open_library() {
  void* handle = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) return error(Code::kSystem, "libpmix.so.2 cannot be opened: install libpmix2");
  Library library;
  auto load = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, name));
    return function != nullptr;
  };
  bool complete = load(library.init, "PMIx_Init") && load(library.finalize, "PMIx_Finalize") &&
                  load(library.put, "PMIx_Put") && load(library.commit, "PMIx_Commit") &&
                  load(library.fence, "PMIx_Fence") && load(library.get, "PMIx_Get") &&
                  load(library.error_string, "PMIx_Error_string");
  if (!complete) return error(Code::kSystem, "libpmix.so.2 lacks a function: install libpmix2 of version 3 or later");
  return library;
}

// Values come from the library's malloc; what is used here holds at most one allocation.
struct ValueDeleter {
  void operator()(pmix_value_t* value) const {
    if (value->type == PMIX_STRING) ::free(value->data.string);
    ::free(value);
  }
};
using ValuePtr = std::unique_ptr<pmix_value_t, ValueDeleter>;

pmix_info_t info_of(const char* key) {
  pmix_info_t info;
  std::memset(&info, 0, sizeof(info));
  std::strncpy(info.key, key, sizeof(info.key) - 1);
  return info;
}

// PMIx counts in seconds. A process manager may ignore it in a fence; its own deadlines hold then.
pmix_info_t time_limit(Deadline deadline) {
  pmix_info_t limit = info_of(PMIX_TIMEOUT);
  limit.value.type = PMIX_INT;
  limit.value.data.integer = std::max(1, deadline.left_ms(INT32_MAX) / 1000);
  return limit;
}

Result<ValuePtr> get(const Library& library, const pmix_proc_t& process, const char* key, Deadline deadline) {
  pmix_info_t limit = time_limit(deadline);
  pmix_value_t* value = nullptr;
  TUTTI_TRY(library.check(library.get(&process, key, &limit, 1, &value), key));
  return ValuePtr(value);
}

Result<std::string> exchange(const Library& library, const pmix_proc_t& self,
                             const std::function<Result<std::string>(const PmixJob&)>& make, PmixJob& job,
                             Deadline deadline) {
  pmix_proc_t all = self;
  all.rank = PMIX_RANK_WILDCARD;
  ValuePtr size = TUTTI_TRY(get(library, all, PMIX_JOB_SIZE, deadline));
  if (size->type != PMIX_UINT32) return error(Code::kRemote, "PMIx told a number of ranks that is no number");
  job.rank = static_cast<int>(self.rank);
  job.nranks = static_cast<int>(size->data.uint32);
  if (job.nranks <= 1) return std::string();
  if (job.rank == 0) {
    std::string mine = TUTTI_TRY(make(job));
    pmix_value_t value;
    std::memset(&value, 0, sizeof(value));
    value.type = PMIX_STRING;
    value.data.string = mine.data();
    TUTTI_TRY(library.check(library.put(PMIX_GLOBAL, kKey, &value), "store the unique id"));
  }
  TUTTI_TRY(library.check(library.commit(), "commit the unique id"));
  pmix_info_t wishes[] = {info_of(PMIX_COLLECT_DATA), time_limit(deadline)};
  wishes[0].value.type = PMIX_BOOL;
  wishes[0].value.data.flag = true;
  TUTTI_TRY(library.check(library.fence(&all, 1, wishes, std::size(wishes)), "bring the ranks together"));
  pmix_proc_t root = self;
  root.rank = 0;
  ValuePtr value = TUTTI_TRY(get(library, root, kKey, deadline));
  if (value->type != PMIX_STRING || value->data.string == nullptr)
    return error(Code::kRemote, "PMIx told a unique id that is no text");
  return std::string(value->data.string);
}

}  // namespace

bool pmix_available() {
  void* handle = ::dlopen("libpmix.so.2", RTLD_LAZY | RTLD_LOCAL);
  if (handle != nullptr) ::dlclose(handle);
  return handle != nullptr;
}

Result<std::string> exchange_by_pmix(const std::function<Result<std::string>(const PmixJob&)>& make, PmixJob& job,
                                     Deadline deadline) {
  Library library = TUTTI_TRY(open_library());
  pmix_proc_t self;
  TUTTI_TRY(library.check(library.init(&self, nullptr, 0), "reach the process manager"));
  Result<std::string> value = exchange(library, self, make, job, deadline);
  // mpirun takes a process that ends without this for one that crashed.
  TUTTI_TRY(library.check(library.finalize(nullptr, 0), "say goodbye to the process manager"));
  return value;
}

#else

bool pmix_available() { return false; }

Result<std::string> exchange_by_pmix(const std::function<Result<std::string>(const PmixJob&)>&, PmixJob&, Deadline) {
  return error(Code::kInternal, "this tutti was built without PMIx");
}

#endif

}  // namespace tutti::bootstrap
