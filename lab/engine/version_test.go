package engine

import (
	"context"
	"errors"
	"regexp"
	"testing"
)

// The first lines that the programs print.
func TestVersionIn(t *testing.T) {
	for out, want := range map[string]string{
		"nginx version: nginx/1.26.3": "1.26.3",
		"varnishd (varnish-7.7.0 revision 3e9d9b1dd4c0d3b5)\nCopyright (c) 2006 Verdens Gang AS": "7.7.0",
		"v2.8.4 h1:q3pe0wpBj1OcHFZ3n/1nl4V4bxBrYoSoab7rL9BMYNk=":                                 "2.8.4",
		"Redis server v=8.0.2 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64":                      "8.0.2",
		"postgres (PostgreSQL) 17.6 (Debian 17.6-0+deb13u1)":                                     "17.6",
		"This is ApacheBench, Version 2.3 <$Revision: 1923142 $>":                                "2.3",
		"wrk debian/4.1.0-4 [epoll] Copyright (C) 2012 Will Glozer\nUsage: wrk <options> <url>":  "4.1.0",
		"h2load nghttp2/1.64.0\n": "1.64.0",
		"/usr/bin/chromium: 9: [: 25276063744: unexpected operator\nChromium 142.0.7444.59 built on Debian": "142.0.7444.59",
		"usage: x [-1]": "",
		"":              "",
	} {
		if have := versionIn(out); have != want {
			t.Errorf("versionIn(%q) = %q; want %q", out, have, want)
		}
	}
}

// Every engine and tool that is installed has a version, and one that is missing has the
// error of Start and Command.
func TestVersionOfWhatIsInstalled(t *testing.T) {
	number := regexp.MustCompile(`^\d+(\.\d+)+$`)
	for _, name := range Names() {
		version, err := Version(t.Context(), name)
		if missing := Installed(name); missing != nil {
			if have, want := new(*MissingError), new(*MissingError); errors.As(missing, want) && !errors.As(err, have) {
				t.Errorf("Version(%s) = %q, %v; want %v", name, version, err, missing)
			}
			continue
		}
		if err != nil || !number.MatchString(version) {
			t.Errorf("Version(%s) = %q, %v; want a version number", name, version, err)
		}
	}
	if _, err := Version(t.Context(), "no-such-engine"); !errors.Is(err, ErrUnknown) {
		t.Errorf("Version of an unknown engine: %v; want ErrUnknown", err)
	}
}

// A program that prints no version has an error that shows its output.
func TestVersionThatIsNotPrinted(t *testing.T) {
	if v, err := printed(context.Background(), "echo", "echo", "hello"); err == nil {
		t.Errorf("printed = %q; want an error", v)
	}
}
