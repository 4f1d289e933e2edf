#pragma once
#include "runtime/exec/cuda/b.h"
