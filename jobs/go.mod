module github.com/weir-go/weir/jobs

go 1.26.0

require github.com/nats-io/nats.go v1.55.0
