package responses_test

import (
	"net/http"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/disk"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// onDisk returns a store with a disk.
func onDisk(t *testing.T) (*responses.Store, *disk.Store) {
	t.Helper()
	d, err := disk.Open(disk.Options{Folder: t.TempDir(), Bytes: disk.MinBytes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close(t.Context()) })
	s := responses.New(responses.Options{Bytes: 1 << 20})
	s.AttachDisk(d)
	return s, d
}

// A response comes back from the disk as it was stored.
func TestH28_AResponseOnTheDisk(t *testing.T) {
	s, d := onDisk(t)
	k := responses.Key{Scheme: "https", Host: "shop.example", Target: "/a?b=c"}
	in := &responses.Stored{
		Response: rfc9111.Response{Status: 203, Received: time.Unix(1_000_000_000, 5), Age: 3 * time.Second, Vary: []string{"Accept"}, Tags: []string{"t"}, Lifetime: time.Hour},
		Selected: "5:a/b", Header: http.Header{"Vary": {"Accept"}, "X-Two": {"1", "2"}}, Body: []byte("body"), Rules: 7, Root: 1, Place: 2,
	}
	in.Fence.Store(3)
	if !s.Begin(k).Put(in) {
		t.Fatal("Put = false; want true")
	}
	if err := d.Close(t.Context()); err != nil { // writes the queue
		t.Fatal(err)
	}
	want := responses.DiskHead{
		Rules: 7, Status: 203, Received: time.Unix(1_000_000_000, 5), Age: 3 * time.Second, Vary: []string{"Accept"}, Selected: "5:a/b",
		Header: http.Header{"Vary": {"Accept"}, "X-Two": {"1", "2"}}, Root: 1, Place: 2, Fence: 3,
	}
	var got responses.DiskHead
	if err := got.UnmarshalBinary(responses.HeadOf(in, k)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v; want %+v", got, err, want)
	}
}

// H32: what happens to the responses to reads with a body leaves the disk as it is, with
// what it has for a GET of their URL.
func TestH32_ReadsAreNotOnTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := onDisk(t)
		get := responses.Key{Scheme: "https", Host: "shop.example", Target: "/search"}
		read := get
		read.Body = "digest"
		response := func(proof string) *responses.Stored {
			return &responses.Stored{
				Response: rfc9111.Response{Status: 200, Received: time.Unix(1_000_000_000, 0), Lifetime: time.Hour},
				Proof:    proof, Header: http.Header{}, Body: []byte("body"), Rules: 7,
			}
		}
		s.Begin(get).Put(response(""))
		synctest.Wait() // it is written
		first := response("proof")
		for _, step := range []struct {
			name string
			do   func()
		}{
			{"Put", func() { s.Begin(read).Put(first) }},
			{"Remove", func() { s.Remove(read, first) }},
			{"Purge", func() { s.Purge(read, false) }},
			{"Supersede", func() { s.Supersede(read, 0, 9, true) }},
		} {
			step.do()
			synctest.Wait()
			if !get.MayBeOnDisk(d) {
				t.Fatalf("%s of a read removed the response to a GET from the disk", step.name)
			}
			if read.MayBeOnDisk(d) {
				t.Errorf("after %s, the disk has a response to a read", step.name)
			}
			if e, _ := s.OnDisk(d, read, func(*responses.DiskHead) bool { return true }); e != nil {
				t.Errorf("after %s, a read found the response to a GET", step.name)
				e.Close()
			}
		}
	})
}

// FuzzDiskHead reads anything without a panic, and nothing that could split a response.
func FuzzDiskHead(f *testing.F) {
	f.Add(responses.HeadOf(&responses.Stored{Rules: 1, Header: http.Header{"A": {"b"}}, Response: rfc9111.Response{Status: 200, Received: time.Unix(1, 0)}}, responses.Key{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h responses.DiskHead
		if h.UnmarshalBinary(b) != nil {
			return
		}
		if h.Status < 200 || h.Status > 599 || h.Age < 0 || h.Header == nil {
			t.Errorf("read %+v; want a response that can be sent", h)
		}
	})
}
