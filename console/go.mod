module github.com/weir-go/weir/console

go 1.26.0
