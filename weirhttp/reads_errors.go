package weirhttp

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// errorReported reports whether a response, whose body is whole, may be one in which the
// origin reports an error (ReadRule.ErrorFields). rule may be nil.
func (rule *readRule) errorReported(header http.Header, whole []byte, most int64) bool {
	if rule == nil || len(rule.errors) == 0 {
		return false
	}
	if kind := mediaType(header); kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return false
	}
	body, err := decoded(header, whole, most)
	if err != nil {
		return true
	}
	for _, tokens := range rule.errors {
		if found, err := hasField(body, tokens); found || err != nil {
			return true
		}
	}
	return false
}

var errCoding = errors.New("weirhttp: the content has a coding that is not read")

// decoded returns the content without its coding, if that is gzip or none, and at most
// that much of it.
func decoded(header http.Header, body []byte, most int64) ([]byte, error) {
	switch coding := strings.ToLower(strings.Join(header["Content-Encoding"], ",")); coding {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		if _, err := io.CopyN(&out, r, most+1); err != io.EOF { //nolint:errorlint // CopyN returns it as it is
			return nil, cmp.Or(err, errCoding)
		}
		return out.Bytes(), nil
	}
	return nil, errCoding
}

// hasField reports whether a JSON text has the field with these tokens of a JSON pointer,
// with a value that says something. Of members with one name, each counts.
func hasField(text []byte, tokens []string) (bool, error) {
	if len(tokens) == 0 {
		switch strings.Join(strings.Fields(string(text)), "") {
		case "null", "false", "[]", "{}":
			return false, nil
		}
		return true, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	begin, err := d.Token()
	if err != nil {
		return false, err
	}
	found := false
	for i := 0; begin == json.Delim('{') || begin == json.Delim('['); i++ {
		if !d.More() {
			_, err = d.Token()
			return found, err
		}
		name := strconv.Itoa(i)
		if begin == json.Delim('{') {
			key, err := d.Token()
			if err != nil {
				return false, err
			}
			name, _ = key.(string)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return false, err
		}
		if name == tokens[0] {
			has, err := hasField(value, tokens[1:])
			if err != nil {
				return false, err
			}
			found = found || has
		}
	}
	return false, nil // it is not an object or an array
}
