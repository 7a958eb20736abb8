#include "verbs/cli/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "verbs/cli/command_line.h"

namespace urnic {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

// The flags of `words` joined with the environment, as in `urnic run`.
absl::StatusOr<Config> Resolve(std::vector<std::string> words) {
  absl::StatusOr<Config> config = absl::UnknownError("not parsed");
  ConfigFlags flags;
  CommandLine line("test", "A test");
  flags.AddTo(line.AddSubcommand("run", "Do it", [&] {
    config = flags.Resolve();
    return kExitOk;
  }));
  words.insert(words.begin(), "run");
  EXPECT_EQ(line.Run(words), kExitOk);
  return config;
}

std::string WriteFile(const std::string& text) {
  const std::string path = testing::TempDir() + "/config.toml";
  std::ofstream(path) << text;
  return path;
}

class ConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"URNIC_PORTS", "URNIC_MTU", "URNIC_PKEYS",
                             "URNIC_FAULT", "URNIC_TRANSPORT", "URNIC_IWARP",
                             "URNIC_MODE", "URNIC_CONFIG", "URNIC_HUGEPAGES"})
      unsetenv(name);
  }
};

TEST_F(ConfigTest, AnAddressBelongsToThePortBeforeIt) {
  const auto config = Resolve(
      {"--port", "loop", "--addr", "10.0.0.1/24", "--addr", "fd00::1/64",
       "--port=net_memif0,role=server", "--addr=10.1.0.1/24"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->ports,
            "loop|10.0.0.1/24|fd00::1/64;"
            "net_memif0,role=server|10.1.0.1/24");
  EXPECT_EQ(config->mode, "embedded");
}

TEST_F(ConfigTest, TheEndsOfARingArePorts) {
  EXPECT_EQ(Resolve({"--port", "ring:x:a", "--port", "ring:x:b"})->ports,
            "ring:x:a;ring:x:b");
}

TEST_F(ConfigTest, MtuAppliesToPortsWithoutTheirOwn) {
  const auto config =
      Resolve({"--port", "loop|mtu=1500", "--port", "loop", "--mtu", "9000"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->ports, "loop|mtu=1500;loop|mtu=9000");
}

TEST_F(ConfigTest, PkeysComeFromAnyOfTheThreePlaces) {
  const auto config = Resolve({"--port", "loop|pkey=0x9", "--port", "loop",
                               "--pkey", "0x8001", "--pkey=2"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->ports, "loop|pkey=0x9;loop|pkey=0x8001|pkey=2");
  const std::string file =
      WriteFile("ports = [\"loop\"]\npkeys = [0x8003, 4]\n");
  EXPECT_EQ(Resolve({"--config", file})->ports, "loop|pkey=0x8003|pkey=0x4");
  setenv("URNIC_PKEYS", "0x8005,0x6", 1);
  EXPECT_EQ(Resolve({"--config", file})->ports, "loop|pkey=0x8005|pkey=0x6");
}

TEST_F(ConfigTest, FaultsApplyToPortsWithoutTheirOwn) {
  EXPECT_EQ(Resolve({"--port", "net_null0|fault=die=1s", "--port", "net_null1",
                     "--fault", "loss=1%,delay=1ms"})
                ->ports,
            "net_null0|fault=die=1s;net_null1|fault=loss=1%,delay=1ms");
  const std::string file =
      WriteFile("ports = [\"net_null0\"]\nfault = \"loss=2%\"\n");
  EXPECT_EQ(Resolve({"--config", file})->ports, "net_null0|fault=loss=2%");
  setenv("URNIC_FAULT", "loss=3%", 1);
  EXPECT_EQ(Resolve({"--config", file})->ports, "net_null0|fault=loss=3%");
  setenv("URNIC_FAULT", "loss=3%;loop", 1);
  EXPECT_THAT(Message(Resolve({"--config", file}).status()),
              HasSubstr("fault \"loss=3%;loop\" contains \";\""));
  unsetenv("URNIC_FAULT");
  const std::string wrong =
      WriteFile("ports = [\"net_null0\"]\nfault = \"loss=1%;loop\"\n");
  EXPECT_THAT(Message(Resolve({"--config", wrong}).status()),
              HasSubstr("fault \"loss=1%;loop\" contains \";\""));
}

TEST_F(ConfigTest, TransportAppliesToPortsWithoutTheirOwn) {
  EXPECT_EQ(Resolve({"--port", "net_null0|transport=iwarp", "--port",
                     "net_null1", "--transport", "both"})
                ->ports,
            "net_null0|transport=iwarp;net_null1|transport=both");
  EXPECT_EQ(
      Resolve({"--port", "net_null0", "--addr", "10.0.0.1/24,iwarp"})->ports,
      "net_null0|10.0.0.1/24,iwarp");
  const std::string file =
      WriteFile("ports = [\"net_null0\"]\ntransport = \"iwarp\"\n");
  EXPECT_EQ(Resolve({"--config", file})->ports, "net_null0|transport=iwarp");
  setenv("URNIC_TRANSPORT", "roce", 1);
  EXPECT_EQ(Resolve({"--config", file})->ports, "net_null0|transport=roce");
}

TEST_F(ConfigTest, OptionsOfIwarpApplyToPortsWithoutTheirOwn) {
  EXPECT_EQ(Resolve({"--port", "net_null0|iwarp=mpa=1", "--port", "net_null1",
                     "--transport", "iwarp", "--iwarp", "crc=off,ecn=dctcp"})
                ->ports,
            "net_null0|iwarp=mpa=1|transport=iwarp;"
            "net_null1|transport=iwarp|iwarp=crc=off,ecn=dctcp");
  const std::string file = WriteFile(
      "ports = [\"net_null0|transport=both\"]\niwarp = \"markers=on\"\n");
  EXPECT_EQ(Resolve({"--config", file})->ports,
            "net_null0|transport=both|iwarp=markers=on");
  setenv("URNIC_IWARP", "rtr=read", 1);
  EXPECT_EQ(Resolve({"--config", file})->ports,
            "net_null0|transport=both|iwarp=rtr=read");
}

TEST_F(ConfigTest, FlagBeatsEnvironmentBeatsFile) {
  const std::string file =
      WriteFile("ports = [\"loop|10.0.0.1/24\"]\nmtu = 2000\n");
  EXPECT_EQ(Resolve({"--config", file})->ports, "loop|10.0.0.1/24|mtu=2000");
  setenv("URNIC_CONFIG", file.c_str(), 1);
  setenv("URNIC_PORTS", "loop|10.0.0.2/24;", 1);
  EXPECT_EQ(Resolve({})->ports, "loop|10.0.0.2/24|mtu=2000");
  setenv("URNIC_MTU", "3000", 1);
  EXPECT_EQ(Resolve({})->ports, "loop|10.0.0.2/24|mtu=3000");
  EXPECT_EQ(Resolve({"--port", "loop", "--mtu", "4000"})->ports,
            "loop|mtu=4000");
}

TEST_F(ConfigTest, WithoutConfigurationThereIsNoPort) {
  EXPECT_EQ(Resolve({})->ports, "");
}

TEST_F(ConfigTest, ARouteBelongsToThePortBeforeIt) {
  const auto config =
      Resolve({"--port", "loop", "--addr", "10.0.0.1/24", "--port", "net_null0",
               "--route", "10.2.0.0/16 via 10.1.0.254", "--addr", "10.1.0.1/24",
               "--route=default via 10.1.0.253 metric 7"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->ports,
            "loop|10.0.0.1/24;net_null0|route=10.2.0.0/16 via 10.1.0.254|"
            "10.1.0.1/24|route=default via 10.1.0.253 metric 7");
}

TEST_F(ConfigTest, MistakesNameWhatIsWrong) {
  const struct {
    std::vector<std::string> words;
    const char* message;
  } cases[] = {
      {{"--addr", "10.0.0.1/24"}, "--addr 10.0.0.1/24 must follow a --port"},
      {{"--port", "loop;loop"}, "give --port once for each"},
      {{"--route", "default via 10.0.0.1"}, "must follow a --port"},
      {{"--port", "loop", "--route", "default via 10.0.0.1|mtu=1500"},
       "give --route once for each"},
      {{"--port", "net_null0", "--route", "10.2.0.1/16 via 10.0.0.1"},
       "port 1 (\"net_null0\"): route \"10.2.0.1/16 via 10.0.0.1\": "
       "\"10.2.0.1/16\" has bits set beyond its prefix"},
      {{"--port", "loop", "--addr", "300.9.0.1/24"},
       "--addr \"300.9.0.1/24\" is not IP/LEN, for"},
      {{"--port", "loop", "--addr", "mtu=1500"}, "is not IP/LEN, for"},
      {{"--port", "loop", "--addr", "10.0.0.1"}, "needs a prefix length"},
      {{"--port", "loop", "--addr", "10.0.0.1/24;loop"},
       "give --addr once for each"},
      {{"--port", "loop", "--addr", "10.9.0.0/24"},
       "\"10.9.0.0/24\" is the address of its network"},
      {{"--port", "loop", "--mtu", "x"}, "--mtu \"x\" is not a number"},
      {{"--port", "veth0"}, "port 1 (\"veth0\"): not a port"},
      {{"--port", "xdp:lo"}, "no af_xdp driver"},
      {{"--port", "net_memf0"}, "this build has no driver 'net_memf'"},
      {{"--port", "net_memif0,role=sever"}, "unknown role 'sever'"},
      {{"--port", "net_memif0,rol=server"}, "unknown key 'rol'"},
      {{"--port", "0000:01:00.0"}, "no drivers for physical NICs"},
      {{"--port", "iface:no-such-if"}, "no interface \"no-such-if\""},
      {{"--mtu", "9001", "--port", "loop"},
       "mtu=9001 is out of range: 352 to 9000"},
      {{"--port", "net_null0", "--fault", "loss=200%"},
       "port 1 (\"net_null0\"): fault: \"loss=200%\" is wrong or out of range"},
      {{"--port", "loop", "--fault", "loss=1%"}, "this port has no wire"},
      {{"--port", "loop", "--transport", "tcp"},
       "unknown transport \"tcp\"; use roce, iwarp or both"},
      {{"--port", "loop", "--transport", "roce", "--addr", "10.0.0.1/24,iwarp"},
       "10.0.0.1 is marked iwarp, but with transport roce the port has no "
       "iWARP device; use transport both, or leave out the mark"},
      {{"--port", "loop|transport=roce", "--addr", "fd01::1/64,iwarp"},
       "fd01::1 is marked iwarp, but with transport roce"},
      {{"--port", "net_null0", "--fault", "die=1s;net_null1"},
       "fault \"die=1s;net_null1\" contains \";\", which separates ports"},
      {{"--port", "net_null0", "--fault", "die=1s|mtu=400"},
       "fault \"die=1s|mtu=400\" contains \"|\", which only a port may"},
      {{"--port", "loop", "--pkey", "0x8001;loop"},
       "pkey \"0x8001;loop\" contains \";\", which separates ports"},
      {{"--port", "loop", "--iwarp", "crc=off"},
       "iwarp=crc=off: this port has no iWARP device; use transport=iwarp"},
      {{"--port", "loop", "--transport", "iwarp", "--iwarp", "crc=no"},
       "port 1 (\"loop\"): iwarp: \"crc=no\" is not a choice; write crc=on or "
       "off"},
      {{"--port", "loop", "--transport", "both", "--iwarp", "mpa=1;loop"},
       "iwarp \"mpa=1;loop\" contains \";\", which separates ports"},
      {{"--mode", "service"}, "not built yet"},
      {{"--mode", "fast"}, "unknown mode \"fast\"; the only mode is embedded"},
      {{"--config", "/no/such/file"},
       "/no/such/file: No such file or directory; expected a TOML file"},
      {{"--config", "/"}, "/: Is a directory; expected a TOML file"},
  };
  for (const auto& c : cases) {
    const auto config = Resolve(c.words);
    EXPECT_FALSE(config.ok()) << c.message;
    EXPECT_THAT(Message(config.status()), HasSubstr(c.message));
  }
}

TEST_F(ConfigTest, MistakesInTheEnvironmentNameTheVariable) {
  setenv("URNIC_MTU", "15OO", 1);
  EXPECT_THAT(Message(Resolve({}).status()), HasSubstr("URNIC_MTU \"15OO\""));
  unsetenv("URNIC_MTU");
  setenv("URNIC_HUGEPAGES", "maybe", 1);
  EXPECT_THAT(Message(Resolve({}).status()),
              HasSubstr("URNIC_HUGEPAGES \"maybe\" is not on, off or"));
}

TEST_F(ConfigTest, MistakesInTheFileNameTheLine) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"# nothing\nprots = []\n",
       "config.toml:2: unknown key \"prots\": did you mean \"ports\"?"},
      {"speed = 1\n",
       ":1: unknown key \"speed\"; expected ports, mtu, pkeys, fault, "
       "transport, iwarp or mode"},
      {"[ports]\nmtu = 1500\n",
       ":1: ports is a table; expected a list of strings"},
      {"mtu = \"1500\"\n",
       ":1: mtu is a string; expected a number, 352 to 9000"},
      {"mtu = 100000\n", ":1: mtu 100000 is out of range: 352 to 9000"},
      {"mtu = 1500.5\n", ":1: mtu is a number with a fraction; expected a"},
      {"\n\nports = \"loop\"\n",
       ":3: ports is a string; expected a list of strings: ports = [\"loop|"},
      {"ports = [\n \"loop\",\n 5]\n",
       ":3: an entry of ports is a number; expected a string: \"loop|"},
      {"ports = [\"loop;loop\"]\n", ":1: an entry of ports contains \";\""},
      {"mode = true\n", ":1: mode is true or false; expected a string: mode"},
      {"iwarp = 3\n", ":1: iwarp is a number; expected a string: iwarp = "},
      {"fault = 3\n", ":1: fault is a number; expected a string: fault = "},
      {"pkeys = 3\n", ":1: pkeys is a number; expected a list of numbers"},
      {"pkeys = [\n\"0x8001\"]\n",
       ":2: an entry of pkeys is a string; expected a number: 0x8001"},
      {"pkeys = [0x18001]\n",
       ":1: an entry of pkeys, 0x18001, is out of range: 0x1 to 0xffff"},
      {"mode = 1979-05-27\n", ":1: mode is a date or a time; expected"},
      {"# nothing\nmtu = \n", "config.toml:2: "},
  };
  for (const auto& c : cases)
    EXPECT_THAT(Message(ReadConfigFile(WriteFile(c.text)).status()),
                HasSubstr(c.message));
}

}  // namespace
}  // namespace urnic
