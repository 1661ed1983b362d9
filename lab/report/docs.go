package report

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-go/weir/lab/result"
)

// PictureFolder is the folder of the pictures that documents link to, relative to the
// root.
const PictureFolder = "lab/results/pictures"

// Each mark has its own line. In a fenced block it is text.
var (
	openMark   = regexp.MustCompile(`^<!--\s*lab:(\S+)\s*-->$`)
	likeMark   = regexp.MustCompile(`^<!--\s*/?\s*lab\b`)
	closeMark  = regexp.MustCompile(`^<!--\s*/lab\s*-->$`)
	fencedLine = regexp.MustCompile("^(```|~~~)")
)

// UpdateDocs writes the results of a run into README.md, docs/lab.md and the
// documents under docs/explain, between
//
//	<!-- lab:SCENARIO:PIECE -->
//
// and
//
//	<!-- /lab -->
//
// and the pictures that are linked there into PictureFolder. A piece is rows,
// measurements, tables, checks, machine or picture:KIND; for the whole run ("all"
// instead of a scenario) it is headline, published, machine or picture:headline. It
// returns the files that it changed, relative to root: none if all are up to date. If
// a mark is wrong, or names something that the run does not have, the error lists
// every such place, and nothing is written.
func UpdateDocs(root string, run result.Run) (changed []string, err error) {
	names, err := documents(root)
	if err != nil {
		return nil, err
	}
	u := updater{run: &run, linked: map[string][]byte{}}
	files := map[string][]byte{}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
		files[name] = []byte(u.update(name, string(text)))
	}
	if len(u.faults) > 0 {
		return nil, errors.Join(u.faults...)
	}
	for name, svg := range u.linked {
		files[path.Join(PictureFolder, name)] = svg
	}
	return writeChanged(root, files)
}

// documents returns the files that may quote a run.
func documents(root string) ([]string, error) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "explain", "*.md"))
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	var names []string
	for _, page := range append(pages, filepath.Join(root, "docs", "lab.md"), filepath.Join(root, "README.md")) {
		if _, err := os.Stat(page); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		name, err := filepath.Rel(root, page)
		if err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
		names = append(names, filepath.ToSlash(name))
	}
	return names, nil
}

func writeChanged(root string, files map[string][]byte) (changed []string, err error) {
	for name, text := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		have, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("report: %w", err)
		}
		if err == nil && bytes.Equal(have, text) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
		changed = append(changed, name)
	}
	slices.Sort(changed)
	return changed, nil
}

// An updater updates documents and collects their faults.
type updater struct {
	run    *result.Run
	linked map[string][]byte // pictures that a document shows, by file name
	faults []error
}

func (u *updater) fault(file string, line int, format string, args ...any) {
	u.faults = append(u.faults, fmt.Errorf("report: %s:%d: %s", file, line, fmt.Sprintf(format, args...)))
}

// update returns text with its pieces replaced.
func (u *updater) update(file, text string) string {
	var out strings.Builder
	opened, fence, n := 0, "", 0 // opened is the line of the open mark
	for line := range strings.Lines(text) {
		n++
		bare := strings.TrimSpace(line)
		if f := fencedLine.FindString(bare); f != "" && opened == 0 && (fence == "" || fence == f) {
			if fence != "" {
				f = ""
			}
			fence = f
		}
		open := openMark.FindStringSubmatch(bare)
		switch {
		case fence != "" || !likeMark.MatchString(bare):
			if opened == 0 {
				out.WriteString(line)
			}
		case open != nil && opened == 0:
			opened = n
			piece, err := u.piece(file, open[1])
			if err != nil {
				u.fault(file, n, "%v", err)
			}
			out.WriteString(line + strings.Trim(piece, "\n") + "\n")
		case closeMark.MatchString(bare) && opened > 0:
			opened = 0
			out.WriteString(line)
		case open != nil:
			u.fault(file, n, "the mark of line %d is still open: end it with <!-- /lab -->", opened)
			return text
		case closeMark.MatchString(bare):
			u.fault(file, n, "<!-- /lab --> closes no mark")
		default:
			u.fault(file, n, "%s is not a mark: want <!-- lab:SCENARIO:PIECE --> or <!-- /lab -->", bare)
		}
	}
	if opened > 0 {
		u.fault(file, opened, "the mark is not closed: end it with <!-- /lab -->")
	}
	return out.String()
}

