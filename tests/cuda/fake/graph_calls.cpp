// Captures and graphs.
#include <algorithm>
#include <utility>

#include "cuda/fake/calls.h"

namespace tutti::fake {
namespace {

// Captures in the mode that forbids unsafe calls to all threads.
std::atomic<int> global_captures{0};
std::mutex captures_mutex;
std::vector<CUgraph> open_captures;  // guarded by it

void break_captures() {
  std::lock_guard lock(captures_mutex);
  for (CUgraph graph : open_captures) graph->is_broken = true;
}

}  // namespace

CUresult check_unsafe() {
  if (global_captures == 0 || capture_mode_of_thread() == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  break_captures();
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

void join_capture(CUstream stream, CUgraph graph) {
  std::lock_guard lock(captures_mutex);
  graph->joined.push_back(stream);
}

}  // namespace tutti::fake

using namespace tutti::fake;

CALL cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  BEGIN(cuThreadExchangeStreamCaptureMode);
  std::swap(*mode, capture_mode_of_thread());
  return CUDA_SUCCESS;
}
CALL cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  BEGIN(cuStreamBeginCapture);
  static std::atomic<cuuint64_t> next{1};
  stream->capture = new CUgraph_st;
  stream->capture_id = next++;
  stream->capture_mode = mode;
  if (mode == CU_STREAM_CAPTURE_MODE_GLOBAL) ++global_captures;
  std::lock_guard lock(captures_mutex);
  open_captures.push_back(stream->capture);
  return CUDA_SUCCESS;
}
CALL cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  BEGIN(cuStreamEndCapture);
  *graph = std::exchange(stream->capture, nullptr);
  if (stream->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL) --global_captures;
  std::lock_guard lock(captures_mutex);
  std::erase(open_captures, *graph);
  for (CUstream joined : (*graph)->joined) joined->capture = nullptr;
  if (!(*graph)->is_broken) return CUDA_SUCCESS;
  delete std::exchange(*graph, nullptr);
  return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}
CALL cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                               const CUgraphNode**, size_t*) {
  BEGIN(cuStreamGetCaptureInfo);
  CUstream stream = resolve(handle);
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (stream->capture == nullptr) return CUDA_SUCCESS;
  *status = stream->capture->is_broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  *id = stream->capture_id;
  *graph = stream->capture;
  return CUDA_SUCCESS;
}
CALL cuUserObjectCreate(CUuserObject* object, void* pointer, CUhostFn destroy, unsigned, unsigned) {
  BEGIN(cuUserObjectCreate);
  *object = new CUuserObject_st{pointer, destroy};
  return CUDA_SUCCESS;
}
CALL cuUserObjectRelease(CUuserObject object, unsigned) {
  BEGIN(cuUserObjectRelease);
  delete object;
  return CUDA_SUCCESS;
}
CALL cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned, unsigned flags) {
  BEGIN(cuGraphRetainUserObject);
  if (flags != CU_GRAPH_USER_OBJECT_MOVE) return CUDA_ERROR_NOT_SUPPORTED;
  // Where the driver destroys it nobody may call the driver.
  graph->objects.emplace_back(object, [](CUuserObject last) {
    call_on_host([](void* pointer) { delete static_cast<CUuserObject>(pointer); }, last, nullptr);
  });
  return CUDA_SUCCESS;
}
CALL cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  BEGIN(cuGraphInstantiateWithFlags);
  *exec = new CUgraphExec_st{graph->ops, graph->objects};
  return CUDA_SUCCESS;
}
CALL cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  BEGIN(cuGraphLaunch);
  for (const Op& op : exec->ops) {
    if (CUresult wrong = put(resolve(handle), op); wrong != CUDA_SUCCESS) return wrong;
  }
  return CUDA_SUCCESS;
}
CALL cuGraphExecDestroy(CUgraphExec exec) {
  BEGIN(cuGraphExecDestroy);
  delete exec;
  return CUDA_SUCCESS;
}
CALL cuGraphDestroy(CUgraph graph) {
  BEGIN(cuGraphDestroy);
  delete graph;
  return CUDA_SUCCESS;
}
