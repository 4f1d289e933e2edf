// Deduplicates kernels by structure, takes objects from the cache or compiles them in parallel, and links
// all of them into one LLJIT.
#include "codegen/llvm/jit.h"

#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/MemoryBuffer.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "codegen/library_call.h"
#include "codegen/llvm/compile.h"
#include "codegen/object_cache.h"
#include "ir/error.h"

namespace rewire::codegen {
namespace {

/// The errors that LLVM reported, and whether it lacked memory.
struct Fault {
  std::string text;
  bool exhausted = false;

  void add(llvm::Error error) {
    llvm::handleAllErrors(std::move(error), [this](const llvm::ErrorInfoBase& info) {
      text += (text.empty() ? "" : "; ") + info.message();
      exhausted = exhausted || info.convertToErrorCode() == std::errc::not_enough_memory;
    });
  }
  [[noreturn]] void raise(const char* what) const {
    if (exhausted) throw OutOfMemory(fmt::format("out of memory: try {}", kFewerCompilers));
    internal_error("{}: {}", what, text);
  }
};

template <class T>
T expect(llvm::Expected<T> value, const char* what, Fault fault = {}) {
  if (value) return std::move(*value);
  fault.add(value.takeError());
  fault.raise(what);
}

void expect(llvm::Error error, const char* what) {
  if (!error) return;
  Fault fault;
  fault.add(std::move(error));
  fault.raise(what);
}

/// Code to make: the first kernel of a structure, or the functions of the product.
struct Job {
  const tile::Kernel* kernel = nullptr;  // nullptr: products
  std::string key, symbol;
  cpu::KernelObject object;
  bool from_cache = false;
};

// The text that is stored in the cache with the products' machine code, and that makes its key.
const std::string kProductText = "product\n";

}  // namespace

struct CpuJit::Impl {
  explicit Impl(JitOptions jit_options)
      : options(std::move(jit_options)), target(cpu::find_target(options.cpu)) {
    if (!options.cache_directory.empty()) cache.emplace(options.cache_directory);
    const LibraryCall call(kCompilerHeadroom, kFewerCompilers);
    lljit = expect(llvm::orc::LLJITBuilder().create(), "LLJIT");
    // Without this, LLVM prints the error to stderr, and a lookup reports only that there is one.
    lljit->getExecutionSession().setErrorReporter(
        [this](llvm::Error error) { linking.add(std::move(error)); });
    llvm::orc::SymbolMap library;
    const auto add = [&](const char* name, double (*function)(double)) {
      library[lljit->mangleAndIntern(name)] = {
          llvm::orc::ExecutorAddr::fromPtr(function),
          llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
    };
    add("erf", ::erf);
    add("tanh", ::tanh);
    expect(lljit->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(library))),
           "C library functions");
  }

  std::string key_of(const std::string& structure) const {
    return fmt::format("{}\n{} {}{}\n{}", cpu::compiler_identity(), target.name, target.features,
                       options.optimise ? "" : " quick", structure);
  }

  void make(Job& job, std::unique_ptr<cpu::KernelCompiler>& compiler) const {
    if (cache) {
      if (std::optional<CachedObject> found = cache->load(job.key)) {
        job.object = {std::move(found->object), found->scratch_bytes};
        job.from_cache = true;
        return;
      }
    }
    if (!compiler) compiler = std::make_unique<cpu::KernelCompiler>(target, options.optimise);
    job.object = job.kernel != nullptr ? compiler->compile(*job.kernel, job.symbol)
                                       : cpu::KernelObject{compiler->compile_product(), 0};
    if (cache) {
      cache->store(job.key, {job.object.object, job.object.scratch_bytes},
                   job.kernel != nullptr ? tile::print(*job.kernel) : kProductText, "tile");
    }
  }

  void make_all(std::vector<Job>& jobs) const {
    std::atomic<std::size_t> next{0};
    std::exception_ptr failure;
    std::mutex mutex;
    const auto work = [&] {
      std::unique_ptr<cpu::KernelCompiler> compiler;
      try {
        for (std::size_t i = next.fetch_add(1); i < jobs.size(); i = next.fetch_add(1))
          make(jobs[i], compiler);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next.store(jobs.size());
      }
    };
    std::vector<std::jthread> threads;
    const auto wanted =
        std::min<std::size_t>(static_cast<std::size_t>(std::max(options.compile_threads, 1)), jobs.size());
    threads.reserve(wanted);
    try {
      for (std::size_t i = 1; i < wanted; ++i) threads.emplace_back(work);
    } catch (const std::system_error&) {  // fewer threads compile the same
    }
    work();
    threads.clear();  // joins them
    if (failure) std::rethrow_exception(failure);
  }

