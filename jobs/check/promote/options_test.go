package promote_test

import (
	"context"
	"strings"
	"testing"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/promote"
)

func TestNewNamesAllFaults(t *testing.T) {
	_, err := promote.New[[2]string, int](nil, nil, promote.Options[[2]string]{MaxPromoted: -1})
	if err == nil {
		t.Fatal("New = nil; want an error")
	}
	for _, want := range []string{"Guard", "Queue", "Options.KeyString", "[2]string", "Options.MaxPromoted is -1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("New = %q; want it to contain %q", err, want)
		}
	}
}

type (
	country string
	number  int32
	mark    uint8
	point   struct{ X, Y int }
)

// A key's String is not its name.
func (country) String() string { return "somewhere" }

// nameOf returns the key of the job for a promoted call.
func nameOf[K comparable](t *testing.T, s *jobs.Store, key K, o promote.Options[K]) string {
	t.Helper()
	o.Budget = -1
	g := weir.Must(weir.New(func(context.Context, K) (int, error) { return 0, nil }, weir.Options{}))
	q, err := jobs.NewQueue[K, int](within(t), s, "names", jobs.QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := promote.New(g, q, o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	_, job, err := p.Get(within(t), key)
	if err != nil {
		t.Fatal(err)
	}
	st, err := job.Status(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return st.Key
}

func TestKeysNameTheirJobs(t *testing.T) {
	s := open(t)
	tests := []struct{ got, want string }{
		{nameOf(t, s, "a key", promote.Options[string]{}), "a key"},
		{nameOf(t, s, country("fr"), promote.Options[country]{}), "fr"},
		{nameOf(t, s, number(-7), promote.Options[number]{}), "-7"},
		{nameOf(t, s, mark(200), promote.Options[mark]{}), "200"},
		{nameOf(t, s, point{1, 2}, promote.Options[point]{KeyString: func(p point) string {
			return strings.Repeat("x", p.X) + strings.Repeat("y", p.Y)
		}}), "xyy"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("the job's key is %q; want %q", tt.got, tt.want)
		}
	}
}
