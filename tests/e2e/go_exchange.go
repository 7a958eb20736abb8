// A verbs program in Go, through cgo. Pairs of queue pairs of one device
// exchange messages; each end is run by a goroutine, half of them sleep in
// ibv_get_cq_event. Meanwhile another goroutine loops without a call, so that
// the runtime preempts it by SIGURG, the garbage collector runs, and nil
// pointers are dereferenced and recovered. At the end, memory that is no longer
// there: as a panic where Go reads it, as a completion where the RNIC does.
//
//	go_exchange GID_INDEX
//
// Ends with 0 and "ok", or says what failed.
package main

/*
#cgo LDFLAGS: -libverbs
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { kMax = 65536, kRights = IBV_ACCESS_LOCAL_WRITE };

struct end {
  struct ibv_comp_channel* channel;  // NULL: polls
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  char* memory;  // kMax bytes to send, then kMax to receive
};

static const char* Open(struct end* e, struct ibv_pd* pd, int events) {
  e->memory = calloc(2, kMax);
  e->mr = ibv_reg_mr(pd, e->memory, 2 * kMax, kRights);
  if (e->mr == NULL) return "ibv_reg_mr";
  if (events && (e->channel = ibv_create_comp_channel(pd->context)) == NULL)
    return "ibv_create_comp_channel";
  e->cq = ibv_create_cq(pd->context, 8, NULL, e->channel, 0);
  if (e->cq == NULL) return "ibv_create_cq";
  struct ibv_qp_init_attr init = {
      .send_cq = e->cq,
      .recv_cq = e->cq,
      .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1,
              .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC,
      .sq_sig_all = 1,
  };
  e->qp = ibv_create_qp(pd, &init);
  return e->qp == NULL ? "ibv_create_qp" : NULL;
}

static const char* Connect(struct end* e, uint32_t peer, int gid_index) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  if (ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
                                      IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
    return "to INIT";
  attr = (struct ibv_qp_attr){
      .qp_state = IBV_QPS_RTR,
      .path_mtu = IBV_MTU_1024,
      .dest_qp_num = peer,
      .max_dest_rd_atomic = 1,
      .min_rnr_timer = 12,
      .ah_attr = {.is_global = 1,
                  .grh = {.sgid_index = (uint8_t)gid_index, .hop_limit = 64},
                  .port_num = 1}};
  if (ibv_query_gid(e->qp->context, 1, gid_index, &attr.ah_attr.grh.dgid) != 0)
    return "ibv_query_gid";
  if (ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                      IBV_QP_MAX_DEST_RD_ATOMIC |
                                      IBV_QP_MIN_RNR_TIMER) != 0)
    return "to RTR";
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 18,
                              .retry_cnt = 7, .rnr_retry = 7,
                              .max_rd_atomic = 1};
  return ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT |
                                         IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                         IBV_QP_SQ_PSN |
                                         IBV_QP_MAX_QP_RD_ATOMIC) == 0
             ? NULL : "to RTS";
}

static int Receive(struct end* e) {
  struct ibv_sge sge = {(uintptr_t)e->memory + kMax, kMax, e->mr->lkey};
  struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
  return ibv_post_recv(e->qp, &wr, &bad);
}

static int Send(struct end* e, const void* from, uint32_t size, uint32_t key) {
  struct ibv_sge sge = {(uintptr_t)from, size, key};
  struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1,
                           .opcode = IBV_WR_SEND}, *bad;
  return ibv_post_send(e->qp, &wr, &bad);
}

// 1: *wc is a completion. 0: none yet. Sleeps for one if the end has a channel.
static int Poll(struct end* e, struct ibv_wc* wc) {
  int count = ibv_poll_cq(e->cq, 1, wc);
  if (count != 0 || e->channel == NULL) return count;
  if (ibv_req_notify_cq(e->cq, 0) != 0) return -1;
  count = ibv_poll_cq(e->cq, 1, wc);
  if (count != 0) return count;
  struct ibv_cq* cq;
  void* unused;
  if (ibv_get_cq_event(e->channel, &cq, &unused) != 0) return -1;
  ibv_ack_cq_events(cq, 1);
  return ibv_poll_cq(e->cq, 1, wc);
}

static int Close(struct end* e) {
  const int failed = ibv_destroy_qp(e->qp) | ibv_destroy_cq(e->cq) |
                     ibv_dereg_mr(e->mr) |
                     (e->channel && ibv_destroy_comp_channel(e->channel));
  free(e->memory);
  return failed;
}

static char* MapPage(void) {
  return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
              -1, 0);
}
*/
import "C"

import (
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	pairs    = 8
	messages = 200
)

func require(good bool, what string) {
	if !good {
		fmt.Println("failed:", what)
		os.Exit(1)
	}
}

func requireNone(failure *C.char) {
	require(failure == nil, C.GoString(failure))
}

type end struct{ c *C.struct_end }

