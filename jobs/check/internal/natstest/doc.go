// Package natstest starts real NATS servers, alone or in a cluster. Each is a
// separate process that tests can kill, pause, and restart in place. The process is
// the test binary itself, so a package that uses natstest needs
//
//	func TestMain(m *testing.M) { natstest.Main(m) }
//
// The servers have the defaults of nats-server, apart from what Options change. They
// end with the test, and with the test binary, however that ends.
package natstest
