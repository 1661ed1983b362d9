package heap

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

func TestPercent(t *testing.T) {
	for _, tt := range []struct{ live, roots, want uint64 }{
		{0, 0, 3200},               // before the first collection: nothing is known
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

const garbageBytes = 512 << 20

// TestMain is also the program of TestFewerCollections: it creates garbage while some
// MiB stay in use, and prints the number of collections.
func TestMain(m *testing.M) {
	beside := os.Getenv("WEIR_TEST_HEAP_MIB")
	if beside == "" {
		os.Exit(m.Run())
	}
	n, err := strconv.Atoi(beside)
	if err != nil {
		panic(err)
	}
	SetFloor()
	live := make([][]byte, n)
	for i := range live {
		live[i] = make([]byte, 1<<20)
	}
	runtime.GC()
	makeGarbage() // also gives the finalizer of that collection time to run
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	makeGarbage()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(live)
	fmt.Println(after.NumGC - before.NumGC)
	os.Exit(0)
}

var garbage []byte

func makeGarbage() {
	for range garbageBytes / 1024 {
		garbage = make([]byte, 1024)
	}
}

// collections runs the program and returns its number of collections.
func collections(t *testing.T, mib int, env ...string) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "GOGC=", "WEIR_TEST_HEAP_MIB="+strconv.Itoa(mib)), env...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFewerCollections(t *testing.T) {
	floor := collections(t, 1)
	if without := collections(t, 1, "GOGC=100"); floor < 1 || floor > without/2 {
		t.Errorf("%d collections with the floor, %d with GOGC=100; want at most half", floor, without)
	}
	// Above the floor a heap is collected when it has doubled, as by default.
	large := collections(t, 64)
	if want := collections(t, 64, "GOGC=100"); large < want-1 || large > want+1 {
		t.Errorf("%d collections with 64 MiB in use, %d with GOGC=100; want the same", large, want)
	}
}
