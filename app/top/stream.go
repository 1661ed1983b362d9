package top

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/jobs/bounded"
)

// Bounds of the connection to the admin listener.
const (
	connectTimeout = 5 * time.Second
	headTimeout    = 10 * time.Second
	// silence is how long there may be no event before the connection counts as lost. The
	// console sends one each second.
	silence = 20 * time.Second
	// maxEvent is the maximum size of an event: ten minutes of a hundred routes have some
	// megabytes.
	maxEvent = 64 << 20
	maxError = 4 << 10
)

// eventsPath is the event stream of the console, below the admin listener's URL.
const eventsPath = "/console/events"

// Options say where the console is.
type Options struct {
	URL   string // of the admin listener, as jobsctl.ParseAdmin returns it
	Token string // empty: none
}

// A FatalError does not go away by trying again: a wrong token, or no console.
type FatalError struct{ text string }

func (e *FatalError) Error() string { return e.text }

// Follow connects to the console and calls hello and then tick with what it sends, until
// ctx ends, the connection is lost or one of them returns an error.
func Follow(ctx context.Context, o Options, hello func(*console.Hello) error, tick func(*console.Tick) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client := &http.Client{
		Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: connectTimeout}).DialContext, ResponseHeaderTimeout: headTimeout},
		// The token is for nobody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, o.URL+eventsPath, nil)
	if err != nil {
		return err
	}
	if o.Token != "" {
		r.Header.Set("Authorization", "Bearer "+o.Token)
	}
	resp, err := client.Do(r)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // its text has the method and the whole URL
		}
		return fmt.Errorf("%s does not respond (%w): is the address right, and does weir proxy run with --admin there?", o.URL, err)
	}
	defer resp.Body.Close()
	if err := refusal(o, resp); err != nil {
		return err
	}
	quiet := time.AfterFunc(silence, func() { cancel(fmt.Errorf("%s has sent nothing for %v", o.URL, silence)) })
	defer quiet.Stop()
	events := bufio.NewReader(resp.Body)
	for {
		name, data, err := readEvent(events)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return fmt.Errorf("%s has ended the connection: %w", o.URL, err)
		}
		quiet.Reset(silence)
		switch name {
		case "hello":
			err = decode(data, hello)
		case "tick":
			err = decode(data, tick)
		}
		if err != nil {
			return err
		}
	}
}

func decode[T any](data []byte, use func(*T) error) error {
	v := new(T)
	if err := json.Unmarshal(data, v); err != nil {
		return &FatalError{fmt.Sprintf("the console's data cannot be read (%v): is it of another version of weir?", err)}
	}
	return use(v)
}

// refusal returns the error of a response that is no event stream.
func refusal(o Options, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
			return &FatalError{fmt.Sprintf("%s responds with %.80q: is it the admin listener of a weir proxy?", o.URL, kind)}
		}
		return nil
	}
	body, _ := bounded.All(resp.Body, maxError) // without it the message says less
	var failure struct {
		Error string `json:"error"`
	}
	_ = json.Unmarshal(body, &failure) // else there is no text
	switch {
	case resp.StatusCode == http.StatusUnauthorized && o.Token == "":
		return &FatalError{o.URL + " wants its token: --token-file FILE, the one that the proxy has as admin.token_file"}
	case resp.StatusCode == http.StatusUnauthorized:
		return &FatalError{o.URL + " has a different token than this --token-file: it is the proxy's admin.token_file"}
	case resp.StatusCode == http.StatusNotFound:
		return &FatalError{o.URL + " has no console: weir top needs admin.console, which is on by default"}
	case resp.StatusCode == http.StatusServiceUnavailable, resp.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("%s responds with %s: %s", o.URL, resp.Status, failure.Error)
	}
	return &FatalError{fmt.Sprintf("%s responds with %s %s: is it the admin listener of a weir proxy?", o.URL, resp.Status, failure.Error)}
}

var errTooLarge = errors.New("an event is too large")

// readEvent reads one event of a text/event-stream whose data is one line, as the console
// sends it.
func readEvent(r *bufio.Reader) (name string, data []byte, err error) {
	size := 0
	for {
		var line []byte
		for more := true; more; {
			var part []byte
			part, err = r.ReadSlice('\n')
			if size += len(part); size > maxEvent {
				return "", nil, errTooLarge
			}
			line = append(line, part...)
			more = errors.Is(err, bufio.ErrBufferFull)
		}
		if err != nil {
			return "", nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case len(line) == 0 && name != "":
			return name, data, nil
		case bytes.HasPrefix(line, []byte("event: ")):
			name = string(line[len("event: "):])
		case bytes.HasPrefix(line, []byte("data: ")):
			data = line[len("data: "):]
		}
	}
}
