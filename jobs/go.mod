module github.com/weir-go/weir/jobs

go 1.26.0

require (
	github.com/adhocore/gronx v1.20.4
	github.com/nats-io/nats.go v1.55.0
)
