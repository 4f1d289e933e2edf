// Defines REWIRE_SANITIZED if a sanitizer replaces the allocator. GCC and Clang report it differently.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REWIRE_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define REWIRE_SANITIZED
#endif
#endif
