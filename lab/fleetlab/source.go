package fleetlab

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// An Answer is a Source's response for a key, which an Instance passes on.
type Answer struct {
	Key     string `json:"key"`
	Version int64  `json:"version"`

	// Only from an Instance: its name, and where it got the value.
	Instance string `json:"instance,omitempty"`
	From     string `json:"from,omitempty"`
}

// A Source is a slow store, over HTTP, that counts its calls:
//
//	GET  /load/KEY?by=NAME   its Answer, as it was when the call began
//	POST /change/KEY         makes a new version; responds with its number
//	POST /loads/KEY          the number of calls for that key so far
//	POST /holder/KEY         the caller of the latest running call; empty: none
//	POST /wait/DURATION      sets how long calls take from now on
//	POST /hold/KEY           from now on, calls for that key do not end
//	POST /free/KEY           lets them end; later ones take as long as others
type Source struct {
	begin func() (end func())

	mu       sync.Mutex
	wait     time.Duration            // guarded by mu
	versions map[string]int64         // guarded by mu; of keys that were changed
	loads    map[string]int           // guarded by mu
	holders  map[string]string        // guarded by mu; the last caller among the running calls
	held     map[string]chan struct{} // guarded by mu; of keys whose calls do not end; closed when they may end
}

// NewSource returns a Source whose calls take wait. Each call calls begin first, and
// at its end the function that begin returned.
func NewSource(wait time.Duration, begin func() (end func())) *Source {
	return &Source{
		begin: begin, wait: wait,
		versions: make(map[string]int64), loads: make(map[string]int), holders: make(map[string]string),
		held: make(map[string]chan struct{}),
	}
}

// ServeHTTP handles the requests listed above.
func (s *Source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch what {
	case "load":
		s.load(w, r, key)
	case "change":
		fmt.Fprint(w, s.change(key))
	case "loads":
		s.mu.Lock()
		defer s.mu.Unlock()
		fmt.Fprint(w, s.loads[key])
	case "holder":
		s.mu.Lock()
		defer s.mu.Unlock()
		fmt.Fprint(w, s.holders[key])
	case "hold":
		s.hold(key)
	case "free":
		s.free(key)
	case "wait":
		d, err := time.ParseDuration(key)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wait = d
	default:
		http.NotFound(w, r)
	}
}

// load responds at the end of the call with the version from its beginning, so that
// an overtaken response is as old as possible. A call ends when its caller leaves.
func (s *Source) load(w http.ResponseWriter, r *http.Request, key string) {
	defer s.begin()()
	by := r.FormValue("by")
	s.mu.Lock()
	s.loads[key]++
	s.holders[key] = by
	wait, a, held := s.wait, Answer{Key: key, Version: s.versions[key] + 1}, s.held[key]
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.holders[key] == by {
			delete(s.holders, key)
		}
	}()
	if held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
			return
		}
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done():
		return
	}
	writeAnswer(w, a)
}

func (s *Source) hold(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[key] == nil {
		s.held[key] = make(chan struct{})
	}
}

func (s *Source) free(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held := s.held[key]; held != nil {
		close(held)
		delete(s.held, key)
	}
}

func (s *Source) change(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions[key]++
	return strconv.FormatInt(s.versions[key]+1, 10)
}

func writeAnswer(w http.ResponseWriter, a Answer) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(a) //nolint:errcheck // the client is gone
}