func bytesAt(memory *C.char, size int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(memory)), size)
}

func (e end) toSend() []byte { return bytesAt(e.c.memory, C.kMax) }
func (e end) received() []byte {
	return bytesAt(e.c.memory, 2*C.kMax)[C.kMax:]
}

func (e end) complete() C.struct_ibv_wc {
	for {
		var wc C.struct_ibv_wc
		count := C.Poll(e.c, &wc)
		require(count >= 0, "polling")
		if count == 1 {
			return wc
		}
		runtime.Gosched()
	}
}

// Completions of one send and one receive, in either order: the receive's size.
func (e end) completeBoth() int {
	size := 0
	for i := 0; i < 2; i++ {
		wc := e.complete()
		require(wc.status == C.IBV_WC_SUCCESS,
			C.GoString(C.ibv_wc_status_str(wc.status)))
		if wc.opcode == C.IBV_WC_RECV {
			size = int(wc.byte_len)
		}
	}
	return size
}

// Both ends send the same sequence at the same time, and know what comes.
func (e end) exchange(seed int64) {
	random := rand.New(rand.NewSource(seed))
	expected := make([]byte, C.kMax)
	for i := 0; i < messages; i++ {
		size := 1 + random.Intn(C.kMax)
		random.Read(expected[:size])
		copy(e.toSend(), expected[:size])
		require(C.Receive(e.c) == 0, "ibv_post_recv")
		require(C.Send(e.c, unsafe.Pointer(e.c.memory), C.uint32_t(size),
			e.c.mr.lkey) == 0, "ibv_post_send")
		require(e.completeBoth() == size, "another size")
		require(string(e.received()[:size]) == string(expected[:size]),
			"other data")
	}
}

// Whether reading there is a panic that can be recovered from.
func panics(address unsafe.Pointer) (good bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { _, good = recover().(runtime.Error) }()
	fmt.Println("read", *(*byte)(address))
	return false
}

// What a Go runtime does besides.
func disturb(stop *int32, recovered *int) {
	for atomic.LoadInt32(stop) == 0 {
		require(panics(nil), "a nil dereference is no panic")
		*recovered++
		sum := 0
		for i := 0; i < 20_000_000; i++ { // no call: preempted by SIGURG
			sum += i
		}
		runtime.GC()
	}
}

func memoryThatIsGone(pd *C.struct_ibv_pd, e end) {
	page := C.MapPage()
	mr := C.ibv_reg_mr(pd, unsafe.Pointer(page), 4096, C.kRights)
	require(mr != nil, "ibv_reg_mr of a page")
	C.munmap(unsafe.Pointer(page), 4096)
	require(panics(unsafe.Pointer(page)), "memory that is gone is no panic")
	require(C.Send(e.c, unsafe.Pointer(page), 8, mr.lkey) == 0, "ibv_post_send")
	require(e.complete().status == C.IBV_WC_LOC_PROT_ERR,
		"memory that is gone is not IBV_WC_LOC_PROT_ERR")
	require(panics(nil), "a nil dereference is no panic afterwards")
	require(C.ibv_dereg_mr(mr) == 0, "ibv_dereg_mr")
}

func main() {
	gidIndex, err := strconv.Atoi(os.Args[1])
	require(err == nil, "GID_INDEX")
	var count C.int
	list := C.ibv_get_device_list(&count)
	require(list != nil && count > 0, "no device")
	context := C.ibv_open_device(*list)
	require(context != nil, "ibv_open_device")
	C.ibv_free_device_list(list)
	pd := C.ibv_alloc_pd(context)
	require(pd != nil, "ibv_alloc_pd")

	ends := (*[2 * pairs]C.struct_end)(
		C.calloc(2*pairs, C.size_t(unsafe.Sizeof(C.struct_end{}))))
	for i := range ends {
		requireNone(C.Open(&ends[i], pd, C.int(i/2%2)))
	}
	for i := range ends {
		requireNone(C.Connect(&ends[i], ends[i^1].qp.qp_num, C.int(gidIndex)))
	}

	var stop int32
	recovered := 0
	var disturber, exchanges sync.WaitGroup
	disturber.Add(1)
	go func() {
		defer disturber.Done()
		disturb(&stop, &recovered)
	}()
	for i := range ends {
		exchanges.Add(1)
		go func(i int) {
			defer exchanges.Done()
			end{&ends[i]}.exchange(int64(i / 2))
		}(i)
	}
	exchanges.Wait()
	atomic.StoreInt32(&stop, 1)
	disturber.Wait()

	memoryThatIsGone(pd, end{&ends[0]})
	for i := range ends {
		require(C.Close(&ends[i]) == 0, "destroying")
	}
	require(C.ibv_dealloc_pd(pd) == 0 && C.ibv_close_device(context) == 0,
		"closing")
	fmt.Printf("ok: %d messages, %d panics recovered\n",
		2*pairs*messages, recovered)
}
