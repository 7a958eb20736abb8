#include "verbs/cli/open_metrics.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

Facts Parsed(const char* line) { return *ParseFacts(line); }

TEST(OpenMetricsTest, NothingIsAnEmptyExposition) {
  EXPECT_EQ(OpenMetricsText({}), "# EOF\n");
}

TEST(OpenMetricsTest, CountersAreNamedByTheirList) {
  MetricSources sources;
  sources.stats = {
      Parsed("stat\tlink:urnic0/1\tlist:port\tpid=7\tcomm:a\\\\b\"c"
             "\trx-packets=5\t-\ttx-errors=0"),
      Parsed("stat\tlink:urnic1/1\tlist:port\tpid=8\tcomm:x"
             "\trx-packets=6\t-")};
  EXPECT_EQ(OpenMetricsText(sources),
            "# TYPE urnic_port_rx_packets counter\n"
            "# HELP urnic_port_rx_packets frames received\n"
            "urnic_port_rx_packets_total{device=\"urnic0\",pid=\"7\","
            "comm=\"a\\\\b\\\"c\"} 5\n"
            "urnic_port_rx_packets_total{device=\"urnic1\",pid=\"8\","
            "comm=\"x\"} 6\n"
            "# TYPE urnic_port_tx_errors counter\n"
            "# HELP urnic_port_tx_errors accepted by the device, but not sent\n"
            "urnic_port_tx_errors_total{device=\"urnic0\",pid=\"7\","
            "comm=\"a\\\\b\\\"c\"} 0\n"
            "# EOF\n");
}

TEST(OpenMetricsTest, VerdictsAndErrorsAreLabels) {
  MetricSources sources;
  sources.stats = {
      Parsed("stat\tlink:urnic0/1\tlist:verdict\tlayer:ip\tpid=7\tcomm:x"
             "\tbad-ip-header=2"),
      Parsed("stat\tlink:urnic0/1\tlist:error\tpid=7\tcomm:x\turn1001=3"
             "\turn9999=1")};
  const std::string text = OpenMetricsText(sources);
  EXPECT_NE(text.find("urnic_verdict_packets_total{device=\"urnic0\",pid=\"7\","
                      "comm=\"x\",layer=\"ip\",verdict=\"BadIpHeader\"} 2\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("code=\"URN1001\",severity=\"error\"} 3\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("9999"), std::string::npos) << text;
}

TEST(OpenMetricsTest, GaugesOfDevicesLinksAndQueuePairs) {
  MetricSources sources;
  sources.devices = {Parsed("dev\tdev:urnic0\tpid=7\tcomm:x\t-\tqps=4")};
  sources.links = {Parsed("link\tlink:urnic0/1\tstate:DOWN\tpid=7\tcomm:x")};
  sources.qps = {
      Parsed("qp\tlink:urnic0/1\tlqpn=17\ttype:RC\tdst-addr:10.0.0.2\tpid=7"
             "\tcomm:x\t-\ttimeouts=1\tunacked-packets=9")};
  const std::string text = OpenMetricsText(sources);
  const std::string owner = "{device=\"urnic0\",pid=\"7\",comm=\"x\"";
  for (const std::string& line :
       {"urnic_objects" + owner + ",kind=\"qp\"} 4\n",
        "urnic_link_up" + owner + "} 0\n",
        "urnic_qp_timeouts_total" + owner +
            ",lqpn=\"17\",type=\"RC\",dst_addr=\"10.0.0.2\"} 1\n",
        "urnic_qp_unacked_packets" + owner +
            ",lqpn=\"17\",type=\"RC\",dst_addr=\"10.0.0.2\"} 9\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

TEST(OpenMetricsTest, RoundTripsAreAHistogram) {
  MetricSources sources;
  sources.stats = {
      Parsed("stat\tlink:urnic0/1\tlist:round-trips\tpid=7\tcomm:x"
             "\tlt-2us=5\tlonger=1\t-\tlt-1us=0\tlt-524288us=0"
             "\tlt-1048576us=0")};
  const std::string text = OpenMetricsText(sources);
  const std::string name =
      "urnic_round_trips_seconds_bucket{device=\"urnic0\",pid=\"7\","
      "comm=\"x\",le=\"";
  EXPECT_EQ(text,
            "# TYPE urnic_round_trips_seconds histogram\n"
            "# HELP urnic_round_trips_seconds round trips that were "
            "measured\n" +
                name + "0.000001\"} 0\n" + name + "0.000002\"} 5\n" + name +
                "0.524288\"} 5\n" + name + "1.048576\"} 5\n" + name +
                "+Inf\"} 6\n# EOF\n");
}

}  // namespace
}  // namespace urnic
