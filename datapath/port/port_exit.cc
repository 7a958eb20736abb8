// Opens a port, lets its keeper start, and returns from main() without closing
// it, like every program that ends in exit(). port_exit DEV

#include <unistd.h>

#include "datapath/port/port_factory.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  urnic::PortConfig config;
  config.dev = argv[1];
  auto port = urnic::CreatePort(config);
  if (!port.ok()) return 1;
  [[gnu::used]] static urnic::Port* kept;
  kept = port->release();
  usleep(100'000);
  return 0;
}
