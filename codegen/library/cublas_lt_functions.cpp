#include "codegen/library/cublas_lt_functions.h"

#include <fmt/format.h>

#include "ir/error.h"

namespace rewire::codegen::cublas {

Functions::Functions() {
  file.find(create, "cublasLtCreate");
  file.find(destroy, "cublasLtDestroy");
  file.find(version, "cublasLtGetVersion");
  file.find(status_name, "cublasLtGetStatusName");
  file.find(status_text, "cublasLtGetStatusString");
  file.find(create_description, "cublasLtMatmulDescCreate");
  file.find(destroy_description, "cublasLtMatmulDescDestroy");
  file.find(set_description, "cublasLtMatmulDescSetAttribute");
  file.find(create_layout, "cublasLtMatrixLayoutCreate");
  file.find(destroy_layout, "cublasLtMatrixLayoutDestroy");
  file.find(set_layout, "cublasLtMatrixLayoutSetAttribute");
  file.find(create_preference, "cublasLtMatmulPreferenceCreate");
  file.find(destroy_preference, "cublasLtMatmulPreferenceDestroy");
  file.find(set_preference, "cublasLtMatmulPreferenceSetAttribute");
  file.find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
  file.find(check_algorithm, "cublasLtMatmulAlgoCheck");
  file.find(config, "cublasLtMatmulAlgoConfigGetAttribute");
  file.find(multiply, "cublasLtMatmul");
}

std::string words(Status status) {
  const Functions& functions = Library::any();
  return fmt::format("{} ({})", functions.status_name(status), functions.status_text(status));
}

void check(Status status, const char* call, const std::string& what) {
  if (status != 0) throw RuntimeFailure(fmt::format("{} for {}: {}", call, what, words(status)));
}

bool is_refusal(Status status) {
  return status == kInvalidValue || status == kArchMismatch || status == kNotSupported;
}

}  // namespace rewire::codegen::cublas
