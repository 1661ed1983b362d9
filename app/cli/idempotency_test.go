package cli_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/keysctl"
	"github.com/weir-go/weir/app/proxy/admin"
	"github.com/weir-go/weir/once"
)

// shopKeys returns Claims with three calls of an unknown outcome: one was doubted, one was
// running when its process ended, and the ID of the third begins as the ID of the first.
func shopKeys(t *testing.T) (_ *once.Claims, ids []once.Digest) {
	t.Helper()
	folder, err := once.OpenFolder(once.FolderOptions{Folder: t.TempDir()})
	check(t, err)
	t.Cleanup(func() { _ = folder.Close(context.Background()) })
	one := once.Sum("1")
	near := one
	near[31]++
	ids = []once.Digest{one, once.Sum("2"), near}
	for i, state := range []once.State{once.Unknown, once.Claimed, once.Unknown} {
		since := time.Now().Add(time.Duration(i-10) * time.Minute)
		_, err := folder.Put(t.Context(), ids[i], once.Record{
			State: state, Route: "pay", Call: "POST /payments/secret", Since: since, Expires: since.Add(24 * time.Hour), Reason: "the server responded with status 500",
		}, 0)
		check(t, err)
	}
	return once.NewClaims(folder), ids
}

// The command lists the calls whose outcome is unknown, and settles them.
func TestH45_TheCommandListsAndSettles(t *testing.T) {
	claims, ids := shopKeys(t)
	s := httptest.NewServer(admin.Endpoints(nil, admin.Options{Keys: claims, Logger: slog.New(slog.DiscardHandler)}))
	t.Cleanup(s.Close)
	run := func(code int, args ...string) *session {
		t.Helper()
		c := newSession()
		if got := c.run(append([]string{"idempotency"}, args...)...); got != code {
			t.Fatalf("%v = %d; want %d\n%s%s", args, got, code, c.stdout.String(), c.stderr.String())
		}
		return c
	}
	list := func() []string {
		t.Helper()
		var page keysctl.Page
		decode(t, run(command.ExitOK, "--admin", s.URL, "list", "--json").stdout.String(), &page)
		var got []string
		for _, u := range page.Unknown {
			got = append(got, u.ID)
		}
		if page.Stats.Unknown != len(got) {
			t.Errorf("unknown_calls = %d; want %d", page.Stats.Unknown, len(got))
		}
		return got
	}
	text := run(command.ExitOK, "--admin", s.URL, "list").stdout.String()
	lines := strings.Split(text, "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[1], ids[0].String()+"  pay    10m  23h   POST /payments/secret  the server responded") || !strings.Contains(lines[2], once.ReasonGone) {
		t.Errorf("list:\n%s", text)
	}
	if got := list(); len(got) != 3 || got[1] != ids[1].String() {
		t.Errorf("list --json = %v; want three, the oldest first", got)
	}
	// Nothing is settled unless every ID names one call.
	for _, wrong := range []string{ids[0].String()[:8], "000000", "ab"} {
		if c := run(command.ExitFailed, "--admin", s.URL, "settle", ids[1].String(), wrong, "--as", "done"); c.stderr.String() == "" || len(list()) != 3 {
			t.Errorf("settle %s: %q, and %d are left; want an error, and 3", wrong, c.stderr.String(), len(list()))
		}
	}
	run(command.ExitUsage, "--admin", s.URL, "settle", ids[1].String(), "--as", "perhaps")
	// Another run of a call is confirmed.
	if c := run(command.ExitFailed, "--admin", s.URL, "settle", ids[1].String(), "--as", "not_done"); !strings.Contains(c.stderr.String(), "--yes") || len(list()) != 3 {
		t.Errorf("settle without --yes: %s", c.stderr.String())
	}
	run(command.ExitOK, "--admin", s.URL, "settle", ids[0].String(), "--as", "done")
	out := run(command.ExitOK, "--admin", s.URL, "settle", ids[1].String()[:8], "--as", "not_done", "--yes", "--json").stdout.String()
	var done struct {
		Settled []struct{ ID, Settled string }
	}
	if decode(t, out, &done); len(done.Settled) != 1 || done.Settled[0].ID != ids[1].String() || done.Settled[0].Settled != "not_done" {
		t.Errorf("settle --json = %s", out)
	}
	if got := list(); len(got) != 1 || got[0] != ids[2].String() {
		t.Errorf("list = %v; want the third", got)
	}
	run(command.ExitFailed, "--admin", "http://127.0.0.1:1", "list")
}

// A browser sees no paths unless keys are shown: they can have the number of an order.
func TestH45_BrowsersSeeNoPathsOfCalls(t *testing.T) {
	claims, _ := shopKeys(t)
	for _, hide := range []bool{true, false} {
		w := httptest.NewRecorder()
		admin.Endpoints(nil, admin.Options{Keys: claims, HideKeys: hide}).ServeHTTP(w, httptest.NewRequest("GET", "/idempotency", nil))
		if strings.Contains(w.Body.String(), "secret") == hide || !strings.Contains(w.Body.String(), "POST") {
			t.Errorf("HideKeys %v: %s", hide, w.Body)
		}
	}
}
