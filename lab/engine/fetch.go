package engine

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/xi2/xz"
)

// A jar is a build of an engine on Maven Central: a zip file that contains one
// archive.
type jar struct {
	name    string            // engine and version: the name of its folder in the cache
	path    string            // on Maven Central; %s stands for the architecture, twice
	arch    map[string]string // GOARCH to Maven's name
	digests map[string]string // GOARCH to the file's SHA-256
}

// postgresJar is the build that fergusstrange/embedded-postgres also fetches. That
// library is not used: it starts the server with pg_ctl, out of reach of the
// parent-death signal and not as another user, and it checks the file only against a
// digest from the same source.
var postgresJar = jar{
	name: "postgres-17.11.0",
	path: "io/zonky/test/postgres/" +
		"embedded-postgres-binaries-linux-%s/17.11.0/embedded-postgres-binaries-linux-%[1]s-17.11.0.jar",
	arch: map[string]string{"amd64": "amd64", "arm64": "arm64v8"},
	digests: map[string]string{
		"amd64": "0dd7b72b6f335b8ecfb355fa24c5781e8a93edd09880bb77eb52ebbf29b3e96d",
		"arm64": "8b042e0ea418b1927d95399207950da0734d27fe01e29503ade3bdc464ad4c2b",
	},
}

// cacheFolder is the folder of the fetched programs. For root it is a folder that the
// unprivileged user can read.
func cacheFolder() string {
	base := "/var/cache"
	if os.Geteuid() != 0 {
		var err error
		if base, err = os.UserCacheDir(); err != nil {
			base = os.TempDir()
		}
	}
	return filepath.Join(base, "weir")
}

func (j jar) folder() string { return filepath.Join(cacheFolder(), j.name) }

// fetch downloads the jar and unpacks it into its folder.
func (j jar) fetch(ctx context.Context, w io.Writer) error {
	arch, ok := j.arch[runtime.GOARCH]
	if !ok || runtime.GOOS != "linux" {
		return fmt.Errorf("there is no build of %s for %s/%s", j.name, runtime.GOOS, runtime.GOARCH)
	}
	url := maven() + "/" + fmt.Sprintf(j.path, arch)
	fmt.Fprintln(w, "engine: fetching", url)
	b, err := download(ctx, url, j.digests[runtime.GOARCH])
	if err != nil {
		return err
	}
	return putInPlace(j.folder(), func(dir string) error { return unpack(dir, b) })
}

// maven returns the base URL of Maven Central, or of the mirror in WEIR_MAVEN.
func maven() string {
	return strings.TrimRight(cmp.Or(os.Getenv("WEIR_MAVEN"), "https://repo1.maven.org/maven2"), "/")
}

// download returns the file at url if it has the SHA-256 digest.
func download(ctx context.Context, url, digest string) ([]byte, error) {
	b, err := get(ctx, url)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != digest {
		return nil, fmt.Errorf("%s: SHA-256 is %x; want %s", url, sum, digest)
	}
	return b, nil
}

// get tries three times, because Install runs unattended on new machines.
func get(ctx context.Context, url string) ([]byte, error) {
	var errs error
	for try := range 3 {
		if try > 0 {
			time.Sleep(time.Duration(try) * time.Second)
		}
		b, err := getOnce(ctx, url)
		if err == nil {
			return b, nil
		}
		errs = errors.Join(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errs
}

func getOnce(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return io.ReadAll(resp.Body)
}

// putInPlace calls fill for a folder next to dir and then renames it to dir, so that
// dir is complete or absent.
func putInPlace(dir string, fill func(tmp string) error) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "unpack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := fill(tmp); err != nil {
		return fmt.Errorf("fill %s: %w", dir, err)
	}
	if err := os.Chmod(tmp, 0o755); err != nil { // MkdirTemp excludes other users
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr == nil {
			return nil // another process was faster
		}
		return err
	}
	return nil
}

func unpack(dir string, jar []byte) error {
	z, err := zip.NewReader(bytes.NewReader(jar), int64(len(jar)))
	if err != nil {
		return err
	}
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, ".txz") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		defer r.Close()
		x, err := xz.NewReader(r, 0)
		if err != nil {
			return err
		}
		return untar(dir, tar.NewReader(x))
	}
	return errors.New("no .txz in the jar")
}

// untar writes t's files below dir and refuses paths outside it.
func untar(dir string, t *tar.Reader) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		name := filepath.Clean(h.Name)
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			err = root.Symlink(h.Linkname, name)
		case tar.TypeReg:
			err = writeFile(root, name, t, h.FileInfo().Mode().Perm()|0o444)
		}
		if err != nil {
			return err
		}
	}
}

func writeFile(root *os.Root, name string, r io.Reader, perm os.FileMode) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, r); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}
