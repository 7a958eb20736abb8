"""The bed itself: a guest that dies takes its own test with it, no other."""

import suite
import vm


@suite.test("vm/dies-and-comes-again", core=False)
def die(context):
    lab = context.tools.lab
    try:
        lab.run_guest("echo c > /proc/sysrq-trigger; sleep 20", 30)
        context.check(False, "the guest lives")
    except vm.GuestGone:
        pass
    last = lab.revive()
    context.check("sysrq triggered crash" in last, last)
    context.check(lab.run_guest("true").status == 0, "it does not work")
    context.check(lab.revive() == "", "it was to be alive")
