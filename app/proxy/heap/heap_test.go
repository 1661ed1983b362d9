package heap

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	for _, tt := range []struct{ live, roots, want uint64 }{
		{0, 0, 800},                // before the first collection: nothing is known
		{1 << 20, 0, 800},          // more would move the runtime's minimum beyond the floor
		{4 << 20, 0, 700},          // 4 MiB can grow by 28
		{3 << 20, 1 << 20, 725},    // by 29, relative to 4 that are scanned
		{16 << 20, 0, 100},         // half of the floor: doubled, it is the floor
		{Floor, 0, 100},            // above the floor, as by default
		{1 << 40, 1 << 30, normal}, // at any size
	} {
		if got := percent(tt.live, tt.roots); got != tt.want {
			t.Errorf("percent(%d, %d) = %d; want %d", tt.live, tt.roots, got, tt.want)
		}
	}
}

// TestMain is also the program of TestFloor: some MiB stay in use, and it prints the
// size at which the next collection starts, once that is at least and at most what the
// environment says, or after patience.
func TestMain(m *testing.M) {
	beside := os.Getenv("WEIR_TEST_HEAP_MIB")
	if beside == "" {
		os.Exit(m.Run())
	}
	var n int
	var least, most uint64
	if _, err := fmt.Sscan(beside, &n, &least, &most); err != nil {
		panic(err)
	}
	SetFloor()
	live := make([][]byte, n)
	for i := range live {
		live[i] = make([]byte, 1<<20)
	}
	var goal uint64
	for end := time.Now().Add(patience); time.Now().Before(end); runtime.Gosched() {
		runtime.GC() // the floor is set by a finalizer, some time after it
		sample := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		metrics.Read(sample)
		if goal = sample[0].Value.Uint64(); goal >= least && goal <= most {
			break
		}
	}
	runtime.KeepAlive(live)
	fmt.Println(goal)
	os.Exit(0)
}

// patience is how long the finalizer may take on a busy machine.
const patience = 20 * time.Second

func TestFloor(t *testing.T) {
	for _, tt := range []struct {
		mib         int
		gogc        string
		least, most uint64 // MiB
	}{
		{1, "", 30, 40},
		{1, "100", 3, 8},
		{64, "", 120, 140}, // above the floor a heap is collected when it has doubled, as by default
		{64, "100", 120, 140},
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "GOGC="+tt.gogc, fmt.Sprintf("WEIR_TEST_HEAP_MIB=%d %d %d", tt.mib, tt.least<<20, tt.most<<20))
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		goal, err := strconv.ParseUint(strings.TrimSpace(string(out)), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if goal < tt.least<<20 || goal > tt.most<<20 {
			t.Errorf("with %d MiB in use and GOGC=%q the next collection starts at %d MiB; want %d to %d", tt.mib, tt.gogc, goal>>20, tt.least, tt.most)
		}
	}
}
