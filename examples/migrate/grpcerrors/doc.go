// Package grpcerrors maps the errors of Guards and limiters to gRPC.
package grpcerrors
