// Asks LLVM what a CPU can do.
#include "codegen/llvm/target.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>

#include "codegen/library_call.h"
#include "ir/error.h"

namespace rewire::codegen::cpu {
namespace {

void initialise_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Like operator new: if the program has a new-handler, it is called and does not return.
    llvm::install_bad_alloc_error_handler([](void*, const char*, bool) {
      if (const std::new_handler handler = std::get_new_handler()) handler();
    });
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

std::string host_features() {
  std::string features;
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
    features += (features.empty() ? "" : ",");
    features += feature.second ? '+' : '-';
    features += feature.first();
  }
  return features;
}

constexpr const char* kVariable = "REWIRE_CPU";

std::string named_target() {
  const char* name = std::getenv(kVariable);
  return name == nullptr ? "" : name;
}

void check_host_runs(const CpuTarget& target, const llvm::MCSubtargetInfo& info) {
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
    const std::string name = feature.first().str();
    if (!feature.second && info.checkFeatures("+" + name))
      user_error("{}={} has instructions that this CPU lacks ({})", kVariable, target.name, name);
  }
}

}  // namespace

bool is_target_named() {
  return !named_target().empty();
}

CpuTarget find_target(const std::string& cpu) {
  const LibraryCall call(kCompilerHeadroom, kFewerCompilers);
  initialise_llvm();
  CpuTarget target;
  const std::string named = cpu.empty() ? named_target() : cpu;
  target.name = named.empty() ? llvm::sys::getHostCPUName().str() : named;
  if (named.empty()) target.features = host_features();
  const std::string triple = llvm::sys::getProcessTriple();
  std::string error;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (backend == nullptr) internal_error("LLVM has no backend for {}: {}", triple, error);
  const std::unique_ptr<llvm::MCSubtargetInfo> plain(backend->createMCSubtargetInfo(triple, "", ""));
  if (!plain->isCPUStringValid(target.name)) {
    user_error("LLVM has no CPU called '{}'{}", target.name,
               cpu.empty() && !named.empty() ? fmt::format(" ({})", kVariable) : "");
  }
  const std::unique_ptr<llvm::MCSubtargetInfo> info(
      backend->createMCSubtargetInfo(triple, target.name, target.features));
  if (cpu.empty() && !named.empty()) check_host_runs(target, *info);
  target.avx512 = info->checkFeatures("+avx512f,+avx512dq,+avx512bw,+avx512vl");
  target.fma = info->checkFeatures("+fma");
  target.vector_width = target.avx512 ? 16 : info->checkFeatures("+avx2") ? 8 : 4;
  return target;
}

}  // namespace rewire::codegen::cpu
