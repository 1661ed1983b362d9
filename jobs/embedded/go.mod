module github.com/weir-go/weir/jobs/embedded

go 1.26.0

require (
	github.com/minio/highwayhash v1.0.4
	github.com/nats-io/nats-server/v2 v2.15.3
	github.com/nats-io/nats.go v1.55.0
)