  void link(const std::vector<Job>& jobs) {
    const LibraryCall call(kCompilerHeadroom, kFewerCompilers);
    llvm::orc::SymbolLookupSet names;
    for (const Job& job : jobs) {
      expect(lljit->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(job.object.object, job.symbol)),
             "linking kernels");
      for (const std::string& symbol : symbols_of(job)) names.add(lljit->mangleAndIntern(symbol));
    }
    auto looked_up = lljit->getExecutionSession().lookup(
        llvm::orc::makeJITDylibSearchOrder(&lljit->getMainJITDylib()), std::move(names));
    const auto found = expect(std::move(looked_up), "looking kernels up", linking);
    const auto address = [&](const std::string& symbol) {
      return found.find(lljit->mangleAndIntern(symbol))->second.getAddress();
    };
    for (const Job& job : jobs) {
      if (job.kernel != nullptr) {
        functions[job.symbol] = {address(job.symbol).toPtr<KernelFunction>(), job.object.scratch_bytes};
        continue;
      }
      product.block = cpu::product_block(target);
      for (std::int64_t rows = 1; rows <= product.block.rows; ++rows) {
        product.packed.push_back(address(cpu::product_symbol(true, rows)).toPtr<ProductFunction>());
        product.direct.push_back(address(cpu::product_symbol(false, rows)).toPtr<ProductFunction>());
      }
      product.peak = address(cpu::kPeakSymbol).toPtr<PeakFunction>();
    }
  }

  std::vector<std::string> symbols_of(const Job& job) const {
    if (job.kernel != nullptr) return {job.symbol};
    std::vector<std::string> symbols = {cpu::kPeakSymbol};
    for (const bool packed : {true, false}) {
      for (std::int64_t rows = 1; rows <= cpu::product_block(target).rows; ++rows)
        symbols.push_back(cpu::product_symbol(packed, rows));
    }
    return symbols;
  }

  std::vector<CompiledKernel> compile(std::span<const tile::Kernel> kernels, bool with_product) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<Job> jobs;
    std::vector<std::string> symbols;
    for (const tile::Kernel& kernel : kernels) {
      const std::string structure = tile::structure(kernel);
      const auto [known, is_new] = symbol_of.try_emplace(structure);
      if (is_new) {
        const std::string key = key_of(structure);
        known->second = "kernel_" + hash_text(key);
        jobs.push_back({&kernel, key, known->second, {}, false});
      }
      symbols.push_back(known->second);
    }
    const auto unique = static_cast<int>(jobs.size());
    if (with_product && product.packed.empty())
      jobs.insert(jobs.begin(), {nullptr, key_of(kProductText), "product", {}, false});  // the longest first
    make_all(jobs);
    if (!jobs.empty()) link(jobs);
    std::vector<CompiledKernel> result;
    for (const std::string& symbol : symbols) result.push_back(functions.at(symbol));
    statistics.kernels += static_cast<int>(kernels.size());
    statistics.unique += unique;
    for (const Job& job : jobs) {
      if (job.kernel != nullptr) ++(job.from_cache ? statistics.cache_hits : statistics.compiled);
    }
    statistics.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

  JitOptions options;
  cpu::CpuTarget target;
  std::optional<ObjectCache> cache;
  Fault linking;  // errors of linking objects
  std::unique_ptr<llvm::orc::LLJIT> lljit;
  std::unordered_map<std::string, std::string> symbol_of;     // by structure
  std::unordered_map<std::string, CompiledKernel> functions;  // by symbol
  ProductCode product;
  JitStatistics statistics;
};

CpuJit::CpuJit(JitOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
CpuJit::~CpuJit() = default;

std::vector<CompiledKernel> CpuJit::compile(std::span<const tile::Kernel> kernels, bool with_product) {
  return impl_->compile(kernels, with_product);
}

const ProductCode& CpuJit::product() {
  if (impl_->product.packed.empty()) impl_->compile({}, true);
  return impl_->product;
}

const JitStatistics& CpuJit::statistics() const {
  return impl_->statistics;
}

bool prefers_own_products() {
  return !cpu::find_target("").avx512;
}

std::string emit_llvm(const tile::Kernel& kernel) {
  return cpu::KernelCompiler(cpu::find_target("")).optimised_ir(kernel, "kernel");
}

std::string emit_assembly(const tile::Kernel& kernel) {
  return cpu::KernelCompiler(cpu::find_target("")).assembly(kernel, "kernel");
}

TracedText trace_llvm(const tile::Kernel& kernel) {
  return cpu::KernelCompiler(cpu::find_target("")).traced(kernel, "kernel", false);
}

TracedText trace_assembly(const tile::Kernel& kernel) {
  return cpu::KernelCompiler(cpu::find_target("")).traced(kernel, "kernel", true);
}

std::string emit_product_llvm() {
  return cpu::KernelCompiler(cpu::find_target("")).product_text(false);
}

std::string emit_product_assembly() {
  return cpu::KernelCompiler(cpu::find_target("")).product_text(true);
}

std::string host_cpu_description() {
  const cpu::CpuTarget target = cpu::find_target("");
  return fmt::format("{} ({}-bit vectors)", target.name, target.vector_width * 32);
}

}  // namespace rewire::codegen
