#include "datapath/port/inherited_sockets.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>

#include "datapath/port/unix_socket.h"

namespace urnic {
namespace {

sockaddr_un At(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

// A listener at a path, and a connection to it.
class Sockets {
 public:
  explicit Sockets(const std::string& path)
      : listener_(socket(AF_UNIX, SOCK_STREAM, 0)),
        near_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    const sockaddr_un address = At(path);
    const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
    unlink(path.c_str());
    EXPECT_EQ(bind(listener_, generic, sizeof(address)), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    EXPECT_EQ(connect(near_, generic, sizeof(address)), 0);
    far_ = accept(listener_, nullptr, nullptr);
  }
  ~Sockets() {
    for (const int fd : {listener_, near_, far_}) close(fd);
  }
  bool Work() const {
    char byte = 1;
    return send(near_, &byte, 1, MSG_NOSIGNAL) == 1 &&
           recv(far_, &byte, 1, 0) == 1;
  }

 private:
  int listener_;
  int near_;
  int far_ = -1;
};

TEST(InheritedSocketsTest, TheParentsSocketsAtTheSamePathAreLeftAlone) {
  const std::string path = "inherited.sock";
  const Sockets parents(path);
  EXPECT_TRUE(HasListener(path));
  EXPECT_TRUE(HasConnection(path));
  IgnoreSocketsOpenNow();
  EXPECT_FALSE(HasListener(path));
  EXPECT_FALSE(HasConnection(path));
  ShutDownSockets(path);
  EXPECT_TRUE(parents.Work());
  // The child's own sockets at that path are found.
  const Sockets own(path);
  EXPECT_TRUE(HasListener(path));
  EXPECT_TRUE(HasConnection(path));
  ShutDownSockets(path);
  EXPECT_FALSE(own.Work());
  EXPECT_TRUE(parents.Work());
  unlink(path.c_str());
}

}  // namespace
}  // namespace urnic
