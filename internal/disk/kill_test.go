package disk_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/disk"
	"github.com/weir-go/weir/internal/histories"
)

// childFolder names the folder that a child of TestH28_KilledWhileItWrites fills.
const childFolder = "WEIR_TEST_DISK_FOLDER"

func TestMain(m *testing.M) {
	if folder := os.Getenv(childFolder); folder != "" {
		child(folder)
		return
	}
	os.Exit(m.Run())
}

func childBody(round, i int) string {
	return strings.Repeat(fmt.Sprint(round, " ", i, ". "), 1+i*i%5000)
}

// child writes and purges until it is killed, and reports each purge that is durable.
func child(folder string) {
	s, err := disk.Open(disk.Options{Folder: folder, Bytes: disk.MinBytes})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	for round := 0; ; round++ {
		for i := range 200 {
			key := fmt.Sprint(os.Getpid(), " ", round, " ", i)
			put(s, key, childBody(round, i), "tag")
			if i%4 == 0 {
				if err := s.Sync(context.Background(), purge(s, key, false)); err != nil {
					fmt.Println("error", err)
					return
				}
				fmt.Println("purged", key, "end")
				continue
			}
			fmt.Println("put", key, "end")
		}
	}
}

// TestH28_KilledWhileItWrites kills a process with SIGKILL at random moments, and
// reads what it has left.
func TestH28_KilledWhileItWrites(t *testing.T) {
	rounds := histories.Count(3, 12)
	folder, r := t.TempDir(), rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	found, purges := 0, 0
	for range rounds {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childFolder+"="+folder)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// It is killed after so many lines; the pipe has some more.
		lines, purged, put := bufio.NewScanner(io.LimitReader(out, 1<<28)), map[string]bool{}, map[string]string{}
		for n, last := 0, 20+r.IntN(2000); lines.Scan(); n++ {
			line, whole := strings.CutSuffix(lines.Text(), " end")
			if !whole && n > last {
				continue // it was killed while it wrote it
			}
			what, key, _ := strings.Cut(line, " ")
			var pid, round, i int
			_, _ = fmt.Sscan(key, &pid, &round, &i)
			switch what {
			case "purged":
				purged[key] = true
			case "put":
				put[key] = childBody(round, i)
			default:
				t.Fatal(lines.Text())
			}
			if n == last {
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait()
		s, err := disk.Open(disk.Options{Folder: folder, Bytes: disk.MinBytes})
		if err != nil {
			t.Fatalf("Open after a kill: %v", err)
		}
		for key := range purged {
			if got := find(t, s, key); got != "none" {
				t.Errorf("%s is back after its purge", key)
			}
		}
		for key, body := range put {
			switch got := find(t, s, key); got {
			case body:
				found++
			case "none":
			default:
				t.Errorf("Get(%q) has %d bytes; want %d, or nothing", key, len(got), len(body))
			}
		}
		purges += len(purged)
		closeStore(t, s)
	}
	if found < 10*rounds || purges < 10*rounds {
		t.Errorf("%d records found, %d purges after %d kills; is the test looking?", found, purges, rounds)
	}
}
