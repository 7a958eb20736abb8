// A libibverbs later than all that we know: newer_verbs.map has its versions.

void verbs_register_driver_99(void);
void verbs_register_driver_99(void) {}
