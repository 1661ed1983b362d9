package rfc9111_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/rfc9111"
)

func browser() http.Header {
	return fields("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
		"Accept-Encoding", "gzip, deflate, br, zstd", "Accept-Language", "en-GB,en;q=0.9,de;q=0.8",
		"User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
		"Sec-Ch-Ua", `"Chromium";v="126", "Not.A/Brand";v="8"`, "Sec-Ch-Ua-Mobile", "?0", "Sec-Ch-Ua-Platform", `"Linux"`,
		"Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "none", "Sec-Fetch-User", "?1",
		"Upgrade-Insecure-Requests", "1", "Cache-Control", "max-age=0", "Connection", "keep-alive")
}

func BenchmarkReadRequest(b *testing.B) {
	for _, bc := range []struct {
		name string
		h    http.Header
	}{{"browser", browser()}, {"program", fields("User-Agent", "curl/8.5", "Accept", "*/*", "Accept-Encoding", "gzip")}} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rfc9111.ReadRequest(bc.h)
			}
		})
	}
}

func BenchmarkAt(b *testing.B) {
	r := read(&rfc9111.Policy{}, nil, 200, fields("Cache-Control", "max-age=60, stale-if-error=60"))
	q := rfc9111.ReadRequest(nil)
	now := t0.Add(time.Second)
	b.ReportAllocs()
	for b.Loop() {
		r.At(now, q)
	}
}

func BenchmarkMatches(b *testing.B) {
	vary, h := []string{"Accept-Encoding", "Accept-Language"}, browser()
	selected := selecting(vary, h)
	b.ReportAllocs()
	for b.Loop() {
		if !matches(vary, selected, h) {
			b.Fatal("no match")
		}
	}
}
