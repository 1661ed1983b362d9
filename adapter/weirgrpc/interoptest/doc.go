// Package interoptest runs the interoperability tests of grpc-go through the interceptors
// of package weirgrpc. It is a module, because they need OAuth libraries, and has no code
// but tests.
package interoptest
