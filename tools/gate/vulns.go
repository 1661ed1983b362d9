package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/module"
)

const (
	// vulnSite is the Go vulnerability database.
	vulnSite = "https://vuln.go.dev"

	// vulnModule is the module that contains the data of vulnSite. A module proxy may
	// have it where vulnSite cannot be reached.
	vulnModule = "golang.org/x/vulndb"

	// vulnSiteTimeout bounds the attempt to reach vulnSite, and vulnModuleTimeout the
	// download of vulnModule, which has 25 MB.
	vulnSiteTimeout   = 5 * time.Second
	vulnModuleTimeout = 2 * time.Minute

	// vulnMaxAge is the maximum age of vulnModule. An older one says little about today's
	// vulnerabilities.
	vulnMaxAge = 60 * 24 * time.Hour
)

// vulns fails if the released modules call code with a known vulnerability.
func vulns(ctx context.Context) (string, error) {
	db, err := vulnDatabase(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "no database of vulnerabilities: " + strings.ReplaceAll(err.Error(), "\n", "; "), nil
	}
	fmt.Println("database:", db)
	return "", govulncheck(ctx, "tools", db, command{}, releasedPatterns()...)
}

// errVulnerable is returned by govulncheck if the packages call vulnerable code.
var errVulnerable = errors.New("vulnerable code is called")

// govulncheck runs the tool, which the module in the folder tools requires, on packages,
// with the database at a URL.
func govulncheck(ctx context.Context, tools, db string, c command, patterns ...string) error {
	tool, err := command{env: alone.env, quiet: true}.run(ctx, "go", "-C", tools, "tool", "-n", "govulncheck")
	if err != nil {
		return err
	}
	_, err = c.run(ctx, tool, append([]string{"-db", db}, patterns...)...)
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 3 {
		return errVulnerable
	}
	return err
}

// vulnDatabase returns the URL of a database: GOVULNDB if it is set, else vulnSite if it
// responds, else the data of vulnModule.
func vulnDatabase(ctx context.Context) (string, error) {
	if db := os.Getenv("GOVULNDB"); db != "" {
		return db, nil
	}
	err := reach(ctx, vulnSite+"/index/db.json.gz")
	if err == nil {
		return vulnSite, nil
	}
	db, moduleErr := vulnFromModule(ctx)
	if moduleErr != nil {
		return "", errors.Join(err, moduleErr)
	}
	return db, nil
}

// reach returns nil if there is a file at a URL.
func reach(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, vulnSiteTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// vulnFromModule downloads the newest version of vulnModule and returns the URL of its
// data.
func vulnFromModule(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, vulnModuleTimeout)
	defer cancel()
	var m struct{ Version, Dir, Error string }
	// Without the workspace, because its sum file does not have the module.
	c := command{env: []string{"GOWORK=off", "GOFLAGS=-mod=mod"}, dir: os.TempDir(), quiet: true}
	out, err := c.run(ctx, "go", "mod", "download", "-json", vulnModule+"@latest")
	if jsonErr := json.Unmarshal([]byte(out), &m); jsonErr == nil && m.Error != "" {
		return "", errors.New(m.Error)
	}
	if err != nil {
		return "", fmt.Errorf("%s@latest: %w", vulnModule, err)
	}
	if err := fresh(m.Version, time.Now()); err != nil {
		return "", err
	}
	return "file://" + filepath.ToSlash(filepath.Join(m.Dir, "data", "osv")), nil
}

// fresh returns an error if a version of vulnModule is older than vulnMaxAge.
func fresh(version string, now time.Time) error {
	when, err := module.PseudoVersionTime(version)
	if err != nil {
		return fmt.Errorf("%s@%s: %w", vulnModule, version, err)
	}
	if age := now.Sub(when); age > vulnMaxAge {
		return fmt.Errorf("%s@%s is %d days old; want at most %d", vulnModule, version, int(age.Hours()/24), int(vulnMaxAge.Hours()/24))
	}
	return nil
}
