// Package licence identifies the licences of third-party code, and decides which are
// allowed. The release and the table in docs/reference/licences.md use it.
package licence

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// Allowed lists the licences, by SPDX identifier, that code in a binary of ours may have.
// They ask for no more than a copy of the licence, which the archives contain.
var Allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// mustAccompany matches the files that must accompany a copy of a module.
var mustAccompany = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents)([-._].*)?$`)

// hasTerms matches those that contain the terms of a licence. The others add to them.
var hasTerms = regexp.MustCompile(`(?i)^(licen[cs]e|copying)([-._].*)?$|\.licen[cs]e$`)

// mostUnknown is the largest share of a file, in percent, that may be text of no known
// licence: copyright notices and the names of files.
const mostUnknown = 25

// Files returns the names of the files in dir that must accompany a copy of the module
// there.
func Files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && mustAccompany.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Of returns the licences of the module in dir, by SPDX identifier, sorted. A module
// without a licence, or with one that is unknown or not allowed, is an error.
func Of(dir string) ([]string, error) {
	names, err := Files(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range names {
		if !hasTerms.MatchString(name) {
			continue
		}
		ids, err := OfFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		all = append(all, ids...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no licence in %s", filepath.Base(dir))
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// OfFile returns the licences in a file, as Of does.
func OfFile(name string) ([]string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	ids, err := identify(text)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", filepath.Base(name), filepath.Base(filepath.Dir(name)), err)
	}
	return ids, nil
}

// identify returns the licences in a text, sorted, if all are allowed.
func identify(text []byte) ([]string, error) {
	found := licensecheck.Scan(text)
	if found.Percent < 100-mostUnknown {
		return nil, fmt.Errorf("only %.0f %% of the text is that of a known licence; want at least %d %%", found.Percent, 100-mostUnknown)
	}
	var ids, bad []string
	for _, m := range found.Match {
		if m.IsURL {
			continue // a link, for example to the licence of the project's logo
		}
		ids = append(ids, m.ID)
		if !slices.Contains(Allowed, m.ID) {
			bad = append(bad, m.ID)
		}
	}
	if len(bad) > 0 {
		return nil, fmt.Errorf("licence %s is not on the list of allowed licences: %s", strings.Join(bad, ", "), strings.Join(Allowed, ", "))
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
