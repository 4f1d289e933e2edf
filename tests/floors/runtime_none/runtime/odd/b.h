#pragma once
#include "runtime/io/a.h"
