// What most files of datapath/engine include. GCC parses it once for all of
// them (third_party/precompiled/cc.bzl). No include guard: see common.h there.

#include "datapath/engine/connection_table.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/flow_scheduler.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_table.h"
#include "third_party/precompiled/common.h"
