package console

import (
	"context"
	"errors"
	"net/http"
)

// A purgeOrder is the body of POST api/purge.
type purgeOrder struct {
	Unit string   `json:"unit"`
	Tags []string `json:"tags"`
	All  bool     `json:"all"`
}

func (o purgeOrder) check() error {
	if o.Unit == "" {
		return errors.New(`want a "unit"`)
	}
	if (len(o.Tags) > 0) == o.All {
		return errors.New(`want one of "tags" and "all"`)
	}
	for _, tag := range o.Tags {
		if tag == "" {
			return errors.New("a tag is empty")
		}
	}
	return nil
}

// purged is the result of a purge.
type purged struct {
	Unit  string `json:"unit"`
	All   bool   `json:"all"`
	Tags  int    `json:"tags"`            // how many
	Error string `json:"error,omitempty"` // if it has not reached all instances
}

// purge makes the Source forget the requested entries.
func (c *Console) purge(forget func(ctx context.Context, unit string, tags []string, all bool) (bool, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			fail(w, http.StatusMethodNotAllowed, "want POST")
			return
		}
		var o purgeOrder
		if !read(w, r, &o) {
			return
		}
		if err := o.check(); err != nil {
			fail(w, http.StatusBadRequest, "%v", err)
			return
		}
		// The purge completes even if the client disconnects.
		found, err := forget(context.WithoutCancel(r.Context()), o.Unit, o.Tags, o.All)
		if !found {
			fail(w, http.StatusNotFound, "there is no unit of that name")
			return
		}
		status, result := http.StatusOK, purged{Unit: o.Unit, All: o.All, Tags: len(o.Tags)}
		if err != nil {
			status, result.Error = http.StatusServiceUnavailable, err.Error()
			c.o.Logger.Warn("purge failed, partially or completely", "unit", o.Unit, "error", err)
		}
		c.o.Logger.Info("purged", "client", r.RemoteAddr, "unit", o.Unit, "tags", o.Tags, "all", o.All)
		answer(w, status, result)
	}
}
