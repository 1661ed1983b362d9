package model_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/model"
)

// post returns the response to a request and its body, which is "broken" if it was cut off.
func post(t *testing.T, url, body string) (*http.Response, string) {
	t.Helper()
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil && resp.StatusCode == 200 {
		return resp, "broken"
	}
	return resp, string(b)
}

func ask(prompt string, stream bool) string {
	return fmt.Sprintf(`{"model":"lab","messages":[{"role":"user","content":%q}],"stream":%v}`, prompt, stream)
}

// A stream and a whole answer say the same, equal requests get equal bytes, which are
// those of Response, and every token is billed.
func TestAnswers(t *testing.T) {
	s := model.New(model.Options{}, nil)
	server := httptest.NewServer(s)
	defer server.Close()
	var total int64
	texts := map[string]string{}
	for _, body := range []string{ask("why?", false), ask("why not?", false), ask("why?", true), ask("why?", true),
		`{"stream_options":{"include_usage":true}, "stream":true, "messages":[{"content":"why\u003f","role":"user"}], "model":"lab"}`} {
		want, err := model.Response([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, got := post(t, server.URL, body)
		if resp.StatusCode != 200 || got != string(want) {
			t.Fatalf("%s: %d %q; want 200 %q", body, resp.StatusCode, got, want)
		}
		texts[body] = text(t, got)
		total += int64(len(strings.Fields(texts[body])))
		if strings.Contains(body, "include_usage") != strings.Contains(got, `"total_tokens":`) && strings.Contains(body, `"stream":true`) {
			t.Errorf("%s: %q; want the usage if the request asks for it", body, got)
		}
	}
	if n := len(slices.Compact(slices.Sorted(maps.Values(texts)))); n != 2 {
		t.Errorf("%d different texts %q; want 2, because there are two prompts", n, texts)
	}
	if u := s.Usage(); u.Completions != 5 || u.Tokens <= total || u.Refused+u.Canceled+u.GaveUp != 0 {
		t.Errorf("Usage = %+v; want 5 completions, of more than the %d tokens of the answers", u, total)
	}
}

// text returns what the body of a response says.
func text(t *testing.T, body string) (said string) {
	t.Helper()
	var chunk struct {
		Choices []struct{ Message, Delta struct{ Content string } }
	}
	for line := range strings.Lines(body) {
		data := strings.TrimSpace(strings.TrimPrefix(line, "data: "))
		if data == "" || data == "[DONE]" {
			continue
		}
		chunk.Choices = nil
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		for _, c := range chunk.Choices {
			said += c.Message.Content + c.Delta.Content
		}
	}
	return said
}

// A stream that the server gives up is a part of the whole one, and a complete HTTP
// response. The next one is whole.
func TestGivesUp(t *testing.T) {
	whole, err := model.Response([]byte(ask("why?", true)))
	if err != nil {
		t.Fatal(err)
	}
	s := model.New(model.Options{GiveUp: 1}, nil)
	server := httptest.NewServer(s)
	defer server.Close()
	_, part := post(t, server.URL, ask("why?", true))
	if !strings.HasPrefix(string(whole), part) || len(part) == 0 || len(part) == len(whole) {
		t.Errorf("the first stream is %q; want a part of %q", part, whole)
	}
	if _, got := post(t, server.URL, ask("why?", true)); got != string(whole) {
		t.Errorf("the second stream is %q; want %q", got, whole)
	}
	if u := s.Usage(); u.GaveUp != 1 || u.Canceled != 0 || u.Completions != 2 {
		t.Errorf("Usage = %+v; want 2 completions, of which 1 gave up", u)
	}
}

func TestLimits(t *testing.T) {
	s := model.New(model.Options{First: time.Hour, Slots: 2}, nil)
	server := httptest.NewServer(s)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { post(t, server.URL, ask("x", true)) })
	}
	for s.Usage().Completions < 2 {
		time.Sleep(time.Millisecond)
	}
	resp, _ := post(t, server.URL, ask("y", true))
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("beyond the slots: %d, %v; want 429", resp.StatusCode, resp.Header)
	}
	server.CloseClientConnections()
	all.Wait()
	server.Close()
	if u := s.Usage(); u.Canceled != 2 || u.Refused != 1 {
		t.Errorf("Usage = %+v; want 2 canceled, 1 refused", u)
	}
	s = model.New(model.Options{TokensPerMinute: 60}, nil)
	server = httptest.NewServer(s)
	defer server.Close()
	if resp, _ := post(t, server.URL, ask("x", false)); resp.StatusCode != 200 || resp.Header.Get("X-Ratelimit-Limit-Tokens") != "60" {
		t.Errorf("within the budget: %d, %v; want 200", resp.StatusCode, resp.Header)
	}
	resp, body := post(t, server.URL, ask("x", false))
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" || !strings.Contains(body, `"type":"tokens"`) {
		t.Errorf("beyond the budget: %d %s, %v; want 429", resp.StatusCode, body, resp.Header)
	}
	s.Reset()
	if resp, _ := post(t, server.URL, ask("x", false)); resp.StatusCode != 200 {
		t.Errorf("after Reset: %d; want 200", resp.StatusCode)
	}
}
