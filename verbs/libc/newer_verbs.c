// rdma-core 57 renamed its private interface with a symbol like this one; 65
// has the public version below.

void verbs_register_driver_65(void);
void verbs_register_driver_65(void) {}

void ibv_create_comp_cntr(void);
void ibv_create_comp_cntr(void) {}
