// A libibverbs newer than all known ones; newer_verbs.map has its versions.

void verbs_register_driver_99(void);
void verbs_register_driver_99(void) {}
