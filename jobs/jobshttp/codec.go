package jobshttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/weir-go/weir/jobs"
)

// requests and responses are the codecs: one line of JSON, followed by the raw body.
// In JSON the body would be a third larger.
var (
	requests = jobs.Codec[Request]{
		Encode: func(q Request) ([]byte, error) {
			q.Target, q.Host, q.Header = text(q.Target), text(q.Host), mapped(q.Header, text)
			return encode(q, q.Body)
		},
		Decode: func(data []byte, _ int) (q Request, err error) {
			q.Body, err = decode(data, &q)
			q.Target, q.Host, q.Header = octets(q.Target), octets(q.Host), mapped(q.Header, octets)
			return q, err
		},
	}
	responses = jobs.Codec[Response]{
		Encode: func(p Response) ([]byte, error) {
			p.Header = mapped(p.Header, text)
			return encode(p, p.Body)
		},
		Decode: func(data []byte, _ int) (p Response, err error) {
			p.Body, err = decode(data, &p)
			p.Header = mapped(p.Header, octets)
			return p, err
		},
	}
)

func encode(head any, body []byte) ([]byte, error) {
	line, err := json.Marshal(head) // contains no line break
	if err != nil {
		return nil, err
	}
	return slices.Concat(line, []byte("\n"), body), nil
}

func decode(data []byte, head any) (body []byte, err error) {
	line, body, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return nil, errors.New("jobshttp: the data was not written by this package")
	}
	return body, json.Unmarshal(line, head)
}

// text converts bytes to a string that JSON preserves. Fields and targets can contain
// any bytes (RFC 9110, section 5.5); each byte becomes the character with its number.
func text(octets string) string {
	runes := make([]rune, len(octets))
	for i := range len(octets) {
		runes[i] = rune(octets[i])
	}
	return string(runes)
}

// octets returns the bytes from which text was converted.
func octets(text string) string {
	b := make([]byte, 0, len(text))
	for _, r := range text {
		b = append(b, byte(r))
	}
	return string(b)
}

func mapped(h http.Header, f func(string) string) http.Header {
	out := make(http.Header, len(h))
	for name, values := range h {
		list := make([]string, len(values))
		for i, v := range values {
			list[i] = f(v)
		}
		out[name] = list
	}
	return out
}
