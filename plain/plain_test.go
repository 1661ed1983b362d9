package plain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"

	"github.com/weir-go/weir/plain"
	"github.com/weir-go/weir/plain/plaintest"
)

// Every kind of hidden character is escaped, and none is dropped.
func TestH21_HiddenCharactersShow(t *testing.T) {
	for _, k := range plaintest.Kinds {
		given, want := "a"+k.Hidden+"é世\tb", "a"+k.Shown+"é世\tb"
		if got := plain.Text(given); got != want {
			t.Errorf("%s: Text(%q) = %q; want %q", k.Name, given, got, want)
		}
		if got := plain.Line(given); got != strings.ReplaceAll(want, "\t", `\t`) {
			t.Errorf("%s: Line(%q) = %q; want %q, with the tab escaped", k.Name, given, got, want)
		}
		if got := plain.Text(want); got != want {
			t.Errorf("%s: Text(%q) = %q; want plain text unchanged", k.Name, want, got)
		}
		encoded, err := json.MarshalIndent(map[string]string{"k" + k.Hidden: given}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		shown := plain.JSON(encoded)
		if found := plaintest.Find(string(shown)); found != "" {
			t.Errorf("%s: JSON = %s, which contains %s", k.Name, shown, found)
		}
		var before, after map[string]string
		if err := errors.Join(json.Unmarshal(encoded, &before), json.Unmarshal(shown, &after)); err != nil || fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("%s: JSON = %s, %v; want the same value as %s", k.Name, shown, err, encoded)
		}
	}
	if got := plain.Line("a\nb"); got != `a\nb` {
		t.Errorf("Line of two lines = %q; want one line", got)
	}
}

