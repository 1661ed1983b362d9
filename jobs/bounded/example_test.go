package bounded_test

import (
	"fmt"
	"strings"

	"github.com/weir-go/weir/jobs/bounded"
)

// A stream that is too long returns an error, and is not read to its end.
func ExampleAll() {
	text, err := bounded.All(strings.NewReader("short"), 10)
	fmt.Println(string(text), err)
	_, err = bounded.All(strings.NewReader("longer than ten bytes"), 10)
	fmt.Println(err != nil)
	// Output:
	// short <nil>
	// true
}
