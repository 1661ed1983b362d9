package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/weir-go/weir/plain"
)

// maxBody bounds a request body: enough for a thousand tags.
const maxBody = 64 << 10

// answer responds with v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":"the response cannot be encoded as JSON"}`)
	}
	answerBytes(w, status, b)
}

func answerBytes(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(plain.JSON(b), '\n')) // the client may be gone
}

// fail responds with an error message.
func fail(w http.ResponseWriter, status int, format string, args ...any) {
	answer(w, status, map[string]string{"error": fmt.Sprintf(format, args...)})
}

// read decodes the body into v. If it cannot, it responds with the error and returns
// false.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && d.Decode(&struct{}{}) != io.EOF {
		err = errors.New("more than one value")
	}
	if err == nil {
		return true
	}
	status := http.StatusBadRequest
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		status = http.StatusRequestEntityTooLarge
	}
	fail(w, status, "the body: %v", err)
	return false
}
