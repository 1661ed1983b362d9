package model

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Options configure a Server.
type Options struct {
	// First is the time to the first token, Token the time to each further one.
	First, Token time.Duration
	// Slots is how many completions run at once. More get 429. 0 means no limit.
	Slots int
	// TokensPerMinute is the budget of tokens, of prompts and answers. A completion
	// that exceeds it gets 429. 0 means no limit.
	TokensPerMinute int
	// GiveUp makes every GiveUp-th completion that streams end in the middle, as if it
	// were whole: the HTTP response is complete, but the terminal event is missing. A
	// request whose stream ended so is completed the next time. 0 means that none does.
	GiveUp int
}

// maxRequest bounds a request's body.
const maxRequest = 1 << 20

// A Server is the model server. Create one with New.
type Server struct {
	o     Options
	begin func() (end func()) // called for each completion

	mu      sync.Mutex
	running int       // guarded by mu
	left    float64   // guarded by mu: tokens of the budget, at the time of filled
	filled  time.Time // guarded by mu
	usage   Usage     // guarded by mu
	streams int       // guarded by mu: completions that stream, begun

	// cut has the ids of the answers that ended in the middle and were not requested
	// since; guarded by mu.
	cut map[string]bool
}

// Usage is what a Server has done.
type Usage struct {
	Completions int64 `json:"completions"` // begun
	Refused     int64 `json:"refused"`     // with 429
	Tokens      int64 `json:"tokens"`      // billed: of the prompt, and of the answer as far as it was sent
	Canceled    int64 `json:"canceled"`    // of Completions, those whose client left
	GaveUp      int64 `json:"gave_up"`     // of Completions, those that ended in the middle, see Options.GiveUp
}

// New returns a Server. begin is called for each completion that begins, and its
// result when it ends; nil for neither.
func New(o Options, begin func() (end func())) *Server {
	if begin == nil {
		begin = func() func() { return func() {} }
	}
	return &Server{o: o, begin: begin, left: float64(o.TokensPerMinute), filled: time.Now(), cut: make(map[string]bool)}
}

// Usage returns what s has done since the last Reset.
func (s *Server) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usage
}

// Reset sets the usage to zero and the budget to full.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usage, s.streams, s.cut = Usage{}, 0, make(map[string]bool)
	s.left, s.filled = float64(s.o.TokensPerMinute), time.Now()
}

// A request is the part of a chat completion that matters here.
type request struct {
	Model    string    `json:"model"`
	Messages []message `json:"messages"`
	Stream   bool      `json:"stream"`
	Options  struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens int `json:"max_tokens"`
}

// A message is one turn of a conversation.
type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"` // text, or parts
}

// ServeHTTP answers POST /v1/chat/completions.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/chat/completions" {
		refuse(w, http.StatusNotFound, "invalid_request_error", "no such path: "+r.URL.Path)
		return
	}
	if r.Method != http.MethodPost {
		refuse(w, http.StatusMethodNotAllowed, "invalid_request_error", r.Method)
		return
	}
	q, err := read(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	a := answerTo(q)
	wait, why := s.take(a.promptTokens + len(a.words))
	s.limits(w.Header())
	if why != "" {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		refuse(w, http.StatusTooManyRequests, why, "rate limit reached for "+why)
		return
	}
	end := s.begin()
	defer end()
	sent := 0
	defer func() { s.done(a, sent, r.Context().Err() != nil) }()
	if q.Stream {
		sent = s.stream(r.Context(), w, a, q.Options.IncludeUsage)
		return
	}
	if sent = s.generate(r.Context(), len(a.words), func(int) {}); sent == len(a.words) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(a.whole()) // if the client has left, the server notices
	}
}

// read reads a request.
func read(body io.Reader) (q request, err error) {
	if err := json.NewDecoder(body).Decode(&q); err != nil {
		return q, err
	}
	if len(q.Messages) == 0 {
		return q, errors.New("messages is empty")
	}
	return q, nil
}

// take takes n tokens of the budget and a slot. If it cannot, it returns how long to
// wait, and what is used up.
func (s *Server) take(n int) (wait time.Duration, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fillLocked(time.Now())
	switch short := float64(n) - s.left; {
	case s.o.Slots > 0 && s.running >= s.o.Slots:
		s.usage.Refused++
		return time.Second, "requests"
	case s.o.TokensPerMinute > 0 && short > 0:
		s.usage.Refused++
		return time.Duration(short / float64(s.o.TokensPerMinute) * float64(time.Minute)), "tokens"
	}
	s.left -= float64(n)
	s.running++
	s.usage.Completions++
	return 0, ""
}

// fillLocked refills the budget. s.mu must be held.
func (s *Server) fillLocked(now time.Time) {
	most := float64(s.o.TokensPerMinute)
	s.left = min(most, s.left+most*now.Sub(s.filled).Minutes())
	s.filled = now
}

// limits sets the fields about the budget. There are none about the slots: services
// state requests per minute, not requests at once.
func (s *Server) limits(h http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if most := s.o.TokensPerMinute; most > 0 {
		h.Set("X-Ratelimit-Limit-Tokens", strconv.Itoa(most))
		h.Set("X-Ratelimit-Remaining-Tokens", strconv.Itoa(max(0, int(s.left))))
		h.Set("X-Ratelimit-Reset-Tokens", time.Duration((float64(most)-s.left)/float64(most)*float64(time.Minute)).Round(time.Millisecond).String())
	}
}

// done ends a completion of which that many tokens were generated; left: its client
// left. The rest of the budget that it took is given back, and not billed.
func (s *Server) done(a answer, tokens int, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.left += float64(len(a.words) - tokens)
	s.usage.Tokens += int64(a.promptTokens + tokens)
	if left && tokens < len(a.words) {
		s.usage.Canceled++
	}
}

// generate takes the time of n tokens, calls each with its index, and returns how many
// there were before ctx ended.
func (s *Server) generate(ctx context.Context, n int, each func(i int)) int {
	timer := time.NewTimer(s.o.First)
	defer timer.Stop()
	for i := range n {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return i
		}
		each(i)
		timer.Reset(s.o.Token)
	}
	return n
}

// stream sends a as events, and returns how many tokens were generated.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, a answer, usage bool) int {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, must-revalidate")
	flusher := http.NewResponseController(w)
	send := func(event []byte) {
		_, _ = w.Write(event) // if the client has left, ctx ends
		_ = flusher.Flush()   // as above
	}
	_ = flusher.Flush() // as above
	most := len(a.words)
	if s.givesUp(a.id) {
		most /= 2
	}
	n := s.generate(ctx, most, func(i int) { send(a.chunk(i)) })
	if n < most {
		panic(http.ErrAbortHandler) // net/http would end the stream in order
	}
	if n == len(a.words) {
		for _, event := range a.end(usage) {
			send(event)
		}
	}
	return n
}

// givesUp reports whether the stream of the answer, which begins now, ends in the middle.
func (s *Server) givesUp(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams++
	if s.o.GiveUp == 0 || s.streams%s.o.GiveUp != 0 || s.cut[id] {
		delete(s.cut, id)
		return false
	}
	s.usage.GaveUp++
	s.cut[id] = true
	return true
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": nil}})
}
