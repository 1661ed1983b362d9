module github.com/weir-go/weir

go 1.25.0

require (
	github.com/maypok86/otter/v2 v2.4.0
	golang.org/x/time v0.15.0
)
