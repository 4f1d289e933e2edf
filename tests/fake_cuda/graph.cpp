// The ABI of stream capture and graphs: what is enqueued on a stream that is captured is kept, in order, and
// runs when the graph is launched.
#include "tests/fake_cuda/abi.h"

namespace rewire::fake_cuda {

constexpr int kRelaxed = 2;

REWIRE_FAKE_API int cuStreamBeginCapture_v2(void* handle, int mode) {
  const ContextCall call("cuStreamBeginCapture_v2");
  if (call.status != kSuccess) return call.status;
  const auto stream = find(call, call.world.streams, handle, "stream");
  if (stream == nullptr) return kInvalidHandle;
  if (stream->capture != nullptr) return call.refuse(kInvalidValue, "the stream is being captured already");
  stream->capture = std::make_shared<Graph>();
  stream->relaxed = mode == kRelaxed;
  return kSuccess;
}

REWIRE_FAKE_API int cuStreamEndCapture(void* handle, void** graph_handle) {
  const ContextCall call("cuStreamEndCapture");
  *graph_handle = nullptr;
  const auto stream = find(call, call.world.streams, handle, "stream");
  if (stream == nullptr) return kInvalidHandle;
  const std::shared_ptr<Graph> graph = std::move(stream->capture);
  stream->capture = nullptr;
  if (call.status != kSuccess) return call.status;
  if (graph == nullptr) return call.refuse(kCaptureUnmatched, "the stream is not being captured");
  if (graph->invalid) return kCaptureInvalidated;
  *graph_handle = add(call.world.graphs, graph);
  return kSuccess;
}

REWIRE_FAKE_API int cuGraphInstantiateWithFlags(void** executable, void* handle, unsigned long long) {
  const ContextCall call("cuGraphInstantiateWithFlags");
  if (call.status != kSuccess) return call.status;
  const auto graph = find(call, call.world.graphs, handle, "graph");
  if (graph == nullptr) return kInvalidHandle;
  *executable = add(call.world.executables, std::make_shared<Graph>(*graph));
  return kSuccess;
}

REWIRE_FAKE_API int cuGraphLaunch(void* executable, void* handle) {
  const ContextCall call("cuGraphLaunch");
  if (call.status != kSuccess) return call.status;
  const auto graph = find(call, call.world.executables, executable, "executable graph");
  const auto stream = find(call, call.world.streams, handle, "stream");
  if (graph == nullptr || stream == nullptr) return kInvalidHandle;
  if (stream->capture != nullptr) return call.refuse(kNotSupported, "the fake has no graphs of graphs");
  for (const Work& node : graph->nodes) call.world.push(*stream, {Item::Kind::work, node, nullptr, 0});
  return kSuccess;
}

REWIRE_FAKE_API int cuGraphExecDestroy(void* executable) {
  const ContextCall call("cuGraphExecDestroy");
  if (call.world.executables.erase(executable) == 0)
    return call.refuse(kInvalidHandle, "no such executable graph, or it was destroyed");
  return call.status;
}

REWIRE_FAKE_API int cuGraphDestroy(void* graph) {
  const ContextCall call("cuGraphDestroy");
  if (call.world.graphs.erase(graph) == 0)
    return call.refuse(kInvalidHandle, "no such graph, or it was destroyed");
  return call.status;
}

}  // namespace rewire::fake_cuda
