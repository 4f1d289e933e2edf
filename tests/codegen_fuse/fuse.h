// Lowers small .rir texts and counts what came of them: kernels and calls, and what a kernel reads and
// writes.
#pragma once

#include <string>

#include "codegen/program.h"

namespace rewire::test {

/// Every kernel has a launch of its own: what launches share is tables_test.cpp's. With `pipeline` the passes
/// run first.
codegen::Program fuse(const std::string& text, bool pipeline = false, codegen::FuseOptions options = {});

int kernels(const codegen::Program& program);
int gemms(const codegen::Program& program);
int host_calls(const codegen::Program& program);

/// Buffers of kernel number `kernel` that it uses like this; -1 if there is no such kernel.
int arguments(const codegen::Program& program, int kernel, codegen::tile::ArgumentUse use);
inline constexpr auto kRead = codegen::tile::ArgumentUse::read;
inline constexpr auto kWrite = codegen::tile::ArgumentUse::write;

/// A module of this body, named @m.
std::string module(const std::string& body);

}  // namespace rewire::test
