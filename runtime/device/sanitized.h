// REWIRE_SANITIZED is defined where a sanitizer stands in for the allocator. GCC and Clang say so
// differently.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REWIRE_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define REWIRE_SANITIZED
#endif
#endif
