package engine

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

const (
	cassandraVersion = "5.0.6"

	// jarsAtOnce is the number of concurrent fetches.
	jarsAtOnce = 8
)

// cassandraJars are the run-time dependencies that Maven resolves for
// org.apache.cassandra:cassandra-all: a complete list, so that Maven is not needed.
//
//go:embed cassandra.jars
var cassandraJars string

// A jarFile is a file on Maven Central.
type jarFile struct {
	digest string // SHA-256, in hexadecimal
	path   string // group/artifact/version/file.jar
}

// parseJars reads lines of "digest path".
func parseJars(list string) ([]jarFile, error) {
	var found []jarFile
	for line := range strings.Lines(list) {
		digest, path, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || len(digest) != 64 || !filepath.IsLocal(path) || !strings.HasSuffix(path, ".jar") {
			return nil, fmt.Errorf("the list of jars has %q; want a SHA-256 and a path", line)
		}
		found = append(found, jarFile{digest: digest, path: path})
	}
	return found, nil
}

func cassandraFolder() string { return filepath.Join(cacheFolder(), "cassandra-"+cassandraVersion) }

// haveJars reports whether the jars are in the cache: either all of them are, or
// none.
func haveJars() bool {
	info, err := os.Stat(cassandraFolder())
	return err == nil && info.IsDir()
}

// fetchJars fetches the jars into dir, all or none.
func fetchJars(ctx context.Context, w io.Writer, dir, list string) error {
	jars, err := parseJars(list)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "engine: fetching %d jars from %s\n", len(jars), maven())
	return putInPlace(dir, func(tmp string) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		errs := make([]error, len(jars))
		slots := make(chan struct{}, jarsAtOnce)
		var wg sync.WaitGroup
		for i, j := range jars {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				if ctx.Err() != nil {
					return // the first error is the reason
				}
				if errs[i] = j.fetch(ctx, tmp); errs[i] != nil {
					cancel()
				}
			})
		}
		wg.Wait()
		return errors.Join(append(errs, context.Cause(ctx))...)
	})
}

func (j jarFile) fetch(ctx context.Context, dir string) error {
	b, err := download(ctx, maven()+"/"+j.path, j.digest)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, path.Base(j.path)), b, 0o644)
}
