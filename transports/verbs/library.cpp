#include "transports/verbs/library.h"

#include <dlfcn.h>

#include <cstring>

namespace tutti {
namespace {

// Looks functions up until one is missing.
class Symbols {
 public:
  explicit Symbols(void* handle) : handle_(handle) {}

  template <typename Function>
  Symbols& find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(handle_, name));
    if (function == nullptr && missing_ == nullptr) missing_ = name;
    return *this;
  }
  const char* missing() const { return missing_; }

 private:
  void* handle_;
  const char* missing_ = nullptr;
};

}  // namespace

Result<VerbsLibrary> VerbsLibrary::open(const std::string& name) {
  void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return error(Code::kSystem, "libibverbs is not there ({})", ::dlerror());
  VerbsLibrary table;
  Symbols symbols(handle);
  symbols.find("ibv_get_device_list", table.get_device_list)
      .find("ibv_free_device_list", table.free_device_list)
      .find("ibv_get_device_name", table.get_device_name)
      .find("ibv_open_device", table.open_device)
      .find("ibv_close_device", table.close_device)
      .find("ibv_query_device", table.query_device)
      .find("ibv_query_port", table.query_old_port_)
      .find("_ibv_query_gid_ex", table.query_gid)
      .find("ibv_alloc_pd", table.alloc_pd)
      .find("ibv_dealloc_pd", table.dealloc_pd)
      .find("ibv_reg_mr_iova2", table.reg_mr)
      .find("ibv_dereg_mr", table.dereg_mr)
      .find("ibv_create_comp_channel", table.create_comp_channel)
      .find("ibv_destroy_comp_channel", table.destroy_comp_channel)
      .find("ibv_create_cq", table.create_cq)
      .find("ibv_destroy_cq", table.destroy_cq)
      .find("ibv_get_cq_event", table.get_cq_event)
      .find("ibv_ack_cq_events", table.ack_cq_events)
      .find("ibv_create_qp", table.create_qp)
      .find("ibv_modify_qp", table.modify_qp)
      .find("ibv_destroy_qp", table.destroy_qp);
  table.reg_dmabuf_mr = reinterpret_cast<VerbsLibrary::RegisterDmaBuf>(::dlsym(handle, "ibv_reg_dmabuf_mr"));
  if (symbols.missing() == nullptr) return table;
  return error(Code::kSystem, "{} has no {}: version 32 of rdma-core or newer is needed", name, symbols.missing());
}

int VerbsLibrary::query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes) const {
  std::memset(attributes, 0, sizeof *attributes);
  if (verbs_context* extended = verbs_get_ctx_op(context, query_port)) {
    return extended->query_port(context, port, attributes, sizeof *attributes);
  }
  return query_old_port_(context, port, reinterpret_cast<_compat_ibv_port_attr*>(attributes));
}

}  // namespace tutti
