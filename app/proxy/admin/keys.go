package admin

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/weir-go/weir/once"
)

// mostUnknown is how many unknown calls are listed.
const mostUnknown = 1000

// An unknownCall is a call whose outcome is unknown, as it is shown.
type unknownCall struct {
	ID     string    `json:"id"`
	Route  string    `json:"route"`
	Call   string    `json:"call"` // method and path
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

func (s *server) handleKeys(mux *http.ServeMux) {
	mux.HandleFunc("GET /idempotency", s.keys)
	mux.HandleFunc("POST /idempotency", s.settleKey)
}

// keys shows the counts, and the calls whose outcome is unknown.
func (s *server) keys(w http.ResponseWriter, r *http.Request) {
	if s.o.Keys == nil {
		fail(w, http.StatusNotFound, "no route has idempotency")
		return
	}
	all, err := s.o.Keys.Unknown(r.Context(), mostUnknown)
	if err != nil {
		fail(w, http.StatusServiceUnavailable, "%v", err)
		return
	}
	list := []unknownCall{}
	for _, u := range all {
		list = append(list, unknownCall{ID: u.ID.String(), Route: u.Route, Call: u.Call, Since: u.Since, Until: u.Expires, Reason: u.Reason})
	}
	answer(w, struct {
		once.Stats
		Unknown []unknownCall `json:"unknown"`
	}{s.o.Keys.Stats(), list})
}

// settleKey settles a call whose outcome is unknown.
func (s *server) settleKey(w http.ResponseWriter, r *http.Request) {
	if s.o.Keys == nil {
		fail(w, http.StatusNotFound, "no route has idempotency")
		return
	}
	var order struct {
		ID     string `json:"id"`
		Settle string `json:"settle"`
	}
	d := json.NewDecoder(io.LimitReader(r.Body, 1<<16))
	d.DisallowUnknownFields()
	if err := d.Decode(&order); err != nil || order.Settle != "done" && order.Settle != "not_done" {
		fail(w, http.StatusBadRequest, `the body must be {"id": "…", "settle": "done"} or {"id": "…", "settle": "not_done"}`)
		return
	}
	id, err := once.ParseDigest(order.ID)
	if err != nil {
		fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	switch err := s.o.Keys.Settle(r.Context(), id, order.Settle == "done"); {
	case errors.Is(err, once.ErrSettled):
		fail(w, http.StatusConflict, "no unknown call has this ID")
	case err != nil:
		fail(w, http.StatusServiceUnavailable, "%v", err)
	default:
		s.o.Logger.Info("an operator settled a call with an idempotency key", "id", order.ID, "as", order.Settle)
		answer(w, map[string]string{"settled": order.Settle})
	}
}
