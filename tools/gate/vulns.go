package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	// vulnSite is the Go vulnerability database.
	vulnSite = "https://vuln.go.dev"

	// vulnSiteTimeout bounds the attempt to reach vulnSite.
	vulnSiteTimeout = 5 * time.Second
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
// responds.
func vulnDatabase(ctx context.Context) (string, error) {
	if db := os.Getenv("GOVULNDB"); db != "" {
		return db, nil
	}
	return vulnSite, reach(ctx, vulnSite+"/index/db.json.gz")
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
