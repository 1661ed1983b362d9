package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// created is the time in every answer: equal requests have equal answers.
const created = 1_700_000_000

// answer holds the response of the model to a request.
type answer struct {
	id, model    string
	promptTokens int
	words        []string // one token each, with the blank before it
}

// vocabulary has 16 words.
var vocabulary = strings.Fields("river mill wheel stone water bank flood gate stream bridge reed otter heron sluice pond weir")

// answerTo returns the answer to q. It follows from the model's name and the messages.
func answerTo(q request) answer {
	h := sha256.New()
	fmt.Fprintf(h, "%q", q.Model)
	a := answer{model: q.Model}
	for _, m := range q.Messages {
		content := encode(m.Content) // however the client has written it
		fmt.Fprintf(h, " %q %q", m.Role, content)
		a.promptTokens += 4 + len(strings.Fields(string(content)))
	}
	sum := h.Sum(nil)
	a.id = "chatcmpl-" + hex.EncodeToString(sum[:12])
	n := 24 + int(sum[12])%24
	if q.MaxTokens > 0 {
		n = min(n, q.MaxTokens)
	}
	for i := range n {
		// The digest's half bytes, over and over, shifted each time.
		b := sum[(i/2+i/64)%len(sum)] >> (4 * (i % 2)) & 0xf
		word := vocabulary[b]
		if i > 0 {
			word = " " + word
		}
		a.words = append(a.words, word)
	}
	return a
}

// text is all that is said.
func (a answer) text() string { return strings.Join(a.words, "") }

// Response returns the body of the response that a Server sends for a request with that
// body: its bytes follow from the request's alone.
func Response(body []byte) ([]byte, error) {
	q, err := read(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	a := answerTo(q)
	if !q.Stream {
		return a.whole(), nil
	}
	var all []byte
	for i := range a.words {
		all = append(all, a.chunk(i)...)
	}
	return append(all, bytes.Join(a.end(q.Options.IncludeUsage), nil)...), nil
}

// Field order is that of encoding/json: maps are sorted, so answers are equal bytes.
func encode(v any) []byte {
	b, _ := json.Marshal(v) // it holds strings and numbers
	return b
}

func (a answer) counts() map[string]any {
	return map[string]any{
		"prompt_tokens": a.promptTokens, "completion_tokens": len(a.words), "total_tokens": a.promptTokens + len(a.words),
	}
}

// whole is the answer as one JSON document.
func (a answer) whole() []byte {
	return encode(map[string]any{
		"id": a.id, "object": "chat.completion", "created": created, "model": a.model,
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": "stop", "logprobs": nil,
			"message": map[string]any{"role": "assistant", "content": a.text(), "refusal": nil},
		}},
		"usage": a.counts(),
	})
}

// event is a server-sent event with that data.
func event(data []byte) []byte { return fmt.Appendf(nil, "data: %s\n\n", data) }

// part is the event of a part of the answer.
func (a answer) part(choices []any, usage any) []byte {
	v := map[string]any{"id": a.id, "object": "chat.completion.chunk", "created": created, "model": a.model, "choices": choices}
	if usage != nil {
		v["usage"] = usage
	}
	return event(encode(v))
}

// chunk is the event of token i.
func (a answer) chunk(i int) []byte {
	delta := map[string]any{"content": a.words[i]}
	if i == 0 {
		delta["role"] = "assistant"
	}
	return a.part([]any{map[string]any{"index": 0, "delta": delta, "finish_reason": nil}}, nil)
}

// end is the events after the last token.
func (a answer) end(usage bool) [][]byte {
	all := [][]byte{a.part([]any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": "stop"}}, nil)}
	if usage {
		all = append(all, a.part([]any{}, a.counts()))
	}
	return append(all, event([]byte("[DONE]")))
}
