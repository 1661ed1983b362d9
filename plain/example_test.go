package plain_test

import (
	"fmt"

	"github.com/weir-go/weir/plain"
)

// Hidden characters are escaped, and URLs lose their user and password.
func ExampleText() {
	fmt.Println(plain.Text("photo\u202egpj.exe"))
	fmt.Println(plain.Text("http://ada:secret@shop.example/"))
	// Output:
	// photo\u202egpj.exe
	// http://…@shop.example/
}