// Log output is plain for values of any type, and a handler can still unwrap a logged
// error.
func TestH21_LogsArePlain(t *testing.T) {
	handlers := map[string]func(*bytes.Buffer) slog.Handler{
		"JSON": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
	}
	for _, k := range plaintest.Kinds {
		s := "a" + k.Hidden + "b"
		for what, log := range map[string]func(*slog.Logger){
			"message": func(l *slog.Logger) { l.Info(s) },
			"name":    func(l *slog.Logger) { l.Info("m", s, 1) },
			"string":  func(l *slog.Logger) { l.Info("m", "v", s) },
			"error":   func(l *slog.Logger) { l.Info("m", "v", fmt.Errorf("wrapped: %w", errors.New(s))) },
			"list":    func(l *slog.Logger) { l.Info("m", "v", []string{"x", s}) },
			"bytes":   func(l *slog.Logger) { l.Info("m", "v", []byte(s)) },
			"struct":  func(l *slog.Logger) { l.Info("m", "v", struct{ F string }{s}) },
			"pointer": func(l *slog.Logger) { l.Info("m", "v", &struct{ F *string }{&s}) },
			"map":     func(l *slog.Logger) { l.Info("m", "v", map[string]any{s: []any{s}}) },
			"path":    func(l *slog.Logger) { l.Info("m", "v", &fs.PathError{Op: "open", Path: s, Err: fs.ErrNotExist}) },
			"group":   func(l *slog.Logger) { l.Info("m", slog.Group("g", slog.Group("h", "v", s))) },
			"valuer":  func(l *slog.Logger) { l.Info("m", "v", valuer(s)) },
			"with":    func(l *slog.Logger) { l.With("v", s).Info("m") },
			"grouped": func(l *slog.Logger) { l.WithGroup(s).Info("m", "v", 1) },
		} {
			for name, handler := range handlers {
				var b bytes.Buffer
				log(plain.Logger(slog.New(handler(&b))))
				if found := plaintest.Find(b.String()); found != "" || !strings.Contains(strings.ReplaceAll(b.String(), `\\`, `\`), k.Shown) && what != "pointer" {
					t.Errorf("%s as %s in %s: %q contains %q; want it escaped", k.Name, what, name, b.String(), found)
				}
			}
		}
	}
	cause := errors.New("a\u202eb")
	var seen error
	plain.Logger(slog.New(see{func(a slog.Attr) { seen, _ = a.Value.Any().(error) }, slog.DiscardHandler})).Error("m", "error", cause)
	if !errors.Is(seen, cause) {
		t.Errorf("the handler gets %v; want an error that wraps the logged one", seen)
	}
}

// see passes the attributes that a handler receives to attr.
type see struct {
	attr func(slog.Attr)
	slog.Handler
}

func (see) Enabled(context.Context, slog.Level) bool { return true }

func (h see) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool { h.attr(a); return true })
	return nil
}

type valuer string

func (v valuer) LogValue() slog.Value { return slog.StringValue(string(v)) }

// No password in a URL is shown, however it is written.
func TestH21_UsersOfURLsAreLeftOut(t *testing.T) {
	for _, tt := range []struct{ given, want string }{
		{"http://user:secret@h.test/x@y", "http://…@h.test/x@y"},
		{"http://h.test/a@b", "http://h.test/a@b"},
		{"mail a@b.test about http://h.test/", "mail a@b.test about http://h.test/"},
		{`Get "http://u@h.test/": refused`, `Get "http://…@h.test/": refused`},
		{"redis://:secret@h:6379/0", "redis://…@h:6379/0"},
		{"nats://u:secret@a:4222,nats://u:secret@b:4222", "nats://…@a:4222,nats://…@b:4222"},
		{"http://u:se@cr@et@h.test", "http://…@h.test"},
		{"http://u:se'cret@h.test", "http://…@h.test"},
		{"http://u:%73ecret@h.test?q=a@b", "http://…@h.test?q=a@b"},
		{`parse "redis://:se/cret@h": invalid port ":se" after host`, `parse "redis://…@h": invalid port after host`},
		{`parse "http://u:se cret@h": net/url: invalid userinfo`, `parse "http://…@h": net/url: invalid userinfo`},
	} {
		for name, f := range map[string]func(string) string{"Text": plain.Text, "Line": plain.Line, "WithoutUser": plain.WithoutUser} {
			if got := f(tt.given); got != tt.want {
				t.Errorf("%s(%q) = %q; want %q", name, tt.given, got, tt.want)
			}
		}
		encoded, err := json.Marshal(tt.given)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(plain.JSON(encoded)); strings.Contains(got, "se/") || strings.Contains(got, "cret") || strings.Contains(got, `":se`) || !json.Valid([]byte(got)) {
			t.Errorf("JSON(%s) = %s; want valid JSON without the password", encoded, got)
		}
	}
	for given, want := range map[string]string{
		"h.test:80": "h.test:80", "user:secret@h.test:80": "…@h.test:80", "a@b@c": "…@c", "": "",
	} {
		if got := plain.Authority(given); got != want {
			t.Errorf("Authority(%q) = %q; want %q", given, got, want)
		}
	}
}

func TestBounded(t *testing.T) {
	for _, tt := range []struct {
		given string
		most  int
		want  string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"aé", 2, "a…"}, {"a世b", 3, "a…"}, {"a世b", 4, "a世…"}, {"a\xff\xffb", 3, "a…"},
	} {
		if got := plain.Bounded(tt.given, tt.most); got != tt.want {
			t.Errorf("Bounded(%q, %d) = %q; want %q", tt.given, tt.most, got, tt.want)
		}
	}
}

// For any input, the output contains no hidden character, and passing it through again
// changes nothing. JSON still decodes to the same value.
func FuzzPlain(f *testing.F) {
	for _, k := range plaintest.Kinds {
		f.Add("a" + k.Hidden + "b")
	}
	f.Add("http://u:p@h/ parse \"x://a\\\"@b\" \x00")
	f.Fuzz(func(t *testing.T, s string) {
		for name, show := range map[string]func(string) string{"Text": plain.Text, "Line": plain.Line} {
			got := show(s)
			if found := plaintest.Find(got); found != "" {
				t.Errorf("%s(%q) = %q, which contains %s", name, s, got, found)
			}
			if again := show(got); again != got {
				t.Errorf("%s(%q) = %q; a second pass gives %q", name, s, got, again)
			}
		}
		encoded, _ := json.Marshal(s) // cannot fail for a string
		shown := plain.JSON(encoded)
		var was, is string
		if err := errors.Join(json.Unmarshal(encoded, &was), json.Unmarshal(shown, &is)); err != nil || plaintest.Find(string(shown)) != "" {
			t.Errorf("JSON(%s) = %s, %v; want valid JSON without hidden characters", encoded, shown, err)
		}
		if is != was && !strings.Contains(s, "@") {
			t.Errorf("JSON(%s) = %s; want the same value", encoded, shown)
		}
	})
}