// piece returns the text that belongs after a mark.
func (u *updater) piece(file, mark string) (string, error) {
	name, piece, _ := strings.Cut(mark, ":")
	if name == "all" {
		return u.ofAll(file, piece)
	}
	i := slices.IndexFunc(u.run.Scenarios, func(s result.Scenario) bool { return s.Name == name })
	if i < 0 {
		var have []string
		for _, s := range u.run.Scenarios {
			have = append(have, s.Name)
		}
		return "", fmt.Errorf("the run has no scenario %q: want all or one of %s", name, strings.Join(have, ", "))
	}
	s := &u.run.Scenarios[i]
	var text string
	switch kind, isPicture := strings.CutPrefix(piece, "picture:"); {
	case isPicture:
		return u.picture(file, s, kind)
	case piece == "machine":
		return inMarkdown(machineLine(u.run.Head) + enginesIfAny(*s)), nil
	case piece == "rows" && len(s.Rows) > 0:
		g := published(s)
		g.Head[0] = "unprotected → with the pattern"
		text = markdownOf(g)
	case piece == "measurements" && len(s.Measurements) > 0:
		text = markdownOf(medians(s))
	case piece == "tables":
		var all []string
		for _, t := range s.Tables {
			all = append(all, markdownOf(ownTable(t)))
		}
		text = strings.Join(all, "\n")
	case piece == "checks" && len(s.Checks) > 0:
		text = markdownChecks(s)
	case !slices.Contains([]string{"rows", "measurements", "checks"}, piece):
		return "", fmt.Errorf("there is no piece %q: want rows, measurements, tables, checks, machine or picture:KIND", piece)
	}
	if text == "" {
		return "", fmt.Errorf("%s has no %s in this run", name, piece)
	}
	return text, nil
}

func (u *updater) ofAll(file, piece string) (string, error) {
	switch piece {
	case "machine":
		return inMarkdown(machineLine(u.run.Head) + enginesIfAny(u.run.Scenarios...)), nil
	case "headline":
		return markdownOf(overview(u.run, true)), nil
	case "published":
		return markdownOf(repeated(u.run)), nil
	case "picture:headline":
		p, ok := headlinePicture(u.run)
		if !ok {
			return "", errors.New("no scenario of this run has a ratio")
		}
		return u.link(file, p), nil
	}
	return "", fmt.Errorf("there is no piece %q of all: want headline, published, machine or picture:headline", piece)
}

func (u *updater) picture(file string, s *result.Scenario, kind string) (string, error) {
	var have []string
	for _, f := range figuresOf(s, paletteOf(u.run)) {
		if f.kind == kind {
			return u.link(file, f.picture(s)), nil
		}
		have = append(have, f.kind)
	}
	return "", fmt.Errorf("%s has no picture %q: it has %s", s.Name, kind, strings.Join(have, ", "))
}

// link returns a link to a picture, and registers it to be written.
func (u *updater) link(file string, p Picture) string {
	u.linked[p.Name] = p.SVG
	up := strings.Repeat("../", strings.Count(file, "/"))
	return fmt.Sprintf("![%s](%s%s/%s)", inMarkdown(p.Alt), up, PictureFolder, p.Name)
}

// enginesIfAny is enginesLine for a document, which does not mention engines that were
// not used or not recorded.
func enginesIfAny(scenarios ...result.Scenario) string {
	for _, s := range scenarios {
		if len(s.Engines) > 0 {
			return " " + enginesLine(scenarios...)
		}
	}
	return ""
}
