// Names of the rewrites of lower() that FuseOptions::left_out may leave out. Without one of them a program
// is slower or larger, but computes the same.
#pragma once

#include <array>
#include <string_view>

namespace rewire::codegen {

inline constexpr std::string_view kFuse = "fuse";               // ops share kernels, and calls take a bias
inline constexpr std::string_view kUnifyViews = "unify_views";  // prepare.h
inline constexpr std::string_view kWideningCasts = "widening_casts";  // prepare.h
inline constexpr std::string_view kLowerArgmax =
    "lower_argmax";  // prepare.h; without it the host computes it
inline constexpr std::string_view kLowerIndexed = "lower_indexed";  // indexed.h; else the host computes it
inline constexpr std::string_view kMergePads = "merge_pads";        // prepare.h
inline constexpr std::string_view kMergeGroups = "merge_groups";    // groups that read one tensor are merged
inline constexpr std::string_view kBiasInCalls = "bias_in_calls";   // a product's call adds bias and casts
inline constexpr std::string_view kTokenSums = "token_sums";        // token_sums.h
inline constexpr std::string_view kMergeAxes = "merge_axes";        // tile/simplify.h
inline constexpr std::string_view kConcatWindows =
    "concat_windows";  // operands are written into the concat's result
inline constexpr std::string_view kCopyElision =
    "copy_elision";                                             // a value is written where its copy would be
inline constexpr std::string_view kTwins = "twins";             // twins.h
inline constexpr std::string_view kAppendMaps = "append_maps";  // append_maps.h
inline constexpr std::string_view kShareCode = "share_code";    // shared_code.h
inline constexpr std::string_view kTables = "tables";           // tables.h

inline constexpr std::array kLoweringSteps = {kFuse,         kUnifyViews, kWideningCasts, kLowerArgmax,
                                              kLowerIndexed, kMergePads,  kMergeGroups,   kBiasInCalls,
                                              kTokenSums,    kMergeAxes,  kConcatWindows, kCopyElision,
                                              kTwins,        kAppendMaps, kShareCode,     kTables};

}  // namespace rewire::codegen
