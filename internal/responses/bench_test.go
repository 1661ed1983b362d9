package responses_test

import (
	"net/http"
	"testing"

	"github.com/weir-go/weir/internal/responses"
)

func BenchmarkGet(b *testing.B) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	k, h := key("/a"), http.Header{}
	s.Begin(k).Put(response(200))
	b.ReportAllocs()
	for b.Loop() {
		if s.Get(k, asks(h)) == nil {
			b.Fatal("Get = nil; want the response")
		}
	}
}

// A store with room for all performs a Put at once. In a full one, the underlying
// cache evicts in the background, or the Put waits for it.
func BenchmarkPut(b *testing.B) {
	for _, bb := range []struct {
		name  string
		bytes int64
	}{{"room", 1 << 40}, {"full", 4 << 20}} {
		b.Run(bb.name, func(b *testing.B) {
			s := responses.New(responses.Options{Bytes: bb.bytes})
			keys := make([]responses.Key, 20_000)
			for i := range keys {
				keys[i] = key(path(i))
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				s.Begin(keys[i%len(keys)]).Put(response(200))
				i++
			}
		})
	}
}

func BenchmarkReserve(b *testing.B) {
	s := responses.New(responses.Options{Bytes: 64 << 20})
	b.ReportAllocs()
	for b.Loop() {
		s.Reserve(32 << 10)
		s.Reserve(-32 << 10)
	}
}
