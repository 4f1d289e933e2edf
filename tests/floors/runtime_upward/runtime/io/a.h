#pragma once
#include "runtime/run/b.h"
