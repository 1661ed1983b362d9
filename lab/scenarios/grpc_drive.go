package scenarios

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir/lab/result"
)

// send sends the load to the gRPC server whose address is at url, and checks each
// response.
func (c grpcCrowd) send(ctx context.Context, url string) (result.Measurement, error) {
	address, err := grpcAddress(ctx, url)
	if err != nil {
		return result.Measurement{}, err
	}
	conns := make([]*grpc.ClientConn, 8)
	for i := range conns {
		if conns[i], err = grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
			return result.Measurement{}, err
		}
		defer conns[i].Close() //nolint:errcheck // all calls have returned
	}
	var items, users, failed atomic.Int64
	replies := make([]reply, c.Clients*c.Each)
	wanted := newRanks(c.Keys, 1)
	start := time.Now()
	var all sync.WaitGroup
	for client := range c.Clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(client)))
			for i := range c.Each {
				user := ""
				if c.authorized(client, i) {
					user = fmt.Sprintf("user %d", client%c.Users)
				}
				item := fmt.Sprintf("item %d", wanted.draw(random))
				r, got := c.ask(ctx, conns[client%len(conns)], item, user, start)
				replies[client*c.Each+i] = r
				if r.err != nil && user == "" {
					failed.Add(1)
				}
				if r.err == nil && got.Fields["item"].GetStringValue() != item {
					items.Add(1)
				}
				if r.err == nil && got.Fields["user"].GetStringValue() != user {
					users.Add(1)
				}
			}
		})
	}
	all.Wait()
	m := tally(fmt.Sprintf("%d clients, %d requests each, %d keys", c.Clients, c.Each, c.Keys), replies, time.Since(start))
	m.Values = map[string]float64{wrongItem: float64(items.Load()), wrongUser: float64(users.Load()), failedShared: float64(failed.Load())}
	return m, nil
}

// ask calls the method for an item, with the credentials of user unless it is empty.
func (c grpcCrowd) ask(ctx context.Context, conn *grpc.ClientConn, item, user string, start time.Time) (reply, *structpb.Struct) {
	ctx, cancel := context.WithTimeout(ctx, c.Deadline)
	defer cancel()
	if user != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", user)
	}
	in := &structpb.Struct{Fields: map[string]*structpb.Value{"item": structpb.NewStringValue(item)}}
	out := new(structpb.Struct)
	sent := time.Now()
	err := conn.Invoke(ctx, grpcMethod, in, out)
	return reply{at: sent.Sub(start), took: time.Since(sent), status: httpStatus(err), err: err}, out
}

// httpStatus is the status that a measurement has for err, the error of a gRPC call.
func httpStatus(err error) int {
	switch status.Code(err) {
	case codes.OK:
		return http.StatusOK
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// grpcAddress asks the service for the address of its gRPC server.
func grpcAddress(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	return string(body), err
}
