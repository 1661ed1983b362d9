package httpwire_test

import (
	"fmt"

	"github.com/weir-go/weir/gateway/httpwire"
)

// A message with two framings is invalid from the byte that reveals it.
func ExampleScanner() {
	wire := []byte("POST / HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n")
	s := httpwire.NewScanner(httpwire.Requests)
	_, _, err := s.Next(wire)
	fmt.Println(err != nil)
	// Output: true
}
