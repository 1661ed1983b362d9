// Package natstest starts real NATS servers, alone or in a cluster, each as a
// process of its own that tests can kill, stop for a while, and start again
// where it was. The process is the test binary, so that the package that uses
// it has
//
//	func TestMain(m *testing.M) { natstest.Main(m) }
//
// The servers have the defaults of nats-server, but for what Options say. They
// end with the test, and with the test binary, however that ends.
package natstest
