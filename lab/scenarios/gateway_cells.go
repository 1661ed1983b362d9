package scenarios

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-go/weir/lab/scenario"
)

// A gridCell is one set of conditions under which the proxies are compared.
type gridCell struct {
	length  int    // of the body, in bytes
	conns   int    // connections that send requests without pause
	secure  bool   // TLS between client and proxy
	streams int    // concurrent ones on each connection, over HTTP/2; 0 means HTTP/1.1
	head    string // which client's request it is, see gridHeads; empty means wrk's, which is bare
	apart   bool   // the load generator has a processor to itself
	rounds  int
}

// String names the cell: the setting of its measurements.
func (c gridCell) String() string {
	parts := []string{lengthOf(c.length), connectionsOf(c.conns)}
	switch {
	case c.streams > 0:
		parts = append(parts, fmt.Sprintf("HTTP/2 with %d streams each", c.streams))
	case c.secure:
		parts = append(parts, "TLS")
	}
	if c.head != "" {
		parts = append(parts, c.head)
	}
	if c.apart {
		parts = append(parts, "wrk on a separate processor")
	}
	return strings.Join(parts, ", ")
}

func connectionsOf(n int) string {
	if n == 1 {
		return "1 connection"
	}
	return fmt.Sprintf("%d connections", n)
}

// lengthOf writes a length as in the goals: 150 B, 10 KB, 1 MB.
func lengthOf(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d MB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// The lengths and the connections of the grid.
const (
	smallBody  = 150
	mediumBody = 10 << 10
	largeBody  = 1 << 20
)

var (
	gridLengths = []int{smallBody, mediumBody, largeBody}
	gridConns   = []int{1, 3, 64, 256}
)

// The heads of gridHeads.
const (
	headCurl    = "head of curl"
	headGo      = "head of Go's client"
	headBrowser = "head of a browser"
	headAgain   = "head of a browser that revalidates"
)

// gridHeads are the fields that clients send, in addition to Host.
var gridHeads = map[string]map[string]string{
	headCurl:    {"User-Agent": "curl/8.14.1", "Accept": "*/*"},
	headGo:      {"User-Agent": "Go-http-client/1.1", "Accept-Encoding": "gzip"},
	headBrowser: browserFields(),
	headAgain:   browserFields("If-None-Match", gridTag),
}

// browserFields returns the fields of a browser that follows a link, and more ones, in
// pairs of a name and a value.
func browserFields(more ...string) map[string]string {
	fields := map[string]string{
		"User-Agent":                "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
		"Accept":                    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
		"Accept-Encoding":           "gzip, deflate, br, zstd",
		"Accept-Language":           "en-GB,en;q=0.9,de;q=0.8",
		"Connection":                "keep-alive",
		"Cookie":                    "session=9f1c2ab07d5e4c3b; theme=dark; consent=necessary",
		"Referer":                   "https://shop.example/books",
		"Sec-Ch-Ua":                 `"Chromium";v="141", "Not?A_Brand";v="8"`,
		"Sec-Ch-Ua-Mobile":          "?0",
		"Sec-Ch-Ua-Platform":        `"Linux"`,
		"Sec-Fetch-Dest":            "document",
		"Sec-Fetch-Mode":            "navigate",
		"Sec-Fetch-Site":            "same-origin",
		"Upgrade-Insecure-Requests": "1",
	}
	for pair := range slices.Chunk(more, 2) {
		fields[pair[0]] = pair[1]
	}
	return fields
}

// allCells returns every cell of lengths, connections and protocols of HTTP/1.1.
func allCells(rounds int) (cells []gridCell) {
	for _, secure := range []bool{false, true} {
		for _, length := range gridLengths {
			for _, conns := range gridConns {
				cells = append(cells, gridCell{length: length, conns: conns, secure: secure, rounds: rounds})
			}
		}
	}
	return cells
}

// with adds those of more that cells does not have. A cell in both has the rounds of
// more.
func with(cells []gridCell, more ...gridCell) []gridCell {
	for _, m := range more {
		found := false
		for i, c := range cells {
			if c.String() == m.String() {
				cells[i], found = m, true
			}
		}
		if !found {
			cells = append(cells, m)
		}
	}
	return cells
}

// cellsFor returns the cells to measure: usual, with everything if the lab measures
// whole grids, or few at the small size, with one round each.
func cellsFor(l *scenario.Lab, usual, everything, few []gridCell) []gridCell {
	switch {
	case l.Small:
		for i := range few {
			few[i].rounds = 1
		}
		return few
	case l.Grid:
		return with(everything, usual...)
	}
	return usual
}
