// What most files of verbs/control and verbs/provider include. GCC parses it
// once for all of them (third_party/precompiled/cc.bzl). No include guard: see
// common.h there.

#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/nic/nic.h"
#include "third_party/precompiled/common.h"
#include "verbs/control/device.h"
#include "verbs/control/qp.h"
