module github.com/weir-go/weir/gateway

go 1.26.0
