// libibverbs as a table of functions, opened at run time: one binary serves machines with and without it, and tests put
// a library of their own behind it. What verbs.h has as inline functions over a context's operations (posting, polling)
// is called as there.
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include "base/status.h"

namespace tutti {

struct VerbsLibrary {
  decltype(&::ibv_get_device_list) get_device_list = nullptr;
  decltype(&::ibv_free_device_list) free_device_list = nullptr;
  decltype(&::ibv_get_device_name) get_device_name = nullptr;
  decltype(&::ibv_open_device) open_device = nullptr;
  decltype(&::ibv_close_device) close_device = nullptr;
  decltype(&::ibv_query_device) query_device = nullptr;
  decltype(&::_ibv_query_gid_ex) query_gid = nullptr;
  decltype(&::ibv_alloc_pd) alloc_pd = nullptr;
  decltype(&::ibv_dealloc_pd) dealloc_pd = nullptr;
  decltype(&::ibv_reg_mr_iova2) reg_mr = nullptr;
  // As rdma-core 34 has it, whose headers a build does without; null in an older one.
  using RegisterDmaBuf = ibv_mr* (*)(ibv_pd*, uint64_t offset, size_t length, uint64_t iova, int fd, int access);
  RegisterDmaBuf reg_dmabuf_mr = nullptr;
  decltype(&::ibv_dereg_mr) dereg_mr = nullptr;
  decltype(&::ibv_create_comp_channel) create_comp_channel = nullptr;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel = nullptr;
  decltype(&::ibv_create_cq) create_cq = nullptr;
  decltype(&::ibv_destroy_cq) destroy_cq = nullptr;
  decltype(&::ibv_get_cq_event) get_cq_event = nullptr;
  decltype(&::ibv_ack_cq_events) ack_cq_events = nullptr;
  decltype(&::ibv_create_qp) create_qp = nullptr;
  decltype(&::ibv_modify_qp) modify_qp = nullptr;
  decltype(&::ibv_destroy_qp) destroy_qp = nullptr;

  // Errors: kSystem, with the loader's words or the function that is missing. The library stays loaded: providers keep
  // state of their own.
  static Result<VerbsLibrary> open(const std::string& name);

  // As verbs.h does it; an old library knows fewer fields, and the others stay 0.
  int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes) const;

 private:
  decltype(&::ibv_query_port) query_old_port_ = nullptr;
};

}  // namespace tutti
