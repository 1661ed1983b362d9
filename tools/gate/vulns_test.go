package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// vulnDB returns the URL of a database with one vulnerability of golang.org/x/mod, in a
// function of package modfile.
func vulnDB(t *testing.T, function string) string {
	t.Helper()
	dir := t.TempDir()
	entry := fmt.Sprintf(`{"schema_version": "1.3.1", "id": "GO-2000-0001", "modified": "2000-01-01T00:00:00Z",
		"published": "2000-01-01T00:00:00Z", "summary": "An invented vulnerability", "details": "For a test.",
		"affected": [{"package": {"name": "golang.org/x/mod", "ecosystem": "Go"},
			"ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}],
			"ecosystem_specific": {"imports": [{"path": "golang.org/x/mod/modfile", "symbols": [%q]}]}}],
		"database_specific": {"url": "https://pkg.go.dev/vuln/GO-2000-0001"}}`, function)
	if err := os.WriteFile(filepath.Join(dir, "GO-2000-0001.json"), []byte(entry), 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + filepath.ToSlash(dir)
}

// The package released calls modfile.Parse and not modfile.ParseWork.
func TestGovulncheckFailsOnCalledVulnerabilities(t *testing.T) {
	c := command{env: alone.env, dir: ".."}
	if err := govulncheck(t.Context(), "..", vulnDB(t, "Parse"), c, "./released"); !errors.Is(err, errVulnerable) {
		t.Errorf("a called vulnerability: %v; want %v", err, errVulnerable)
	}
	if err := govulncheck(t.Context(), "..", vulnDB(t, "ParseWork"), c, "./released"); err != nil {
		t.Errorf("a vulnerability that is not called: %v; want nil", err)
	}
	// A database that cannot be read is a failure, and not a pass.
	if err := govulncheck(t.Context(), "..", "file:///nonexistent", c, "./released"); err == nil || errors.Is(err, errVulnerable) {
		t.Errorf("no database: %v; want an error of the tool", err)
	}
}

func TestReach(t *testing.T) {
	site := httptest.NewServer(http.FileServer(http.Dir(t.TempDir())))
	if err := reach(t.Context(), site.URL+"/"); err != nil {
		t.Errorf("reach = %v; want nil", err)
	}
	if err := reach(t.Context(), site.URL+"/index/db.json.gz"); err == nil {
		t.Error("reach of a missing file returned no error")
	}
	site.Close()
	if err := reach(t.Context(), site.URL+"/"); err == nil {
		t.Error("reach of a closed server returned no error")
	}
}

// GOVULNDB decides before the network does.
func TestVulnDatabaseFromTheEnvironment(t *testing.T) {
	t.Setenv("GOVULNDB", "file:///somewhere")
	if db, err := vulnDatabase(t.Context()); db != "file:///somewhere" || err != nil {
		t.Errorf("vulnDatabase = %q, %v; want that of GOVULNDB", db, err)
	}
}
