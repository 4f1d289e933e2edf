#include "plugins/two/b.h"
