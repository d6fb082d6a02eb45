#include "transports/verbs/causes.h"

namespace tutti {

std::string_view cause_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS: return "nothing";
    case IBV_WC_RETRY_EXC_ERR:
      return "the peer's port no longer answers: a link, cable, switch or route on the way is down, or the peer is "
             "gone (TUTTI_IB_TIMEOUT and TUTTI_IB_RETRIES say how long to try)";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer had no receive posted, though credits should see to that: please report this";
    case IBV_WC_REM_ACCESS_ERR:
      return "the peer's device refused the write: the memory is not, or no longer, registered there";
    case IBV_WC_REM_INV_REQ_ERR: return "the peer's device did not understand the request: do the MTUs and queues fit?";
    case IBV_WC_REM_OP_ERR: return "the peer's device could not carry out the request";
    case IBV_WC_REM_ABORT_ERR: return "the peer's device aborted the request";
    case IBV_WC_LOC_PROT_ERR: return "this device may not read or write the local memory: its registration is gone";
    case IBV_WC_LOC_LEN_ERR: return "a message was longer than the device or the receive allows";
    case IBV_WC_LOC_QP_OP_ERR: return "this device could not work on the queue pair: is its port or link down?";
    case IBV_WC_LOC_ACCESS_ERR: return "the peer wrote where it may not";
    case IBV_WC_WR_FLUSH_ERR: return "the queue pair has failed before";
    case IBV_WC_RESP_TIMEOUT_ERR: return "the peer's device took too long to answer";
    case IBV_WC_FATAL_ERR: return "the device has failed; the kernel's log may say why";
    case IBV_WC_BAD_RESP_ERR: return "the peer's device answered what was not asked for";
    case IBV_WC_GENERAL_ERR: return "the device or its driver has failed; the kernel's log may say why";
    case IBV_WC_REM_INV_RD_REQ_ERR: return "the peer's device did not understand a read, which tutti never asks for";
    case IBV_WC_MW_BIND_ERR: return "an error of memory windows, which tutti does not use";
    case IBV_WC_LOC_EEC_OP_ERR:
    case IBV_WC_LOC_RDD_VIOL_ERR:
    case IBV_WC_INV_EECN_ERR:
    case IBV_WC_INV_EEC_STATE_ERR: return "an error of reliable datagrams, which tutti does not use";
    case IBV_WC_TM_ERR:
    case IBV_WC_TM_RNDV_INCOMPLETE: return "an error of tag matching, which tutti does not use";
    default: return "an error that is newer than this version of tutti; the device's documentation names it";
  }
}

}  // namespace tutti
